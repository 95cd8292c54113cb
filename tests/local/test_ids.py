"""One rule for ids: any Unicode text; artifacts refuse those that ADK's artifact services refuse."""

import inspect
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.artifacts.artifact_util import validate_path_segment
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import InvalidInputError, Store
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

PART = types.Part(text="x")
UNICODE = ["a/b", "__x__", "%2F", "ü\u0301", "\U0001f642", "`", "a\x7f", " padded"]
NO_PATH = [".", "..", "a/../b", "/a", "\\a", "C:x", "a\x00b"]
NO_PATH_FOR_NEWER = ["a/users", "a/VERSIONS/b"]
"""The oldest ADK that is supported takes these as paths; artifacts refuse them whatever ADK runs."""
OF_USERS = ["user", "user/x", "user\\x"]
HALVES = ["\ud800", "a\udfff", "\ude00\ud83d"]


def who(session_id: str) -> dict[str, Any]:
    """Return the ids of a session."""
    return {"app_name": "app", "user_id": "user", "session_id": session_id}


@pytest.mark.parametrize("session_id", [*UNICODE, *NO_PATH, *NO_PATH_FOR_NEWER, *OF_USERS], ids=ascii)
async def test_any_unicode_text_is_an_id_of_a_session(session_id: str) -> None:
    """It is created, found, listed and deleted."""
    async with Store.local(":memory:") as store:
        made = await store.sessions.create_session(**who(session_id))
        listed = await store.sessions.list_sessions(app_name="app", user_id="user")

        assert session_id.strip() == made.id
        assert [made.id] == [session.id for session in listed.sessions]
        assert made == await store.sessions.get_session(**who(session_id))
        await store.sessions.delete_session(**who(session_id))
        assert await store.sessions.get_session(**who(session_id)) is None


@pytest.mark.parametrize("session_id", UNICODE, ids=ascii)
async def test_artifacts_take_an_id_that_is_a_path_for_adk(session_id: str) -> None:
    """What is saved is loaded and listed."""
    validate_path_segment(session_id.strip(), "session_id")
    async with Store.local(":memory:") as store:
        await store.artifacts.save_artifact(**who(session_id), filename="f", artifact=PART)

        assert PART == await store.artifacts.load_artifact(**who(session_id), filename="f")
        assert ["f"] == await store.artifacts.list_artifact_keys(**who(session_id))


@pytest.mark.parametrize("session_id", NO_PATH, ids=ascii)
def test_an_id_is_no_path_for_adk(session_id: str) -> None:
    """ADK's artifact services refuse it."""
    with pytest.raises(InputValidationError):
        validate_path_segment(session_id, "session_id")


@pytest.mark.parametrize("session_id", [*NO_PATH, *NO_PATH_FOR_NEWER], ids=ascii)
async def test_artifacts_refuse_an_id_that_is_no_path_for_adk(session_id: str) -> None:
    """Reads and writes alike."""
    async with Store.local(":memory:") as store:
        service, which = store.artifacts, {**who(session_id), "filename": "f"}
        for call in (
            service.save_artifact(artifact=PART, **which),
            service.load_artifact(**which),
            service.list_versions(**which),
            service.list_artifact_keys(**who(session_id)),
            service.delete_artifact(**which),
        ):
            with pytest.raises(InvalidInputError, match="session_id"):
                await call


@pytest.mark.parametrize("session_id", OF_USERS, ids=ascii)
async def test_nothing_is_saved_where_the_files_of_the_user_are(session_id: str) -> None:
    """Reads find nothing there."""
    async with Store.local(":memory:") as store:
        which = {**who(session_id), "filename": "f"}
        with pytest.raises(InvalidInputError, match="reserved value 'user'"):
            await store.artifacts.save_artifact(artifact=PART, **which)
        assert await store.artifacts.load_artifact(**which) is None


@pytest.mark.parametrize("half", HALVES, ids=ascii)
async def test_half_of_a_surrogate_pair_is_no_id_for_any_method(half: str) -> None:
    """Of any service, as any id but that of an event, which may be any text; nothing was read or written."""
    reason = "holds a lone surrogate"
    async with Store.local(":memory:") as store:
        runner = Runner(app_name="app", agent=BaseAgent(name="a"), session_service=store.sessions)
        methods = [
            (method, name)
            for service in services_of(store).values()
            for method in public_methods(service)
            for name in inspect.signature(method).parameters
            if (name.endswith("_id") and name != "event_id") or name in ("app_name", "filename", "owner")
        ]
        for method, name in methods:
            with pytest.raises(InvalidInputError, match=reason):
                await finished(method, arguments(method, {**GOOD, "runner": runner}, **{name: half}))
        assert len(methods) > 100

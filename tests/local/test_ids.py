"""Ids that are odd, and yet ids of artifacts, and halves of surrogate pairs, which are no id anywhere."""

import inspect
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.artifacts.artifact_util import validate_path_segment
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import InvalidInputError, Store
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

PART = types.Part(text="x")
UNICODE = ["a/b", "__x__", "%2F", "ü\u0301", "\U0001f642", "`", "a\x7f", " padded"]
HALVES = ["\ud800", "a\udfff", "\ude00\ud83d"]


def who(session_id: str) -> dict[str, Any]:
    """Return the ids of a session."""
    return {"app_name": "app", "user_id": "user", "session_id": session_id}


@pytest.mark.parametrize("session_id", UNICODE, ids=ascii)
async def test_artifacts_take_an_id_that_is_a_path_for_adk(session_id: str) -> None:
    """What is saved is loaded and listed."""
    validate_path_segment(session_id.strip(), "session_id")
    async with Store.local(":memory:") as store:
        await store.artifacts.save_artifact(**who(session_id), filename="f", artifact=PART)

        assert PART == await store.artifacts.load_artifact(**who(session_id), filename="f")
        assert ["f"] == await store.artifacts.list_artifact_keys(**who(session_id))


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

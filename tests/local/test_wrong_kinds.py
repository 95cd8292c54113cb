"""An argument of a wrong kind, or half a surrogate pair, is a typed error of each method, or does no harm."""

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.runners import Runner

from gcp_adk_store import (
    ArtifactLimits,
    FirestoreSessionService,
    GcsArtifactService,
    InvalidInputError,
    KmsEnvelope,
    MemoryLimits,
    MemoryService,
    SessionLimits,
    Store,
    StoreCredentials,
    StoreError,
    StoreSettings,
)
from gcp_adk_store.testing.conformance.running import text
from tests.support.methods import GOOD, arguments, finished, options_of, public_methods, services_of

WRONG: Mapping[str, Any] = {
    "None": None,
    "3": 3,
    "-1": -1,
    "2.5": 2.5,
    "nan": float("nan"),
    "True": True,
    "text": "x",
    "half": "\ud800",
    "bytes": b"x",
    "list": [],
    "list of 3": [3],
    "map": {},
    "map of objects": {"a": object()},
    "map of 3": {3: 3},
    "object": object(),
    "array": np.arange(2),
    "...": ...,
}
"""Values of all kinds; each is wrong for most parameters."""


class Answering(BaseAgent):
    """An agent that answers at once."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=GOOD["new_message"])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in a folder of its own, where files may be made."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def failure_of(method: Callable[..., Any], given: Mapping[str, Any]) -> BaseException | None:
    """Return the error of a call that is not one of this library's."""
    try:
        await finished(method, given)
    except StoreError:
        return None
    except Exception as exc:  # noqa: BLE001  # whatever leaves the library
        return exc
    return None


@pytest.mark.sample(9)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", [*services_of(Store.local(":memory:"))])
async def test_an_argument_of_a_wrong_kind_is_never_a_raw_error(name: str, wrong: str) -> None:
    """For each parameter of each public method of each service of a store."""
    raw = []
    async with Store.local(":memory:") as store:
        runner = Runner(app_name="app", agent=Answering(name="a"), session_service=store.sessions)
        session = await store.sessions.create_session(app_name="app", user_id="user", session_id="s")
        good = {**GOOD, "runner": runner, "session": session}
        for method in public_methods(services_of(store)[name]):
            for parameter in inspect.signature(method).parameters.values():
                if parameter.kind is parameter.VAR_KEYWORD or parameter.name == "follow":
                    continue
                given = arguments(method, good, **{parameter.name: WRONG[wrong]})
                if (failure := await failure_of(method, given)) is not None:
                    raw.append(f"{method.__name__}({parameter.name}): {failure!r}")
    assert [] == raw


@pytest.mark.parametrize(
    ("service", "method", "given", "says"),
    [
        ("artifacts", "save_artifact", {"artifact": "x"}, "artifact must be a Part or a mapping, not str"),
        ("turns", "run", {"new_message": "hi"}, "new_message must be a Content, not str"),
        ("turns", "run", {"runner": "agent"}, "runner must be a Runner, not str"),
        ("turns", "run", {"state_delta": {3: "x"}}, "a state key must be a string, not int"),
        ("sessions", "append_event", {"event": {}}, "event must be an Event, not dict"),
        ("sessions", "append_event", {"session": "s"}, "session must be a Session, not str"),
        ("sessions", "create_session", {"state": []}, "state must be a mapping or None, not list"),
        ("sessions", "get_session", {"session_id": 5}, "session_id must be a string, not int"),
        ("sessions", "get_session_at", {"at": "e0"}, "at must be a Point, not str"),
        ("sessions", "restore_session", {"at": 5}, "at must be a Point, not int"),
        (
            "sessions",
            "fork_session",
            {"artifacts": "all"},
            "artifacts must be a SessionArtifacts or None",
        ),
        ("sessions", "list_sessions_page", {"order": "up"}, "order is 'up', it must be 'newest' or 'oldest'"),
        (
            "store",
            "fork_session",
            {"artifacts": []},
            "artifacts is [], it must be 'at_point', 'all' or 'none'",
        ),
        ("memory", "add_memory", {"memories": ["x"]}, "each of memories must be a MemoryEntry, not str"),
        ("memory", "add_events_to_memory", {"events": "x"}, "events must be a sequence, not str"),
        ("store", "erase_user", {"dry_run": "no"}, "dry_run must be True or False, not str"),
        ("store", "prune", {"idle_days": "7"}, "idle_days must be a number or None, not str"),
        ("tasks", "save", {"task": {}}, "task must be a Task, not dict"),
    ],
)
async def test_the_error_names_the_argument_and_both_kinds(
    service: str, method: str, given: dict[str, Any], says: str
) -> None:
    """Before anything is read or written."""
    async with Store.local(":memory:") as store:
        runner = Runner(app_name="app", agent=Answering(name="a"), session_service=store.sessions)
        called = getattr(services_of(store)[service], method)
        with pytest.raises(InvalidInputError) as caught:
            await finished(called, arguments(called, {**GOOD, "runner": runner}, **given))

    assert says in str(caught.value)


def makers() -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yield what makes stores, services and settings, with the arguments that it requires."""
    store = Store.local(":memory:")
    yield "Store.connect", Store.connect, {}
    yield "Store.local", Store.local, {"path": ":memory:"}
    yield "Store.from_env", Store.from_env, {}
    yield "Store.from_settings", Store.from_settings, {"place": StoreSettings()}
    yield "Store", Store, {"sessions": store.sessions, "artifacts": None}
    yield "FirestoreSessionService", FirestoreSessionService, {}
    yield "GcsArtifactService", GcsArtifactService, {"bucket_name": "a-bucket"}
    yield "MemoryService", MemoryService, {"storage": store.sessions.storage}
    yield "StoreSettings", StoreSettings, {}
    yield "SessionLimits", SessionLimits, {}
    yield "ArtifactLimits", ArtifactLimits, {}
    yield "MemoryLimits", MemoryLimits, {}
    yield "KmsEnvelope", KmsEnvelope, {"key": Path("key")}
    yield "StoreCredentials", StoreCredentials, {}


@pytest.mark.sample(15)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    ("name", "make", "given"), [*makers()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_an_option_of_a_wrong_kind_is_never_a_raw_error(
    name: str, make: Callable[..., Any], given: dict[str, Any], wrong: str
) -> None:
    """For each option of everything that a user makes."""
    raw = []
    for option in sorted(options_of(make)):
        try:
            make(**{**given, option: WRONG[wrong]})
        except StoreError:
            continue
        except Exception as exc:  # noqa: BLE001  # whatever leaves the library
            raw.append(f"{name}({option}): {exc!r}")
    assert [] == raw


HALVES = ["\ud800", "a\udfff", "\ude00\ud83d"]


@pytest.mark.parametrize("half", HALVES, ids=ascii)
async def test_half_of_a_surrogate_pair_is_no_id_for_any_method(half: str) -> None:
    """Of any service, as any id but that of an event, which may be any text; nothing was read or written."""
    reason = r"holds a lone surrogate at index \d+, which Unicode text cannot hold"
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


class Word(str, Enum):  # noqa: UP042  # a StrEnum is formatted by its text
    """Texts that Python formats by their names, such as `Word.APP`."""

    APP = "app"
    NAME = "kind"
    VALUE = "call"
    FILE = "report"


async def test_a_member_of_an_enumeration_is_its_text_as_an_id_and_in_labels() -> None:
    """What is stored under it is found under the text."""
    who: dict[str, Any] = {"app_name": "app", "user_id": "kind", "session_id": "call"}
    ids: dict[str, Any] = {"app_name": Word.APP, "user_id": Word.NAME, "session_id": Word.VALUE}
    async with Store.local(":memory:") as store:
        await store.sessions.create_session(**ids)
        await store.sessions.update_session_info(**ids, title=Word.NAME, labels={Word.NAME: Word.VALUE})
        await store.artifacts.save_artifact(**ids, filename=Word.FILE, artifact=text("words"))
        page = await store.sessions.list_sessions_page(app_name="app", labels={"kind": "call"})
        same = await store.sessions.list_sessions_page(app_name=Word.APP, labels={Word.NAME: Word.VALUE})
        faults = [fault async for fault in store.check()]

        assert ["report"] == await store.artifacts.list_artifact_keys(**who)
        assert [("kind", {"kind": "call"})] == [(info.title, info.labels) for info in page.infos]
        assert page == same
    assert [] == faults

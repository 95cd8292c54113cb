"""Sessions in the layouts of ADK's Firestore service and of ADK for Java are read as they are."""

import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from grpc import ChannelConnectivity

from gcp_adk_store import InvalidInputError, Store, StoredDataError
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.moving import copy
from gcp_adk_store.moving.adk_firestore import AdkFirestore, AdkJava
from gcp_adk_store.moving.memories import adk_firestore_memories
from gcp_adk_store.testing.conformance.running import event
from tests.moving.hardest import APP
from tests.support.small_pieces import set_numbers
from tests.support.stored import overwrite

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
async def raw() -> AsyncIterator[Any]:
    """Documents to fill by hand."""
    async with Store.local(":memory:") as store:
        yield store.sessions.storage.documents


def adk_firestore(raw: Any) -> AdkFirestore:
    """Return what reads *raw* in the layout of ADK's service, and writes nothing."""
    return AdkFirestore(raw, InMemorySessionService())


async def put(raw: Any, path: str, **fields: Any) -> None:
    """Write a document."""
    await overwrite(raw, {path: fields})


async def put_event(raw: Any, session: str, one: Event) -> None:
    """Write an event as ADK's service does."""
    data = one.model_dump(exclude_none=True, mode="json")
    time = datetime.fromtimestamp(one.timestamp, UTC)
    await put(raw, f"{session}/events/{one.id}", event_data=data, timestamp=time, appName=APP, userId="u")


async def put_session(raw: Any, name: str, state: Any, **more: Any) -> str:
    """Write a session as ADK's service does."""
    path = f"adk-session/{APP}/users/u/sessions/{name}"
    ids = {"id": name, "appName": APP, "userId": "u"}
    await put(raw, path, **ids, state=state, createTime=NOW, updateTime=NOW, revision=3, **more)
    return path


async def read(store: Store, name: str, user: str = "u") -> Any:
    """Return a session of *store*, which must exist."""
    found = await store.sessions.get_session(app_name=APP, user_id=user, session_id=name)
    assert found is not None
    return found


async def test_both_forms_of_state_are_read(raw: Any) -> None:
    """JSON text of newer releases, maps of older ones; documents of apps and users are missing."""
    await put_session(raw, "newer", json.dumps({"a": [1, [2]], "b": None}))
    await put_session(raw, "older", {"a": {"b": 1.5}, "n": 2**40})
    await put(raw, f"app_states/{APP}", model="m", at=NOW)
    await put(raw, f"user_states/{APP}/users/u", name="Ada")
    async with Store.local(":memory:") as store:
        report = await copy(adk_firestore(raw), store.sessions, app_name=APP, verify=True)
        newer, older = await read(store, "newer"), await read(store, "older")

        shared = {"app:model": "m", "app:at": "2026-01-02T03:04:05.678901Z", "user:name": "Ada"}
        assert (2, 2, True) == (report.copied, report.verified, report.is_complete)
        assert {"a": [1, [2]], "b": None, **shared} == newer.state
        assert {"a": {"b": 1.5}, "n": 2**40, **shared} == older.state
        assert "shared state, key 'at': a value of a type that JSON lacks becomes text" in [
            note.says for note in report.notes
        ]


@pytest.mark.emulators
async def test_a_copy_closes_what_it_opened_for_adks_firestore_service(project: str) -> None:
    """Also the channel through which ADK's service writes."""
    opened = AdkFirestore.connect(project=project, database="(default)", root=None)
    service: Any = opened._service  # which connection it has, nobody else says
    await service.create_session(app_name=APP, user_id="u", session_id="s")
    channel = service.client._firestore_api.transport.grpc_channel
    await opened.close()

    assert channel.get_state() is ChannelConnectivity.SHUTDOWN


async def test_a_session_without_the_time_of_its_update_counts_by_that_of_its_document(raw: Any) -> None:
    """It was written now, so a copy of what changed since takes it along."""
    path = await put_session(raw, "s", {})
    await put(raw, path, id="s", appName=APP, userId="u", state={})
    async with Store.local(":memory:") as store:
        since = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        report = await copy(adk_firestore(raw), store.sessions, app_name=APP, since=since)

        assert (1, 1) == (report.listed, report.copied)


async def test_a_session_that_is_being_deleted_is_not_copied(raw: Any) -> None:
    """And the report says so."""
    await put_session(raw, "s", "{}", status="DELETING")
    async with Store.local(":memory:") as store:
        report = await copy(adk_firestore(raw), store.sessions, app_name=APP)

        assert 0 == report.copied
        assert [("skipped", "s")] == [
            (note.kind, note.session_id) for note in report.notes if note.session_id
        ]


async def test_events_come_by_pages_in_the_order_of_their_times(
    raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one time are in the order of their names, as a note says."""
    set_numbers(monkeypatch, adk_events_per_page=10)
    path = await put_session(raw, "s", "{}")
    events = [event(f"{number}", at=1_700_000_000.0 + number // 3) for number in range(25)]
    for number, one in enumerate(events):
        one.id = f"e{number:02}"
    for one in reversed(events):
        await put_event(raw, path, one)
    async with Store.local(":memory:") as store:
        report = await copy(adk_firestore(raw), store.sessions, app_name=APP, verify=True)
        session = await read(store, "s")

        assert [one.id for one in events] == [one.id for one in session.events]
        assert (1, 25) == (report.verified, report.events)
        assert ["order"] == [note.kind for note in report.notes if note.session_id]


async def test_a_damaged_session_does_not_stop_the_others(raw: Any) -> None:
    """It is a failure with its path, without content."""
    await put_session(raw, "bad", "{not json")
    path = await put_session(raw, "worse", "{}")
    await put(raw, f"{path}/events/e", event_data={"author": ["secret"]}, timestamp=NOW)
    path = await put_session(raw, "worst", "{}")
    await put(raw, f"{path}/events/e", event_data={"finish_reason": ["secret"]}, timestamp=NOW)
    await put_session(raw, "good", "{}")
    async with Store.local(":memory:") as store:
        report = await copy(adk_firestore(raw), store.sessions, app_name=APP)
        failed = [str(note) for note in report.notes if note.kind == "failed"]

        assert (1, 3, False) == (report.copied, len(failed), report.is_complete)
        assert "secret" not in "".join(failed)
        assert all(path.split("/")[-2] in one for one in failed)


def said(text: str, time: str, author: str = "u", **more: Any) -> Mapping[str, Any]:
    """Return an event as ADK for Java stores it."""
    return {
        "author": author,
        "timestamp": time,
        "appName": APP,
        "content": {"parts": [{"text": text}, *more.values()]},
    }


async def test_the_layout_of_adk_for_java_is_read_with_a_list_of_what_it_lacks(raw: Any) -> None:
    """Names of documents become ids, the user's id becomes the author user, and times sort as times."""
    path = "adk-session/u/sessions/s"
    state = {"k": [1], "user:at_creation": 1}
    await put(raw, path, id="s", appName=APP, userId="u", updateTime="2026-01-02T03:04:06Z", state=state)
    await put(raw, "adk-session/u/sessions/other", id="other", appName="another", userId="u", state={})
    await put(raw, f"app-state/{APP}", model="m")
    call = {"functionCall": {"name": "look", "args": {"n": 1}}}
    file = {"fileData": {"fileUri": "gs://b/o", "mimeType": "image/png"}}
    await put(raw, f"{path}/user-event/x1", **said("later", "2026-01-02T03:04:05.5Z"))
    await put(raw, f"{path}/user-event/x2", **said("first", "2026-01-02T03:04:05Z"))
    await put(
        raw, f"{path}/user-event/x3", **said("answer", "2026-01-02T03:04:06Z", "agent", call=call, file=file)
    )
    async with Store.local(":memory:") as store:
        report = await copy(AdkJava(raw), store.sessions, app_name=APP, verify=True)
        session = await read(store, "s")
        again = await copy(AdkJava(raw), store.sessions, app_name=APP, verify=True)

        assert (1, 1, True) == (report.copied, report.verified, report.is_complete)
        assert ["x2", "x1", "x3"] == [one.id for one in session.events]
        assert ["user", "user", "agent"] == [one.author for one in session.events]
        assert ["user", "user", "model"] == [one.content.role for one in session.events]
        assert "look" == session.events[2].content.parts[1].function_call.name
        assert "gs://b/o" == session.events[2].content.parts[2].file_data.file_uri
        assert {"k": [1], "app:model": "m"} == session.state
        assert [
            "keys of the user and the app in the session's own state are left out: 'user:at_creation'"
        ] == [note.says for note in report.notes if note.kind == "state"]
        assert 5 == len([note for note in report.notes if note.kind == "lost"])
        assert (1, 0) == (again.unchanged, again.events)


@pytest.mark.parametrize("user", [f"{APP}/users/u", "u"], ids=["adk", "java"])
async def test_the_root_may_lie_below_a_document(raw: Any, user: str) -> None:
    """A client of Firestore takes a path as the name of a collection."""
    root, ids = "env/prod/adk", {"id": "s", "appName": APP, "userId": "u"}
    await put(raw, f"{root}/{user}/sessions/s", **ids, updateTime=NOW)
    source: Any = AdkJava(raw, root=root)
    if user != "u":
        source = AdkFirestore(raw, InMemorySessionService(), root=root)
    async with Store.local(":memory:") as store:
        report = await copy(source, store.sessions, app_name=APP)

        assert (1, 1) == (report.listed, report.copied)
        assert "s" == (await read(store, "s")).id


@pytest.mark.parametrize(
    "content", [{"parts": 5}, {"parts": [{"fileData": 5}]}, {"parts": [{"text": 5}]}], ids=str
)
async def test_a_damaged_event_of_adk_for_java_is_named(raw: Any, content: dict[str, Any]) -> None:
    """By the path of its document."""
    path = "adk-session/u/sessions/s"
    await put(raw, path, id="s", appName=APP, userId="u", updateTime="2026-01-02T03:04:06Z")
    await put(raw, f"{path}/user-event/x", **{**said("", "2026-01-02T03:04:05Z"), "content": content})
    async with Store.local(":memory:") as store:
        report = await copy(AdkJava(raw), store.sessions, app_name=APP)

    (failed,) = [note.says for note in report.notes if note.kind == "failed"]
    assert failed.startswith(f"{path}/user-event/x ")


async def test_the_layout_of_adk_for_java_is_for_reading_alone(raw: Any) -> None:
    """A copy into it is refused."""
    async with Store.local(":memory:") as store:
        targets: tuple[Any, ...] = ("adk-java-firestore://p", AdkJava(raw))
        for target in targets:
            with pytest.raises(InvalidInputError, match="can only be a source"):
                await copy(store.sessions, target, app_name=APP)


@pytest.mark.parametrize(
    "damage",
    [
        {"timestamp": "yesterday"},
        {"content": {"parts": "secret"}},
        {"content": {"parts": [{"tool_call": {"tool_type": ["secret"]}}]}},
        {"author": 7},
        {"sessionId": 5},
        {"timestamp": float("nan")},
    ],
    ids=str,
)
async def test_a_damaged_memory_of_adks_service_is_named_without_its_content(
    raw: Any, damage: dict[str, Any]
) -> None:
    """The document alone is at fault."""
    stored = {"appName": "app", "userId": "ada", "content": {"parts": [{"text": "secret"}]}, "timestamp": 5.0}
    await put(raw, "memories/one", **{**stored, **damage})
    with pytest.raises(StoredDataError, match="memories/one") as raised:
        _ = [one async for one in adk_firestore_memories(raw, UserKey(app="app", user="ada"))]

    assert "secret" not in f"{raised.value}"

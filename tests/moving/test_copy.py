"""Copies between stores of all kinds are exact, and say what they cannot carry.

Copies and exports on the emulators: what they cost, what one moment is, and a round over all stores.
"""

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from gcp_adk_store import Store
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.conformance.running import event
from tests.moving.hardest import APP, fill, hardest, many

WITHOUT_OWN = (("memory", "sqlite"), ("sqlite", "database"), ("database", "memory"))
KINDS = ("memory", "sqlite", "database", "own", "own with a bucket")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """Two services of each kind."""
    from google.adk.sessions.database_session_service import DatabaseSessionService  # noqa: PLC0415
    from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: PLC0415

    stores = [
        Store.local(":memory:"),
        Store.local(":memory:"),
        Store.local(tmp_path / "a"),
        Store.local(tmp_path / "b"),
    ]
    databases = [DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{tmp_path}/{n}.db") for n in (1, 2)]
    made: dict[str, Any] = {
        "memory": (InMemorySessionService(), InMemorySessionService()),
        "sqlite": tuple(SqliteSessionService(db_path=f"{tmp_path}/sqlite{n}.db") for n in (1, 2)),
        "database": databases,
        "own": (stores[0].sessions, stores[1].sessions),
        "own with a bucket": (stores[2].sessions, stores[3].sessions),
    }
    yield made
    for store in stores:
        await store.close()
    for database in databases:
        await database.close()


async def whole(service: BaseSessionService, user: str, session_id: str) -> tuple[Any, Any]:
    """Return state and events of a session."""
    found = await service.get_session(app_name=APP, user_id=user, session_id=session_id)
    assert found is not None
    return found.state, [one.model_dump(mode="json", exclude_none=True) for one in found.events]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("source", "target"),
    [*(("own", kind) for kind in KINDS), *((kind, "own with a bucket") for kind in KINDS), *WITHOUT_OWN],
)
async def test_a_copy_has_everything(services: dict[str, Any], source: str, target: str) -> None:
    """Events, ids, times, bytes and state of all scopes are equal; a second copy writes nothing."""
    one, other = services[source][0], services[target][1]
    await fill(one, [("ada", "s1", hardest()), ("ada", "s2", []), ("b/ob", "s1", many(3))])
    report = await copy(one, other, app_name=APP, verify=True)
    again = await copy(one, other, app_name=APP, verify=True)

    assert [] == [str(note) for note in report.notes if note.kind in ("failed", "conflict", "differs")]
    assert (3, 3, 3, 11) == (report.listed, report.copied, report.verified, report.events)
    assert (3, 0, 3, 0) == (again.unchanged, again.copied, again.verified, again.events)
    for user, session_id in (("ada", "s1"), ("ada", "s2"), ("b/ob", "s1")):
        assert await whole(one, user, session_id) == await whole(other, user, session_id)
    listed = await other.list_sessions(app_name=APP)
    assert 3 == len(listed.sessions)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_goes_on_after_a_rewind_of_the_source(services: dict[str, Any], kind: str) -> None:
    """The event of the rewind keeps the state delta that the source's service gave it."""
    one, other = services[kind][0], services["own"][1]
    session = await one.create_session(app_name=APP, user_id="ada", session_id="s", state={"initial": 1})
    for invocation in ("first", "second"):
        change = EventActions(state_delta={"turn": invocation})
        await one.append_event(session, Event(author="user", invocation_id=invocation, actions=change))
    first = await copy(one, other, app_name=APP, verify=True)
    runner = Runner(app=App(name=APP, root_agent=BaseAgent(name="agent")), session_service=one)
    await runner.rewind_async(user_id="ada", session_id="s", rewind_before_invocation_id="second")
    then = await copy(one, other, app_name=APP, verify=True)

    assert (1, 1) == (first.copied, then.continued)
    assert [] == [str(note) for note in then.notes if note.kind in ("failed", "conflict", "differs")]
    assert await whole(one, "ada", "s") == await whole(other, "ada", "s")


@pytest.mark.parametrize("kind", ["own", "sqlite"])
async def test_an_id_with_spaces_around_it_loses_them_and_nothing_else(
    services: dict[str, Any], kind: str
) -> None:
    """ADK's DatabaseSessionService has such ids; the state of the user comes along, and a note says so."""
    one, other = services["database"][0], services[kind][1]
    await fill(one, [("ada", " s1 ", many(3))], **{"user:name": "Ada"})
    report = await copy(one, other, app_name=APP, verify=True)

    assert (1, 1, True) == (report.copied, report.verified, report.is_complete)
    assert "ids" in [note.kind for note in report.notes]
    assert await whole(one, "ada", " s1 ") == await whole(other, "ada", "s1")


async def test_a_session_that_ends_by_a_time_to_live_is_named(services: dict[str, Any]) -> None:
    """No copy keeps the end: those of the target decide."""
    one, other = services["own"]
    await one.create_session(app_name=APP, user_id="ada", session_id="ends", ttl_seconds=3600)
    await one.create_session(app_name=APP, user_id="ada", session_id="stays")
    report = await copy(one, other, app_name=APP)

    assert ["of 1 sessions the time to live is not kept: that of the target counts"] == [
        note.says for note in report.notes if note.kind == "times"
    ]


@pytest.mark.emulators
async def test_a_round_over_all_stores_is_exact(tmp_path: Path, project: str, adk_store: Store) -> None:
    """From memory over SQLite, ADK's Firestore service, this library's in the cloud and in a folder."""
    both_hold = [one for one in hardest() if one.id not in ("event-3", "event-6")]  # ADK's Firestore does not
    first, last = InMemorySessionService(), InMemorySessionService()
    await fill(first, [("ada", "s1", both_hold), ("ada", "s2", []), ("b\u00f6b", "s 1", many(30))])
    async with Store.local(tmp_path / "folder") as folder:
        stores: list[Any] = [
            first,
            SqliteSessionService(db_path=f"{tmp_path}/adk.db"),
            f"adk-firestore://{project}",
            adk_store.sessions,
            folder.sessions,
            last,
        ]
        reports = [await copy(one, other, app_name=APP, verify=True) for one, other in pairwise(stores)]
        faults = [
            fault for store in (adk_store, folder) async for fault in store.check(app_name=APP, full=True)
        ]

    assert [(3, 3, True)] * 5 == [(each.copied, each.verified, each.is_complete) for each in reports]
    assert [] == faults
    for user, name in (("ada", "s1"), ("ada", "s2"), ("b\u00f6b", "s 1")):
        was, found = [
            await service.get_session(app_name=APP, user_id=user, session_id=name)
            for service in (first, last)
        ]
        assert was is not None
        assert found is not None
        assert (was.events, was.state) == (found.events, found.state)


def nested(levels: int) -> Any:
    """Return a value of lists within lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.emulators
async def test_a_session_that_the_target_cannot_hold_is_reported_and_the_others_go_on(project: str) -> None:
    """Whatever its service raises: an event, or the state of a user, that nests deeper than it takes."""
    source = InMemorySessionService()
    deep = event("deep", delta={"d": nested(180)})
    await fill(source, [("ada", "s1", many(2)), ("ada", "s2", [deep]), ("ada", "s3", many(2))])
    await fill(source, [("bob", "s1", many(2))], **{"user:d": nested(180)})
    await fill(source, [("eve", "s1", many(2))])
    target = f"adk-firestore://{project}"
    report = await copy(source, target, app_name=APP, verify=True)
    again = await copy(source, target, app_name=APP, verify=True)

    failed = [(note.user_id, note.session_id) for note in report.notes if note.kind == "failed"]
    assert (("ada", "s2"), False) == (failed[0], report.is_complete)
    assert {"ada", "bob"} == {user for user, _ in failed}
    assert (4, 4) == (report.verified, again.verified)

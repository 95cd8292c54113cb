"""Copies and exports on the emulators: what they cost, what one moment is, and a round over all stores."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from gcp_adk_store import Store
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.conformance.running import event
from tests.moving.hardest import APP, fill, hardest, many

pytestmark = pytest.mark.emulators


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

"""An import over a stored session: the new one is whole and checked before the old one goes, in one step."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService, Session

from gcp_adk_store import InvalidInputError, SessionLimits, Store
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.moving import import_jsonl
from gcp_adk_store.moving.records import OwnStore
from gcp_adk_store.testing.conformance.running import event
from tests.encryption.conftest import envelope
from tests.moving.hardest import APP, exported, fill, hardest, many
from tests.support.stored import change, collection, session_path

WHO: dict[str, Any] = {"app_name": APP, "user_id": "ada", "session_id": "s1"}


async def lines_of(events: list[Event]) -> list[bytes]:
    """Return the lines of an export of one session."""
    async with Store.local(":memory:") as store:
        await fill(store.sessions, [("ada", "s1", events)])
        await store.sessions.update_session_info(**WHO, title="new", labels={"of": "file"})
        return (await exported(store)).splitlines(keepends=True)


def new_events() -> list[Event]:
    """Return events of a session in a file, with payloads and for several segments."""
    return [*many(12, at=1_800_000_000.0), *hardest(at=1_800_000_100.0)]


def broken(lines: list[bytes]) -> dict[str, tuple[bytes, str]]:
    """Return files that each lack something, or have something wrong, with what an error says."""
    *kept, end = lines
    deep = b'{"event": ' + b"[" * 100_000 + b"\n"
    return {
        "no end": (b"".join(kept), "line 22 is missing"),
        "cut in a line": (b"".join(lines)[:-700], "line"),
        "no events": (lines[0], "line 2 is missing"),
        "an event less": (b"".join([*kept[:3], *kept[4:], end]), "line 21 does not fit the 19 events"),
        "an event changed": (
            b"".join(lines).replace(b"event 7", b"event X", 1),
            "line 22 has another digest",
        ),
        "an event twice": (b"".join([*kept[:3], kept[2], *kept[3:], end]), "line 23 does not fit"),
        "events exchanged": (b"".join([lines[0], lines[2], lines[1], *lines[3:]]), "line 22 has another"),
        "no digest": (b"".join([*kept, b'{"end": {"events": 20}}\n']), "line 22"),
        "a line of something else": (
            b"".join([*kept, b"hello\n", end]),
            "line 22 is not a line of an export",
        ),
        "another session in it": (b"".join([*kept, lines[0], end]), "line 22"),
        "an event that nests too deep": (b"".join([*kept, deep, end]), "line 22"),
        "another format": (b"".join(lines).replace(b'"format": 1', b'"format": 9', 1), "line 1 has another"),
        "no first line": (b"".join(lines[1:]), "line 1 is not the first line"),
    }


async def read(store: Any) -> Session | None:
    """Return the session without what only a handle knows."""
    found = await store.get_session(**WHO)
    if found is not None:
        found._storage_update_marker = None  # ADK has no public access to it
    return found  # type: ignore[no-any-return]


BROKEN = sorted(broken([b"{}\n"] * 8))


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("place", ["folder", "memory of ADK"])
async def test_a_damaged_file_leaves_the_stored_session_as_it_was(
    tmp_path: Path, place: str, kind: str
) -> None:
    """Every event of it, its state and its title; nothing of the new one is left, either."""
    text, says = broken(await lines_of(new_events()))[kind]
    async with Store.local(tmp_path) as store:
        service: Any = store.sessions if place == "folder" else InMemorySessionService()
        await fill(service, [("ada", "s1", many(5))])
        before = await read(service)
        assert before is not None
        with pytest.raises(InvalidInputError, match=says):
            await import_jsonl(io.BytesIO(text), service, on_conflict="overwrite")
        listed = await service.list_sessions(app_name=APP, user_id="ada")

        assert before == await read(service)
        assert ["s1"] == [one.id for one in listed.sessions]
        assert [] == [fault.code async for fault in store.check(app_name=APP, full=True)]


@pytest.mark.parametrize(
    ("on_conflict", "damaged", "counts", "failed", "whole"),
    [
        ("skip", {"body": b"no events"}, (1, 0), ["s1"], ["s2"]),
        ("overwrite", {"body": b"no events"}, (1, 1), [], ["s1", "s2"]),
        ("overwrite", {"rev": "none"}, (1, 0), ["s1"], ["s2"]),
        ("new-id", {"rev": "none"}, (2, 0), [], ["s2"]),
    ],
)
async def test_a_damaged_session_that_is_stored_ends_no_import(
    on_conflict: Any, damaged: dict[str, Any], counts: tuple[int, int], failed: list[str], whole: list[str]
) -> None:
    """It is named, replaced, or left beside the new one: an export is a backup."""
    async with Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=500)) as store:
        await fill(store.sessions, [("ada", name, many(9)) for name in ("s1", "s2")])
        file = io.BytesIO(await exported(store))
        first = next(path for path in await collection(store, "adk_segments") if "/s1/" in path)
        await change(store, first if "body" in damaged else session_path(WHO), damaged)
        await store.delete_session(**{**WHO, "session_id": "s2"})
        report = await import_jsonl(file, store.sessions, on_conflict=on_conflict)
        left_out = {fault.path.split("/")[5] async for fault in store.check(app_name=APP, full=True)}

    assert (counts, not failed) == ((report.copied, report.replaced), report.is_complete)
    assert failed == [note.session_id for note in report.notes if note.kind == "failed"]
    assert {"s1", "s2"} - left_out == {*whole}


@pytest.mark.parametrize(("on_conflict", "failed"), [("skip", []), ("new-id", ["s1"])])
async def test_a_session_that_others_make_meanwhile_ends_no_import(
    on_conflict: Any, failed: list[str]
) -> None:
    """Its id was free at the look, and is taken at the commit."""

    class Late(OwnStore):
        @asynccontextmanager
        async def open(self, key: SessionKey) -> AsyncIterator[None]:  # noqa: ARG002  # finds none
            yield None

    async with Store.local(":memory:") as store:
        await fill(store.sessions, [("ada", name, many(2)) for name in ("s1", "s2")])
        file = io.BytesIO(await exported(store))
        await store.delete_session(**{**WHO, "session_id": "s2"})
        report = await import_jsonl(file, Late(store.sessions, closes=False), on_conflict=on_conflict)
        listed = await store.sessions.list_sessions(app_name=APP, user_id="ada")

    assert (2, 1, not failed) == (report.listed, report.copied, report.is_complete)
    assert failed == [note.session_id for note in report.notes if note.kind == "failed"]
    assert {"s1", "s2"} == {one.id for one in listed.sessions}


async def test_a_session_of_an_encrypted_store_is_replaced_and_read(tmp_path: Path) -> None:
    """Content is bound to the new session, not to the one that had the document before."""
    lines = await lines_of(new_events())
    async with Store.local(tmp_path, encryption=envelope()) as store:
        await fill(store.sessions, [("ada", "s1", [*many(5), *hardest()])])
        await import_jsonl(io.BytesIO(b"".join(lines)), store.sessions, on_conflict="overwrite")
        found = await store.sessions.get_session(**WHO)
        info = await store.sessions.get_session_info(**WHO)

    assert found is not None
    assert info is not None
    assert ([one.id for one in new_events()], "new") == ([one.id for one in found.events], info.title)


async def test_a_session_that_nobody_has_is_made_by_an_import_that_overwrites() -> None:
    """And counts as a copy."""
    lines = await lines_of(many(3))
    async with Store.local(":memory:") as store:
        report = await import_jsonl(io.BytesIO(b"".join(lines)), store.sessions, on_conflict="overwrite")

    assert (1, 0, 3) == (report.copied, report.replaced, report.events)


class Failing(InMemorySessionService):
    """Cannot hold an event of one text."""

    async def append_event(self, session: Session, event: Event) -> Event:
        """Fail at that event."""
        if event.id == "e7" and event.timestamp > 1_750_000_000:
            raise OverflowError
        return await super().append_event(session, event)


async def test_a_service_of_adk_that_cannot_hold_the_new_session_has_the_old_one_again() -> None:
    """With its events and the state of all scopes."""
    lines = await lines_of(new_events())
    service = Failing()
    old = [event("a", delta={"user:name": "Eve", "k": 1}), event("b", delta={"k": 2})]
    await fill(service, [("ada", "s1", old)])
    await fill(service, [("ada", "s2", [event("c", delta={"user:name": "Ada"})])])
    before = await service.get_session(**WHO)
    with pytest.raises(InvalidInputError, match="target cannot hold: a OverflowError of the service"):
        await import_jsonl(io.BytesIO(b"".join(lines)), service, on_conflict="overwrite")
    after = await service.get_session(**WHO)

    assert before is not None
    assert after is not None
    assert (before.events, before.state) == (after.events, after.state)

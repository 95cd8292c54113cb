"""Read format 2 as it was first written, and write it so again."""

import hashlib
import json
import re
import zlib
from collections.abc import AsyncIterator
from functools import reduce
from typing import Any

import pytest

from gcp_adk_store import Point, SessionLimits, SessionOrigin, Store
from tests.golden import scenarios
from tests.golden.raw import Documents, put_documents, read_golden, take_documents
from tests.golden.scenarios import EPOCH, LARGE, LONG, SHORT, STATE, WHO, Connect
from tests.golden.test_format_1 import exact, legible, read
from tests.support.stored import put, put_object

SESSION = "adk_apps/shop/adk_users/u%2F1/adk_sessions/%5F_s__"
SCENARIOS = {
    made.__name__: made
    for made in (
        scenarios.short_session,
        scenarios.sealed_session,
        scenarios.conflicted_session,
        scenarios.expiring_session,
        scenarios.large_initial_state,
        scenarios.described_session,
        scenarios.restored_session,
        scenarios.restore_note,
        scenarios.forked_session,
        scenarios.windowed_session,
    )
}


def chained(head: bytes, texts: list[str]) -> bytes:
    """Return the head of a chain after *texts*."""
    return reduce(lambda before, text: hashlib.sha256(before + hashed(text)).digest(), texts, head)


def hashed(text: str) -> bytes:
    """Return the hash of *text*, or of what stood where it is a marker."""
    found = json.loads(text).get("adk_store_redacted")
    return bytes.fromhex(found["sha256"]) if found else hashlib.sha256(text.encode()).digest()


def begun(after: bytes = b"", *, epoch: str = EPOCH) -> bytes:
    """Return the head that a session's chain begins with."""
    return hashlib.sha256(b"gcp-adk-store/2\0" + epoch.encode() + after).digest()


def with_chain_checked(documents: Documents) -> Documents:
    """Return *documents* with whether their heads are right, since ADK decides what an event's text holds."""
    found = {path: dict(fields) for path, fields in documents.items()}
    for path, fields in documents.items():
        if "tail" not in fields:
            continue
        head = begun(epoch=fields["epoch"])
        cut = {number for run in fields.get("cut", []) for number in range(run["from"], run["to"] + 1)}
        for number in range(fields["sealed"]):
            name = f"{path}/adk_segments/{fields['epoch']}-{number}"
            if (segment := documents.get(name)) is None:
                assert number in cut
                continue
            found[name]["chain_begin"] = number in cut or segment["chain_begin"] == head
            end = chained(segment["chain_begin"], json.loads(zlib.decompress(segment["body"])))
            found[name]["chain_end"] = segment["chain_end"] == end
            head = head if number in cut else end
        found[path]["chain_sealed"] = fields["chain_sealed"] == head
        found[path]["chain"] = fields["chain"] == chained(head, fields["tail"])
    for fields in found.values():
        if "restore_id" in fields:  # chance decides it
            fields["restore_id"] = re.fullmatch(r"[0-9a-f]{32}", fields["restore_id"]) is not None
    return {re.sub(r"(adk_restores/)[0-9a-f]{32}$", r"\1id", path): fields for path, fields in found.items()}


class TestReading:
    """Documents that were not written by this release, put there round the library."""

    @pytest.mark.parametrize(
        ("name", "state", "events"),
        [
            ("short_session", {**STATE, "number": 43, "new": "key"}, SHORT),
            ("sealed_session", {"n": 6}, LONG),
            ("large_initial_state", {**LARGE, "n": 2}, LONG[:3]),
            ("restored_session", {"n": 6}, [*LONG[:4], LONG[6]]),
            ("restore_note", {"n": 1}, LONG[:2]),
        ],
    )
    async def test_a_session(
        self, connect: Connect, project: str, name: str, state: dict[str, Any], events: list[Any]
    ) -> None:
        """Its state has exact types, its events are in order, and it can be appended to."""
        put_documents(project, read_golden(name, number=2))
        found = await read(connect)
        assert exact(state) == exact(found.state)
        assert events == found.events
        more = scenarios.event(0)
        more.id = "one more"
        await connect().append_event(found, more)

        assert [*events, more] == (await read(connect)).events

    async def test_a_title_labels_and_turns(self, connect: Connect, project: str) -> None:
        """With the last message, as a listing shows them."""
        put_documents(project, read_golden("described_session", number=2))
        info = await connect().get_session_info(**WHO)

        assert info is not None
        assert ("Ünï trip", {"team": "x", "state": "öpen"}, 2, "1: grüß dich") == (
            info.title,
            info.labels,
            info.turns,
            info.last_text,
        )

    async def test_a_fork_and_its_origin(self, connect: Connect, project: str) -> None:
        """It has the first events of its source, and its state there."""
        put_documents(project, read_golden("forked_session", number=2))
        who = {**WHO, "user_id": "v", "session_id": "fork"}
        found = await connect().get_session(**who)
        info = await connect().get_session_info(**who)

        assert found is not None
        assert info is not None
        assert (LONG[:5], {"n": 4}) == (found.events, found.state)
        assert SessionOrigin(app_name="shop", user_id="u/1", session_id="__s__", position=5) == info.origin

    async def test_what_the_newest_segment_keeps(self, connect: Connect, project: str) -> None:
        """A read since the newest summary takes it for the segments before, of which it names no event."""
        put_documents(project, read_golden("windowed_session", number=2))
        found = await connect(history="since_compaction").get_session(**WHO)

        assert found is not None
        turns = [f"turn-{number}" for number in range(5, 16)]
        assert [event.id for event in found.events] == [*turns[:8], "summary-12", *turns[8:]]

    async def test_an_interrupted_restore_is_finished(self, connect: Connect, project: str) -> None:
        """By the next one: neither its note nor what it cut off is left."""
        put_documents(project, read_golden("restore_note", number=2))
        await connect().restore_session(**WHO, at=Point.position(2))

        assert [SESSION, f"{SESSION}/adk_segments/{EPOCH}-0"] == sorted(take_documents(project))

    @pytest.mark.parametrize("name", SCENARIOS)
    def test_its_heads_are_those_of_its_events(self, name: str) -> None:
        """As docs/data-model.md says how to compute them."""
        for path, fields in with_chain_checked(read_golden(name, number=2)).items():
            heads = [value for field, value in fields.items() if field.startswith("chain")]
            assert heads == [True] * (2 if path.split("/")[-2] in ("adk_sessions", "adk_segments") else 0)


class TestWriting:
    """What this release writes, taken out round the library."""

    @pytest.mark.parametrize("name", SCENARIOS)
    @pytest.mark.usefixtures("fixed")
    async def test_documents(self, connect: Connect, project: str, name: str) -> None:
        """The same paths, and in each document the same fields, with the same number of the format."""
        golden = with_chain_checked(read_golden(name, number=2))
        await SCENARIOS[name](connect)
        written = with_chain_checked(take_documents(project))

        assert sorted(golden) == sorted(written)
        for path, fields in golden.items():
            kept = {field: written[path][field] for field in fields if field in written[path]}
            assert exact(legible(fields)) == exact(legible(kept))


async def archive(store: Store) -> None:
    """Archive the first segments of a session, which end with a turn."""
    held = await store.sessions.create_session(**WHO)
    for number, made in enumerate(LONG):
        turn = "invocation" if number < 5 else "invocatio2"  # of the same length
        await store.sessions.append_event(held, made.model_copy(deep=True, update={"invocation_id": turn}))
    await store.sessions.archive_session(**WHO, before=Point.position(5))


@pytest.fixture
async def sealing() -> AsyncIterator[Store]:
    """A store in memory that seals often."""
    async with Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=500)) as store:
        yield store


async def stored(store: Store) -> Documents:
    """Return the documents of sessions and segments, and under the names of objects their bytes."""
    documents, objects = store.sessions.storage.documents, store.sessions.storage.payloads.objects
    found: Documents = {}
    for collection in ("adk_sessions", "adk_segments"):
        for document in await documents.query("", collection, all_descendants=True):
            found[document.path] = dict(document.fields)
    assert objects is not None
    for name in await objects.names("", delimiter=None):
        read = await objects.read(name, generation=None)
        assert read is not None
        found[name] = {"data": read[0]}
    return found


async def test_archived_events_are_read(sealing: Store) -> None:
    """A read of all leaves them out, and an iteration has them."""
    service, golden = sealing.sessions, read_golden("archived_session", number=2)
    for name, fields in golden.items():
        if "data" in fields:
            await put_object(sealing, name, fields["data"])
        else:
            await put(sealing, name, fields)
    found = await service.get_session(**WHO)

    assert found is not None
    assert found.events == LONG[5:]
    assert [each.event async for each in service.iter_events(**WHO)] == LONG
    assert (await sealing.verify_session(**WHO)).broken is None


@pytest.mark.usefixtures("fixed_ids")
async def test_archived_events_are_written(sealing: Store) -> None:
    """The same documents with the same number of the format, and objects with the same events.

    ADK decides what the text of an event holds, and so the names of the objects.
    """
    await archive(sealing)
    golden, written = read_golden("archived_session", number=2), await stored(sealing)

    for path, fields in golden.items():
        if "data" not in fields:
            kept = {name: value for name, value in fields.items() if name not in OF_TEXTS}
            there = {name: value for name, value in written[path].items() if name not in OF_TEXTS}
            assert exact(legible({path: kept})) == exact(legible({path: there}))
            assert ("archive" in fields, "body" in fields) == (
                "archive" in written[path],
                "body" in written[path],
            )
    assert archived_ids(golden) == archived_ids(written)


OF_TEXTS = {
    # The golden session has one turn, of which an archive would leave all events.
    "turns",
    "last_turn",
    "chain",
    "chain_sealed",
    "chain_begin",
    "chain_end",
    "digests",
    "tail",
    "tail_bytes",
    "body",
    "archive",
}


def archived_ids(documents: Documents) -> list[str]:
    """Return the ids of the events in objects, whose names are the SHA-256 of their bytes."""
    found = []
    for name, fields in documents.items():
        if "data" in fields:
            assert hashlib.sha256(fields["data"]).hexdigest() == name.rpartition("/")[2]
            found += [json.loads(line)["id"] for line in fields["data"].splitlines()]
    return sorted(found)

"""Each attack is named by those whom the table of docs/erasure.md lists for it, and by nobody else."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from gcp_adk_store import HistoryChange, HistoryProof, Point, StoredDataError
from tests.attack.threats import KEYLESS, KEYS, THREATS, Threat
from tests.attack.world import (
    ADA,
    ANCHORED,
    BOB,
    EVENTS,
    EVERYBODY,
    FORK,
    REDACTED,
    Who,
    World,
    made,
    written_anew,
)
from tests.support.documents import ROOT
from tests.support.stored import packed, unpacked

NAMED = ("read", "verify", "anchors", "proof", "fsck")
"""The columns of the table."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, World]:
    """The world before any attack, in the clear and encrypted."""
    folder = tmp_path_factory.mktemp("worlds")
    return {
        is_encrypted: asyncio.run(made(folder / f"{is_encrypted}", is_encrypted=is_encrypted))
        for is_encrypted in (False, True)
    }


@pytest.fixture
def world(worlds: dict[bool, World], tmp_path: Path) -> World:
    """One in the clear, to attack."""
    return worlds[False].copied(tmp_path / "world")


async def proof_of(world: World, who: Who = ADA) -> HistoryProof:
    """Return the proof with anchors."""
    async with world.open() as store:
        return await store.verify_session(**who, anchors=world.anchors)


async def attacked(world: World, does: str) -> None:
    """Do what a row says."""
    await next(row for row in THREATS if row.does == does).attack(world)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_nothing_is_named_without_an_attack(encrypted: bool, worlds: dict[bool, World]) -> None:  # noqa: FBT001
    """In none of the sessions."""
    for who in EVERYBODY:
        assert set() == await worlds[encrypted].outcome(who)


@pytest.mark.sample(12)
@pytest.mark.parametrize("row", THREATS, ids=lambda row: f"{row.holds}: {row.does}")
async def test_an_attack_is_named_as_the_table_says(
    row: Threat, worlds: dict[bool, World], tmp_path: Path
) -> None:
    """By a read, by verify alone, with anchors or with an earlier proof, by fsck."""
    world = worlds[row.holds in (KEYLESS, KEYS)].copied(tmp_path / "world")
    await row.attack(world)

    assert row.named == await world.outcome(row.of)


def test_the_page_has_the_table() -> None:
    """Each attack with who names it."""
    rows = [
        f"| {row.holds} | {row.does} | " + " | ".join("yes" if by in row.named else "" for by in NAMED) + " |"
        for row in THREATS
    ]
    page = (ROOT / "docs/erasure.md").read_text()
    _, _, table = page.partition("### Which attacks a proof finds")

    assert [re.sub(" +", " ", row) for row in rows] == re.findall(
        r"^\| (?!who holds|---).+ \|$", table.partition("\n## ")[0], re.MULTILINE
    )
    assert f"in one of {len(THREATS)} ways" in (ROOT / "docs/proofs.md").read_text()


async def test_sessions_that_were_exchanged_are_reported_as_moved(world: World) -> None:
    """Their chains are right; the anchors say whose they are."""
    await attacked(world, "exchanges the sessions of two users")

    for who in (ADA, BOB):
        broken = (await proof_of(world, who)).broken
        assert broken is not None
        assert (HistoryChange.MOVED, 0, EVENTS - 1) == (broken.change, broken.position, broken.last)
        assert "another app, user or id" in broken.says


async def test_anchors_of_an_earlier_release_do_not_say_whose_they_are(world: World) -> None:
    """They prove the events; the proof counts them, and the next run of anchor adds one that says it."""
    await _make_unbound(world)

    before = await proof_of(world)
    async with world.open() as store:
        await store.anchor(**ADA, anchors=world.anchors)
    after = await proof_of(world)

    assert (None, 1, 1, ANCHORED) == (before.broken, before.anchors, before.unbound, before.anchored)
    assert (None, 2, 1, EVENTS) == (after.broken, after.anchors, after.unbound, after.anchored)


async def _make_unbound(world: World) -> None:
    """Give the anchors the names that release 0.1 gave them."""
    async with world.open() as store, store._beside.bucket(world.anchors) as objects:
        names = await objects.names("adk-anchors/", delimiter=None)
        for name in names:
            await objects.delete(name, generation=None)
    for name in names:
        await world.put_anchor(name.rpartition("-")[0])


async def test_a_forged_redaction_is_reported_as_not_anchored(world: World) -> None:
    """The proof accepts it, since an app may redact at any time, and says that no anchor proves it."""
    await attacked(world, "redacts an event: a marker, and an event that reports it, which no anchor proves")

    forged, real = await proof_of(world), await proof_of(world, REDACTED)

    assert [(4, True, True, False)] == [
        (one.position, one.is_audited, one.is_bound, one.is_anchored) for one in forged.redacted
    ]
    assert [(1, True, True, True)] == [
        (one.position, one.is_audited, one.is_bound, one.is_anchored) for one in real.redacted
    ]


async def test_a_redaction_of_an_earlier_release_is_reported_as_unbound(world: World) -> None:
    """Its event does not have the hash of the marker; what a marker may contain is checked all the same."""
    documents = await world.raw(REDACTED)
    for segment, fields in [*documents.items()][1:]:
        texts = [_without_hash(text) for text in unpacked(fields["body"])]
        documents[segment] = {**fields, "body": packed(texts)}
    await world.put(written_anew(documents))
    async with world.open() as store:
        proof = await store.verify_session(**REDACTED)
        faults = [fault async for fault in store.check(**REDACTED)]

    assert (None, []) == (proof.broken, faults)
    assert [(True, False, None)] == [
        (one.is_audited, one.is_bound, one.is_anchored) for one in proof.redacted
    ]


def _without_hash(text: str) -> str:
    event = json.loads(text)
    for one in event.get("custom_metadata", {}).get("adk_store_redaction", {}).get("events", ()):
        del one["marker"]
    return json.dumps(event, separators=(",", ":"))


async def test_a_forged_marker_is_not_laundered_by_a_fork_or_a_restore(world: World) -> None:
    """They report redactions again that the history has, not of markers alone."""
    await attacked(world, "puts a marker in place of an event")
    fork = {**ADA, "session_id": "copy"}
    async with world.open() as store:
        await store.fork_session(**ADA, to_session_id="copy")
        await store.restore_session(**ADA, at=Point.position(EVENTS - 1))
        for who in (ADA, fork):
            broken = (await store.verify_session(**who)).broken
            assert broken is not None
            assert (4, HistoryChange.REDACTED) == (broken.position, broken.change)


async def test_a_restore_to_the_same_point_changes_nothing(world: World) -> None:
    """What reports a redaction again is not taken back, so it is reported once."""
    async with world.open() as store:
        for _ in range(3):
            session = await store.restore_session(**REDACTED, at=Point.position(4))
        restored = await store.verify_session(**REDACTED)
        fork = await store.fork_session(**REDACTED, to_session_id="again", at=Point.position(3))
        await store.sessions.append_event(fork, session.events[0].model_copy(update={"id": "new"}))
        forked = await store.verify_session(**{**REDACTED, "session_id": "again"})
        faults = [fault async for fault in store.check(full=True)]

    assert [(5, None), (5, None)] == [(proof.events, proof.broken) for proof in (restored, forked)]
    assert ["e0", "e1", "e2", "e3"] == [event.id for event in session.events[:-1]]
    assert "adk_store_redaction" in (session.events[-1].custom_metadata or {})
    assert [] == faults


async def test_a_marker_with_own_words_is_refused_by_a_read(world: World) -> None:
    """The error names the document, and none of the words."""
    await attacked(world, "gives a marker other words")

    async with world.open() as store:
        with pytest.raises(StoredDataError, match="content that no redaction writes") as raised:
            await store.sessions.get_session(**REDACTED)
    assert "my word" not in f"{raised.value}"


async def test_a_fork_keeps_what_its_source_reports_of_redactions(worlds: dict[bool, World]) -> None:
    """With the hashes of the markers."""
    proof = await proof_of(worlds[False], FORK)

    assert [(1, True, True)] == [(one.position, one.is_audited, one.is_bound) for one in proof.redacted]

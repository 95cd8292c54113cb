"""A short run on a folder keeps every promise, and the checker finds what is damaged there."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gcp_adk_store import Store
from tests.chaos.journal import Operation
from tests.chaos.places import PREFIXES, TURNED
from tests.chaos.raw_store import RawSession, read_folder, sessions
from tests.chaos.report import figures
from tests.chaos.run import Chaos, Settings, look, run
from tests.chaos.turn_checks import check_turns

SEED, SECONDS = 21, 6.0


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Path, Chaos]:
    """A run whose workers are killed."""
    folder = tmp_path_factory.mktemp("chaos")
    (folder / "journals").mkdir()
    settings = Settings(seed=SEED, seconds=SECONDS, store=folder / "store", journals=folder / "journals")
    return settings, folder / "store", run(settings)


def test_nothing_is_lost_and_nothing_stored_twice_in_a_folder(ran: tuple[Settings, Path, Chaos]) -> None:
    """While workers are killed."""
    _, _, chaos = ran
    found = figures(chaos)

    assert [] == chaos.verdict.violations
    assert found["outcomes"]["acknowledged"] > 50
    assert found["blows"]["kill"] >= 1
    assert found["operations"]["restore"] >= found["stored"]["restores"] > 0
    assert found["stored"]["forks"] > 0
    assert found["stored"]["titles"] > 0
    assert found["stored"]["turns"] > 0
    assert found["operations"]["enqueue"] > 0
    assert found["stored"]["segments"] > 0
    assert found["stored"]["memories"] > 0
    assert found["stored"]["payloads in the bucket"] > 0
    assert found["stored"]["versions"] > 0


async def test_a_check_of_the_folder_has_no_finding(ran: tuple[Settings, Path, Chaos]) -> None:
    """The library's own check agrees with the checker."""
    _, folder, _ = ran
    for prefix in PREFIXES:
        async with Store.local(folder, prefix=prefix) as store:
            assert [] == [fault async for fault in store.check(full=True)]


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (
            "DELETE FROM documents WHERE collection = 'adk_sessions' AND instr(key, x'7368617265642d30')",
            "lost session",
        ),
        (
            "DELETE FROM documents WHERE collection LIKE '%_sessions' AND instr(key, CAST('fork-' AS BLOB))",
            "lost session",
        ),
        ("DELETE FROM documents WHERE collection = 'adk_memories'", "lost"),
        ("DELETE FROM documents WHERE collection = 'adk_segments'", "segment disagrees"),
        ("DELETE FROM objects WHERE CAST(name AS TEXT) LIKE 'adk-payloads/%'", "dangling reference"),
        ("DELETE FROM objects WHERE CAST(name AS TEXT) LIKE '%/shared/report/0'", "lost"),
    ],
)
def test_the_checker_finds_a_damage_in_a_folder(
    ran: tuple[Settings, Path, Chaos], damage: str, kind: str
) -> None:
    """Each by its kind; the folder is mended afterwards."""
    settings, folder, chaos = ran
    with closing(sqlite3.connect(folder / "store.sqlite3")) as database:
        kept = sqlite3.connect(":memory:")
        database.backup(kept)
        removed = database.execute(damage).rowcount
        database.commit()
        found = {violation.kind for violation in look(settings, chaos.operations).violations}
        kept.backup(database)
        kept.close()

    assert removed
    assert kind in found
    assert [] == look(settings, chaos.operations).violations


def interleave(session: RawSession, operations: list[Operation]) -> None:
    """Put the last event of a turn after the first of the next."""
    at = next(n for n in range(1, len(session.events)) if starts_turn(session, n))
    session.events[at - 1 : at + 1] = session.events[at - 1 : at + 1][::-1]
    del operations


def starts_turn(session: RawSession, at: int) -> bool:
    """Return whether the turn of an event begins there, and the one before it has more than one event."""
    names = [event.invocation for event in session.events]
    return names[at] != names[at - 1] and names.count(names[at - 1]) > 1


def exchange_turns(session: RawSession, operations: list[Operation]) -> None:
    """Turn all turns round."""
    names = list(dict.fromkeys(event.invocation for event in session.events))
    session.events.sort(key=lambda event: -names.index(event.invocation))
    del operations


def remove_the_first_of_a_turn(session: RawSession, operations: list[Operation]) -> None:
    """Take an event out that another of its turn followed."""
    counts = {one.intent["event"]: one.intent.get("count") for one in operations if one.kind == "append"}
    known = [counts.get(event.id) for event in session.events]
    del session.events[next(n for n, both in enumerate(pairwise(known)) if both == (0, 1))]


def forget_a_turn(session: RawSession, operations: list[Operation]) -> None:
    """Lower the number of the newest turn."""
    session.fields = {**session.fields, "turn": {"fence": 0}}
    del operations


def give_a_number_twice(session: RawSession, operations: list[Operation]) -> None:
    """Repeat a turn that a worker took."""
    taken = (one for one in operations if one.kind == "turn" and one.outcome == "acknowledged")
    one = next(one for one in taken if one.intent["place"] == session.place)
    operations.append(replace(one, intent={**one.intent, "turn": "another"}))


def message_in(session: RawSession, operations: list[Operation]) -> int:
    """Return where the first message is that waited."""
    names = {
        one.intent["event"] for one in operations if one.kind == "enqueue" and one.outcome == "acknowledged"
    }
    return next(n for n, event in enumerate(session.events) if event.id in names)


def lose_a_message(session: RawSession, operations: list[Operation]) -> None:
    """Take out the event of a message that waited."""
    del session.events[message_in(session, operations)]


def answer_a_message_twice(session: RawSession, operations: list[Operation]) -> None:
    """Let a message wait whose event is stored."""
    event = session.events[message_in(session, operations)]
    session.fields = {**session.fields, "inbox": [f'{{"id": "{event.id}"}}']}


def reorder_messages(session: RawSession, operations: list[Operation]) -> None:
    """Turn all events round."""
    message_in(session, operations)
    session.events.reverse()


def refuse_a_message(session: RawSession, operations: list[Operation]) -> None:
    """Say that a message is not to wait that is stored."""
    name = session.events[message_in(session, operations)].id
    at = next(n for n, one in enumerate(operations) if one.kind == "enqueue" and one.intent["event"] == name)
    operations[at] = replace(operations[at], outcome="refused", result={})


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (interleave, "interleaved"),
        (exchange_turns, "turns out of order"),
        (remove_the_first_of_a_turn, "hole in a turn"),
        (forget_a_turn, "turn forgotten"),
        (give_a_number_twice, "two turns of one number"),
        (lose_a_message, "message lost"),
        (answer_a_message_twice, "message twice"),
        (reorder_messages, "message out of order"),
        (refuse_a_message, "refused but stored"),
    ],
)
def test_the_checker_finds_a_damaged_turn(
    ran: tuple[Settings, Path, Chaos],
    damage: Callable[[RawSession, list[Operation]], None],
    kind: str,
) -> None:
    """In what the run stored, and in what its workers were told."""
    _, folder, chaos = ran
    operations = list(chaos.operations)
    found = {one.place: one for one in sessions(read_folder(folder)) if one.place == str(TURNED[0])}
    assert [] == list(check_turns(found, operations))
    damage(found[str(TURNED[0])], operations)

    assert kind in {violation.kind for violation in check_turns(found, operations)}

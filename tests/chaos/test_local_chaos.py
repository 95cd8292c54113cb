"""A run on a folder keeps every promise, and the checker finds a damaged turn."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gcp_adk_store import Store
from tests.chaos.conftest import OPERATIONS, SEED, Written
from tests.chaos.journal import Operation
from tests.chaos.places import PREFIXES, TURNED
from tests.chaos.raw_store import RawSession, read_folder, sessions
from tests.chaos.report import figures
from tests.chaos.run import Chaos, Settings, look, run
from tests.chaos.turn_checks import check_turns


async def test_nothing_is_lost_and_nothing_stored_twice_in_a_folder(tmp_path: Path) -> None:
    """While workers are killed; the library's own check agrees with the checker."""

    def goes_on(chaos: Chaos) -> bool:
        return chaos.begun < OPERATIONS or not chaos.blows["kill"]

    folder, journals = tmp_path / "store", tmp_path / "journals"
    journals.mkdir()
    chaos = run(Settings(seed=SEED, goes_on=goes_on, store=folder, journals=journals))

    assert [] == chaos.verdict.violations
    assert figures(chaos)["outcomes"]["acknowledged"] > 50
    for prefix in PREFIXES:
        async with Store.local(folder, prefix=prefix) as store:
            assert [] == [fault async for fault in store.check(full=True)]


def test_the_writers_store_each_kind_of_thing(written: Written) -> None:
    """Each that the checker knows; it finds no fault with them."""
    folder, operations = written
    verdict = look(folder, operations)

    assert [] == verdict.violations
    assert {"enqueue", "stop"} <= {operation.kind for operation in operations}
    for kind in ("restores", "forks", "titles", "turns", "segments", "memories", "versions"):
        assert verdict.stored[kind] > 0
    assert verdict.stored["payloads in the bucket"] > 0


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
    written: Written,
    damage: Callable[[RawSession, list[Operation]], None],
    kind: str,
) -> None:
    """In what the writers stored, and in the answers that they got."""
    folder, done = written
    operations = list(done)
    found = {one.place: one for one in sessions(read_folder(folder)) if one.place == str(TURNED[0])}
    assert [] == list(check_turns(found, operations))
    damage(found[str(TURNED[0])], operations)

    assert kind in {violation.kind for violation in check_turns(found, operations)}

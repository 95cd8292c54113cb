"""Compare what workers got as answers about turns, and of messages that wait for one, with what is stored."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.journal import Operation
from tests.chaos.raw_store import RawSession
from tests.chaos.verdict import Violation


def check_turns(found: Mapping[str, RawSession], operations: Sequence[Operation]) -> Iterator[Violation]:
    """One turn at a time; each has a number of its own; each message waits, or is stored, once, in order."""
    for place in sorted({one.intent["place"] for one in operations if one.kind == "turn"}):
        session = found.get(place)
        if session is not None:
            mine = [one for one in operations if one.intent.get("place") == place]
            yield from _numbers(session, mine)
            yield from _blocks(session, mine)
            yield from _messages(session, mine)


def _numbers(session: RawSession, operations: Sequence[Operation]) -> Iterator[Violation]:
    """No two turns have one number, and the stored one is that of the newest."""
    counts = Counter(_fences(operations).values())
    for fence, times in counts.items():
        if times > 1:
            yield Violation("two turns of one number", f"number {fence} of {session.place}")
    if counts and session.fields.get("turn", {}).get("fence", 0) < max(counts):
        yield Violation("turn forgotten", f"number {max(counts)} of {session.place}")


def _fences(operations: Sequence[Operation]) -> dict[str, int]:
    """Return the number of each turn that a worker took for certain, by its name."""
    return {
        one.intent["turn"]: one.result["fence"]
        for one in operations
        if one.kind == "turn" and one.outcome == "acknowledged"
    }


def _blocks(session: RawSession, operations: Sequence[Operation]) -> Iterator[Violation]:
    """The events of a turn follow each other, from its first on; those of a later turn come later."""
    names = [event.invocation for event in session.events]
    blocks = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    for name, times in Counter(blocks).items():
        if times > 1:
            yield Violation("interleaved", f"turn {name} of {session.place}")
    fences = _fences(operations)
    numbers = [fences[name] for name in blocks if name in fences]
    if numbers != sorted(numbers):
        yield Violation("turns out of order", session.place)
    stored = {event.id for event in session.events}
    missed: set[str] = set()
    for one in operations:  # in the order in which they began
        if one.kind != "append" or one.intent["count"] is None:
            continue
        name, event = one.intent["turn"], one.intent["event"]
        if event not in stored:
            missed.add(name)
        elif name in missed:
            yield Violation("hole in a turn", f"before event {event} of {session.place}")


def _messages(session: RawSession, operations: Sequence[Operation]) -> Iterator[Violation]:
    """Each acknowledged message waits or is stored, once; none that was refused; in order of arrival."""
    sent = {one.intent["event"]: one for one in operations if one.kind == "enqueue"}
    waiting = [json.loads(text)["id"] for text in session.fields.get("inbox", [])]
    known = [name for name in [event.id for event in session.events] + waiting if name in sent]
    times = Counter(known)
    for name, one in sent.items():
        waits = one.outcome == "acknowledged"
        what = f"message {name} of {session.place}, {times[name]} times"
        if times[name] > 1:
            yield Violation("message twice", what)
        elif waits and not times[name]:
            yield Violation("message lost", what)
        elif times[name] and one.outcome == "refused":
            yield Violation("refused but stored", what)
    first_acknowledged: float = float("inf")
    for name in reversed(known):
        one = sent[name]
        if one.began_at > first_acknowledged:
            yield Violation("message out of order", f"message {name} of {session.place}")
        if one.outcome == "acknowledged" and one.ended_at is not None:
            first_acknowledged = min(first_acknowledged, one.ended_at)

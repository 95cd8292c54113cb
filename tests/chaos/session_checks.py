"""Compare what workers got as answers about sessions with what is stored of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.journal import Operation
from tests.chaos.raw_store import RawSession
from tests.chaos.verdict import DUPLICATED, LOST, Violation


@dataclass(slots=True)
class Sent:
    """All deliveries of one event to one life of a session."""

    place: str
    life: str
    delta: Mapping[str, Any]
    digest: str
    began_at: int
    deliveries: int = 0
    acknowledged_at: int | None = None
    is_unknown: bool = False


def appends(operations: Iterable[Operation]) -> dict[str, Sent]:
    """Return what was sent, by the event's id."""
    sent: dict[str, Sent] = {}
    for operation in operations:
        if operation.kind != "append":
            continue
        intent = operation.intent
        one = sent.setdefault(
            intent["event"],
            Sent(intent["place"], intent["life"], intent["delta"], intent["digest"], operation.began_at),
        )
        one.deliveries += 1
        if operation.outcome == "acknowledged" and one.acknowledged_at is None:
            one.acknowledged_at = operation.ended_at
        one.is_unknown = one.is_unknown or operation.outcome in ("unknown", "failed")
    return sent


def check_lives(found: Mapping[str, RawSession], operations: Sequence[Operation]) -> Iterator[Violation]:
    """A session is gone only if somebody deleted it, and then for good; one that was refused is not there."""
    deletes = [operation for operation in operations if operation.kind == "delete"]
    deleted = {(one.intent["place"], one.intent["life"]) for one in deletes if one.outcome == "acknowledged"}
    may_be_gone = {one.intent["place"] for one in deletes}
    created = {one.intent["life"]: one.outcome for one in operations if one.kind == "create"}
    existed = {
        (one.intent["place"], one.intent["life"])
        for one in operations
        # It was made, or a handle of it was had.
        if one.kind == "append" or (one.kind == "create" and one.outcome == "acknowledged")
    }
    now = {(place, session.state.get("life")) for place, session in found.items()}
    for place, life in sorted(existed - now):
        if place not in may_be_gone:
            yield Violation("lost session", f"{place} of life {life}")
    for place, life in now:
        outcome = created.get(life or "")
        if outcome in (None, "refused"):
            kind = "never sent" if outcome is None else "refused but stored"
            yield Violation(kind, f"session {place} of life {life}")
    for place, life in sorted(now & deleted):
        yield Violation("deleted but stored", f"session {place} of life {life}")


def check_events(
    session: RawSession, sent: Mapping[str, Sent], operations: Sequence[Operation]
) -> Iterator[Violation]:
    """Each acknowledged event once, in the order of acknowledgements; no refused one; nothing else.

    Only a restore that may have come after an event may have cut it off.
    """
    place, life = session.place, session.state.get("life")
    ends = [_end(one) for one in operations if one.kind == "restore" and one.intent["place"] == place]
    last_restore = max(ends, default=0.0)
    times = Counter(event.id for event in session.events)
    for name, one in sent.items():
        if one.place == place:
            kind = _wrong(one, times[name], is_of_this_life=one.life == life)
            if kind == LOST and one.began_at < last_restore:
                kind = None
            if kind is not None:
                yield Violation(kind, f"event {name} of {place}, {times[name]} times")
    for event in session.events:
        known = sent.get(event.id)
        if known is None or known.place != place:
            yield Violation("never sent", f"event {event.id} in {place}")
        elif (event.digest, dict(event.delta)) != (known.digest, dict(known.delta)):
            yield Violation("other content", f"event {event.id} in {place}")
    yield from _check_order(session, sent)


def _wrong(sent: Sent, times: int, *, is_of_this_life: bool) -> str | None:
    """Return what is wrong with an event that is stored so many *times*."""
    if not is_of_this_life:
        return "event of another life" if times else None
    if times > 1:
        return DUPLICATED
    if times == 0:
        return None if sent.acknowledged_at is None else LOST
    return "refused but stored" if sent.acknowledged_at is None and not sent.is_unknown else None


def _end(operation: Operation) -> float:
    """Return when what *operation* does has been done for certain."""
    if operation.outcome == "refused":
        return 0.0
    is_done = operation.outcome == "acknowledged" and operation.ended_at is not None
    return operation.ended_at or 0.0 if is_done else float("inf")


def _check_order(session: RawSession, sent: Mapping[str, Sent]) -> Iterator[Violation]:
    """What was acknowledged before another began, in whichever process, lies before it.

    An event that a restore cut off, and that was delivered again, comes later.
    """
    first_acknowledged: float = float("inf")
    was_restored = "restores" in session.fields
    for event in reversed(session.events):
        one = sent.get(event.id)
        if one is None or (was_restored and one.deliveries > 1):
            continue
        if one.began_at > first_acknowledged:
            yield Violation("out of order", f"event {event.id} of {session.place}")
        if one.acknowledged_at is not None:
            first_acknowledged = min(first_acknowledged, one.acknowledged_at)


def check_state(session: RawSession, operations: Sequence[Operation]) -> Iterator[Violation]:
    """The session's state is what its events made of the initial one, in their order."""
    life = session.state.get("life")
    expected: dict[str, Any] = {}
    for operation in operations:
        if operation.kind == "create" and operation.intent["life"] == life:
            expected.update(_scoped(operation.intent["delta"], ""))
    if session.initial != expected:
        yield Violation("initial state differs", session.place)
    for event in session.events:
        expected.update(_scoped(event.delta, ""))
    for key in sorted({*expected, *session.state}):
        if key not in session.state or key not in expected or session.state[key] != expected[key]:
            yield Violation("state differs", f"key {key} of {session.place}")


def check_forks(found: Mapping[str, RawSession], operations: Sequence[Operation]) -> Iterator[Violation]:
    """Each acknowledged fork is there, none that was refused; it begins as its source does."""
    forks = {one.intent["place"]: one for one in operations if one.kind == "fork"}
    for place, fork in forks.items():
        if place not in found and fork.outcome == "acknowledged":
            yield Violation("lost session", f"fork {place}")
        if place in found and fork.outcome == "refused":
            yield Violation("refused but stored", f"fork {place}")
    for place, session in found.items():
        origin = session.fields.get("origin")
        if origin is None:
            continue
        if place not in forks:
            yield Violation("never sent", f"fork {place}")
            continue
        source = found.get(forks[place].intent["source"])
        begins = [] if source is None else source.events[: origin["position"]]
        if len(session.events) != origin["position"] or session.events != begins:
            yield Violation("fork differs", f"{place} of {len(session.events)} events")


def check_titles(found: Mapping[str, RawSession], operations: Sequence[Operation]) -> Iterator[Violation]:
    """A title is the last one that was acknowledged, or one that may have come after it."""
    for place, session in found.items():
        given = [one for one in operations if one.kind == "describe" and one.intent["place"] == place]
        acknowledged = [one.began_at for one in given if one.outcome == "acknowledged"]
        allowed = {
            one.intent["title"]
            for one in given
            if one.outcome != "refused" and all(_end(one) >= began for began in acknowledged)
        }
        if not acknowledged:
            allowed.add(None)
        if "origin" not in session.fields and session.fields.get("title") not in allowed:
            yield Violation("title differs", place)


def check_shared(
    found: Mapping[str, RawSession],
    shared: Mapping[tuple[str, str], Mapping[str, Any]],
    operations: Sequence[Operation],
) -> Iterator[Violation]:
    """Shared state changed with the events: each key is one writer's own, for one session.

    A restore leaves what the events that it cut off have changed, and a fork changes nothing.
    """
    for (prefix, scope), state in shared.items():
        allowed = _allowed(prefix, scope, operations)
        # What is stored as an event for certain has changed the state for certain.
        stored = {
            key: value
            for session in found.values()
            if session.place.startswith(f"{prefix}/") and not session.fields.keys() & {"restores", "origin"}
            for event in session.events
            for key, value in _scoped(event.delta, f"{scope}:").items()
        }
        for key in sorted({*allowed, *state}):
            values = [stored[key]] if key in stored else allowed.get(key, [])
            if state.get(key) not in values:
                yield Violation("shared state differs", f"{scope} key {key} of {prefix}")


def _allowed(prefix: str, scope: str, operations: Sequence[Operation]) -> dict[str, list[Any]]:
    """Return for each key the last value that was acknowledged, and those that may have come after.

    An append that comes late is refused, since others were first; a create that does may find the id free.
    """
    allowed: dict[str, list[Any]] = {}
    at_any_time: dict[str, list[Any]] = defaultdict(list)
    for operation in operations:
        if operation.kind not in ("create", "append") or operation.outcome == "refused":
            continue
        if not operation.intent["place"].startswith(f"{prefix}/"):
            continue
        for key, value in _scoped(operation.intent["delta"], f"{scope}:").items():
            if operation.outcome == "acknowledged":
                allowed[key] = [value]
            elif operation.kind == "create":
                at_any_time[key].append(value)
            else:
                allowed[key] = [*allowed.get(key, [None]), value]
    return {key: [*allowed.get(key, [None]), *at_any_time[key]] for key in {*allowed, *at_any_time}}


def _scoped(delta: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the changes of one scope; without *prefix* those of the session's own."""
    if prefix:
        return {key.removeprefix(prefix): value for key, value in delta.items() if key.startswith(prefix)}
    return {key: value for key, value in delta.items() if not key.startswith(("app:", "user:"))}

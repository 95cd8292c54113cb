"""Search an order of calls that happen one after the other and explain what each of them returned."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

from tests.simulation.journal import Call, Outcome

State = TypeVar("State", bound=Hashable)

_MOST_TRIES = 200_000


def require_order(
    calls: Sequence[Call],
    state: State,
    apply: Callable[[State, Call], State | None],
    *,
    reads: Collection[str] = (),
) -> None:
    """Require that some order explains *calls*, as Porcupine does: each happens while it runs.

    Args:
        calls: Those that happened, and those of which nobody knows: these happen at some time, or never.
        state: What there is before all of them.
        apply: Returns the state after a call; ``None`` if the call cannot return what it did in that state.
        reads: The kinds of calls that change nothing: where one can happen, it need not wait for others.
    """
    begun = sorted((call for call in calls if call.outcome is not Outcome.REFUSED), key=lambda c: c.begun)
    ends = [call.ended if call.outcome is Outcome.DONE else float("inf") for call in begun]
    alike = [_alike_before(begun, number) for number in range(len(begun))]
    seen: set[tuple[frozenset[int], State]] = set()
    stack: list[tuple[frozenset[int], State]] = [(frozenset(range(len(begun))), state)]
    fewest = len(begun)
    stuck: frozenset[int] = frozenset()
    while stack:
        left, now = stack.pop()
        certain = [number for number in left if begun[number].outcome is Outcome.DONE]
        if not certain:
            return
        if len(certain) < fewest:
            fewest, stuck = len(certain), frozenset(certain)
        first_end = min(ends[number] for number in left)
        known = len(stack)
        for number in left:
            if begun[number].begun > first_end or alike[number] in left:
                continue
            after = apply(now, begun[number])
            one = None if after is None else (left - {number}, after)
            is_read = one is not None and begun[number].kind in reads
            if is_read:
                del stack[known:]
            if one is not None and one not in seen:
                seen.add(one)
                stack.append(one)
            if is_read:
                break
        assert len(seen) < _MOST_TRIES, "the search for an order takes too long"
    shown = [f"{begun[n].process} {begun[n].kind} at {begun[n].begun:.3f}" for n in sorted(stuck)[:4]]
    raise AssertionError(f"no order explains what these returned: {shown}")


def _alike_before(begun: Sequence[Call], number: int) -> int | None:
    """Return the last call before that of *number*, of which nobody knows either, that can take its place."""
    call = begun[number]
    if call.outcome is Outcome.UNKNOWN:
        what = (call.outcome, call.kind, call.of, call.given, call.result)
        for before in reversed(range(number)):
            one = begun[before]
            if (one.outcome, one.kind, one.of, one.given, one.result) == what:
                return before
    return None

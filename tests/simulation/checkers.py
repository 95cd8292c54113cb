"""Check the promises of docs/proofs.md on a journal, without any knowledge of the code."""

from collections.abc import Iterable, Mapping, Sequence

from tests.simulation.journal import Call, Outcome


def check_list(stored: Sequence[str], appends: Iterable[Call], reads: Iterable[Call]) -> None:
    """Check that a session is an append-only list, as Elle checks one.

    Args:
        stored: The ids of its events at the end, in order.
        appends: The calls that append; ``given`` is the id of the event.
        reads: The calls that read all of it; ``result`` is the ids that they saw.
    """
    appends, reads = list(appends), [read for read in reads if read.outcome is Outcome.DONE and read.result]
    places = {one: place for place, one in enumerate(stored)}
    assert len(places) == len(stored), "an event is stored twice"
    assert places.keys() <= {call.given for call in appends}, "an event is stored that nobody appended"
    _check_outcomes(places, appends)
    _check_order(places, appends)
    for read in reads:
        _check_read(stored, places, read, appends)
    for before in reads:
        for after in reads:
            if before.ended < after.begun:
                assert len(before.result) <= len(after.result), "a later read saw less"


def _check_outcomes(places: Mapping[str, int], appends: Sequence[Call]) -> None:
    for call in appends:
        if call.outcome is Outcome.DONE:
            assert call.given in places, f"{call.given} was acknowledged, and is lost"
        if call.outcome is Outcome.REFUSED:
            assert call.given not in places, f"{call.given} was refused with {call.error}, and is stored"


def _check_order(places: Mapping[str, int], appends: Sequence[Call]) -> None:
    ordered = [call for call in appends if call.given in places]
    for first in ordered:
        for second in ordered:
            if first.outcome is Outcome.DONE and first.ended < second.begun:
                assert places[first.given] < places[second.given], "the order is not that of the calls"


def _check_read(
    stored: Sequence[str], places: Mapping[str, int], read: Call, appends: Sequence[Call]
) -> None:
    seen = list(read.result)
    assert seen == list(stored[: len(seen)]), f"a read at {read.begun:.3f} saw another order"
    for call in appends:
        if call.outcome is Outcome.DONE and call.ended < read.begun:
            assert places[call.given] < len(seen), f"a read at {read.begun:.3f} missed {call.given}"
        if call.given in places and call.begun > read.ended:
            assert places[call.given] >= len(seen), f"a read at {read.begun:.3f} saw the future"


def check_windows(stored: Sequence[str], reads: Iterable[Call]) -> None:
    """Check that each read of the newest events saw a run of them without a gap, as long as it asked for."""
    places = {one: place for place, one in enumerate(stored)}
    for read in reads:
        if read.outcome is Outcome.DONE and read.result:
            first = places[read.result[0]]
            assert list(read.result) == list(stored[first : first + len(read.result)]), "a gap in a window"
            assert first == 0 or len(read.result) == read.given, "a window is too short"


def check_handles(stored: Sequence[str], appends: Iterable[Call], *, merging: bool) -> None:
    """Check that a handle is the beginning of what is stored after its append.

    ``result`` is the ids that the handle has, which was read with all events. When *merging*, one that could
    not read what others appended meanwhile may miss some of it until its next append.
    """
    for call in appends:
        if call.outcome is Outcome.DONE and call.result is not None:
            seen = list(call.result)
            expected = [one for one in stored if one in set(seen)] if merging else list(stored[: len(seen)])
            assert seen == expected, f"the handle of {call.given} is not what is stored"


def check_patience(calls: Iterable[Call], *, deadline_s: float) -> None:
    """Check that what is refused for now is tried again until the deadline, or one wait passes it.

    A process whose clock runs 1 % fast gives up so much earlier.
    """
    for call in calls:
        if call.error == "UnavailableError":
            took_s = call.ended - call.begun
            assert took_s + call.asked_s > deadline_s * 0.9, (
                f"{call.kind} {call.given} gave up after {took_s:.1f} s"
            )


def check_followed(stored: Sequence[str], follows: Iterable[Sequence[str]]) -> None:
    """Check that each stream of events had them all in order, from the first, each once."""
    for seen in follows:
        assert list(seen) == list(stored[: len(seen)]), "a stream of events missed one, or had one twice"


def check_register(first: object, writes: Iterable[Call], reads: Iterable[Call]) -> None:
    """Check that each read of one value saw a write that no other write had replaced for certain.

    Args:
        first: What it was before all writes.
        writes: The calls that replace it; ``given`` is the value, and each has another one.
        reads: The calls that read it; ``result`` is the value.
    """
    writes = list(writes)
    by_value = {call.given: call for call in writes}
    for read in reads:
        if read.outcome is not Outcome.DONE:
            continue
        write = by_value.get(read.result)
        assert write is not None or read.result == first, f"{read.result!r} was read, and never written"
        if write is not None:
            assert write.outcome is not Outcome.REFUSED, (
                f"{read.result} was refused with {write.error}, and read"
            )
            assert write.begun <= read.ended, f"a read at {read.begun:.3f} saw the future"
        over_at = float("-inf") if write is None else certain_end(write)
        for later in writes:
            is_between = over_at < later.begun and later.ended < read.begun
            assert not (is_between and later.outcome is Outcome.DONE), (
                f"a read at {read.begun:.3f} saw {read.result!r}, which {later.given!r} had replaced"
            )


def certain_end(call: Call) -> float:
    """Return when a call has had its effect for certain: never, if nobody knows whether it had one."""
    return float("inf") if call.outcome is Outcome.UNKNOWN else call.ended

"""Show when a session with a time to live ends, and that what lies beside it never ends before it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError
from gcp_adk_store.model.session_fields import MAX_TTL_S, PARTS_GRACE_S, Expiry

TIMES = st.floats(0, 4e9)
TTLS = st.integers(1, MAX_TTL_S) | st.floats(0, MAX_TTL_S, exclude_min=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An append. Times are shares of the time to live."""

    after: float
    """How long it comes after the one before."""
    has_part: bool
    took: float = 0
    """How long ago the end of its part was reckoned: the upload came between."""
    clock: float = 0
    """How far the clock of its process is ahead."""


STEPS = st.lists(st.builds(Step, after=st.floats(0, 0.999), has_part=st.booleans()), max_size=40)

# Uploads that take longer than the session lives, and clocks that disagree by less than it does.
ROUGH_STEPS = st.lists(
    st.builds(
        Step,
        after=st.floats(0, 0.999),
        has_part=st.booleans(),
        took=st.floats(0, 3),
        clock=st.floats(-0.4, 0.4),
    ),
    max_size=40,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is stored right after an append."""

    now: float
    expiry: Expiry
    kept: Sequence[int]
    """Until when each part is kept."""
    renewed: bool
    """Whether this append renewed the parts first."""


def life(ttl_s: int, *, start: float, steps: Sequence[Step]) -> list[Moment]:
    """Return what *steps* make of a session, each of which comes before it ends."""
    time = start
    expiry = Expiry.begin(ttl_s, now=time)
    kept: list[int] = []
    moments = []
    for step in steps:
        time += step.after * ttl_s
        now = time + step.clock * ttl_s
        new_part = None
        if step.has_part:
            new_part = expiry.of_new_part(now - step.took * ttl_s)
            kept = [*kept, new_part + PARTS_GRACE_S]
        expiry = expiry.refreshed(now).with_part_until(new_part)
        renewed = expiry.outlives_its_parts
        if renewed:
            parts_at = expiry.of_new_part(now)
            kept = [max(until, parts_at + PARTS_GRACE_S) for until in kept]
            expiry = expiry.renewed_until(parts_at)
        moments.append(Moment(now=now, expiry=expiry, kept=kept, renewed=renewed))
    return moments


@pytest.mark.parametrize(
    ("ttl_seconds", "now", "expected"),
    [
        (60, 1000.0, Expiry(ttl_s=60, at=1060)),
        (60.0, 1000.0, Expiry(ttl_s=60, at=1060)),
        (59.001, 1000.0, Expiry(ttl_s=60, at=1060)),
        (0.001, 1000.0, Expiry(ttl_s=1, at=1001)),
        (60, 1000.001, Expiry(ttl_s=60, at=1061)),
        (59.5, 1000.5, Expiry(ttl_s=60, at=1061)),
        (MAX_TTL_S, 0.0, Expiry(ttl_s=3_153_600_000, at=3_153_600_000)),
    ],
)
def test_a_time_to_live_is_rounded_up(ttl_seconds: float, now: float, expected: Expiry) -> None:
    """It is counted in whole seconds from a whole second, and begins without parts."""
    assert expected == Expiry.begin(ttl_seconds, now=now)


@given(TTLS, TIMES)
def test_a_session_lives_no_shorter_than_it_was_given(ttl_seconds: float, now: float) -> None:
    """Rounding adds less than a second to the time to live, and less than one to its beginning."""
    expiry = Expiry.begin(ttl_seconds, now=now)

    assert (int, int) == (type(expiry.ttl_s), type(expiry.at))
    assert expiry.ttl_s - 1 < ttl_seconds <= expiry.ttl_s
    assert expiry.at - expiry.ttl_s - 1 < now <= expiry.at - expiry.ttl_s


@pytest.mark.parametrize(
    "ttl_seconds",
    [
        0,
        0.0,
        -0.0,
        -1,
        -0.5,
        True,
        False,
        None,
        "60",
        b"60",
        [60],
        math.nan,
        math.inf,
        -math.inf,
        MAX_TTL_S + 1,
        MAX_TTL_S + 0.5,
        pytest.param(10**5000, id="longer than Python encodes"),
    ],
)
def test_what_is_no_time_to_live_is_refused(ttl_seconds: Any) -> None:
    """The error names the argument, what it was, and what it may be."""
    with pytest.raises(InvalidInputError) as caught:
        Expiry.begin(ttl_seconds, now=1000.0)

    number = isinstance(ttl_seconds, (int, float))
    shown = "beyond that" if number and abs(ttl_seconds) > MAX_TTL_S else str(ttl_seconds)[:40]
    assert f"ttl_seconds is {shown}, it must be a number above 0 and at most 3153600000" == str(caught.value)


@given(st.integers(1, 100), TIMES, TIMES, TIMES)
def test_no_clock_takes_a_time_to_live_after_the_last_write_away(
    ttl_s: int, clock: float, written_at: float, now: float
) -> None:
    """However far behind Firestore's the clock was that the end is of."""
    expiry = Expiry.begin(ttl_s, now=clock)

    assert now < written_at + ttl_s or now < expiry.at or expiry.has_passed(now, written_at=written_at)
    assert now >= written_at + ttl_s or not expiry.has_passed(now, written_at=written_at)


@given(st.integers(1, 100), TIMES, ROUGH_STEPS)
def test_no_part_ends_before_its_session(ttl_s: int, start: float, steps: list[Step]) -> None:
    """Whenever appends come, by whichever clock, however long an upload takes: no reader finds a gap."""
    for moment in life(ttl_s, start=start, steps=steps):
        parts_at = moment.expiry.parts_at

        assert bool(moment.kept) is (parts_at is not None)
        assert moment.now + ttl_s <= moment.expiry.at
        assert parts_at is None or moment.expiry.at <= parts_at


@given(st.integers(1, 100), TIMES, STEPS)
def test_parts_are_renewed_once_in_a_time_to_live(ttl_s: int, start: float, steps: list[Step]) -> None:
    """Neither with every append, nor with every part: a time to live lies between two renewals."""
    moments = life(ttl_s, start=start, steps=steps)
    first_part = [moment.now for moment in moments if moment.kept][:1]
    renewals = [moment.now for moment in moments if moment.renewed]

    assert all(later - earlier >= ttl_s for earlier, later in pairwise([*first_part, *renewals]))

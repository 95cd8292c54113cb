"""Show when a session with a time to live ends, and that what lies beside it never ends before it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.expiry import MAX_TTL_S, Expiry

TIMES = st.floats(0, 4e9)
TTLS = st.integers(1, MAX_TTL_S) | st.floats(0, MAX_TTL_S, exclude_min=True)

# An append: after which part of the time to live it comes, and whether it writes a part.
STEPS = st.lists(st.tuples(st.floats(0, 0.999), st.booleans()), max_size=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is stored right after an append."""

    now: float
    expiry: Expiry
    kept: Sequence[int]
    """Until when each part is kept."""
    renewed: bool
    """Whether this append renewed the parts first."""


def life(ttl_s: int, *, start: float, steps: Sequence[tuple[float, bool]]) -> list[Moment]:
    """Return what *steps* make of a session, each of which comes before it ends."""
    now = start
    expiry = Expiry.begin(ttl_s, now=now)
    kept: list[int] = []
    moments = []
    for share, has_part in steps:
        now += share * ttl_s
        expiry = expiry.refreshed(now)
        if has_part:
            expiry = expiry.with_new_part(now)
        renewed = expiry.outlives_its_parts
        if renewed:
            kept = [expiry.of_new_part(now)] * len(kept)
            expiry = expiry.renewed(now)
        if has_part:
            kept = [*kept, expiry.of_new_part(now)]
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
        pytest.param(10**5000, id="longer than Python spells"),
    ],
)
def test_what_is_no_time_to_live_is_refused(ttl_seconds: Any) -> None:
    """The error names the argument, what it was, and what it may be."""
    with pytest.raises(InvalidInputError) as caught:
        Expiry.begin(ttl_seconds, now=1000.0)

    number = isinstance(ttl_seconds, (int, float))
    shown = "beyond that" if number and abs(ttl_seconds) > MAX_TTL_S else str(ttl_seconds)[:40]
    assert f"ttl_seconds is {shown}, it must be a number above 0 and at most 3153600000" == str(caught.value)


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0.0, False), (1059.0, False), (1059.999999, False), (1060.0, True), (1060.000001, True), (9e9, True)],
)
def test_a_session_ends_at_its_exact_second(now: float, expected: bool) -> None:  # noqa: FBT001
    """Until then it is there, and from then on it is not."""
    assert expected is Expiry(ttl_s=60, at=1060).has_passed(now)


@pytest.mark.parametrize(("now", "at"), [(1050.0, 1110), (1050.2, 1111), (1059.999, 1120)])
@pytest.mark.parametrize("parts_at", [None, 1120])
def test_an_append_moves_the_end_and_leaves_the_parts(now: float, at: int, parts_at: int | None) -> None:
    """It lives another time to live from then on, rounded up; nothing is said of its parts."""
    before = Expiry(ttl_s=60, at=1060, parts_at=parts_at)

    assert Expiry(ttl_s=60, at=at, parts_at=parts_at) == before.refreshed(now)
    assert Expiry(ttl_s=60, at=1060, parts_at=parts_at) == before


@pytest.mark.parametrize(("now", "until"), [(1000.0, 1120), (1000.2, 1121)])
def test_a_part_is_kept_for_two_times_to_live(now: float, until: int) -> None:
    """From when it is written, rounded up, whatever holds of earlier ones."""
    expiries = Expiry(ttl_s=60, at=1060), Expiry(ttl_s=60, at=1060, parts_at=1070)

    assert [until, until] == [expiry.of_new_part(now) for expiry in expiries]


def test_the_earliest_end_of_a_part_counts() -> None:
    """All parts are kept until the first one's end: a later one, kept for longer, changes nothing."""
    first = Expiry(ttl_s=60, at=1060).with_new_part(1000.2)

    assert Expiry(ttl_s=60, at=1060, parts_at=1121) == first
    assert first == first.with_new_part(1050.0)


@pytest.mark.parametrize(
    ("at", "parts_at", "expected"),
    [
        (1060, None, False),
        (1060, 1120, False),
        (1060, 1061, False),
        (1060, 1060, False),
        (1061, 1060, True),
        (1120, 1060, True),
    ],
)
def test_a_session_outlives_parts_that_end_before_it(
    at: int,
    parts_at: int | None,
    expected: bool,  # noqa: FBT001
) -> None:
    """Parts that end in the same second are no reason to renew them, and none never are."""
    assert expected is Expiry(ttl_s=60, at=at, parts_at=parts_at).outlives_its_parts


def test_a_renewal_keeps_parts_for_two_times_to_live() -> None:
    """From then on, as new ones; the end of the session is moved by its append alone."""
    renewed = Expiry(ttl_s=60, at=1121, parts_at=1120).renewed(1061.0)

    assert Expiry(ttl_s=60, at=1121, parts_at=1181) == renewed
    assert not renewed.outlives_its_parts


@given(st.integers(1, 100), TIMES, STEPS)
def test_no_part_ends_before_its_session(ttl_s: int, start: float, steps: list[tuple[float, bool]]) -> None:
    """Whenever its appends come, and whichever of them write a part: reading it never finds a gap."""
    for moment in life(ttl_s, start=start, steps=steps):
        parts_at = moment.expiry.parts_at

        assert bool(moment.kept) is (parts_at is not None)
        assert moment.now + ttl_s <= moment.expiry.at
        assert parts_at is None or moment.expiry.at <= parts_at <= min(moment.kept)


@given(st.integers(1, 100), TIMES, STEPS)
def test_parts_are_renewed_once_in_a_time_to_live(
    ttl_s: int, start: float, steps: list[tuple[float, bool]]
) -> None:
    """Neither with every append, nor with every part: a time to live lies between two renewals."""
    moments = life(ttl_s, start=start, steps=steps)
    first_part = [moment.now for moment in moments if moment.kept][:1]
    renewals = [moment.now for moment in moments if moment.renewed]

    assert all(later - earlier >= ttl_s for earlier, later in pairwise([*first_part, *renewals]))


@pytest.mark.parametrize(("share", "renewals"), [(0.999, 49), (0.5, 33), (0.25, 19), (0.05, 4), (0.0, 0)])
def test_the_busier_a_session_the_fewer_of_its_appends_renew(share: float, renewals: int) -> None:
    """Of a hundred with a part each, the first beyond a time to live since the renewal before does."""
    moments = life(1000, start=1e9, steps=[(share, True)] * 100)

    assert renewals == sum(moment.renewed for moment in moments)

"""Show when a session with a time to live ends, and that what lies beside it never ends before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError
from gcp_adk_store.model.session_fields import MAX_TTL_S, Expiry

TIMES = st.floats(0, 4e9)
TTLS = st.integers(1, MAX_TTL_S) | st.floats(0, MAX_TTL_S, exclude_min=True)


@given(TTLS, TIMES)
def test_a_session_lives_no_shorter_than_it_was_given(ttl_seconds: float, now: float) -> None:
    """Rounding adds less than a second to the time to live, and less than one to its beginning."""
    expiry = Expiry.begin(ttl_seconds, now=now)

    assert (int, int) == (type(expiry.ttl_s), type(expiry.at))
    assert expiry.ttl_s - 1 < ttl_seconds <= expiry.ttl_s
    assert expiry.at - expiry.ttl_s - 1 < now <= expiry.at - expiry.ttl_s


@pytest.mark.parametrize("ttl_seconds", [0, -0.5, MAX_TTL_S + 0.5])
def test_what_is_no_time_to_live_is_refused(ttl_seconds: float) -> None:
    """The error names the argument and what it may be."""
    with pytest.raises(InvalidInputError, match="must be a number above 0 and at most 3153600000"):
        Expiry.begin(ttl_seconds, now=1000.0)


@given(st.integers(1, 100), TIMES, TIMES, TIMES)
def test_no_clock_takes_a_time_to_live_after_the_last_write_away(
    ttl_s: int, clock: float, written_at: float, now: float
) -> None:
    """However far behind Firestore's the clock was that the end is of."""
    expiry = Expiry.begin(ttl_s, now=clock)

    assert now < written_at + ttl_s or now < expiry.at or expiry.has_passed(now, written_at=written_at)
    assert now >= written_at + ttl_s or not expiry.has_passed(now, written_at=written_at)


@given(st.integers(1, 100), TIMES, TIMES)
def test_a_clock_that_is_behind_ends_nothing_earlier(ttl_s: int, start: float, now: float) -> None:
    """Neither the session nor a part, which is kept for a time to live beyond it."""
    expiry = Expiry.begin(ttl_s, now=start)

    assert expiry.at <= expiry.refreshed(now).at
    assert expiry.at + ttl_s <= expiry.of_new_part(now)

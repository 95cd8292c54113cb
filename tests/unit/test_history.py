"""Show which events a point keeps where tests/property/test_points.py has none such, and what is none."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, Point, PointMissingError


def event(number: int, *, invocation: str = "turn", at: float | None = None) -> Event:
    """Return the event of a number, by default at that second."""
    return Event(
        id=f"e{number}",
        invocation_id=invocation,
        author="agent",
        timestamp=float(number) if at is None else at,
    )


EVENTS = [event(0, invocation="a"), event(1, invocation="a"), event(2, invocation="b"), event(3)]


class TestPoints:
    """A point keeps a prefix of the events."""

    def test_of_events_with_one_id_the_first_counts(self) -> None:
        """ADK does not require that ids differ."""
        assert 1 == Point.after_event("e0").kept([event(0), event(0, at=5.0)])

    @pytest.mark.parametrize(
        ("point", "message"),
        [
            (Point.position(5), "has 4 events, the point is after 5"),
            (Point.after_event("e9"), "none of the session's 4 events has the event id"),
            (Point.before_invocation("z"), "none of the session's 4 events has the invocation id"),
        ],
    )
    def test_a_point_that_a_session_lacks_is_reported(self, point: Point, message: str) -> None:
        """Never the nearest one instead."""
        with pytest.raises(PointMissingError, match=message):
            point.kept(EVENTS)

    @pytest.mark.parametrize(
        ("make", "given"),
        [
            *((Point.position, count) for count in (-1, True, 1.0, "1", None)),
            *(
                (make, id_)
                for make in (Point.after_event, Point.before_invocation)
                for id_ in (None, 5, b"e0")
            ),
            *((Point.as_of, time) for time in (datetime(2026, 1, 1), 5.0, None)),  # noqa: DTZ001  # refused
        ],
    )
    def test_what_is_no_point_is_refused(self, make: Callable[[Any], Point], given: Any) -> None:
        """A time without a zone too: it would mean another one on another machine."""
        with pytest.raises(InvalidInputError):
            make(given)

    @given(st.lists(st.floats(0, 100), max_size=6), st.integers(0, 100))
    def test_all_that_a_time_keeps_is_not_after_it(self, times: list[float], seconds: int) -> None:
        """And the prefix is the longest one."""
        events = [event(number, at=time) for number, time in enumerate(times)]
        kept = Point.as_of(datetime.fromtimestamp(seconds, UTC)).kept(events)

        assert all(time <= seconds for time in times[:kept])
        assert kept == len(times) or times[kept] > seconds

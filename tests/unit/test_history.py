"""Show which events a point keeps, what the state was there, and how texts are chained."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.adk.events import Event
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, Point, PointMissingError
from gcp_adk_store.model.appends import genesis, step

EPOCH = "00000000000040008000000000000001"


def event(number: int, *, invocation: str = "turn", at: float | None = None) -> Event:
    """Return the event of a number, by default at that second."""
    return Event(
        id=f"e{number}",
        invocation_id=invocation,
        author="agent",
        timestamp=float(number) if at is None else at,
    )


EVENTS = [event(0, invocation="a"), event(1, invocation="a"), event(2, invocation="b"), event(3)]


class TestChain:
    """A chain commits to the session, to each text and to their order."""

    def test_its_values_are_stable(self) -> None:
        """Stored heads are compared with them for ever."""
        begun = hashlib.sha256(b"gcp-adk-store/2\0" + EPOCH.encode()).digest()

        assert begun == genesis(EPOCH)
        text = hashlib.sha256('{"ü":1}'.encode()).digest()
        assert hashlib.sha256(begun + text).digest() == step(begun, '{"ü":1}')


class TestPoints:
    """A point keeps a prefix of the events."""

    @pytest.mark.parametrize(
        ("point", "kept"),
        [
            (Point.position(0), 0),
            (Point.position(4), 4),
            (Point.after_event("e0"), 1),
            (Point.after_event("e3"), 4),
            (Point.before_invocation("a"), 0),
            (Point.before_invocation("b"), 2),
            (Point.as_of(datetime.fromtimestamp(-1, UTC)), 0),
            (Point.as_of(datetime.fromtimestamp(1, UTC)), 2),
            (Point.as_of(datetime.fromtimestamp(1, timezone(timedelta(hours=5)))), 2),
            (Point.as_of(datetime.fromtimestamp(9, UTC)), 4),
        ],
    )
    def test_it_keeps_the_events_before_it(self, point: Point, kept: int) -> None:
        """By number, id, turn or time."""
        assert kept == point.kept(EVENTS)

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

    @pytest.mark.parametrize("count", [-1, True, 1.0, "1", None])
    def test_a_position_is_a_number_of_events(self, count: Any) -> None:
        """Nothing that Python holds for one."""
        with pytest.raises(InvalidInputError):
            Point.position(count)

    @pytest.mark.parametrize("id_", [None, 5, b"e0"])
    def test_an_id_is_text(self, id_: Any) -> None:
        """An event without one is not meant."""
        with pytest.raises(InvalidInputError):
            Point.after_event(id_)
        with pytest.raises(InvalidInputError):
            Point.before_invocation(id_)

    @pytest.mark.parametrize("time", [datetime(2026, 1, 1), 5.0, None])  # noqa: DTZ001  # refused
    def test_a_time_has_a_zone(self, time: Any) -> None:
        """Otherwise it would mean another one on another machine."""
        with pytest.raises(InvalidInputError, match="time zone"):
            Point.as_of(time)

    @given(st.lists(st.floats(0, 100), max_size=6), st.integers(0, 100))
    def test_all_that_a_time_keeps_is_not_after_it(self, times: list[float], seconds: int) -> None:
        """And the prefix is the longest one."""
        events = [event(number, at=time) for number, time in enumerate(times)]
        kept = Point.as_of(datetime.fromtimestamp(seconds, UTC)).kept(events)

        assert all(time <= seconds for time in times[:kept])
        assert kept == len(times) or times[kept] > seconds

"""Show which events a point keeps, what is no point, and what of a restore and its note is refused."""

import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, Point, PointMissingError, Store, StoredDataError
from gcp_adk_store.model.appends import Summary, fold, genesis
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.sessions.restore.decide import rewound
from gcp_adk_store.sessions.restore.format import Restore, pack_artifacts, read_restores, restore
from tests.support.stored import as_read
from tests.unit.test_session_decisions import stored

KEY = SessionKey(app="shop", user="u", session="s")
SESSION = "adk_apps/shop/adk_users/u/adk_sessions/s"
ID = "ab" * 16
NOTE = f"{SESSION}/adk_restores/{ID}"
LAYOUT = Store.local(":memory:").sessions.storage.layout


def made(sizes: list[int], tail: int) -> tuple[StoredSession, list[Segment]]:
    """Return a session with segments of these *sizes*."""
    texts = [f"event {number}" for number in range(sum(sizes) + tail)]
    begin = genesis("e")
    segments: list[Segment] = []
    start = 0
    for size in sizes:
        stop = start + size
        segments.append(
            Segment(
                texts=texts[start:stop],
                running_max=float(stop),
                chain_begin=fold(begin, texts[:start]),
                chain_end=fold(begin, texts[:stop]),
            )
        )
        start = stop
    session = replace(
        stored(*texts[start:], revision=len(texts), epoch="e", sealed=len(sizes)),
        key=KEY,
        sealed_max=float(start),
        chain=fold(begin, texts),
        chain_sealed=fold(begin, texts[:start]),
    )
    return session, segments


LEFT = Restore(
    epoch="e",
    restore_id=ID,
    segments=(range(1, 3),),
    artifacts=ArtifactsAt(kept={"f": 1, "ü": 0}, later={"f": 2}, until=5.5),
    restored_at=7.0,
)


def test_a_session_is_restored_as_long_as_it_has_numbers_of_segments() -> None:
    """A document with more could not be read."""
    session, segments = made([2, 2, 2], 1)

    def encode(sealed: int) -> None:
        back = replace(rewound(session, segments, 3), sealed=sealed)
        restore(LAYOUT, back, LEFT, Summary())

    encode(100_000)
    with pytest.raises(InvalidInputError, match="at most 100000 numbers of segments"):
        encode(100_001)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": 2}, "has format 2"),
        ({"restore_id": "cd" * 16}, "has a field that cannot be right: restore_id"),
        ({"restore_id": "../x"}, "has a field that cannot be right: restore_id"),
        ({"epoch": "a/b"}, "has a field that cannot be right: epoch"),
        ({"segments": 5}, "has a field of a wrong kind: segments is int"),
        ({"segments": [{"from": 0, "to": 99_999}] * 2}, "has a field that cannot be right: segments"),
        ({"segments": [{"from": 2, "to": 1}]}, "has a field that cannot be right: segments"),
        ({"artifacts": b"x"}, "artifacts of a restore are damaged"),
        ({"artifacts": zlib.compress(b"[{},{},null]" + b" " * 2**24)}, "artifacts of a restore are damaged"),
        ({"artifacts": "x"}, "has a field of a wrong kind: artifacts is str"),
        ({"artifacts": zlib.compress(b'[{"f":1e999},{},null]')}, "artifacts of a restore are damaged"),
        ({"artifacts": zlib.compress(b"[{},{},1%b]" % (b"0" * 400))}, "artifacts of a restore are damaged"),
    ],
)
def test_a_damaged_note_is_reported(fields: dict[str, Any], message: str) -> None:
    """By path and field."""
    _, note = restore(LAYOUT, rewound(*made([2, 2, 2], 1), 3), LEFT, Summary())
    with pytest.raises(StoredDataError, match=f"^{NOTE}.*{re.escape(message)}"):
        read_restores([as_read(NOTE, {**note.fields, **fields}, at=7)])


def test_too_many_artifacts_are_refused() -> None:
    """With their number, and the way out."""
    names = (hashlib.sha256(b"%d" % number).hexdigest() for number in range(60_000))
    kept = dict.fromkeys(names, 0)
    with pytest.raises(InvalidInputError, match=r"name 60000 artifacts.*restore it without them"):
        pack_artifacts(ArtifactsAt(kept=kept))


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

"""Show what becomes of an append and a turn, what a read and a point keep, and when a session ends."""

import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import (
    InvalidInputError,
    Point,
    PointMissingError,
    SessionInboxFullError,
    Store,
    StoredDataError,
)
from gcp_adk_store.model.appends import Append, Marker, Summary, fold, genesis
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import (
    MAX_TTL_S,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    Expiry,
    Turn,
    require_room,
)
from gcp_adk_store.model.sessions import AppendOutcome, Segment, StoredSession, resolve_outcome, wants_older
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.restore.decide import rewound
from gcp_adk_store.sessions.restore.format import Restore, pack_artifacts, read_restores, restore
from tests.support.stored import as_read

HEAD = bytes(range(32))
SEEN = Marker(epoch="e1", revision=4, update_time="100.000000001", chain=HEAD)
ENDING = replace(SEEN, expiry=Expiry(ttl_s=60, at=1767225600))
ENDING_WITH_PARTS = replace(SEEN, expiry=Expiry(ttl_s=60, at=1767225600, parts_at=1767312000))


def stored(*tail: str, revision: int = 5, epoch: str = "e1", sealed: int = 0) -> StoredSession:
    """Return a session document with the events of *tail*."""
    return StoredSession(
        key=SessionKey(app="a", user="u", session="s"),
        epoch=epoch,
        revision=revision,
        last_update_time=9.0,
        state={},
        tail=tail,
        sealed=sealed,
        sealed_max=9.0 if sealed else None,
        spilled=frozenset(),
        update_time="200.000000002",
        read_time=200.5,
        chain=HEAD,
    )


def at(*timestamps: float) -> list[Event]:
    """Return one event a timestamp, each with its place as id."""
    return [Event(id=str(n), author="a", timestamp=t) for n, t in enumerate(timestamps)]


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        (SEEN, f"e1/4/100.000000001#{HEAD.hex()}"),
        (ENDING, f"e1/4/100.000000001/60/1767225600/#{HEAD.hex()}"),
        (ENDING_WITH_PARTS, f"e1/4/100.000000001/60/1767225600/1767312000#{HEAD.hex()}"),
        (replace(ENDING, update_time=""), f"e1/4//60/1767225600/#{HEAD.hex()}"),
        (replace(SEEN, restores=12), f"e1/4/100.000000001#{HEAD.hex()}:12"),
        (replace(SEEN, fence=2), f"e1/4/100.000000001#{HEAD.hex()}@2"),
    ],
)
def test_a_markers_text_is_stable(marker: Marker, text: str) -> None:
    """Handles that outlive an upgrade are still understood."""
    assert (text, marker) == (str(marker), Marker.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "0",
        "7",
        "2026-10-23T00:00:00+00:00",
        "a/b",
        "e/x/1",
        "e/-1/1",
        "e//1",
        "e/1/2/3",
        "e/1.0/2",
        "a/1/zzz",
        *(f"e/1/#{chain}" for chain in ("", "a" * 63, "A" * 64, "a" * 64 + "\n")),
        # What follows a whole marker is a time to live, an end, and the end of its parts, or nothing.
        *(f"{SEEN}{end}" for end in ("/", "//", "///", "/60", "/60//", "/60//1767312000", "//1767225600/")),
        *(
            f"{SEEN}/60/{end}"
            for end in ("1767225600", "x/", "-1767225600/", "1767225600.5/", "1234567890123/")
        ),
        *(
            f"{SEEN}/60/1767225600/{end}"
            for end in ("1767312000/", "1767312000/1", "x", "None", "-1", " ", "\n")
        ),
        *(f"{SEEN}/{ttl_s}/1767225600/" for ttl_s in ("x", "-60", "60.0", "٦٠")),
    ],
)
def test_a_marker_from_elsewhere_is_none(text: str | None) -> None:
    """A session that another service loaded is treated as one that knows nothing; so is half of an end.

    Else it would be taken for a session that never ends: the next append looks at storage.
    """
    assert Marker.parse(text) is None


def test_a_handle_that_does_not_know_the_last_write_goes_by_the_end_it_knows() -> None:
    """Its next append finds out what others wrote."""
    overtaken = replace(ENDING, update_time="")

    assert not overtaken.has_expired(1767225599.0)
    assert overtaken.has_expired(1767225600.0)


@pytest.mark.parametrize(
    ("config", "have", "running_max", "expected"),
    [
        (None, 1000, 1.0, True),
        (GetSessionConfig(), 1000, 1.0, True),
        (GetSessionConfig(num_recent_events=3), 2, 1.0, True),
        (GetSessionConfig(num_recent_events=3), 3, 1.0, False),
        (GetSessionConfig(num_recent_events=3), 4, 1.0, False),
        (GetSessionConfig(num_recent_events=0), 0, 1.0, False),
        (GetSessionConfig(after_timestamp=5.0), 9, 4.9, False),
        (GetSessionConfig(after_timestamp=5.0), 9, 5.0, True),
        (GetSessionConfig(after_timestamp=5.0), 9, None, True),
        (GetSessionConfig(after_timestamp=0.0), 9, -1.0, False),
        (GetSessionConfig(num_recent_events=3, after_timestamp=5.0), 2, 6.0, True),
        (GetSessionConfig(num_recent_events=3, after_timestamp=5.0), 2, 4.0, False),
        (GetSessionConfig(num_recent_events=3, after_timestamp=5.0), 3, 6.0, False),
    ],
)
def test_a_read_goes_back_no_further_than_needed(
    config: GetSessionConfig | None,
    have: int,
    running_max: float | None,
    expected: bool,  # noqa: FBT001
) -> None:
    """Older segments are read while they can hold a wanted event, and not one longer."""
    assert expected is wants_older(config, have=have, running_max=running_max)


TIMES = st.floats(0, 4e9)
TTLS = st.integers(1, MAX_TTL_S) | st.floats(0, MAX_TTL_S, exclude_min=True)


@given(TTLS, TIMES)
def test_a_session_lives_no_shorter_than_it_was_given(ttl_seconds: float, now: float) -> None:
    """Rounding adds less than a second to the time to live, and less than one to its beginning."""
    expiry = Expiry.begin(ttl_seconds, now=now)

    assert (int, int) == (type(expiry.ttl_s), type(expiry.at))
    assert expiry.ttl_s - 1 < ttl_seconds <= expiry.ttl_s
    assert expiry.at - expiry.ttl_s - 1 < now <= expiry.at - expiry.ttl_s


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


MINE = Append(texts=["mine"], timestamp=1.0, delta=ScopedState())
STORED = replace(
    stored(revision=4),
    chain=bytes(32),
    update_time="5.000000000",
    read_time=5.0,
    turn=Turn(fence=2, holder="h", until=60.0),
)
IN_A_TURN = STORED.marker


@pytest.mark.parametrize(
    ("stored", "newest", "turn", "expected"),
    [
        pytest.param(STORED, [], ("e1", 2), AppendOutcome.RETRY, id="mine still"),
        pytest.param(STORED, [], ("e1", 1), AppendOutcome.LOST, id="nothing appended, another turn"),
        pytest.param(STORED, [], None, AppendOutcome.RETRY, id="no part of a turn"),
        pytest.param(STORED, [], ("e0", 2), AppendOutcome.LOST, id="a turn of an earlier session"),
        pytest.param(replace(STORED, turn=None), [], ("e1", 1), AppendOutcome.LOST, id="never had a turn"),
        pytest.param(
            replace(STORED, revision=5), ["b"], ("e1", 1), AppendOutcome.LOST, id="another was first"
        ),
        pytest.param(replace(STORED, revision=5), ["b"], ("e1", 2), AppendOutcome.STALE, id="from outside"),
        pytest.param(
            replace(STORED, revision=5), ["mine"], ("e1", 1), AppendOutcome.LANDED, id="landed before"
        ),
        pytest.param(
            replace(STORED, revision=6),
            ["mine", "b"],
            ("e1", 1),
            AppendOutcome.OVERTAKEN,
            id="landed, overtaken",
        ),
        pytest.param(replace(STORED, epoch="e2"), [], ("e1", 2), AppendOutcome.MISSING, id="made anew"),
        pytest.param(None, [], ("e1", 2), AppendOutcome.MISSING, id="deleted"),
    ],
)
def test_an_append_of_a_turn_requires_the_fence_unless_it_landed_before(
    stored: StoredSession | None, newest: list[str], turn: tuple[str, int] | None, expected: AppendOutcome
) -> None:
    """Whatever became of the revision."""
    assert expected is resolve_outcome(MINE, marker=IN_A_TURN, stored=stored, newest=newest, turn=turn)


def test_what_waits_is_bounded_in_number_and_bytes() -> None:
    """One message over the limit can never wait; one too many can later."""
    require_room(["x"] * (MAX_WAITING - 1), "y")
    require_room([], "y" * MAX_WAITING_BYTES)
    with pytest.raises(SessionInboxFullError, match="100 messages"):
        require_room(["x"] * MAX_WAITING, "y")
    with pytest.raises(SessionInboxFullError, match="bytes"):
        require_room(["x"], "y" * MAX_WAITING_BYTES)
    with pytest.raises(InvalidInputError, match="at most 262144"):
        require_room([], "y" * (MAX_WAITING_BYTES + 1))


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

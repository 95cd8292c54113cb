"""Show what becomes of an append, and which events a read returns."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import (
    Append,
    Marker,
    Segment,
    Settlement,
    StoredSession,
    events_to_settle,
    may_be_held,
    select_events,
    settle,
    wants_all_events,
    wants_events,
    wants_older,
)
from gcp_adk_store.model.state import ScopedState

APPEND = Append(text="mine", timestamp=9.0, delta=ScopedState())
SEEN = Marker(epoch="e1", revision=4, update_time="100.000000001")
SEALED = Segment(texts=["a", "b", "mine"], running_max=9.0)


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
    )


def at(*timestamps: float) -> list[Event]:
    """Return one event a timestamp, each with its place as id."""
    return [Event(id=str(n), author="a", timestamp=t) for n, t in enumerate(timestamps)]


def test_a_marker_says_what_its_document_was() -> None:
    """A handle remembers epoch, revision and update time of the document it saw."""
    assert Marker(epoch="e1", revision=5, update_time="200.000000002") == stored().marker


@pytest.mark.parametrize("marker", [SEEN, replace(SEEN, update_time="", revision=0)])
def test_a_marker_survives_being_carried_as_text(marker: Marker) -> None:
    """ADK's opaque string gives back the same marker."""
    assert marker == Marker.parse(str(marker))


def test_a_markers_text_is_stable() -> None:
    """Handles that outlive an upgrade are still understood."""
    assert "e1/4/100.000000001" == str(SEEN)


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
    ],
)
def test_a_marker_from_elsewhere_is_none(text: str | None) -> None:
    """A session that another service loaded is treated as one that knows nothing."""
    assert Marker.parse(text) is None


def test_a_marker_moves_with_each_write() -> None:
    """An append counts up, another write only moves the time, and the old marker stays."""
    moved = SEEN.advanced("7.0", None), SEEN.at("8.0"), SEEN

    assert (
        Marker(epoch="e1", revision=5, update_time="7.0"),
        Marker(epoch="e1", revision=4, update_time="8.0"),
        Marker(epoch="e1", revision=4, update_time="100.000000001"),
    ) == moved


@pytest.mark.parametrize(
    ("marker", "now", "sealed", "expected"),
    [
        pytest.param(SEEN, None, None, Settlement.MISSING, id="deleted"),
        pytest.param(None, None, None, Settlement.MISSING, id="deleted, no marker"),
        pytest.param(SEEN, stored("mine", epoch="e2"), None, Settlement.MISSING, id="made anew"),
        pytest.param(
            SEEN, stored(revision=4, epoch="e2"), None, Settlement.MISSING, id="made anew, same revision"
        ),
        pytest.param(SEEN, stored("a", revision=4), None, Settlement.RETRY, id="touched, nothing appended"),
        pytest.param(
            SEEN, stored(revision=4, sealed=1), Segment(texts=["a"], running_max=1.0), Settlement.RETRY
        ),
        pytest.param(SEEN, stored("a", "mine"), None, Settlement.LANDED, id="answer lost"),
        pytest.param(SEEN, stored(sealed=1), SEALED, Settlement.LANDED, id="answer lost, then sealed"),
        pytest.param(
            SEEN, stored("mine", "b", revision=6), None, Settlement.OVERTAKEN, id="answer lost, overtaken"
        ),
        pytest.param(
            SEEN, stored("c", revision=6, sealed=1), SEALED, Settlement.OVERTAKEN, id="sealed, then overtaken"
        ),
        pytest.param(SEEN, stored("a", "b"), None, Settlement.STALE, id="another was first"),
        pytest.param(
            SEEN, stored("b", "mine", revision=6), None, Settlement.OVERTAKEN, id="equal, but after another's"
        ),
        pytest.param(
            SEEN,
            stored("c", sealed=1),
            Segment(texts=["a", "b"], running_max=1.0),
            Settlement.STALE,
            id="another was first and sealed",
        ),
        pytest.param(SEEN, stored(revision=6), None, Settlement.STALE, id="nothing to compare with"),
        pytest.param(None, stored("a", "mine"), None, Settlement.LANDED, id="no marker, landed"),
        pytest.param(None, stored("mine", "b"), None, Settlement.OVERTAKEN, id="no marker, overtaken"),
        pytest.param(None, stored("a", "b"), None, Settlement.RETRY, id="no marker, not there"),
        pytest.param(None, stored(revision=0), None, Settlement.RETRY, id="no marker, empty session"),
    ],
)
def test_an_append_is_settled_from_what_is_stored(
    marker: Marker | None, now: StoredSession | None, sealed: Segment | None, expected: Settlement
) -> None:
    """One look at the document tells whether the event is there, may be sent again, or came too late."""
    newest = [*(sealed.texts if sealed else ()), *(now.tail if now else ())]

    assert expected is settle(APPEND, marker=marker, stored=now, newest=newest)


@pytest.mark.parametrize(("marker", "expected"), [(SEEN, 3), (None, 7)])
def test_settling_looks_as_far_back_as_the_append_can_lie(marker: Marker | None, expected: int) -> None:
    """What was appended since the marker; without one, everything."""
    assert expected == events_to_settle(marker, stored(revision=7))


EVENT = Event(id="1", author="a", timestamp=1.0)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([], False),
        ([EVENT.model_copy(deep=True)], True),
        ([EVENT.model_copy(deep=True), Event(id="2", author="a", timestamp=1.0)], True),
        ([Event(id="2", author="a", timestamp=1.0)], False),
        ([Event(id="1", author="a", timestamp=2.0)], True),
        ([EVENT.model_copy(deep=True), Event(id="1", author="b", timestamp=1.0)], True),
    ],
)
def test_only_an_event_of_a_known_id_can_be_a_redelivery(known: Sequence[Event], expected: bool) -> None:  # noqa: FBT001
    """Storage is asked for those alone; whether they are equal, it tells."""
    assert expected is may_be_held(EVENT, known)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, True),
        (GetSessionConfig(), True),
        (GetSessionConfig(num_recent_events=9), False),
        (GetSessionConfig(after_timestamp=0.0), False),
    ],
)
def test_a_read_of_all_events_is_recognised(config: GetSessionConfig | None, expected: bool) -> None:  # noqa: FBT001
    """It takes all segments at once instead of looking back step by step."""
    assert expected is wants_all_events(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, True),
        (GetSessionConfig(), True),
        (GetSessionConfig(num_recent_events=0), False),
        (GetSessionConfig(num_recent_events=0, after_timestamp=1.0), False),
        (GetSessionConfig(num_recent_events=1), True),
        (GetSessionConfig(after_timestamp=1.0), True),
    ],
)
def test_a_read_of_no_events_is_recognised(config: GetSessionConfig | None, expected: bool) -> None:  # noqa: FBT001
    """Only zero recent events means none; no limit means all."""
    assert expected is wants_events(config)


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


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, "01234"),
        (GetSessionConfig(), "01234"),
        (GetSessionConfig(num_recent_events=0), ""),
        (GetSessionConfig(num_recent_events=1), "4"),
        (GetSessionConfig(num_recent_events=3), "234"),
        (GetSessionConfig(num_recent_events=5), "01234"),
        (GetSessionConfig(num_recent_events=99), "01234"),
        (GetSessionConfig(after_timestamp=3.0), "134"),
        (GetSessionConfig(after_timestamp=3.1), "14"),
        (GetSessionConfig(after_timestamp=0.0), "01234"),
        (GetSessionConfig(after_timestamp=99.0), ""),
        (GetSessionConfig(after_timestamp=3.0, num_recent_events=2), "34"),
        (GetSessionConfig(after_timestamp=4.0, num_recent_events=4), "14"),
        (GetSessionConfig(after_timestamp=3.0, num_recent_events=0), ""),
    ],
)
def test_a_read_returns_what_was_asked_for_in_append_order(
    config: GetSessionConfig | None, expected: str
) -> None:
    """Timestamps choose event by event, then the last ones count; order is that of appending."""
    events = at(1.0, 5.0, 2.0, 3.0, 4.0)
    chosen = select_events(events, config)

    assert expected == "".join(event.id for event in chosen)


def test_a_read_leaves_the_events_it_chose_from_alone() -> None:
    """The caller's list is never the one that was searched."""
    events = at(1.0, 2.0)
    select_events(events, None).clear()

    assert ["0", "1"] == [event.id for event in events]

"""Show how Firestore's time is known from what answers tell."""

from collections.abc import Iterator

import pytest
from google.adk.platform import time as platform_time
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.cloud.firestore.documents import ServerClock

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    """Let this machine's clock stand still."""
    platform_time.set_time_provider(lambda: NOW)
    yield
    platform_time.reset_time_provider()


def told(seconds: float) -> Timestamp:
    """Return a time as an answer tells it."""
    stamp = Timestamp()
    stamp.FromNanoseconds(round(seconds * 1e6) * 1000)
    return stamp


def test_before_the_first_answer_there_is_this_machines_time() -> None:
    """And the clock says so."""
    clock = ServerClock()

    assert (False, NOW) == (clock.is_set, clock.now())


@pytest.mark.parametrize(
    ("asked_s_ago", "server_ahead_s", "corrected_s"),
    [
        (0.5, -0.25, 0.0),
        (0.5, 0.0, 0.0),
        (30.0, -15.0, 0.0),
        (0.5, 600.0, 600.0),
        (0.5, -600.0, -599.5),
        (0.0, 0.25, 0.25),
    ],
    ids=["within", "just now", "a slow answer", "behind", "ahead", "a little behind"],
)
def test_a_clock_is_corrected_where_an_answer_proves_it_wrong(
    asked_s_ago: float, server_ahead_s: float, corrected_s: float
) -> None:
    """Only then, and to within the time that the request took."""
    clock = ServerClock()
    read = clock.learn(told(NOW + server_ahead_s), asked_at=NOW - asked_s_ago)

    assert NOW + server_ahead_s == read
    assert (True, NOW + corrected_s) == (clock.is_set, clock.now())


def test_a_machine_whose_clock_is_put_right_is_believed_again() -> None:
    """The next answer shows it, to within the time that its request took."""
    clock = ServerClock()
    clock.learn(told(NOW + 600), asked_at=NOW - 1)
    clock.learn(told(NOW - 0.5), asked_at=NOW - 1)

    assert 0.5 == clock.now() - NOW


@given(st.floats(-1e9, 1e9), st.lists(st.tuples(st.floats(0, 60), st.floats(0, 1)), min_size=1))
def test_the_error_is_never_more_than_the_last_request_took(
    ahead_s: float, requests: list[tuple[float, float]]
) -> None:
    """However wrong this machine's clock is, and whenever in its request an answer was made."""
    platform_time.set_time_provider(lambda: NOW)
    clock = ServerClock()
    for took_s, share in requests:
        clock.learn(told(NOW + ahead_s - took_s * (1 - share)), asked_at=NOW - took_s)

    assert abs(clock.now() - (NOW + ahead_s)) <= requests[-1][0] + 1e-3

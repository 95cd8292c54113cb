"""Let time pass for a test: for ADK, for services, and in Firestore's answers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

DAY_S = 24 * 3600

_passed_s = [0.0]


class Clock:
    """A time that stands still until a test lets it pass."""

    def __init__(self) -> None:
        # Far away: by the times of its documents, which are the emulator's, no session lives that long.
        self.now = 4_000_000_000.0

    def after(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def firestores_time(_project: str) -> float:
    """Return what the answers that pass a test's proxy carry."""
    return time.time() + _passed_s[-1]


@contextmanager
def in_days(days: float) -> Iterator[None]:
    """Let so many days pass, for the running task and for what talks to Firestore through a test's proxy."""
    from google.adk.platform import time as platform_time  # noqa: PLC0415  # where ADK is used

    _passed_s.append(days * DAY_S)
    platform_time.set_time_provider(lambda: time.time() + days * DAY_S)
    try:
        yield
    finally:
        platform_time.reset_time_provider()
        _passed_s.pop()


class PassingTime:
    """The clock of the library and of event loops: that of the machine, and what a test lets pass besides.

    A pause of the library before it tries again passes at once, so many attempts reach their deadline in no
    time, however short or long it is.
    """

    def __init__(self) -> None:
        self._passed_s = 0.0
        self._paused_s = 0.0

    def after(self, seconds: float) -> None:
        """Let time pass; an event loop that waits in another thread notices when it next wakes."""
        self._passed_s += seconds

    def for_library(self, seconds: float) -> None:
        """Let time pass for the library, and for no timer of an event loop."""
        self._paused_s += seconds

    def of_loops(self) -> float:
        """Return what event loops go by."""
        return time.monotonic() + self._passed_s

    def of_library(self) -> float:
        """Return what the library goes by: its pauses have passed, too."""
        return self.of_loops() + self._paused_s

    def pause(self, shortest_s: float, longest_s: float, /) -> float:
        """Let the longest pause pass, and return the shortest."""
        self.for_library(longest_s)
        return shortest_s

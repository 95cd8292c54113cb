"""Fail a test that would compute for ever."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

HANGS_S: Final = 60.0
"""Seconds of the process's own time: what else the machine does takes none of it."""


@contextmanager
def ends() -> Iterator[None]:
    """Interrupt a block that computes for longer than a minute; the work of a test takes a second of it."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"this computed for {HANGS_S:.0f} s")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

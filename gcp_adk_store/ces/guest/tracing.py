"""Note which lines of a file of user code run."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class RanLines:
    """The lines of one file that have run, as Python's tracing tells them.

    Tracing makes code slower. A debugger, or code that calls ``sys.settrace``, ends it.
    """

    def __init__(self, filename: str) -> None:
        """Prepare to note lines of the code that was compiled as *filename*."""
        self.filename = filename
        self.numbers: set[int] = set()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the lines that this thread, and threads that it starts, run in a block."""
        before, of_threads = sys.gettrace(), threading.gettrace()
        self.begin()
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(of_threads)

    def begin(self) -> None:
        """Note the lines that this thread, and threads that it starts, run from now on."""
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._note if frame.f_code.co_filename == self.filename else None

    def _note(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.numbers.add(frame.f_lineno)
        return self._note

"""Hand on what code prints, up to a limit."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CUT = "\n[output was cut here]\n"

Show = Callable[[str], object]
"""Takes a piece of what is printed, at once and in order."""


class Capture(io.TextIOBase):
    """A text stream whose beginning is shown as it is written.

    Nothing waits here: code that is killed has shown what it printed.
    """

    def __init__(self, show: Show, max_chars: int) -> None:
        super().__init__()
        self._show = show
        self._left = max_chars
        self._is_cut = False

    def writable(self) -> bool:
        """Return whether it can be written to: it can."""
        return True

    def write(self, text: str, /) -> int:
        """Show *text* up to the limit; at the limit, show once that the output is cut.

        Raises:
            TypeError: *text* is not text.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        kept = text[: self._left]
        if kept:
            self._left -= len(kept)
            self._show(str.__str__(kept))
        if len(kept) < len(text) and not self._is_cut:
            self._is_cut = True
            self._show(_CUT)
        return len(text)


@contextmanager
def standard_streams(stream: Any) -> Iterator[None]:
    """Let *stream* be stdout and stderr, and stdin be empty."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), stream, stream
    try:
        yield
    finally:
        if sys.stdout is stream:  # a host that gave the code up may have taken its streams back
            sys.stdin, sys.stdout, sys.stderr = before

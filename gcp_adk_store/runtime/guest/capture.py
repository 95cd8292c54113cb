"""Keep what code prints, up to a limit."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_CUT = "\n[output was cut here]\n"


class Capture(io.TextIOBase):
    """A text stream that keeps its beginning."""

    def __init__(self, max_chars: int) -> None:
        super().__init__()
        self._left = max_chars
        self._pieces: list[str] = []
        self._is_cut = False

    def writable(self) -> bool:
        """Return whether it can be written to: it can."""
        return True

    def write(self, text: str, /) -> int:
        """Keep what there is room for of *text*.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        kept = text[: self._left]
        if kept:
            self._pieces.append(str.__str__(kept))
            self._left -= len(kept)
        self._is_cut = self._is_cut or len(kept) < len(text)
        return len(text)

    @property
    def text(self) -> str:
        """What was written, and whether there was more."""
        return "".join(self._pieces) + (_CUT if self._is_cut else "")


@contextmanager
def standard_streams(stream: Any) -> Iterator[None]:
    """Let *stream* be stdout and stderr, and stdin be empty."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), stream, stream
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before

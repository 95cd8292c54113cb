"""Exchange frames with the host: JSON after four bytes of length."""

import json
import os
import threading
from collections.abc import Callable
from typing import Any, Final

_HEADER_BYTES: Final = 4
_READ_BYTES: Final = 256 * 1024
_SHOWN_CHARACTERS: Final = 4000

Entry = Callable[
    [dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]], Callable[[str], None]], dict[str, Any]
]
"""Given a request, a function that calls the host, and one that shows text, returns the result."""


class FrameTooLargeError(Exception):
    """A frame has more bytes than the host accepts."""


class HostGoneError(BaseException):
    """The host closed the conversation; this process cannot go on."""


class Conversation:
    """The frames of one call; threads may call the host at a time."""

    def __init__(self, frames: int, *, frame_bytes: int) -> None:
        self._frames = frames
        self._frame_bytes = frame_bytes
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._guard = threading.Lock()
        self._last_id = 0
        self._answers: dict[int, dict[str, Any]] = {}

    def request(self) -> dict[str, Any]:
        """Wait for what is to be run."""
        found: dict[str, Any] = self._read()["request"]
        return found

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Ask the host, and wait for its answer.

        Raises:
            FrameTooLargeError: nothing was sent.
            TypeError: *call* is not JSON; nothing was sent.
            ValueError: a number is infinite or not a number; nothing was sent.
        """
        with self._guard:
            self._last_id += 1
            mine = self._last_id
        self._write({"kind": "call", "id": mine, "call": call})
        while True:
            # The thread that reads keeps the answers to the other threads, which look for them in turn.
            with self._reading:
                if mine in self._answers:
                    return self._answers.pop(mine)
                answer = self._read()
                self._answers[answer["id"]] = answer["answer"]

    def finish(self, result: dict[str, Any]) -> None:
        """Send the result.

        Raises:
            FrameTooLargeError: nothing was sent.
            TypeError: *result* is not JSON; nothing was sent.
            ValueError: a number is infinite or not a number; nothing was sent.
        """
        self._write({"kind": "result", "result": result})

    def fail(self, reason: str, message: str) -> None:
        """Send the reason of the failure: ``memory``, ``output`` or ``error``."""
        shown = message[-_SHOWN_CHARACTERS:].encode(errors="replace").decode()
        self._write({"kind": "failed", "reason": reason, "message": shown})

    def _write(self, frame: dict[str, Any]) -> None:
        text = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if len(text) > self._frame_bytes:
            raise FrameTooLargeError(
                f"{len(text)} bytes are more than the {self._frame_bytes} of sent_frame_bytes"
            )
        rest = memoryview(len(text).to_bytes(_HEADER_BYTES, "big") + text)
        with self._writing:
            while rest:
                rest = rest[os.write(self._frames, rest) :]

    def _read(self) -> dict[str, Any]:
        size = int.from_bytes(self._exactly(_HEADER_BYTES), "big")
        frame: dict[str, Any] = json.loads(self._exactly(size))
        return frame

    def _exactly(self, size: int) -> bytes:
        pieces = []
        while size:
            piece = os.read(self._frames, min(size, _READ_BYTES))
            if not piece:
                raise HostGoneError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

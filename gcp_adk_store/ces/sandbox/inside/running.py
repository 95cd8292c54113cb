"""Run one call's code in this process, which ends with it, and exchange frames with the host."""

import contextlib
import importlib
import json
import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TextIO

_HEADER_BYTES: Final = 4
_SHOWN_CHARACTERS: Final = 4000
_OUTPUT: Final = 1

Entry = Callable[
    [dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]], Callable[[str], None]], dict[str, Any]
]
"""Given a request, a function that calls the host, and one that shows text, returns the result."""


class FrameTooLargeError(Exception):
    """A frame has more bytes than the host accepts."""


class HostGoneError(BaseException):
    """The host closed the conversation; this process cannot go on."""


class Conversation:
    """The frames of one call; threads call the host one after the other."""

    def __init__(self, frames: int, *, frame_bytes: int) -> None:
        self._frames = frames
        self._incoming = os.fdopen(frames, "rb", closefd=False)
        self._frame_bytes = frame_bytes
        self._turn = threading.Lock()
        self._unanswered = 0

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
        with self._turn:
            self._write({"call": call})
            self._unanswered += 1
            while True:
                answer: dict[str, Any] = self._read()["answer"]
                self._unanswered -= 1
                if not self._unanswered:  # else it is that of a call whose wait ended early, as by a signal
                    return answer

    def finish(self, result: dict[str, Any]) -> None:
        """Send the result; raises as :meth:`call`."""
        self._write({"result": result})

    def fail(self, reason: str, message: str) -> None:
        """Send the reason of the failure: ``memory``, ``output`` or ``error``."""
        shown = message[-_SHOWN_CHARACTERS:].encode(errors="replace").decode()
        self._write({"failed": reason, "message": shown})

    def _write(self, frame: dict[str, Any]) -> None:
        text = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if len(text) > self._frame_bytes:
            says = f"{len(text)} bytes are more than the {self._frame_bytes} of sent_frame_bytes"
            raise FrameTooLargeError(says)
        rest = memoryview(len(text).to_bytes(_HEADER_BYTES, "big") + text)
        while rest:
            rest = rest[os.write(self._frames, rest) :]

    def _read(self) -> dict[str, Any]:
        size = int.from_bytes(self._exactly(_HEADER_BYTES), "big")
        frame: dict[str, Any] = json.loads(self._exactly(size))
        return frame

    def _exactly(self, size: int) -> bytes:
        read = self._incoming.read(size)
        if len(read) < size:
            raise HostGoneError
        return read


def load(entry: str) -> Entry:
    """Return what ``package.module:function`` names."""
    module, _, name = entry.partition(":")
    found: Entry = getattr(importlib.import_module(module), name)
    return found


def limit(limits: Mapping[str, Any]) -> None:
    """Set the limits of this process, so that it cannot raise them again."""
    for name, most in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, limits["threads"]),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, limits["threads"]),
    ):
        _, hard = resource.getrlimit(name)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (least, least))


def forget() -> None:
    """Drop what a call could learn from, or share with, the process that it was forked from."""
    os.environ.clear()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:  # Python's own generator seeds itself after a fork
        numpy_random.seed()


def run(entry: Entry, frames: int, limits: Mapping[str, Any]) -> NoReturn:
    """Answer one request of the host over the descriptor *frames*, and end this process."""
    conversation = Conversation(frames, frame_bytes=limits["sent_frame_bytes"])
    outlets = _open_outlets()
    try:
        answer(entry, conversation, show, outlets)
    finally:
        os._exit(0)


def show(text: str) -> None:
    """Write *text* to standard output, all of it at once: what was shown is not lost with the process."""
    rest = memoryview(text.encode("utf-8", "backslashreplace"))
    while rest:
        rest = rest[os.write(_OUTPUT, rest) :]


def _open_outlets() -> tuple[TextIO, TextIO]:
    """Return new standard streams; those of the zygote took its own for a file."""
    # By lines: killed, a process must have sent what it printed.
    sys.stdout = sys.__stdout__ = open(1, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    return sys.stdout, sys.stderr


def answer(
    entry: Entry, conversation: Conversation, show: Callable[[str], None], outlets: tuple[TextIO, ...] = ()
) -> None:
    """Send what comes of one request: the result of *entry*, or why it has none."""
    try:
        result = entry(conversation.request(), conversation.call, show)
        _flush(outlets)
        conversation.finish(result)
    except MemoryError:
        reason, message = "memory", "MemoryError"
    except FrameTooLargeError as exc:
        reason, message = "output", str(exc)
    except BaseException:  # noqa: BLE001  # every exception ends the call, SystemExit too
        reason, message = "error", traceback.format_exc()
    else:
        return
    _flush(outlets)
    conversation.fail(reason, message)


def _flush(outlets: tuple[TextIO, ...]) -> None:
    for outlet in outlets:
        with contextlib.suppress(OSError, ValueError):  # closed by the code, or not read any more
            outlet.flush()

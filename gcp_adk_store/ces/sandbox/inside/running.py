"""Run one call's code in this process, which ends with it."""

import contextlib
import importlib
import os
import resource
import sys
import traceback
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TextIO

from .conversation import Conversation, Entry, FrameTooLargeError

_OUTPUT: Final = 1


def load(entry: str) -> Entry:
    """Return what ``package.module:function`` names."""
    module, _, name = entry.partition(":")
    found: Entry = getattr(importlib.import_module(module), name)
    return found


def warm_up(entry: str) -> None:
    """Call ``warm_up()`` of the entry's module, if it has one, before any process is forked."""
    warm = getattr(sys.modules[entry.partition(":")[0]], "warm_up", None)
    if warm is not None:
        warm()


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
        _answer(entry, conversation, outlets)
    finally:
        os._exit(0)


def show(text: str) -> None:
    """Write *text* to standard output, all of it at once: what was shown is not lost with the process."""
    rest = memoryview(text.encode("utf-8", "backslashreplace"))
    while rest:
        rest = rest[os.write(_OUTPUT, rest) :]


def _open_outlets() -> tuple[TextIO, TextIO]:
    """Return new standard streams; those of the zygote took its own for a file."""
    # By lines: killed, a process must have told what it printed.
    sys.stdout = sys.__stdout__ = open(1, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    return sys.stdout, sys.stderr


def _answer(entry: Entry, conversation: Conversation, outlets: tuple[TextIO, ...]) -> None:
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

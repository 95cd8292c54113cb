"""Run user code in this process, for breakpoints: it can do all that this process can."""

import contextlib
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from gcp_adk_store.ces.sandbox.frames import encoded
from gcp_adk_store.ces.sandbox.inside import running
from gcp_adk_store.ces.sandbox.interface import GUEST, Answer, Clock, Limits, SandboxCrashError, reported
from gcp_adk_store.ces.sandbox.supervision import Conversation


class UnsafeSandboxWarning(UserWarning):
    """User code runs without any protection."""


class InProcessSandbox:
    """Runs code in a thread of this process, without isolation, so that breakpoints work.

    Only the wall time and the frames are limited, and a thread that exceeds the time goes on. Output that
    the entry prints, and does not show, goes to the streams of this process.
    """

    runs_at_once = None
    """Nothing limits the threads; but their code shares the modules and streams of this process."""

    def __init__(self, *, entry: str = GUEST) -> None:
        """Prepare it, with an ``UnsafeSandboxWarning``."""
        warnings.warn(
            "user code runs in this process, with all of its rights and credentials: only for debugging",
            UnsafeSandboxWarning,
            stacklevel=2,
        )
        self._entry = entry

    async def run(
        self,
        request: Mapping[str, Any],
        answer: Answer,
        *,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        on_output: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> dict[str, Any]:
        """Run the entry once, in a thread; see ``Sandbox.run``."""
        first = await encoded("request", request, limits)
        shown: list[str] = []
        is_over = threading.Event()

        def show(text: str) -> None:
            if is_over.is_set():
                raise running.HostGoneError
            shown.append(text)

        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        work = partial(_work, self._entry, theirs, show, limits.sent_frame_bytes)
        late = f"the code took longer than the {limits.wall_s:g} s of wall_s, and goes on in its thread"
        with reported(lambda: "".join(shown), on_output), _shared_streams(), ours:
            threading.Thread(target=work, name="gcp-adk-store-unsafe", daemon=True).start()
            try:
                async with (clock or Clock()).limit(limits.wall_s, late):
                    result = await Conversation(ours, answer, limits).run(first)
            finally:
                is_over.set()  # from now on its thread takes no streams
            if result is None:
                raise SandboxCrashError("the code closed its connection to the host")
            return result

    async def close(self) -> None:
        """Do nothing; the sandbox owns no process."""


_lock = threading.Lock()
_running = 0
_before: Any = None
"""The standard streams before the first of the runs that overlap now."""


@contextlib.contextmanager
def _shared_streams() -> Iterator[None]:
    """Restore the standard streams of this process at the end of the block, whose run replaces them.

    Runs that overlap may end in any order: the last one to end restores what was there before the first.
    """
    global _running, _before  # noqa: PLW0603  # as the streams are of the process
    found = sys.stdin, sys.stdout, sys.stderr
    with _lock:
        _before = _before if _running else found
        _running += 1
    try:
        yield
    except BaseException:
        sys.stdin, sys.stdout, sys.stderr = found  # its thread may go on, and still have them
        raise
    finally:
        with _lock:
            _running -= 1
            if not _running:
                sys.stdin, sys.stdout, sys.stderr = _before


def _work(entry: str, frames: socket.socket, show: Callable[[str], None], frame_bytes: int) -> None:
    """Answer the host in this thread; a host that is gone, or gave the run up, hears nothing."""
    with frames, contextlib.suppress(OSError, running.HostGoneError):
        conversation = running.Conversation(frames.fileno(), frame_bytes=frame_bytes)
        running.answer(running.load(entry), conversation, show)

"""Run user code in this process, for breakpoints: it can do all that this process can."""

import contextlib
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gcp_adk_store.ces.sandbox.frames import encoded
from gcp_adk_store.ces.sandbox.inside import running
from gcp_adk_store.ces.sandbox.interface import (
    GUEST,
    Answer,
    Clock,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxTimeoutError,
)
from gcp_adk_store.ces.sandbox.supervision import Conversation, result_of
from gcp_adk_store.ces.sandbox.zygotes import Channel


class UnsafeSandboxWarning(UserWarning):
    """User code runs without any protection."""


class InProcessSandbox:
    """Runs code in a thread of this process, without isolation, so that breakpoints work.

    Only the wall time and the frames are limited, and a thread that exceeds the time goes on. Output that
    the entry prints, and does not show, goes to the streams of this process.
    """

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
        first = await encoded("request", {"request": request}, limits)
        streams = sys.stdin, sys.stdout, sys.stderr
        shown: list[str] = []
        ours, theirs = socket.socketpair()
        work = partial(_work, self._entry, theirs, shown.append, limits.sent_frame_bytes)
        threading.Thread(target=work, name="gcp-adk-store-unsafe", daemon=True).start()
        try:
            with Channel(ours.detach()) as frames:
                async with (clock or Clock()).limit(limits.wall_s) as timeout:
                    verdict = await Conversation(frames, answer, limits).run(first)
            return result_of(verdict or SandboxCrashError("the code closed its connection to the host"))
        except TimeoutError as exc:
            if not timeout.expired():
                raise
            sys.stdin, sys.stdout, sys.stderr = streams  # the thread still has them
            says = f"the code took longer than the {limits.wall_s:g} s of wall_s, and goes on in its thread"
            raise _with(SandboxTimeoutError(says), shown) from exc
        except SandboxError as exc:
            raise _with(exc, shown) from None
        finally:
            if on_output is not None:
                on_output("".join(shown))

    async def close(self) -> None:
        """Do nothing; the sandbox owns no process."""

    @property
    def runs_at_once(self) -> None:
        """None: nothing limits the threads; but their code shares the modules and streams of this process."""


def _work(entry: str, frames: socket.socket, show: Callable[[str], None], frame_bytes: int) -> None:
    """Answer the host in this thread; a host that is gone, or gave the run up, hears nothing."""
    with frames, contextlib.suppress(OSError, running.HostGoneError):
        conversation = running.Conversation(frames.fileno(), frame_bytes=frame_bytes)
        running.answer(running.load(entry), conversation, show)


def _with(error: SandboxError, shown: list[str]) -> SandboxError:
    error.output = error.output or "".join(shown)
    return error

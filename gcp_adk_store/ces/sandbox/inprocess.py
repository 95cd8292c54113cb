"""Run user code in this very process, for breakpoints: it can do all that this process can."""

import asyncio
import contextlib
import json
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from gcp_adk_store.ces.sandbox.frames import HEADER_BYTES, spelled
from gcp_adk_store.ces.sandbox.inside.running import load
from gcp_adk_store.ces.sandbox.interface import (
    GUEST,
    Answer,
    Clock,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxTimeoutError,
)


class UnsafeSandboxWarning(UserWarning):
    """User code runs without any protection."""


class InProcessSandbox:
    """Runs code in a thread of this process, without isolation, so that breakpoints work.

    Only the wall time is limited, and a thread that exceeds it goes on. Output that the entry prints, and
    does not show, goes to the streams of this process.
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
        run = _Run(answer, limits)
        copy = _copied("request", request, limits)
        work = threading.Thread(
            target=run.work, args=(self._entry, copy), name="gcp-adk-store-unsafe", daemon=True
        )
        work.start()
        try:
            return await run.result(clock or Clock())
        except SandboxError as exc:
            exc.output = exc.output or run.output
            raise
        finally:
            if on_output is not None:
                on_output(run.output)

    async def close(self) -> None:
        """Do nothing; the sandbox owns no process."""

    @property
    def runs_at_once(self) -> None:
        """None: nothing limits the threads; but their code shares the modules and streams of this process."""


class _Run:
    """One run, between its thread and the event loop that waits for it."""

    def __init__(self, answer: Answer, limits: Limits) -> None:
        self._answer = answer
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._shown: list[str] = []
        self._streams = sys.stdin, sys.stdout, sys.stderr

    @property
    def output(self) -> str:
        """What was shown until now."""
        return "".join(self._shown)

    async def result(self, clock: Clock) -> dict[str, Any]:
        """Wait for the entry's result, so long as it may take."""
        longest_s = self._limits.wall_s
        try:
            async with clock.limit(longest_s) as timeout:
                return await self._ended
        except TimeoutError as exc:
            if not timeout.expired():
                raise
            sys.stdin, sys.stdout, sys.stderr = self._streams  # the thread still has them
            raise SandboxTimeoutError(
                f"the code took longer than the {longest_s:g} s of wall_s, and goes on in its thread"
            ) from exc

    def work(self, entry: str, request: dict[str, Any]) -> None:
        """Run the entry in this thread."""
        try:
            result = _copied(
                "result", load(entry)(request, self._call_host, self._shown.append), self._limits
            )
        except MemoryError as exc:
            self._tell(self._fail, SandboxMemoryError(f"{exc!r}"))
        except BaseException:  # noqa: BLE001  # every exception ends the run, SystemExit too
            self._tell(self._fail, SandboxCrashError(f"the entry failed:\n{traceback.format_exc()}"))
        else:
            self._tell(self._finish, result)

    def _tell(self, settle: Callable[[Any], None], outcome: object) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed; no task waits
            self._loop.call_soon_threadsafe(settle, outcome)

    def _finish(self, result: dict[str, Any]) -> None:
        if not self._ended.done():
            self._ended.set_result(result)

    def _fail(self, failure: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_exception(failure)

    def _call_host(self, call: dict[str, Any]) -> dict[str, Any]:
        asked = self._respond(_copied("call", call, self._limits))
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    async def _respond(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            return _copied("answer", await self._answer(call), self._limits)
        except Exception as exc:
            self._fail(exc)  # it ends the run, even if the code catches it
            raise


def _copied(kind: str, value: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return what a sandbox would hand over: a copy, if it is JSON at all."""
    frame = spelled(kind, {kind: value}, limits)
    copy: dict[str, Any] = json.loads(frame[HEADER_BYTES:])[kind]
    return copy

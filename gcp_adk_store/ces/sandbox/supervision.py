"""Supervise one call: serve its host calls, enforce its limits, and report how it ended."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any, Final

from gcp_adk_store.ces.sandbox.frames import Failed, FrameReader, HostCall, Result, encoded
from gcp_adk_store.ces.sandbox.interface import (
    REASONS,
    Answer,
    Clock,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from gcp_adk_store.ces.sandbox.zygotes import Channel, Ended, ZygoteProcess

_EXIT_TIMEOUT_S: Final = 1.0  # for a process that closed its frames to end by itself
_CERTAIN_SHARE: Final = 0.75
"""Of cpu_s: the kernel kills by its count of whole ticks, which on a busy machine is more than was used."""

_Verdict = Result | Failed | SandboxError | None
"""What ended a call: its last frame, a violation, or None at the end of its frames."""
_Collecting = asyncio.Task[SandboxOutputError | None]


async def supervise(
    process: ZygoteProcess,
    request: bytes,
    answer: Answer,
    *,
    limits: Limits,
    on_output: Callable[[str], None] | None,
    clock: Clock,
) -> dict[str, Any]:
    """Send *request* to *process*, return its result, and wait for its end; raises as ``Sandbox.run``.

    A cancellation takes effect when the process has ended. The caller must close the process.
    """
    printed = bytearray()
    collecting = asyncio.create_task(_collect(process.output, printed, limits))
    talking = asyncio.create_task(Conversation(process.frames, answer, limits).run(request))
    try:
        return await _result(process, talking, collecting, limits, clock)
    except SandboxError as exc:
        exc.output = exc.output or printed.decode(errors="replace")
        raise
    finally:
        if on_output is not None:
            on_output(printed.decode(errors="replace"))


async def _result(
    process: ZygoteProcess,
    talking: asyncio.Task[_Verdict],
    collecting: _Collecting,
    limits: Limits,
    clock: Clock,
) -> dict[str, Any]:
    try:
        verdict = await _verdict(talking, collecting, limits, clock)
        is_killed = verdict is not None or not await _exits(process)
    except GeneratorExit:  # the event loop was closed, and nothing can be waited for
        raise
    except BaseException:
        with contextlib.suppress(SandboxError):
            await _end(process, talking, collecting)
        raise
    how = await _end(process, talking, collecting)
    verdict = collecting.result() or verdict
    return result_of(verdict or _error_of(how, limits, is_killed=is_killed))


def result_of(verdict: Result | Failed | SandboxError) -> dict[str, Any]:
    """Return the result that a call ended with, or raise why it has none."""
    if isinstance(verdict, Result):
        return verdict.result
    raise REASONS[verdict.reason](verdict.message) if isinstance(verdict, Failed) else verdict


async def _verdict(
    talking: asyncio.Task[_Verdict], collecting: _Collecting, limits: Limits, clock: Clock
) -> _Verdict:
    try:
        async with clock.limit(limits.wall_s) as timeout:
            await asyncio.wait((talking, collecting), return_when=asyncio.FIRST_COMPLETED)
            if not talking.done() and collecting.result() is None:  # it closed its output, and goes on
                await asyncio.wait((talking,))
            return collecting.result() if not talking.done() else talking.result()
    except TimeoutError:
        if not timeout.expired():
            raise  # out of answer()
        return SandboxTimeoutError(f"the code took longer than the {limits.wall_s:g} s of wall_s")


async def _collect(output: Channel, printed: bytearray, limits: Limits) -> SandboxOutputError | None:
    while data := await output.read():
        room = limits.output_bytes - len(printed)
        printed += data[:room]
        if len(data) > room:
            return SandboxOutputError(
                f"the code printed more than the {limits.output_bytes} bytes of output_bytes"
            )
    return None


async def _exits(process: ZygoteProcess) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_TIMEOUT_S):
            await process.ended()
        return True
    return False


async def _end(process: ZygoteProcess, talking: asyncio.Task[_Verdict], collecting: _Collecting) -> Ended:
    """End *process* and its readers; a cancellation takes effect after that.

    Not in a task of its own: a loop that ends cancels all tasks, so each has to go on with its wait itself.
    Once what it waits for is there, it awaits nothing: a task may be cancelled again and again.
    """
    process.kill()
    talking.cancel()
    cancelled: asyncio.CancelledError | None = None
    try:
        while True:
            try:
                if not (talking.done() and collecting.done()):
                    await asyncio.wait((talking, collecting))
                return await process.ended()
            except asyncio.CancelledError as exc:
                cancelled = exc
    finally:
        if cancelled is not None:
            raise cancelled


def _error_of(how: Ended, limits: Limits, *, is_killed: bool) -> SandboxError:
    """Return the error for a process that ended without its last frame."""
    if is_killed:
        return SandboxCrashError("the code closed its connection to the host and went on; it was killed")
    if not os.WIFSIGNALED(how.status):
        status = os.waitstatus_to_exitcode(how.status)
        return SandboxCrashError(f"the code ended its process with status {status}, before it had a result")
    number = os.WTERMSIG(how.status)
    if number != signal.SIGKILL:
        return SandboxCrashError(f"the code's process was ended by {signal.Signals(number).name}")
    if how.cpu_s >= limits.cpu_s * _CERTAIN_SHARE:
        return SandboxTimeoutError(f"the code took more processor time than the {limits.cpu_s} s of cpu_s")
    return SandboxMemoryError(
        "the kernel killed the code's process, as it does when memory runs out; use less memory"
    )


class Conversation:
    """The frames of one call."""

    def __init__(self, frames: Channel, answer: Answer, limits: Limits) -> None:
        self._frames = frames
        self._answer = answer
        self._limits = limits
        self._reader = FrameReader(limits)
        self._reading: asyncio.Task[bytes] | None = None
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._served = 0
        self._writing = asyncio.Lock()

    async def run(self, request: bytes) -> _Verdict:
        """Send the request, serve the host calls, and return what ended them; raise errors of the answer."""
        try:
            verdict = await self._serve_all(request)
        except GeneratorExit:  # the event loop was closed: nothing can be ended in it
            raise
        except BaseException:
            await self._stop()
            raise
        await self._stop()
        return verdict

    async def _serve_all(self, request: bytes) -> _Verdict:
        self._reading = asyncio.create_task(self._frames.read())
        await self._frames.write(request)
        while True:
            done, _ = await asyncio.wait(
                (self._reading, *self._serving.values()), return_when=asyncio.FIRST_COMPLETED
            )
            for number in [number for number, task in self._serving.items() if task in done]:
                self._serving.pop(number).result()
            if self._reading in done:
                data = self._reading.result()
                if not data:
                    return None
                self._reading = asyncio.create_task(self._frames.read())
                verdict = self._receive(data)
                if verdict is not None:
                    return verdict

    async def _stop(self) -> None:
        tasks = [*self._serving.values(), *([] if self._reading is None else [self._reading])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _receive(self, data: bytes) -> _Verdict:
        """Begin to serve the host calls in *data*; return the last frame, a violation, or None."""
        try:
            for frame in self._reader.feed(data):
                if not isinstance(frame, HostCall):
                    return frame
                self._serve(frame)
        except SandboxError as exc:
            return exc
        return None

    def _serve(self, call: HostCall) -> None:
        if call.id in self._serving:
            raise SandboxProtocolError(f"the code calls the host twice at a time as {call.id}")
        if self._served >= self._limits.host_calls:
            raise SandboxProtocolError(
                f"the code calls the host more than the {self._served} times of host_calls"
            )
        if len(self._serving) >= self._limits.host_calls_at_once:
            raise SandboxProtocolError(
                "the code waits for more answers at a time than the "
                f"{self._limits.host_calls_at_once} of host_calls_at_once"
            )
        self._served += 1
        self._serving[call.id] = asyncio.create_task(self._respond(call))

    async def _respond(self, call: HostCall) -> None:
        found = await self._answer(call.call)
        text = await encoded("answer", {"id": call.id, "answer": found}, self._limits)
        async with self._writing:
            await self._frames.write(text)

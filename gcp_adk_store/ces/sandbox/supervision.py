"""Supervise one call: serve its host calls, enforce its limits, and report how it ended."""

import asyncio
import contextlib
import io
import os
import signal
import socket
from collections.abc import Coroutine
from typing import Any, Final

from gcp_adk_store.ces.sandbox.frames import FrameReader, encoded
from gcp_adk_store.ces.sandbox.interface import (
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
from gcp_adk_store.ces.sandbox.zygotes import Ended, ZygoteProcess, receive

_EXIT_TIMEOUT_S: Final = 1.0  # for a process that closed its frames to end by itself
_CERTAIN_SHARE: Final = 0.75
"""Of cpu_s: the kernel kills by its count of whole ticks, which on a busy machine is more than was used."""

_Talking = asyncio.Task[dict[str, Any] | None]
_Collecting = asyncio.Task[SandboxOutputError | None]


async def supervise(
    process: ZygoteProcess,
    request: bytes,
    answer: Answer,
    printed: bytearray,
    *,
    limits: Limits,
    clock: Clock,
) -> dict[str, Any]:
    """Send *request* to *process*, return its result, and wait for its end; raises as ``Sandbox.run``.

    *printed* gets its output. A cancellation takes effect when the process has ended. The caller must close
    the process.
    """
    collecting = asyncio.create_task(_collect(process.output, printed, limits))
    talking = asyncio.create_task(Conversation(process.frames, answer, limits).run(request))
    result: dict[str, Any] | None = None
    failure: SandboxError | None = None
    is_killed = False
    try:
        result = await _last_frame(talking, collecting, limits, clock)
        is_killed = result is None and not await _exits(process)
    except SandboxError as exc:
        failure = exc
    except GeneratorExit:  # the event loop was closed, and nothing can be waited for
        raise
    except BaseException:
        with contextlib.suppress(SandboxError):
            await _end(process, talking, collecting)
        raise
    how = await _end(process, talking, collecting)
    if (failure := collecting.result() or failure) is not None:
        raise failure
    if result is None:
        raise _error_of(how, limits, is_killed=is_killed)
    return result


async def _last_frame(
    talking: _Talking, collecting: _Collecting, limits: Limits, clock: Clock
) -> dict[str, Any] | None:
    """Return the result, or None at the end of the frames; raise what ended the call otherwise."""
    async with clock.limit(limits.wall_s, f"the code took longer than the {limits.wall_s:g} s of wall_s"):
        await asyncio.wait((talking, collecting), return_when=asyncio.FIRST_COMPLETED)
        if not talking.done() and (excess := collecting.result()) is not None:
            raise excess
        await asyncio.wait((talking,))  # it may have closed its output, and go on
        return talking.result()


async def _collect(output: io.FileIO, printed: bytearray, limits: Limits) -> SandboxOutputError | None:
    while data := await receive(output):
        room = limits.output_bytes - len(printed)
        printed += data[:room]
        if len(data) > room:
            says = f"the code printed more than the {limits.output_bytes} bytes of output_bytes"
            return SandboxOutputError(says)
    return None


async def _exits(process: ZygoteProcess) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_TIMEOUT_S):
            await process.ended()
        return True
    return False


async def _end(process: ZygoteProcess, talking: _Talking, collecting: _Collecting) -> Ended:
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
    says = "the kernel killed the code's process, as it does when memory runs out; use less memory"
    return SandboxMemoryError(says)


class Conversation:
    """The frames of one call, over a socket that does not block: one question at a time, and its answer."""

    def __init__(self, frames: socket.socket, answer: Answer, limits: Limits) -> None:
        self._frames = frames
        self._answer = answer
        self._limits = limits
        self._reader = FrameReader(limits)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, request: bytes) -> dict[str, Any] | None:
        """Send the request, serve the host calls, and return the result; None if the frames end without one.

        Raises:
            SandboxRunError: the code failed without a result, or broke the protocol.
            Exception: any of the answer.
        """
        try:
            return await self._talk(request)
        except GeneratorExit:  # the event loop was closed: nothing can be ended in it
            self._tasks.clear()
            raise
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _talk(self, request: bytes) -> dict[str, Any] | None:
        reading = self._begun(receive(self._frames))
        await self._send(request)
        served = 0
        while data := await reading:
            reading = self._begun(receive(self._frames))
            for kind, value in self._reader.feed(data):
                if kind == "result":
                    return value  # and what follows is not read
                served += 1
                if served > (most := self._limits.host_calls):
                    says = f"the code calls the host more than the {most} times of host_calls"
                    raise SandboxProtocolError(says)
                responding = self._begun(self._respond(value))
                await asyncio.wait((responding, reading), return_when=asyncio.FIRST_COMPLETED)
                if not responding.done() and not reading.result():
                    return None  # its process has ended meanwhile
                await responding
        return None

    def _begun(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _respond(self, call: dict[str, Any]) -> None:
        found = await self._answer(call)
        await self._send(await encoded("answer", found, self._limits))

    async def _send(self, text: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its process has ended
            await asyncio.get_running_loop().sock_sendall(self._frames, text)

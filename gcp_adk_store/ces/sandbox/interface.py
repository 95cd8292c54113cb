"""The interface of all sandboxes: their runs, limits, clock and errors."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.kernel.operation import require_members

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one run may use, and what happens above each limit.

    The platform does not publish its limits. Tools that take longer than about five seconds must be
    asynchronous there.

    Raises:
        InvalidInputError: a limit is not a positive number.
    """

    wall_s: float = 30.0
    """From its start until its result, host calls included: then it is killed, a SandboxTimeoutError."""
    cpu_s: int = 10
    """Processor time of all its threads: then it is killed, a SandboxTimeoutError."""
    memory_bytes: int = 1024 * _MIB
    """Address space, the interpreter's some 200 MiB included: beyond, a MemoryError in the code, which is a
    SandboxMemoryError if the code does not catch it."""
    threads: int = 64
    """Threads at a time: beyond, starting one fails in the code."""
    file_bytes: int = 16 * _MIB
    """All of its files in /tmp together: beyond, an OSError in the code."""
    files: int = 1024
    """Files and folders in /tmp: beyond, an OSError in the code."""
    open_files: int = 64
    """Open files at a time: beyond, an OSError in the code."""
    output_bytes: int = 2 * _MIB
    """What it writes to standard output and error: beyond, it is killed, a SandboxOutputError. What tools and
    callbacks print is cut before, at ``max_stdout_chars`` of the runtime."""
    frame_bytes: int = 24 * _MIB
    """Its request, or one answer of the host, as JSON: a larger one is an InvalidInputError."""
    sent_frame_bytes: int = 12 * _MIB
    """Its result, or one host call, as JSON: a larger result is a SandboxOutputError. The host reads a frame
    in one step, at most some 30 ms of this size."""
    frame_values: int = 50_000
    """Values in one frame that it sends, and 80 times as many characters outside of texts, such as those of
    numbers: some 30 ms as well. Beyond, a SandboxProtocolError."""
    frame_depth: int = 100
    """Lists and objects within each other in one frame."""
    received_bytes: int = 64 * _MIB
    """All frames that it sends together: beyond, a SandboxOutputError."""
    received_values: int = 1_000_000
    """Values in all of these frames, as far more may be kept here than was sent: beyond, a
    SandboxProtocolError."""
    host_calls: int = 1000
    """Calls of the host: beyond, a SandboxProtocolError."""

    def __post_init__(self) -> None:
        require_members(self)
        for each in fields(self):
            if not 0 < (value := getattr(self, each.name)) < math.inf:
                raise InvalidInputError(f"{each.name} must be a positive number, not {str(value)[:80]!r}")


class Clock:
    """The wall time of one run, in the event loop that the run is made in."""

    def __init__(self, *, longest_stop_s: float = 0.0) -> None:
        """Create a clock that stops for at most *longest_stop_s* seconds in total."""
        self.longest_stop_s = longest_stop_s
        self._left_s = longest_stop_s
        self._timeout: asyncio.Timeout | None = None
        self._stops = 0
        self._stopped_at = 0.0

    @asynccontextmanager
    async def limit(self, seconds: float, says: str) -> AsyncIterator[asyncio.Timeout]:
        """Raise a SandboxTimeoutError in a block that takes longer than *seconds*, without stops.

        The error *says* what took so long.
        """
        try:
            async with asyncio.timeout(seconds) as timeout:
                self._timeout = timeout
                _extend(timeout, self._unused_s() if self._stops else 0.0)
                yield timeout
        except TimeoutError as exc:
            if not timeout.expired():
                raise  # of the block's own
            raise SandboxTimeoutError(says) from exc
        finally:
            self._timeout = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock for a block. Blocks may overlap."""
        self._stops += 1
        if self._stops == 1:
            self._stopped_at = asyncio.get_running_loop().time()
            _extend(self._timeout, self._left_s)
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                self._left_s = self._unused_s()
                _extend(self._timeout, -self._left_s)

    def _unused_s(self) -> float:
        """Return how long the stop that began may still last."""
        return max(0.0, self._left_s - (asyncio.get_running_loop().time() - self._stopped_at))


def _extend(timeout: asyncio.Timeout | None, seconds: float) -> None:
    when = None if timeout is None else timeout.when()
    if timeout is not None and when is not None and not timeout.expired():
        timeout.reschedule(when + seconds)


class SandboxError(StoreError):
    """Code had no result, for a reason that is not an exception of its own.

    Attributes:
        output: What it had printed until then, up to the limit.
    """

    output: str = ""


class SandboxUnavailableError(SandboxError):
    """The sandbox cannot run here; no code was run."""


class SandboxRunError(SandboxError):
    """The code was run, and had no result; a model gets this as the response of its tool."""


class SandboxTimeoutError(SandboxRunError):
    """The code took longer than it may, and was killed."""


class SandboxMemoryError(SandboxRunError):
    """The code wanted more memory than it may have."""


class SandboxOutputError(SandboxRunError):
    """The code printed or returned more than it may."""


class SandboxCrashError(SandboxRunError):
    """The code's process ended without a result."""


class SandboxProtocolError(SandboxRunError):
    """The code's process sent what no honest one sends."""


@contextmanager
def reported(output: Callable[[], str], on_output: Callable[[str], None] | None) -> Iterator[None]:
    """Give the *output* at the end of a block to *on_output*, and to an error of the sandbox."""
    try:
        yield
    except SandboxError as exc:
        exc.output = exc.output or output()
        raise
    finally:
        if on_output is not None:
            on_output(output())


Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Serves one host call of the code. An exception ends the run, which raises it."""

GUEST: str = "gcp_adk_store.ces.guest.running:run"
"""The entry that runs tools and callbacks: ``run(request, call_host, show) -> result``.

The request, the result, and the argument and result of *call_host* are JSON objects; *show* takes output.
"""


class Sandbox(Protocol):
    """Runs user code in isolation.

    Several event loops and threads may use a sandbox. It starts with its first run. ``runs_at_once`` is the
    most runs at a time. Instances are hashable and support weak references: runtimes that share a sandbox
    share its places.
    """

    @property
    def runs_at_once(self) -> int | None:
        """The most runs at a time; further runs wait. None means no limit.

        A run that ``answer`` starts within another run counts too. A caller that nests runs must keep all of
        them together within this number; otherwise they wait for each other until their time is over.
        """
        ...

    async def run(
        self,
        request: Mapping[str, Any],
        answer: Answer,
        *,
        limits: Limits = ...,
        on_output: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> dict[str, Any]:
        """Run the entry once, in a process of its own, and return its result.

        When this returns or raises, the process has ended and all of its files are removed.

        Args:
            request: The argument of the entry.
            answer: Serves the host calls of the entry, one after the other.
            limits: The limits of the run.
            on_output: Receives the whole output of the code, shown or written to standard output and error,
                once, before this returns or raises.
            clock: Measures the wall time; the caller stops it while the run waits for the caller.

        Raises:
            InvalidInputError: *request* is not JSON, or is too large; the code did not run.
            SandboxUnavailableError: the sandbox cannot run here; the code did not run.
            SandboxTimeoutError: the code took too long.
            SandboxMemoryError: the code needed too much memory.
            SandboxOutputError: the code printed or returned too much.
            SandboxCrashError: the process ended without a result.
            SandboxProtocolError: the process broke the protocol.
            SandboxRunError: another reason why code that was run has no result.
        """
        ...

    async def close(self) -> None:
        """End the sandbox, and the runs that have not ended."""
        ...

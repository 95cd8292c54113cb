"""The interface of all sandboxes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.limits import Limits

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
            answer: Serves the host calls of the entry; several may run at a time.
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
        """
        ...

    async def close(self) -> None:
        """End the sandbox, and the runs that have not ended."""
        ...

"""Say what a sandbox does, whichever it is."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.limits import Limits

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Serves one call that the code makes of the host. What it raises ends the run, and is raised by it."""

GUEST: str = "gcp_adk_store.ces.guest.running:run"
"""The entry that runs tools and callbacks: ``run(request, call_host, show) -> result``.

Request, result, and what *call_host* takes and returns, are JSON objects; *show* takes text that is output.
"""


class Sandbox(Protocol):
    """Runs user code where it can harm nobody.

    A sandbox may be used from several event loops and threads. It starts with its first run. One that takes
    only so many runs at a time says how many as ``runs_at_once``. Its instances can be hashed and weakly
    referred to: runtimes that share one share its places.
    """

    @property
    def runs_at_once(self) -> int | None:
        """How many runs it makes at a time, while further ones wait for their turn; None where all may.

        A run that its ``answer`` makes within another has a turn of its own. So who nests runs makes no more
        at a time, those within others included, or they wait for each other until their time is over.
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

        When this returns or raises, the process is gone and nothing of it is left.

        Args:
            request: What the entry gets.
            answer: Serves what the entry asks of the host; several may be asked at a time.
            limits: What it may use.
            on_output: Gets what was shown, or written to standard output and error, once, before this
                returns or raises.
            clock: Of the time that it takes; the caller stops it while the run waits for the caller.

        Raises:
            InvalidInputError: *request* is no JSON, or too large; no code was run.
            SandboxUnavailableError: the sandbox cannot run here; no code was run.
            SandboxTimeoutError: it took too long.
            SandboxMemoryError: it wanted too much memory.
            SandboxOutputError: it printed or returned too much.
            SandboxCrashError: its process ended without a result.
            SandboxProtocolError: it sent what no honest process sends.
        """
        ...

    async def close(self) -> None:
        """End what was started. Runs that are under way end with it."""
        ...

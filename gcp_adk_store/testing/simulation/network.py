"""Carry requests between simulated processes and their service, and lose some as the seed decides."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from gcp_adk_store.errors import StoreError, UnavailableError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.testing.simulation.faults import Fate
from gcp_adk_store.testing.simulation.world import Process, World

T = TypeVar("T")


class Network:
    """The network between the processes of a world and one service."""

    def __init__(self, world: World, server: Process) -> None:
        self.world = world
        self.server = server
        """The process in which requests are served."""
        self._cut_off: set[str] = set()

    def cut_off(self, process: Process) -> None:
        """Lose everything between *process* and the service, in both directions, until :meth:`connect`."""
        self.world.note(f"{process.name}: cut off")
        self._cut_off.add(process.name)

    def connect(self, process: Process) -> None:
        """End what :meth:`cut_off` began."""
        self.world.note(f"{process.name}: connected")
        self._cut_off.discard(process.name)

    def reaches(self, process: Process) -> bool:
        """Return whether anything comes through between *process* and the service."""
        return process.name not in self._cut_off


class Link:
    """What one process sends to the service."""

    def __init__(self, network: Network, process: Process) -> None:
        self.network = network
        self.process = process

    async def request(
        self,
        what: str,
        work: Callable[[], Awaitable[T]],
        *,
        about: str,
        timeout_s: float,
        unanswered: type[StoreError],
    ) -> T:
        """Let the service do *work*, and return its answer.

        Args:
            what: What it does, such as ``commit``; faults are counted by it.
            work: A coroutine function, which runs in the service.
            about: The names that it is about, for the trace.
            timeout_s: How long the client waits.
            unanswered: The error of a client that gets no answer.
        """
        telemetry.count_rpc(lambda: 0)
        return await _Request(self, what, work, about=about, unanswered=unanswered).answer(timeout_s)

    def deliver(self, loop: asyncio.AbstractEventLoop, receive: Callable[[], object], when: float) -> None:
        """Let *receive* be called in *loop* of this process at a time of the world, if it arrives."""

        def arrive() -> None:
            if not loop.is_closed():
                loop.call_soon(receive)

        self.network.world.at(when, arrive)


class _Request(Generic[T]):
    """One request, and its way there and back."""

    def __init__(
        self,
        link: Link,
        what: str,
        work: Callable[[], Awaitable[T]],
        *,
        about: str,
        unanswered: type[StoreError],
    ) -> None:
        self._link = link
        self._world = link.network.world
        self._what = what
        self._work = work
        self._unanswered = unanswered
        self._way = self._world.fates.way(link.process.name, what, about)
        self._world.note(f"{link.process.name}: {what} {about} - {self._way.fate}")
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[T] = self._loop.create_future()
        self._is_done = False

    async def answer(self, timeout_s: float) -> T:
        """Send the request, and wait for its answer."""
        self._send()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._answer
        except TimeoutError as exc:
            raise self._unanswered("no answer came; read before repeating it") from exc

    def _send(self) -> None:
        way = self._way
        if way.fate is Fate.REQUEST_LOST:
            return
        arrives_at = self._world.now + way.there_s + (way.again_s if way.fate is Fate.LATE else 0.0)
        self._world.at(arrives_at, lambda: self._arrive(self._serve))
        if way.fate is Fate.TWICE:
            self._world.at(arrives_at + way.again_s, lambda: self._arrive(self._repeat))

    def _arrive(self, serve: Callable[[], Awaitable[object]]) -> None:
        network = self._link.network
        if network.reaches(self._link.process):
            network.server.run(serve)

    async def _serve(self) -> None:
        """Do the work, and send its answer back."""
        refused = {
            Fate.REFUSED: UnavailableError("refused for now; try again later"),
            Fate.OVER_QUOTA: UnavailableError("over quota; try again later", retry_after_s=self._way.asks_s),
        }
        outcome = refused.get(self._way.fate) or await self._done()
        if self._way.fate is Fate.CONNECTION_BROKEN:
            outcome = self._unanswered("the connection broke; read before repeating it")
        if self._way.fate is not Fate.ANSWER_LOST:
            arrives_at = self._world.now + self._way.back_s
            self._link.deliver(self._loop, lambda: self._receive(outcome), arrives_at)

    async def _repeat(self) -> None:
        if self._is_done:
            await self._done()

    async def _done(self) -> "T | Exception":
        try:
            outcome: T | Exception = await self._work()
            self._is_done = True
        except Exception as exc:  # noqa: BLE001  # it is the answer
            outcome = exc
        ended = type(outcome).__name__ if isinstance(outcome, Exception) else "done"
        self._world.note(
            f"{self._link.network.server.name}: {self._what} of {self._link.process.name} - {ended}"
        )
        return outcome

    def _receive(self, outcome: "T | Exception") -> None:
        if self._answer.done() or not self._link.network.reaches(self._link.process):
            return
        if isinstance(outcome, Exception):
            self._answer.set_exception(outcome)
        else:
            self._answer.set_result(outcome)

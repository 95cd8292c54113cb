"""One process whose requests meet what a scenario says, beside others that meet nothing."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from google.adk.events import Event, EventActions
from google.adk.sessions import Session

from gcp_adk_store import OutcomeUnknownError, StoreError
from gcp_adk_store.testing.simulation import Fate, Faults, Service, World
from gcp_adk_store.testing.simulation.faults import Way
from tests.simulation.events import said
from tests.simulation.fleet import key

T = TypeVar("T")
Error = TypeVar("Error", bound=StoreError)

FAST: Final = Faults(latency_s=(0.005, 0.01))
"""Others write several times while a message is on its way."""


class Fated:
    """A service, and stores of one process and of others, which all have the same options."""

    def __init__(self, world: World, *, clock_ahead_s: float = 0.0, **options: Any) -> None:
        self.world = world
        self.service = Service(world)
        self.plain = self.service.beside(**options)
        """The store of others, without a network before it."""
        self.process = world.process("caller", clock_ahead_s=clock_ahead_s)
        self.store = self.service.store_of(self.process, **options)

    def start(self, work: Callable[..., Awaitable[T]], *args: Any, **given: Any) -> "asyncio.Future[T]":
        """Call *work* in the process."""
        return self.process.start(work, *args, **given)

    def meets(
        self, kind: str, *fates: Fate, then: Fate = Fate.ANSWERED, held_s: float = 0.0, asks_s: float = 0.0
    ) -> asyncio.Event:
        """Give the requests of one *kind* these *fates* in order, and *then* to all later ones.

        The first one takes *held_s* longer to arrive. Return what is set when it arrives, or would without
        that. One over quota is asked to wait *asks_s*.
        """
        coming, arrived, numbers = iter(fates), asyncio.Event(), itertools.count()
        loop = asyncio.get_running_loop()

        def changed(way: Way) -> Way:
            if next(numbers) == 0:
                self.world.at(self.world.now + way.there_s + 0.0001, lambda: loop.call_soon(arrived.set))
                way = replace(way, there_s=way.there_s + held_s)
            return replace(way, fate=next(coming, then), asks_s=asks_s)

        self._change(kind, changed)
        return arrived

    def loses_the_first(self, *, last: int = 0) -> asyncio.Event:
        """Break the connection of the first commit; cut the process off after the *last*.

        Return what is set as soon as the first one is done.
        """
        is_done, numbers, loop = asyncio.Event(), itertools.count(1), asyncio.get_running_loop()

        def changed(way: Way) -> Way:
            number, now = next(numbers), self.world.now
            if number == 1:
                self.world.at(now + way.there_s + 0.0001, lambda: loop.call_soon(is_done.set))
                return replace(way, fate=Fate.CONNECTION_BROKEN)
            if number == last:
                answered_at = now + way.there_s + way.back_s
                self.world.at(answered_at + 0.0001, lambda: self.service.network.cut_off(self.process))
            return way

        self._change("commit", changed)
        return is_done

    def _change(self, kind: str, changed: Callable[[Way], Way]) -> None:
        way_of = self.world.fates.way

        def way(sender: str, what: str, about: str) -> Way:
            way = way_of(sender, what, about)
            return changed(way) if (sender, what) == (self.process.name, kind) else way

        self.world.fates.way = way  # type: ignore[method-assign]

    async def fill(self, *names: str) -> Session:
        """Let others make the session, with an event of each name."""
        session = await self.plain.sessions.create_session(**key("one"))
        for name in names:
            await self.plain.sessions.append_event(session, long_event(name))
        return session

    async def held(self) -> Session:
        """Return the session as the process reads it."""
        held = await self.start(self.store.sessions.get_session, **key("one"))
        assert held is not None
        return held

    async def stored(self) -> Session:
        """Return the session as others read it; it must be there."""
        found = await self.plain.sessions.get_session(**key("one"))
        assert found is not None, "the session is gone"
        return found

    async def ids(self) -> list[str]:
        """Return the ids of the events that others read."""
        return [event.id for event in (await self.stored()).events]


def long_event(name: str, **delta: Any) -> Event:
    """Return an event that can be a segment of its own."""
    actions = EventActions(state_delta=delta)
    return Event(id=name, author="user", content=said(f"{name} " * 60), actions=actions)


async def error_of(call: Awaitable[object], kind: type[Error]) -> Error:
    """Return the error of *call*, which must be of a *kind*."""
    try:
        await call
    except kind as exc:
        return exc
    raise AssertionError(f"the call did not end with {kind.__name__}")


async def overtake(
    call: "asyncio.Future[Any]", is_done: asyncio.Event, others: Callable[[], Awaitable[object]]
) -> None:
    """Let *others* write again and again from the first commit of *call* on; its error is no promise."""
    await is_done.wait()
    for _ in range(200):
        await asyncio.sleep(0.001)
        await others()
    await error_of(call, OutcomeUnknownError)

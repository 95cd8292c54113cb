"""Let several processes take the steps of a schedule, and kill, stop and cut off some of them meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.testing.simulation import KilledError, Process, Service, World
from tests.simulation.events import ids_of, nothing
from tests.simulation.journal import Journal

T = TypeVar("T")

LEASE_S: Final = 20.0
"""How long the lease of a turn is."""

Act = Callable[["Actor", int], Awaitable[None]]
"""Takes the step of a number in its actor's process."""


LIMITS: Final = SessionLimits(
    seal_tail_bytes=2_000, inline_bytes=500, event_text_bytes=3_000, state_value_bytes=300
)
"""So small that a few events seal a segment, and that some content becomes payloads."""


def key(session: str, user: str = "user") -> dict[str, Any]:
    """Return the ids of a session."""
    return {"app_name": "app", "user_id": user, "session_id": session}


def drawn(world: World, name: str) -> Random:
    """Return random numbers that depend on the seed and a name alone, whatever else is left out."""
    return Random(f"{world.seed}/{name}")  # noqa: S311  # a schedule has no secrets


class Actor:
    """One process of a fleet, with its store and what its program remembers."""

    lease_s = LEASE_S

    def __init__(self, world: World, journal: Journal, process: Process, store: Store) -> None:
        self.world = world
        self.journal = journal
        self.process = process
        self.store = store
        self.name = process.name
        self.memory: dict[str, Any] = {}

    def random(self, step: int) -> Random:
        """Return the random numbers of one step, whichever others are left out."""
        return drawn(self.world, f"{self.name}/{step}")

    async def call(
        self,
        kind: str,
        of: str,
        work: Callable[[], Awaitable[T]],
        *,
        given: Any = None,
        seen: Callable[[T], Any] = lambda result: result,
    ) -> T | None:
        """Call the store as this process, and write it down: see :meth:`Journal.call`."""
        return await self.journal.call(self.name, kind, of, work, given=given, seen=seen)

    async def read(
        self, session: str, *, seen: Callable[[Session | None], Any] = ids_of, user: str = "user"
    ) -> Session | None:
        """Read a session; by default, the ids of its events are written down."""
        which = key(session, user)
        return await self.call("read", session, lambda: self.store.sessions.get_session(**which), seen=seen)

    async def append(
        self,
        held: Session,
        event: Event,
        *,
        of: str = "",
        given: Any = None,
        seen: Callable[[Event], Any] = nothing,
    ) -> Event | None:
        """Append to a session; the ids of both are written down, or what is *given* instead."""
        append = self.store.sessions.append_event
        return await self.call(
            "append", of or held.id, lambda: append(held, event), given=given or event.id, seen=seen
        )

    async def take(self, steps: Sequence[int], act: Act, *, pause_s: float, loops: int) -> None:
        """Take *steps* one after the other, with pauses of up to *pause_s* between them.

        A busy process begins the next step before it has taken the last one, in one of some event *loops*.
        """
        under_way: list[asyncio.Future[None]] = []
        more = [self.process.another_loop() for _ in range(1, loops) if self.journal.is_busy]
        for step in steps:
            await asyncio.sleep(self.random(step).uniform(0, pause_s) * (0.2 if self.journal.is_busy else 1))
            if self.journal.is_busy:
                loop = self.random(step).choice([self.process.loop, *more])
                under_way.append(self.process.start(act, self, step, loop=loop))
            else:
                await act(self, step)
        await asyncio.gather(*under_way)


class Fleet:
    """Processes that share the steps of a schedule; of one that is killed, another one takes what is left."""

    def __init__(
        self,
        world: World,
        *,
        size: int = 3,
        kills: bool = True,
        pause_s: float = 1.0,
        loops: int = 2,
        of_process: Callable[[Process], dict[str, Any]] = lambda _: {},
        **options: Any,
    ) -> None:
        """Prepare a service; the stores of all processes have *options*, and each has those *of_process*.

        With shorter pauses of its processes, more calls meet at each moment. A busy process has so many event
        *loops*.
        """
        self.world = world
        self.service = Service(world)
        self.plain = self.service.beside(**options)
        """A store without a network before it."""
        self.journal = Journal(world)
        self.end = Actor(world, self.journal, world.process("end"), self.plain)
        """Looks at what is stored at the end, without a network before it."""
        self.fates: dict[str, str] = {}
        """What becomes of each process, by its name: it lives, is killed, stopped or cut off."""
        self._options = options
        self._of_process = of_process
        self._size = size
        self._kills = kills
        self._pause_s = pause_s
        self._loops = loops
        self._born = 0

    def store_of(self, process: Process) -> Store:
        """Return a store as *process* has it."""
        return self.service.store_of(process, **self._options, **self._of_process(process))

    def onlooker(self, name: str) -> Actor:
        """Return a process beside those that take steps, whose clocks are right."""
        process = self.world.process(name)
        return Actor(self.world, self.journal, process, self.store_of(process))

    def actor(self) -> Actor:
        """Return a new process, whose clocks may be wrong by up to a minute and by 1 %."""
        self._born += 1
        random = drawn(self.world, f"process {self._born}")
        process = self.world.process(
            f"p{self._born}",
            clock_ahead_s=random.choice([0.0, 0.0, random.uniform(-60, 60)]),
            clock_drift=random.choice([0.0, 0.0, random.uniform(-0.01, 0.01)]),
        )
        return Actor(self.world, self.journal, process, self.store_of(process))

    async def stored(self, session: str, user: str = "user") -> Session:
        """Return a session, which there must be."""
        found = await self.plain.sessions.get_session(**key(session, user))
        assert found is not None, f"{session} is missing"
        return found

    async def work(self, count: int, act: Act, *, rest_s: float = 0.0) -> None:
        """Let the fleet take *count* steps, and return when all are taken or lost with their process.

        Then *rest_s* pass, in which what is late arrives.
        """
        steps = list(self.world.steps(count))
        shares = [steps[number :: self._size] for number in range(self._size)]
        await asyncio.gather(*(self._take(number, share, act) for number, share in enumerate(shares)))
        if rest_s:
            await asyncio.sleep(rest_s)

    async def _take(self, number: int, steps: Sequence[int], act: Act) -> None:
        left = list(steps)
        while left:
            random = drawn(self.world, f"life {number} {len(left)}")
            actor = self.actor()
            take = partial(actor.take, pause_s=self._pause_s, loops=self._loops)
            working = actor.process.start(take, left, act)
            fate = (
                random.choice(["lives", "lives", "killed", "stopped", "cut off"]) if self._kills else "lives"
            )
            self.fates[actor.name] = fate
            if fate != "lives":
                await asyncio.sleep(random.uniform(0, len(left) * self._pause_s))
                await self._trouble(actor.process, fate, random)
            if fate == "killed":
                done = int(random.uniform(0, len(left))) + 1  # the next one takes others: a kill loses some
                left = left[done:]
                working.cancel()
                continue
            with suppress(KilledError):
                await working
            return

    async def _trouble(self, process: Process, fate: str, random: Random) -> None:
        self.world.note(f"{process.name}: {fate}")
        if fate == "killed":
            process.kill()
        elif fate == "stopped":
            process.stop()
            await asyncio.sleep(random.choice([random.uniform(0, 1), random.uniform(20, 90)]))
            process.go_on()
            self.world.note(f"{process.name}: goes on")
        else:
            self.service.network.cut_off(process)
            await asyncio.sleep(random.choice([random.uniform(0, 1), random.uniform(5, 60)]))
            self.service.network.connect(process)

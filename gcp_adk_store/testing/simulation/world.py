"""Run processes, their clocks and their network in one thread, in an order that a seed decides."""

import asyncio
import contextvars
import gc
import hashlib
import heapq
import itertools
import logging
import sys
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar

from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store import machine
from gcp_adk_store.testing.simulation.faults import Fates, Faults
from gcp_adk_store.testing.simulation.loop import SimulatedLoop

T = TypeVar("T")

Scenario = Callable[["World"], Coroutine[Any, Any, object]]
"""One schedule: it starts processes, lets them work, and asserts what must hold."""

_BEGAN_AT: Final = 1_700_000_000.0
"""Unix time at which each schedule begins."""

_MONOTONIC_AT: Final = 1_000_000.0
"""Where monotonic clocks begin."""

_MOST_SECONDS: Final = 30 * 86_400.0
"""Of simulated time: a schedule that is longer does not end."""


def _random(seed: int, of: str) -> Random:
    return Random(f"{seed}/{of}")  # noqa: S311  # a schedule has no secrets


class KilledError(Exception):
    """The process of a call was killed: nobody knows how far the call came."""


class EndlessError(AssertionError):
    """Nothing is left that could end the schedule, or it takes too long."""


class Clock:
    """The clocks of one process."""

    def __init__(self, world: "World", *, ahead_s: float, drift: float) -> None:
        self._world = world
        self.ahead_s = ahead_s
        """Seconds that its time of day is ahead of the service's; negative is behind."""
        self.drift = drift
        """Seconds that both its clocks gain in each second; negative is slow."""

    def monotonic(self) -> float:
        """Return seconds since a time of its choice."""
        return _MONOTONIC_AT + self._world.now * (1 + self.drift)

    def time(self) -> float:
        """Return the time of day as Unix time in seconds."""
        return _BEGAN_AT + self.ahead_s + self._world.now * (1 + self.drift)

    def in_world(self, monotonic: float) -> float:
        """Return when its monotonic clock shows *monotonic*, in seconds since the world began."""
        return (monotonic - _MONOTONIC_AT) / (1 + self.drift)


class Process:
    """A simulated process, with memory, clocks and event loops of its own."""

    def __init__(self, world: "World", name: str, clock: Clock) -> None:
        self.world = world
        self.name = name
        self.clock = clock
        self.is_running = True
        """Whether it is neither stopped nor killed."""
        self.is_killed = False
        self.loops: list[SimulatedLoop] = []
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self.loop = self.another_loop()
        """Its first event loop."""

    def another_loop(self) -> SimulatedLoop:
        """Return a new event loop of this process, as another of its threads would run it."""
        loop = SimulatedLoop(self.clock.monotonic, self.world.unhandled.append)  # type: ignore[abstract]
        self.loops.append(loop)
        self.world.add(self, loop)
        return loop

    def start(
        self, work: Callable[..., Awaitable[T]], *args: Any, loop: SimulatedLoop | None = None, **kwargs: Any
    ) -> "asyncio.Future[T]":
        """Call the coroutine function *work* in this process; return what awaits its end in the caller's.

        Cancelling what it returns cancels the call. It raises :class:`KilledError` if the process is killed.
        """
        asker = asyncio.get_running_loop()
        answer: asyncio.Future[T] = asker.create_future()
        if self.is_killed:
            answer.set_exception(KilledError(self.name))
            return answer
        number = next(self._numbers)
        self._calls[number] = answer
        own = loop or self.loop

        async def call() -> T:
            return await work(*args, **kwargs)

        def ended(task: "asyncio.Task[T]") -> None:
            self._calls.pop(number, None)
            if not asker.is_closed():
                asker.call_soon(_pass_on, task, answer)

        def begin() -> None:
            task = own.create_task(call(), context=self.world.new_context())
            task.add_done_callback(ended)
            answer.add_done_callback(lambda done: own.call_soon(task.cancel) if done.cancelled() else None)

        own.call_soon(begin)
        return answer

    def run(self, work: Callable[[], Awaitable[object]]) -> None:
        """Call the coroutine function *work* in this process, for nobody who waits for its end."""

        async def call() -> None:
            await work()

        self.loop.create_task(call(), context=self.world.new_context())

    def stop(self) -> None:
        """Stop it where it is, as SIGSTOP; what arrives waits."""
        self.world.note(f"{self.name}: stopped")
        self.is_running = False

    def go_on(self) -> None:
        """Let it run again after :meth:`stop`, as SIGCONT."""
        self.world.note(f"{self.name}: goes on")
        self.is_running = not self.is_killed

    def kill(self) -> None:
        """End it where it is, as SIGKILL: nothing of it runs any more, not even what cleans up."""
        self.world.note(f"{self.name}: killed")
        self.is_running, self.is_killed = False, True
        self.world.forget(self)
        for answer in self._calls.values():
            # What awaits the end of a call in a loop of its own process ended with it.
            if not (answer.done() or answer.get_loop().is_closed()):
                answer.set_exception(KilledError(self.name))
        self._calls.clear()


def _pass_on(task: "asyncio.Task[T]", answer: "asyncio.Future[T]") -> None:
    if answer.done():
        if not task.cancelled():
            task.exception()  # nobody asks for it any more
    elif task.cancelled():
        answer.cancel()
    elif (failure := task.exception()) is not None:
        answer.set_exception(failure)
    else:
        answer.set_result(task.result())


class World:
    """The processes of one schedule, which begin and end with it.

    Everything that the schedule draws comes from ``seed``: the same seed gives the same run with the same
    packages and the same minor version of Python.
    """

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        *,
        only_faults: Collection[str] | None = None,
        only_steps: Collection[int] | None = None,
        most_callbacks: int = 2_000_000,
    ) -> None:
        """Prepare a schedule.

        Args:
            seed: Decides everything.
            faults: How often requests fail; without it, none does.
            only_faults: Names of the requests that meet a fault, of all that the seed decides.
            only_steps: Numbers of the :meth:`steps` that are taken.
            most_callbacks: Callbacks of event loops after which the schedule counts as endless.
        """
        self.seed = seed
        self.now = 0.0
        """Seconds since the schedule began."""
        self.random = _random(seed, "scenario")
        """The random numbers of the scenario."""
        self.fates = Fates(faults or Faults(), seed, only=only_faults)
        self.unhandled: list[dict[str, Any]] = []
        """Errors of tasks that nobody awaited."""
        self.trace: list[str] = []
        """What happened: requests and their fates, and what the scenario adds with :meth:`note`."""
        self.taken: list[int] = []
        """Numbers of the steps that were taken."""
        self._only_steps = only_steps
        self._most_callbacks = most_callbacks
        self._order = _random(seed, "order")
        self._machine = _random(seed, "machine")
        self._loops: list[tuple[Process, SimulatedLoop]] = []
        self._forgotten: list[SimulatedLoop] = []
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._current: Process | None = None
        self._has_ended = False
        self._context = contextvars.copy_context()

    def process(self, name: str, *, clock_ahead_s: float = 0.0, clock_drift: float = 0.0) -> Process:
        """Return a new process, whose clocks may be wrong."""
        return Process(self, name, Clock(self, ahead_s=clock_ahead_s, drift=clock_drift))

    def steps(self, count: int) -> Iterator[int]:
        """Yield the numbers from 0 to *count* - 1; fewer when a failed schedule is made shorter."""
        for number in range(count):
            if self._only_steps is None or number in self._only_steps:
                self.taken.append(number)
                yield number

    def note(self, text: str) -> None:
        """Add a line to the trace: ids and kinds, never addresses or times of the real machine."""
        if not self._has_ended:
            self.trace.append(f"{self.now:10.4f} {text}")

    @property
    def digest(self) -> str:
        """The SHA-256 of the trace, in hex digits: equal for equal runs."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def at(self, when: float, event: Callable[[], object]) -> None:
        """Let *event* happen at a time of the world."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), event))

    def run(self, scenario: Scenario) -> None:
        """Run *scenario* to its end in a process of its own, which no fault meets.

        Raises:
            EndlessError: nothing is left that could end it, or it takes over 30 simulated days, or more than
                *most_callbacks*.
        """
        with self._in_place():
            self._context = contextvars.copy_context()
            driver = self.process("scenario")
            main = driver.loop.create_task(scenario(self), context=self.new_context())
            try:
                for _ in range(self._most_callbacks):
                    if main.done():
                        break
                    self._step()
                else:
                    raise EndlessError(f"the schedule does not end: {self._most_callbacks:,} callbacks ran")
                main.result()
            finally:
                self._dispose()

    def new_context(self) -> contextvars.Context:
        """Return a context in which nothing of the scenario's own runs; for what begins in a process."""
        return self._context.copy()

    def add(self, process: Process, loop: SimulatedLoop) -> None:
        """Let *loop* of *process* run; for :class:`Process`."""
        self._loops.append((process, loop))

    def forget(self, process: Process) -> None:
        """Let no loop of *process* run any more; for :class:`Process`."""
        self._loops = [one for one in self._loops if one[0] is not process]
        for loop in process.loops:
            loop.close()
        # Kept until the end: a coroutine that is thrown away runs its clean-up; a killed process does not.
        self._forgotten += process.loops

    def _step(self) -> None:
        """Run one callback of one loop, or let the next event come."""
        ready = [one for one in self._loops if one[1].is_ready and one[0].is_running]
        if ready:
            process, loop = ready[0] if len(ready) == 1 else self._order.choice(ready)
            self._current = process
            loop.run_one()
            self._current = None
            return
        timers = [
            (process.clock.in_world(when), loop)
            for process, loop in self._loops
            if process.is_running and (when := loop.next_timer()) is not None
        ]
        first = min((when for when, _ in timers), default=None)
        if self._events and (first is None or self._events[0][0] <= first):
            self.now, _, event = heapq.heappop(self._events)
            event()
        elif first is not None:
            self.now = max(self.now, first)
            for _, loop in timers:
                loop.wake()
        else:
            raise EndlessError(f"nothing is left that could end the schedule; {self._waiting()}")
        if self.now > _MOST_SECONDS:
            raise EndlessError(f"the schedule does not end within {_MOST_SECONDS:.0f} simulated seconds")

    def _waiting(self) -> str:
        names = [process.name for process, loop in self._loops if loop.left()]
        return f"tasks wait in {', '.join(names) or 'no process'}"

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Let the library and ADK run in this world, without the garbage collector, within the block."""
        was_collecting = gc.isenabled()
        gc.disable()  # what it ends, and when, depends on addresses
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        platform_time.set_time_provider(self._time)
        platform_uuid.set_id_provider(lambda: str(uuid.UUID(int=self._machine.getrandbits(128), version=4)))
        try:
            with machine.replaced_by(_Simulated(self._machine, self._monotonic)):
                yield
        finally:
            platform_time.reset_time_provider()
            platform_uuid.reset_id_provider()
            logging.disable(disabled)
            if was_collecting:
                gc.enable()

    def _time(self) -> float:
        return _BEGAN_AT + self.now if self._current is None else self._current.clock.time()

    def _monotonic(self) -> float:
        return _MONOTONIC_AT + self.now if self._current is None else self._current.clock.monotonic()

    def _dispose(self) -> None:
        """Throw away what is left, without a word: it would run on in a real process."""
        self._has_ended = True
        unraisable = sys.unraisablehook
        sys.unraisablehook = lambda _: None
        try:
            loops = [*(loop for _, loop in self._loops), *self._forgotten]
            left = [task for loop in loops for task in loop.left()]
            for loop in loops:
                loop.close()
            for task in left:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # no other way
                coroutine = task.get_coro()
                if isinstance(coroutine, Coroutine):
                    _close(coroutine)
            self._loops.clear()
            self._forgotten.clear()
            self._events.clear()
            del left, loops
            gc.collect(0)  # all that this schedule made is young: nothing was collected meanwhile
        finally:
            sys.unraisablehook = unraisable


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        coroutine.close()
    except BaseException:  # noqa: BLE001  # clean-up that cannot run in a world that has ended
        return


class _Simulated:
    """The machine of a simulation."""

    def __init__(self, random: Random, monotonic: Callable[[], float]) -> None:
        self._random = random
        self.monotonic = monotonic
        self.random_bytes = random.randbytes
        self.uniform = random.uniform

    def threads(self, most: int, name: str, /) -> Executor:
        """Return no threads: work runs where it is submitted."""
        del most, name
        return _Inline()


class _Inline(Executor):
    """Runs what is submitted at once."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Run *fn* now."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as exc:  # noqa: BLE001  # as an executor does
            future.set_exception(exc)
        return future

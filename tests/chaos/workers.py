"""Start the processes that write, kill them, and start others in their place."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from random import Random
from typing import Final

from tests.chaos.worker import Task, work
from tests.support.ready_processes import READY

_READY_S: Final = 60.0
_END_S: Final = 60.0
_SPARED: Final = 1
"""Workers that a kill leaves at work."""


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    run: "Connection[bool, bool]"
    is_ready: bool = False

    def heard(self) -> int:
        """Return how often it said that it begins: to work at all, and with an operation."""
        count = 0
        while self.run.poll():
            self.is_ready = self.run.recv()
            count += 1
        return count

    def becomes_ready(self) -> bool:
        """Wait until it works; return whether it does."""
        return self.is_ready or (self.run.poll(_READY_S) and bool(self.heard()))

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self.process.kill()
        self.process.join()
        self.run.close()


class Workers:
    """So many processes at work; what one is to do differs from the others in its name alone."""

    def __init__(self, task: Task, random: Random) -> None:
        self._task = task
        self._random = random
        self._count = 0
        self._running: list[_Worker] = []

    def kill_one(self) -> bool:
        """Kill one that works, unless too few do, and start another; return whether one was killed."""
        at_work = [worker for worker in self._running if worker.is_ready]
        if len(at_work) <= _SPARED:
            return False
        victim = self._random.choice(at_work)
        self._running.remove(victim)
        victim.kill()
        self._running.append(self._start())
        return True

    def begun(self) -> int:
        """Wait until operations begin; return how many did.

        Raises:
            RuntimeError: none did for a minute.
        """
        if not wait([worker.run for worker in self._running], _READY_S):
            raise RuntimeError(f"no worker goes on; see their logs in {self._task.journals}")
        return sum(worker.heard() for worker in self._running)

    def end(self) -> None:
        """Let them finish what they are doing; those that do not are killed."""
        for worker in self._running:
            worker.becomes_ready()
            worker.run.close()
        for worker in self._running:
            worker.process.join(_END_S)

    @contextmanager
    def at_work(self, count: int) -> Iterator["Workers"]:
        """Start so many, and leave none behind.

        Raises:
            RuntimeError: one did not come up.
        """
        self._running = [self._start() for _ in range(count)]
        try:
            if not all(worker.becomes_ready() for worker in self._running):
                raise RuntimeError(f"a worker did not come up; see its log in {self._task.journals}")
            yield self
        finally:
            for worker in self._running:
                worker.kill()
            self._running = []

    def _start(self) -> _Worker:
        name = f"w{self._count}"
        self._count += 1
        mine, its = READY.Pipe()
        process = READY.Process(target=work, args=(replace(self._task, name=name), its))
        process.start()
        its.close()
        return _Worker(process, mine)

"""Start the processes of a schedule, hear of their calls, kill some, and start others in their place."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from random import Random
from typing import Final, TypeAlias

from tests.chaos.worker import RealWorld, Report, Task, work
from tests.simulation.journal import Call, Journal
from tests.support.ready_processes import READY

_SPARED: Final = 1
"""Workers that a kill leaves at work."""
_LONGEST_S: Final = 300.0

Pipe: TypeAlias = "Connection[None, Report | str]"


class Workers:
    """Processes at work, and what they reported."""

    def __init__(self, task: Task, count: int) -> None:
        """Start *count* of them; they differ in their name alone."""
        self._task = task
        self._random = Random(f"{task.seed}/workers")  # noqa: S311  # no secret
        self._started = 0
        self._running: dict[Pipe, ForkServerProcess] = {}
        self._at_work: set[Pipe] = set()
        self._reported: dict[tuple[Pipe, str, int], Call] = {}
        self._seen: dict[tuple[Pipe, str], list[list[str]]] = {}
        for _ in range(count):
            self._start()

    def journal(self, workload: str) -> Journal:
        """Return the calls of *workload*, in the order of their begin, and what its runs of agents saw."""
        journal = Journal(RealWorld(self._task.seed))  # type: ignore[arg-type]  # as far as it is asked
        calls = [call for (_, name, _), call in self._reported.items() if name == workload]
        journal.calls = sorted(calls, key=lambda call: call.begun)
        seen = [seen for (_, name), seen in self._seen.items() if name == workload]
        journal.seen = [*itertools.chain.from_iterable(seen)]
        return journal

    def hear(self) -> Iterator[int]:
        """Yield how many calls have begun, whenever more did, until all workers have ended.

        Raises:
            RuntimeError: one failed, or none goes on.
        """
        while self._running:
            pipes = wait(list(self._running), _LONGEST_S)
            if not pipes:
                raise RuntimeError(f"no worker goes on; see their logs in {self._task.logs}")
            for pipe in pipes:
                assert isinstance(pipe, Connection)
                self._hear(pipe)
            yield len(self._reported)

    def kill_one(self) -> bool:
        """Kill one in the middle of whatever it does, and start another; return whether one was killed."""
        at_work = [pipe for pipe in self._running if pipe in self._at_work]
        if len(at_work) <= _SPARED:
            return False
        victim = self._random.choice(at_work)
        self._at_work.remove(victim)
        self._running[victim].kill()
        self._start()
        return True

    def end(self) -> None:
        """Leave none behind."""
        for pipe, process in self._running.items():
            process.kill()
            process.join()
            pipe.close()

    def _start(self) -> None:
        task = replace(self._task, name=f"w{self._started}")
        self._started += 1
        mine, its = READY.Pipe(duplex=False)
        process = READY.Process(target=work, args=(task, its), daemon=True)
        process.start()
        its.close()
        self._running[mine] = process

    def _hear(self, pipe: Pipe) -> None:
        try:
            report = pipe.recv()
        except (EOFError, OSError):  # it has ended, or was killed in the middle of a word
            self._running.pop(pipe).join()
            self._at_work.discard(pipe)
            pipe.close()
            return
        if isinstance(report, str):
            raise RuntimeError(report)  # noqa: TRY004  # how it failed
        workload, number, call, seen = report
        self._at_work.add(pipe)
        self._reported[pipe, workload, number] = call
        self._seen[pipe, workload] = seen

"""Start processes, and let them begin together what they are told."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


class RacingProcess:
    """A process that does one call after the other."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.racing_process", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, method: str, **arguments: Any) -> Self:
        """Let it begin a call."""
        assert self._process.stdin
        self._process.stdin.write(f"{json.dumps((method, arguments))}\n")
        self._process.stdin.flush()
        return self

    def answer(self) -> Any:
        """Wait for the answer to the call that it began."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def call(self, method: str, **arguments: Any) -> Any:
        """Let it do a call while the others wait."""
        return self.begin(method, **arguments).answer()

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def racing_processes(count: int) -> Iterator[list[RacingProcess]]:
    """Start *count* processes, named by their numbers, that have imported everything."""
    racers = [RacingProcess(f"{number}") for number in range(count)]
    try:
        assert ["ready"] * count == [racer.answer() for racer in racers]
        yield racers
    finally:
        for racer in racers:
            racer.end()


def race(racers: Sequence[RacingProcess], method: str, *each: dict[str, Any]) -> list[Any]:
    """Let *racers* begin a call together, with one set of arguments or each its own; return the answers."""
    for racer, arguments in zip(racers, each * len(racers) if len(each) == 1 else each, strict=True):
        racer.begin(method, **arguments)
    return [racer.answer() for racer in racers]

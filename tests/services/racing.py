"""Start processes, and let them begin together what they are told."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from tests.services.racing_process import take_part
from tests.support.ready_processes import ReadyProcess


class RacingProcess:
    """A process that does one call after the other."""

    def __init__(self, name: str) -> None:
        self._process = ReadyProcess(take_part, name)
        self.answer = self._process.receive
        self.end = self._process.end

    def begin(self, method: str, **arguments: Any) -> Self:
        """Let it begin a call."""
        self._process.send((method, arguments))
        return self

    def call(self, method: str, **arguments: Any) -> Any:
        """Let it do a call while the others wait."""
        return self.begin(method, **arguments).answer()


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

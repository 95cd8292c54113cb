"""Write down the begin and the end of each call of a schedule; checkers read nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, ClassVar, Final, TypeVar

from gcp_adk_store import OutcomeUnknownError, StoreError
from gcp_adk_store.testing.simulation import KilledError, World

T = TypeVar("T")

_GIVEN_UP: Final = 0.2
"""The share of the calls of a busy process whose callers are cancelled."""


class Outcome(StrEnum):
    """What the one who called may conclude."""

    DONE = "done"
    REFUSED = "refused"
    """A typed error that promises that nothing was written."""
    UNKNOWN = "unknown"
    """It may have happened, once: no answer, a caller that was cancelled, a process that was killed."""


@dataclass(slots=True)
class Call:
    """One call of the store."""

    process: str
    kind: str
    of: str
    """What it is about, such as a session."""
    begun: float
    given: Any = None
    """What it writes, if anything."""
    ended: float = float("inf")
    outcome: Outcome = Outcome.UNKNOWN
    result: Any = None
    error: str = ""
    asked_s: float = 0.0
    """How long the error says that the service asks to wait."""
    is_over: bool = field(default=False)


class Journal:
    """The calls of one schedule, in the order of their begin."""

    is_busy: ClassVar[bool] = False
    """Whether the calls of a process overlap, and the callers of some are cancelled."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.calls: list[Call] = []
        self.seen: list[list[str]] = []
        """The ids of the events before the message of each run of an agent, as it began."""

    def of(self, kind: str, of: str | None = None) -> Iterator[Call]:
        """Yield the calls of one kind, and of one thing."""
        return (call for call in self.calls if call.kind == kind and of in (None, call.of))

    async def call(
        self,
        process: str,
        kind: str,
        of: str,
        work: Callable[[], Awaitable[T]],
        *,
        given: Any = None,
        seen: Callable[[T], Any] = lambda result: result,
    ) -> T | None:
        """Run *work* and write down how it ends; ``None`` if it raises an error of the library.

        Every other error fails the schedule: all that the library raises is typed.
        """
        call = Call(process, kind, of, self._world.now, given)
        number = len(self.calls)
        before = sum(each.process == process for each in self.calls)
        self.calls.append(call)
        self.report(number)
        result: T | None = None
        random = Random(f"{self._world.seed}/{process}/{before}")  # noqa: S311  # as in fleet.py
        gives_up = self.is_busy and random.random() < _GIVEN_UP
        try:
            result = await (_given_up(work, random) if gives_up else work())
        except (OutcomeUnknownError, KilledError, asyncio.CancelledError) as exc:
            call.error = type(exc).__name__
            if isinstance(exc, asyncio.CancelledError):
                raise
        except StoreError as exc:
            call.outcome, call.error = Outcome.REFUSED, type(exc).__name__
            call.asked_s = exc.retry_after_s or 0.0
        else:
            call.outcome, call.result = Outcome.DONE, seen(result)
        finally:
            call.ended, call.is_over = self._world.now, True
            self._world.note(f"{process}: {kind} {of} - {call.outcome} {call.error}")
            self.report(number)
        return result

    def report(self, number: int) -> None:
        """Take note that the call of this *number* has begun, or has ended; a subclass may report it."""


async def _given_up(work: Callable[[], Awaitable[T]], random: Random) -> T:
    """Run *work* for a caller that is cancelled meanwhile, unless it ends before."""
    working = asyncio.ensure_future(work())
    try:
        after_s = random.choice([0, random.uniform(0, 0.4), random.uniform(0, 3)])
        await asyncio.wait([working], timeout=after_s)
    finally:
        working.cancel()
        await asyncio.wait([working])
    if working.cancelled():
        raise OutcomeUnknownError("its caller was cancelled")
    return working.result()

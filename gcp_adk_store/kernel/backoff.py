"""Wait after a conflict, and read again while others change what is read."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, Literal, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.kernel.operation import at_most

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_RACE_S: Final = 0.25

_LONGEST_PAUSE_S: Final = 0.02
"""A longer pause makes a merging writer lose more often: the last of 10 writers took 5 s with pauses of up to
0.25 s, and 0.7 s with this limit."""


def jitter(attempt: int, *, longest_s: float = _LONGEST_RACE_S) -> float:
    """Return the seconds to wait after conflict number *attempt*, counted from 0."""
    bound = min(_FIRST_PAUSE_S * attempt, longest_s)
    return machine.uniform(0, bound)


class ConflictBackoff:
    """The waits of one loop that reads again after other writers were first.

    Each of their writes is progress, so only time limits the turns of the loop.
    """

    def __init__(self, deadline_s: float) -> None:
        """Begin; no turn begins after *deadline_s*, or after the running operation's deadline."""
        self._ends_at = machine.monotonic() + at_most(deadline_s)
        self._turns = 0

    async def wait(self, refused: Exception | None = None) -> None:
        """Pause before the next turn; the first time not at all.

        Args:
            refused: The refusal that ended this turn; it becomes the cause of the error.

        Raises:
            UnavailableError: the time is over.
        """
        self._turns += 1
        if machine.monotonic() >= self._ends_at:
            late = UnavailableError("other writers were first on every try; try again later")
            late.attempts = self._turns
            raise late from refused
        if self._turns > 1:
            await asyncio.sleep(jitter(self._turns - 1, longest_s=_LONGEST_PAUSE_S))


class _Changed(Enum):
    CHANGED = "changed"


CHANGED: Final = _Changed.CHANGED
"""What a look returns if others changed what it read meanwhile."""

Changed = Literal[_Changed.CHANGED]


async def read_whole(deadline_s: float, look: Callable[[], Awaitable[T | Changed]]) -> T:
    """Return what *look* finds, as soon as nobody changes it during a look.

    Raises:
        UnavailableError: others changed it until *deadline_s*, or until the running operation's deadline.
    """
    backoff = ConflictBackoff(deadline_s)
    while True:
        found = await look()
        if not isinstance(found, _Changed):
            return found
        await backoff.wait()

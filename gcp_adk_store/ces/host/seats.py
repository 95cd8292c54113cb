"""Share a sandbox of few places among runs that wait for runs within them."""

import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from gcp_adk_store.ces.sandbox import Sandbox
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.operations.limiter import Turns


class Seats:
    """Places of a sandbox, so given that runs never wait for each other in a circle.

    A run that may have *below* levels of runs within it takes a place where ``places - below`` are taken at
    most by runs that may have as many: so one is always left for a run that may have fewer, the deepest ones
    come to their end, and then those that wait for them.
    """

    def __init__(self, places: int) -> None:
        """Prepare them; *places* is how many runs the sandbox takes at a time."""
        self._places = places
        self._guard = threading.Lock()
        self._lines: dict[int, Turns] = {}

    @asynccontextmanager
    async def seat(self, below: int) -> AsyncIterator[None]:
        """Hold a place for a block in which up to *below* runs wait for each other, one within the other."""
        async with AsyncExitStack() as held:
            for level in range(below, -1, -1):
                await held.enter_async_context(self._line(level).turn(level))
            yield

    def _line(self, level: int) -> Turns:
        with self._guard:
            return self._lines.setdefault(level, Turns(at_once=self._places - level))


_SEATS: Final[WeakKeyDictionary[Sandbox, Seats]] = WeakKeyDictionary()
_GUARD: Final = threading.Lock()


def seats_of(sandbox: Sandbox, *, max_depth: int) -> Seats | None:
    """Return the seats that all runtimes on *sandbox* share; None where it does not say that it has an end.

    Raises:
        InvalidInputError: it has too few for runs of *max_depth*, which would wait for each other forever.
    """
    places = sandbox.runs_at_once
    if places is None:
        return None
    if places <= max_depth:
        raise InvalidInputError(
            f"the sandbox takes {places} runs at a time (runs_at_once), and tools that call each other "
            f"{max_depth} deep (max_depth) take at least {max_depth + 1}"
        )
    with _GUARD:
        return _SEATS.setdefault(sandbox, Seats(places))

"""Let calls of one process wait for each other, in any event loop: so many at most, and so long."""

import asyncio
import math
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gcp_adk_store import deadlines, telemetry
from gcp_adk_store.errors import OverloadedError


class _Waiter:
    """A call that waits in its own event loop; whoever changes it holds the guard of the turns."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.turn: asyncio.Future[None] = self._loop.create_future()
        self.is_given = False

    def end_after(self, seconds: float) -> asyncio.TimerHandle | None:
        """Wait no longer than *seconds*."""
        return None if math.isinf(seconds) else self._loop.call_later(seconds, self._settle, TimeoutError())

    def give(self) -> bool:
        """Give it the turn; tell whether there is anybody to take it."""
        try:
            if _is_running(self._loop):
                self._loop.call_soon(self._settle, None)
            else:
                self._loop.call_soon_threadsafe(self._settle, None)
        except RuntimeError:  # its event loop was closed
            return False
        self.is_given = True
        return True

    def _settle(self, failure: Exception | None) -> None:
        if self.turn.done():
            return
        if failure is None:
            self.turn.set_result(None)
        else:
            self.turn.set_exception(failure)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # none runs: what waited in a loop that is gone is thrown away
        return False


@dataclass(slots=True)
class _Line:
    running: int = 0
    waiting: deque[_Waiter] = field(default_factory=deque)


class Turns:
    """Turns by key, first come, first served; a key that nobody uses takes no memory.

    They keep the calls of this process from conflicting with each other, and from being more at a time than
    is good. What makes a write correct is its precondition: other processes have turns of their own.
    """

    def __init__(
        self, *, at_once: int = 1, max_waiting: int = sys.maxsize, longest_wait_s: float = math.inf
    ) -> None:
        """Prepare turns that *at_once* calls of a key have; *max_waiting* is for all keys together."""
        self._at_once = at_once
        self._max_waiting = max_waiting
        self._longest_wait_s = longest_wait_s
        # Reentrant: the garbage collector may close a call of a closed loop, which leaves, within any block
        # here. Each block does what must go together without making an object in between.
        self._guard = threading.RLock()
        self._lines: dict[Hashable, _Line] = {}
        self._waiting = 0

    async def take(self, key: Hashable) -> None:
        """Wait for a turn of *key*; whoever has it must :meth:`pass_on`. Cancelled, it is not taken.

        Raises:
            OverloadedError: too many calls wait, or this one did for too long; it has no turn.
        """
        with self._guard:
            if self._busy_line(key) is None:
                return
            if self._waiting >= self._max_waiting:
                raise OverloadedError(
                    f"{self._waiting} calls of this process wait for their turn, as many as may "
                    "(max_waiting); send fewer at a time"
                )
        mine = _Waiter()
        with self._guard:
            line = self._busy_line(key)
            if line is None:  # passed on meanwhile
                return
            line.waiting.append(mine)
            self._waiting += 1
        timer = mine.end_after(deadlines.at_most(self._longest_wait_s))
        tally = telemetry.running()
        if tally is not None:
            tally.waiting += 1
        try:
            await mine.turn
        except BaseException as exc:  # one whose loop was closed under it ends by GeneratorExit
            if self._leave(line, mine):  # given in the moment of the cancellation
                self.pass_on(key)
            if isinstance(exc, TimeoutError):
                raise OverloadedError(
                    "others of this process that came first took all the time there was; nothing was sent"
                ) from exc
            raise
        finally:
            if tally is not None:
                tally.waiting -= 1
            if timer is not None:
                timer.cancel()

    def _busy_line(self, key: Hashable) -> _Line | None:
        """Return the line of *key* to wait in; ``None`` if a turn was free, and is taken."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        if line.running >= self._at_once:
            return line
        line.running += 1
        return None

    def _leave(self, line: _Line, mine: _Waiter) -> bool:
        """Stop waiting; tell whether the turn had been given already."""
        with self._guard:
            if not mine.is_given and mine in line.waiting:
                line.waiting.remove(mine)
                self._waiting -= 1
            return mine.is_given

    def pass_on(self, key: Hashable) -> None:
        """Give a turn of *key* to the next who waits for it, in whichever event loop."""
        with self._guard:
            line = self._lines[key]
            while line.waiting:
                following = line.waiting.popleft()
                self._waiting -= 1
                if following.give():
                    return
            line.running -= 1
            if not line.running:
                del self._lines[key]

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Hold a turn of *key* for a block."""
        await self.take(key)
        try:
            yield
        finally:
            self.pass_on(key)

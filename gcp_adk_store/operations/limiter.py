"""Let calls of one process wait for each other, in any event loop: so many at most, and so long."""

import asyncio
import math
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from gcp_adk_store.errors import OverloadedError
from gcp_adk_store.operations import forks
from gcp_adk_store.operations.operation import at_most, running

_LOOKS_APART_S: Final = 1.0


class Turn:
    """A turn that a call waits for or has, in its event loop; whoever changes it holds the guard."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.loop = asyncio.get_running_loop()
        self._given: asyncio.Future[None] | None = None
        self._still_since: float | None = None

    def wait(self) -> "asyncio.Future[None]":
        """Return what is done when the turn is given."""
        self._given = self.loop.create_future()
        return self._given

    def give(self) -> bool:
        """Wake the call; tell whether there is anybody to wake."""
        try:
            if _is_running(self.loop):
                self.loop.call_soon(self._settle)
            else:
                self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # its event loop is closed
            return False
        return True

    def is_lost(self, now: float, *, after_s: float) -> bool:
        """Tell whether nobody passes it on: its loop is closed, or was never seen to run for *after_s*."""
        if self.loop.is_running():
            self._still_since = None
        elif self._still_since is None:
            self._still_since = now
        still_for_s = 0.0 if self._still_since is None else now - self._still_since
        return self.loop.is_closed() or still_for_s >= after_s

    def _settle(self) -> None:
        if self._given is not None and not self._given.done():
            self._given.set_result(None)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # no loop runs here: a call of a closed loop is thrown away
        return False


@dataclass(slots=True)
class _Line:
    key: Hashable
    running: set[Turn] = field(default_factory=set)
    waiting: deque[Turn] = field(default_factory=deque)


class Turns:
    """Turns by key, first come, first served; a key that nobody uses takes no memory.

    They keep the calls of this process from conflicting with each other, and from being more at a time than
    is good. What makes a write correct is its precondition: other processes have turns of their own.

    A call whose event loop ends under it never runs again, not even to clean up. Others get its turn at once
    where the loop is closed. A loop that is stopped may run again, and keeps its turns for half of
    *longest_wait_s* from when another call needs one; after that the call goes on without its turn.
    """

    def __init__(
        self, *, at_once: int = 1, max_waiting: int = sys.maxsize, longest_wait_s: float = math.inf
    ) -> None:
        """Prepare turns that *at_once* calls of a key have; *max_waiting* is for all keys together."""
        self._at_once = at_once
        self._max_waiting = max_waiting
        self._longest_wait_s = longest_wait_s
        self._looks_apart_s = min(_LOOKS_APART_S, longest_wait_s / 4)
        forks.begin(self)

    def begin(self) -> None:
        """Let nobody have a turn, and nobody wait: calls of the parent do not run in its child."""
        # Reentrant: the garbage collector may close a call of a closed loop, which leaves, within any block
        # here. So each block ends by giving what is free and putting the line into its place.
        self._guard = threading.RLock()
        self._lines: dict[Hashable, _Line] = {}
        self._waiting = 0
        self._looked_at = -math.inf

    async def take(self, key: Hashable) -> Turn:
        """Wait for a turn of *key* and return it, to :meth:`pass_on`. Cancelled, it is not taken.

        Raises:
            OverloadedError: too many calls wait, or this one did for too long; it has no turn.
        """
        mine = Turn(key)
        with self._guard:
            self._look()
            line = self._line(key)
            if len(line.running) >= self._at_once:
                self._reclaim(line)
            if len(line.running) < self._at_once:
                line.running.add(mine)
                self._lines[key] = line
                return mine
            if self._waiting >= self._max_waiting:
                raise OverloadedError(
                    f"{self._waiting} calls of this process wait for their turn, as many as may "
                    "(max_waiting); send fewer at a time"
                )
        given = mine.wait()
        with self._guard:
            line = self._line(key)
            line.waiting.append(mine)
            self._waiting += 1
            self._give(line)
        operation = running()
        if operation is not None:
            operation.counts.waiting += 1
        try:
            await self._until(given, at_most(self._longest_wait_s))
        except BaseException as exc:  # one whose loop was closed under it ends by GeneratorExit
            self.pass_on(mine)  # also one that was given in the moment of the cancellation
            if isinstance(exc, TimeoutError):
                raise OverloadedError(
                    "others of this process that came first took all the time there was; nothing was sent"
                ) from exc
            raise
        finally:
            if operation is not None:
                operation.counts.waiting -= 1
        return mine

    def pass_on(self, turn: Turn) -> None:
        """Give *turn* to the next who waits for one, in any event loop; one that was lost goes nowhere."""
        with self._guard:
            line = self._line(turn.key)
            self._drop(line, turn)
            self._give(line)

    async def _until(self, given: "asyncio.Future[None]", seconds: float) -> None:
        """Wait for a turn, and look now and then whether one comes back that nobody passes on."""
        ends_at = time.monotonic() + seconds
        while not given.done():
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            await asyncio.wait([given], timeout=min(left_s, self._looks_apart_s))
            with self._guard:
                self._look()

    def _line(self, key: Hashable) -> _Line:
        line = self._lines.get(key)
        return _Line(key) if line is None else line

    def _give(self, line: _Line) -> None:
        """Give what is free in *line*, which stays as long as somebody is in it."""
        while len(line.running) < self._at_once and line.waiting:
            following = line.waiting.popleft()
            self._waiting -= 1
            line.running.add(following)
            if not following.give():
                line.running.discard(following)
        if line.running or line.waiting:
            self._lines[line.key] = line
        elif self._lines.get(line.key) is line:
            del self._lines[line.key]

    def _drop(self, line: _Line, turn: Turn) -> None:
        if turn in line.running:
            line.running.discard(turn)
        elif turn in line.waiting:
            line.waiting.remove(turn)
            self._waiting -= 1

    def _look(self) -> None:
        """Reclaim what is lost in any line, also in those that nobody asks for any more; not too often."""
        now = time.monotonic()
        if now - self._looked_at < self._looks_apart_s:
            return
        self._looked_at = now
        for line in self._lines.copy().values():
            for turn in line.waiting.copy():
                if turn.loop.is_closed():
                    self._drop(line, turn)
            self._reclaim(line)

    def _reclaim(self, line: _Line) -> None:
        """Give the turns of *line* that nobody passes on to those who wait."""
        now = time.monotonic()
        for turn in line.running.copy():
            if turn.is_lost(now, after_s=self._longest_wait_s / 2):
                line.running.discard(turn)
        self._give(line)

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Hold a turn of *key* for a block."""
        turn = await self.take(key)
        try:
            yield
        finally:
            self.pass_on(turn)

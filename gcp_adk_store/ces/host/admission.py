"""Admit runs to sandboxes: as many as the machine has memory for, shared fairly among sessions.

Runs of different sessions wait for each other here alone. A run that calls a tool keeps its sandbox while the
tool has one too, so runs could wait for each other in a circle. One sandbox therefore belongs to each depth
of calls, and the rest is for any depth: the deepest runs have one, end, and then those above them can.
"""

import asyncio
import os
import re
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias
from weakref import WeakKeyDictionary

from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.sandbox import InProcessSandbox, Limits, Sandbox
from gcp_adk_store.errors import OverloadedError
from gcp_adk_store.operations.limiter import Permit

Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Entered while a run waits for a sandbox."""

_PER_CPU: Final = 8
"""Sandboxes for each processor: code waits for answers of the host most of its time."""
_SHARE_OF_MEMORY: Final = 0.75
"""Of what is available when a runtime is made; the rest is for the host and its requests."""
_LEAST_BYTES: Final = 256 * 1024 * 1024
"""Of address space for a run: the interpreter and the packages take some 200 MiB."""
_AVAILABLE: Final = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)
_CGROUPS: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this process may use."""

    cpus: int
    memory_bytes: int

    @classmethod
    def here(cls) -> Self:
        """Return what the kernel and the control groups of this process leave to it."""
        found = _AVAILABLE.search(Path("/proc/meminfo").read_text(encoding="ascii"))
        pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        available = int(found[1]) * 1024 if found else pages
        return cls(cpus=len(os.sched_getaffinity(0)), memory_bytes=min([available, *_cgroup_limits()]))


def _cgroup_limits() -> list[int]:
    """Return the limits of memory of the control groups that this process is in, of either version."""
    found: list[int] = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUPS / "memory" if controllers else _CGROUPS
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        own = root / path.lstrip("/")
        for folder in (own, *own.parents):
            if not folder.is_relative_to(root):
                break
            try:
                found.append(int((folder / name).read_text(encoding="ascii")))
            except (OSError, ValueError):  # there is no such folder inside of a container; or "max"
                continue
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many runs a runtime makes at a time, and how large."""

    places: int
    """Sandboxes at a time, those of called tools included."""
    per_session: int
    """Those of one session, and so of one call with all that it starts."""
    levels: int
    """Depths of calls, the first included."""
    memory_bytes: int
    """Of each run."""

    @classmethod
    def of(cls, settings: RuntimeSettings, sandbox: Sandbox | str | None, machine: Machine) -> Self:
        """Return the room that *machine* has for runs in *sandbox*, where *settings* do not say it.

        Where three quarters of the memory do not hold a run for each depth of calls, runs get less memory,
        down to 256 MiB, and then there are fewer depths.
        """
        each = (settings.limits or Limits()).memory_bytes
        levels = settings.max_depth + 1
        if sandbox == "inprocess" or isinstance(sandbox, InProcessSandbox):  # its runs may nest, not overlap
            return cls(places=levels, per_session=levels, levels=levels, memory_bytes=each)
        places = settings.sandboxes_at_once
        if places is None:
            memory = settings.sandbox_memory_bytes or int(machine.memory_bytes * _SHARE_OF_MEMORY)
            each = min(each, max(memory // levels, _LEAST_BYTES))
            places = max(1, min(_PER_CPU * machine.cpus, memory // each))
        if sandbox is not None and not isinstance(sandbox, str) and sandbox.runs_at_once is not None:
            places = min(places, sandbox.runs_at_once)
        levels = min(levels, places)
        per_session = min(settings.sandboxes_per_session or levels + (places - levels) // 2, places)
        return cls(places=places, per_session=per_session, levels=min(levels, per_session), memory_bytes=each)

    def has_place(self, running: Counter[int], depth: int, *, most: int) -> bool:
        """Whether a run at *depth* can begin beside those of *running*, by depth, of which *most* may."""
        beyond = sum(count - 1 for count in running.values() if count > 1)
        return running[depth] == 0 or beyond < most - self.levels


@dataclass(slots=True, eq=False)
class _Queued:
    session: Hashable
    depth: int
    room: Room
    permit: Permit
    is_given: bool = False


class Places:
    """Places of one sandbox; whichever session waits gets one in its turn."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may end a run of a closed loop within any block here.
        self._guard = threading.RLock()
        self._running: Counter[int] = Counter()
        self._of_session: dict[Hashable, Counter[int]] = {}
        self._queues: OrderedDict[Hashable, deque[_Queued]] = OrderedDict()

    @asynccontextmanager
    async def place(
        self,
        session: Hashable,
        depth: int,
        room: Room,
        *,
        longest_wait_s: float,
        waiting: Waiting,
    ) -> AsyncIterator[None]:
        """Hold a place for a block.

        Args:
            session: Whose run it is; sessions that wait take turns.
            depth: Of calls, from 0.
            room: How many there are.
            longest_wait_s: Seconds to wait at most.
            waiting: Entered while the run waits.

        Raises:
            OverloadedError: there was none in time.
        """
        await self._take(_Queued(session, depth, room, Permit(session)), longest_wait_s, waiting)
        try:
            yield
        finally:
            with self._guard:
                self._count(session, depth, -1)
                self._hand_out()

    async def _take(self, mine: _Queued, longest_wait_s: float, waiting: Waiting) -> None:
        given = mine.permit.wait()
        with self._guard:
            if self._is_free(mine):
                self._count(mine.session, mine.depth, 1)
                return
            self._queues.setdefault(mine.session, deque()).append(mine)
        try:
            with waiting():
                async with asyncio.timeout(longest_wait_s):
                    await given
        except BaseException as exc:  # one whose loop was closed under it ends by GeneratorExit
            self._leave(mine)
            if isinstance(exc, TimeoutError):
                raise OverloadedError(
                    f"no sandbox was free within the {longest_wait_s:g} s of longest_wait_s: "
                    f"sandboxes_at_once is {mine.room.places}, sandboxes_per_session {mine.room.per_session}"
                ) from exc
            raise

    def _leave(self, mine: _Queued) -> None:
        with self._guard:
            if mine.is_given:  # in the moment of the cancellation
                self._count(mine.session, mine.depth, -1)
                self._hand_out()
                return
            queue = self._queues.get(mine.session, deque())
            if mine in queue:
                queue.remove(mine)
                if not queue:
                    del self._queues[mine.session]

    def _hand_out(self) -> None:
        """Give places to those who wait and can begin, one session after the other."""
        while any(self._give_to(session) for session in [*self._queues]):
            pass

    def _give_to(self, session: Hashable) -> bool:
        queue = self._queues[session]
        for mine in queue:
            if self._is_free(mine):
                queue.remove(mine)
                self._queues.move_to_end(session)
                if not queue:
                    del self._queues[session]
                if mine.permit.grant():
                    mine.is_given = True
                    self._count(session, mine.depth, 1)
                return True
        return False

    def _is_free(self, mine: _Queued) -> bool:
        of_session = self._of_session.get(mine.session, Counter())
        return mine.room.has_place(
            of_session, mine.depth, most=mine.room.per_session
        ) and mine.room.has_place(self._running, mine.depth, most=mine.room.places)

    def _count(self, session: Hashable, depth: int, change: int) -> None:
        of_session = self._of_session.setdefault(session, Counter())
        of_session[depth] += change
        self._running[depth] += change
        if not any(of_session.values()):
            del self._of_session[session]


_PLACES: Final[WeakKeyDictionary[Sandbox, Places]] = WeakKeyDictionary()
_GUARD: Final = threading.Lock()


def places_of(sandbox: Sandbox) -> Places:
    """Return the places that all runtimes on *sandbox* share."""
    with _GUARD:
        return _PLACES.setdefault(sandbox, Places())

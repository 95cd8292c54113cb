"""Admit runs to sandboxes: as many as the machine has memory for, shared among users, then their sessions.

Runs of different sessions wait for each other here alone. A run that calls a tool keeps its sandbox while the
tool has one too, so runs could wait for each other in a circle. One sandbox therefore belongs to each depth
of calls, and the rest is for any depth: the deepest runs have one, end, and then those above them can.
"""

import asyncio
import os
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from weakref import WeakKeyDictionary

from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.sandbox import BubblewrapSandbox, Clock, InProcessSandbox, Limits, Sandbox
from gcp_adk_store.errors import InvalidInputError, OverloadedError
from gcp_adk_store.kernel.concurrency import Permit
from gcp_adk_store.kernel.process import OwnProcess

_PER_CPU: Final = 8
"""Sandboxes for each processor: code waits for answers of the host most of its time."""
_SHARE_OF_MEMORY: Final = 0.75
"""Of what is available when a runtime is made; the rest is for the host and its requests."""
_LEAST_BYTES: Final = 256 * 1024 * 1024
"""Of address space for a run: the interpreter and the packages take some 200 MiB."""
_AVAILABLE: Final = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)
_CGROUPS: Final = Path("/sys/fs/cgroup")
_SWEEP_INTERVAL_S: Final = 1.0
_STOPPED_LOOP_S: Final = 30.0
"""How long an event loop that has stopped keeps its places; half of the default ``longest_wait_s``."""


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
            except (OSError, ValueError):  # the folder is missing inside of a container, or the text is "max"
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
    def of(
        cls, settings: RuntimeSettings, sandbox: Sandbox | str | None, machine: Machine | None = None
    ) -> Self:
        """Return the room for runs in *sandbox* that *machine*, or this one, has if *settings* do not say it.

        Where three quarters of the memory do not hold a run for each depth of calls, runs get less memory,
        down to 256 MiB, and then there are fewer depths.
        """
        each = (settings.limits or Limits()).memory_bytes
        levels = settings.max_depth + 1
        if sandbox == "inprocess" or isinstance(sandbox, InProcessSandbox):  # its runs may nest, not overlap
            return cls(places=levels, per_session=levels, levels=levels, memory_bytes=each)
        places = settings.sandboxes_at_once
        if places is None:
            machine = machine or Machine.here()
            memory = int(machine.memory_bytes * _SHARE_OF_MEMORY)
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


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A run that holds a place or waits for one."""

    user: Hashable
    session: Hashable
    depth: int
    room: Room
    permit: Permit

    def turn_of(self, other: Self) -> tuple[bool, bool]:
        """Return what orders *other* among those that wait, once this one has its place."""
        return other.user == self.user, other.session == self.session


class Places:
    """Places of one sandbox; users that wait take turns, and the sessions of each user.

    A run whose event loop ends never runs again, not even to clean up. The places of a closed loop are free
    for the next run that needs one; a loop that has stopped and may run again keeps its places for 30 s.
    """

    def __init__(self) -> None:
        self._process = OwnProcess(self)
        # Reentrant: the garbage collector may end a run of a closed loop within any block here.
        self._guard = threading.RLock()
        self._held: set[_Request] = set()
        self._waiting: list[_Request] = []
        """In the order of their next turns."""

    @asynccontextmanager
    async def place(
        self, user: Hashable, session: Hashable, room: Room, clocks: Sequence[Clock], longest_wait_s: float
    ) -> AsyncIterator[None]:
        """Hold a place for a block, for a run within those that *clocks* are of.

        Users that wait take turns, and the sessions of a user when it is the user's. *clocks* stand still
        while the run waits, for *longest_wait_s* seconds at most.

        Raises:
            OverloadedError: no place was free in time.
            ForkedProcessError: a parent of this process used the sandbox.
        """
        self._process.require_own()
        request = _Request(user, session, len(clocks), room, Permit(session))
        with self._guard:
            self._reclaim()
            if self._is_free(request, self._running()):
                self._held.add(request)
            else:
                self._waiting.append(request)
        try:
            if request not in self._held:
                await self._wait(request, clocks, longest_wait_s)
            yield
        finally:
            self._release(request)  # also a place that was granted at the moment of a cancellation

    async def _wait(self, request: _Request, clocks: Sequence[Clock], longest_wait_s: float) -> None:
        try:
            with ExitStack() as stopped:
                for clock in clocks:
                    stopped.enter_context(clock.stopped())
                async with asyncio.timeout(longest_wait_s):
                    while not request.permit.is_granted:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(request.permit.wait(), _SWEEP_INTERVAL_S)
                        with self._guard:
                            self._reclaim()
        except TimeoutError as exc:
            raise OverloadedError(
                f"no sandbox was free within the {longest_wait_s:g} s of longest_wait_s: "
                f"sandboxes_at_once is {request.room.places}, "
                f"sandboxes_per_session {request.room.per_session}"
            ) from exc

    def _release(self, request: _Request) -> None:
        """Free the place of *request*, or let it wait no more; ignore a place that was reclaimed."""
        with self._guard:
            self._held.discard(request)
            if request in self._waiting:
                self._waiting.remove(request)
            self._hand_out()

    def _reclaim(self) -> None:
        """Free the places of runs whose event loops have ended."""
        now = time.monotonic()
        lost = [each for each in self._held if each.permit.is_lost(now, after_s=_STOPPED_LOOP_S)]
        if lost:
            self._held.difference_update(lost)
            self._hand_out()

    def _hand_out(self) -> None:
        """Give places to those who wait and can begin, one user after the other."""
        while request := self._next():
            others = [each for each in self._waiting if each is not request]
            # Others of its user come after those of other users, and of these its session's come last.
            self._waiting = sorted(others, key=request.turn_of)  # anew: the collector may end a run meanwhile
            if request.permit.grant():
                self._held.add(request)

    def _next(self) -> _Request | None:
        running = self._running()
        return next((each for each in [*self._waiting] if self._is_free(each, running)), None)

    def _running(self, session: Hashable = None) -> Counter[int]:
        """Return how many runs hold places at each depth: all, or those of *session*."""
        return Counter(each.depth for each in self._held if session in {None, each.session})

    def _is_free(self, request: _Request, running: Counter[int]) -> bool:
        room = request.room
        return room.has_place(running, request.depth, most=room.places) and room.has_place(
            self._running(request.session), request.depth, most=room.per_session
        )


_PLACES: Final[WeakKeyDictionary[Sandbox, Places]] = WeakKeyDictionary()
_GUARD: Final = threading.Lock()


def places_of(sandbox: Sandbox) -> Places:
    """Return the places that all runtimes on *sandbox* share."""
    with _GUARD:
        return _PLACES.setdefault(sandbox, Places())


def open_sandbox(chosen: Sandbox | str | None, settings: RuntimeSettings) -> tuple[Sandbox, Room]:
    """Return the sandbox, which the caller must close unless it gave it, and the room for runs in it.

    Args:
        chosen: A sandbox, the name of one, or None for bubblewrap. A new one has enough places that runs do
            not wait for runs within them.
        settings: Of the runs.

    Raises:
        InvalidInputError: the name is unknown.
    """
    room = Room.of(settings, chosen)
    match chosen:
        case None | "bubblewrap":
            return BubblewrapSandbox(runs_at_once=room.places), room
        case "inprocess":
            return InProcessSandbox(), room
        case str():
            raise InvalidInputError(f"unknown sandbox {chosen[:40]!r}; known: bubblewrap, inprocess")
        case _:
            return chosen, room

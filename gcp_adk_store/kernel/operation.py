"""One call of a service: its ids, beginning, deadline and counts, and the process that it runs in."""

import asyncio
import ctypes
import math
import os
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import TracebackType
from typing import (
    Any,
    Final,
    NoReturn,
    Self,
)

from opentelemetry.context import Context
from opentelemetry.trace import Span

from gcp_adk_store import machine
from gcp_adk_store.errors import ForkedProcessError


@dataclass(slots=True, eq=False)
class Counts:
    """Counts of what one operation has done so far.

    All its tasks add to them. They run in one event loop, so only counts of threads need a guard.
    """

    attempts: int = 0
    """The most attempts that one of its requests took."""
    retries: int = 0
    conflicts: int = 0
    waiting: int = 0
    """Its tasks that wait for a permit now."""
    rpcs: int = 0
    storage_requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    spilled_bytes: int = 0
    lookups: dict[str, int] = field(default_factory=dict)
    """Lookups in caches by cache and outcome, as ``segments.hits``."""


@dataclass(slots=True, eq=False)
class Operation:
    """One public call: its name, its ids, its deadline and its counts."""

    name: str
    """The method, such as ``append_event``; empty outside of all services."""
    system: str = ""
    """The service behind it, as telemetry names it."""
    app: str | None = None
    ids: Mapping[str, object] = field(default_factory=dict)
    """Its ids by the name of the argument, never content."""
    ends_at: float = math.inf
    """Its deadline, on the clock of ``machine.monotonic``."""
    counts: Counts = field(default_factory=Counts)
    span: Span | None = None
    attached: Token[Context] | None = None
    """Restores the context before the span."""
    since: float = 0.0
    elapsed_s: float = 0.0
    """Its running time in seconds, without the caller's time between two items."""

    @property
    def key(self) -> str:
        """Its ids as errors and log lines show them."""
        return " ".join(f"{name}={_shown(value)}" for name, value in self.ids.items())

    def until(self, ends_at: float) -> "Operation":
        """Return the same operation with a deadline of its own."""
        return Operation(self.name, self.system, self.app, self.ids, ends_at, self.counts, self.span)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # a number of over 4,300 digits
        return f"<{type(value).__name__}>"


_CALLS_A_TURN: Final = 16
"""Calls that begin in one turn of an event loop, and steps of others; one takes 0.05 to 0.5 ms."""


class _Pace:
    """How many calls, or steps, begin in a turn of an event loop, and those that wait for a later turn.

    Thousands would stall the loop. While :attr:`is_full`, it calls :meth:`go_on` in each turn: none waits for
    ever.
    """

    def __init__(self) -> None:
        self.begun = 0
        """Calls since :meth:`go_on` ran last."""
        self.following = 0
        """Calls that :meth:`go_on` woke, and that begin next."""
        self.waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a call that arrives now has to wait: for its turn, or for those that came before it."""
        return self.begun == _CALLS_A_TURN or self.following > 0

    def count_call(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count a call that begins now."""
        self.begun += 1
        if self.is_full:
            loop.call_soon(self.go_on, loop)

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a turn, and let the calls that have waited longest begin in the next one."""
        self.begun, self.following = self.following, 0
        while self.waiting and self.following < _CALLS_A_TURN:
            call = self.waiting.popleft()
            if not call.done():  # otherwise its caller was cancelled
                call.set_result(None)
                self.following += 1
        if self.is_full:
            loop.call_soon(self.go_on, loop)


_Paces = tuple[_Pace, _Pace]  # of calls, and of steps
_PACES: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Paces]] = weakref.WeakKeyDictionary()


async def paced(*, is_step: bool = False) -> None:
    """Wait until a call may begin, or a step of one, which waits for other steps only; in their order."""
    loop = asyncio.get_running_loop()
    pace = (_PACES.get(loop) or _new_paces(loop))[is_step]
    if pace.is_full:
        call = loop.create_future()
        pace.waiting.append(call)
        await call
    else:
        pace.count_call(loop)


def _new_paces(loop: asyncio.AbstractEventLoop) -> _Paces:
    """Return the paces of *loop*, and forget closed loops: calls that wait in them would keep them."""
    for reference in _PACES.keyrefs():
        if (other := reference()) is not None and other.is_closed():
            _PACES.pop(other, None)
    paces = _PACES[loop] = _Pace(), _Pace()
    return paces


# A task that an operation starts has a copy of its context, and so its operation.
_RUNNING: Final[ContextVar[Operation | None]] = ContextVar("adk_store_operation", default=None)


def running() -> Operation | None:
    """Return the operation of the running code; ``None`` outside of all operations."""
    operation = _RUNNING.get()
    return operation if operation is not None and operation.name else None


def enter(operation: Operation) -> Token[Operation | None]:
    """Make *operation* the running one in this context and in the tasks that it starts."""
    return _RUNNING.set(operation)


def leave(token: Token[Operation | None]) -> None:
    """Restore the operation before :func:`enter`."""
    _RUNNING.reset(token)


@contextmanager
def part_of(seconds: float) -> Iterator[None]:
    """Limit the block to *seconds*, and to the deadline of the running operation."""
    outer = _RUNNING.get() or Operation("")
    token = enter(outer.until(min(outer.ends_at, machine.monotonic() + seconds)))
    try:
        yield
    except GeneratorExit:
        raise  # the task is gone, and its context with it
    except BaseException:
        leave(token)
        raise
    leave(token)


def at_most(seconds: float) -> float:
    """Return *seconds*, or the remaining time of the running operation if that is less; at least 0."""
    operation = _RUNNING.get()
    return seconds if operation is None else max(0.0, min(seconds, operation.ends_at - machine.monotonic()))


# Not a WeakSet: other threads may add to it during a copy.
_used: Final[set[weakref.ref[Any]]] = set()


class OwnProcess:
    """The process that an object belongs to: the one that uses it first."""

    __slots__ = ("_owner", "_pid")

    def __init__(self, owner: object) -> None:
        """Prepare for *owner*, which holds threads and connections, or what it opens them with."""
        self._owner = weakref.ref(owner)
        self._pid: int | None = None

    def require_own(self) -> None:
        """Bind the owner to this process at its first use.

        Raises:
            ForkedProcessError: a parent of this process used it before the fork.
        """
        pid = os.getpid()
        if self._pid is None:
            self._pid = pid
            _used.add(weakref.ref(self._owner(), _used.discard))
        elif pid != self._pid:
            raise ForkedProcessError(
                f"process {self._pid} used this store before it forked, so process {pid} has none of its "
                "threads and connections: fork before the first call, or make a Store after the fork"
            )

    def is_this(self) -> bool:
        """Return whether no parent of this process used the owner."""
        return self._pid is None or self._pid == os.getpid()


def in_each_process(begin: Callable[[], None]) -> None:
    """Call *begin* now, and in each child as it is forked: it makes what all stores of a process share."""
    begin()
    _at_fork(begin)


class NotPicklable:
    """Has connections and threads, so it refuses to be copied."""

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: always.
        """
        name = type(self).__name__
        raise TypeError(
            f"a {name} cannot be pickled or copied: its connections and threads belong to this process; "
            f"pass its settings, and make a {name} of them in each process"
        )


class Closing(NotPicklable, ABC):
    """Closes at the end of an ``async with`` block, and belongs to one process."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections that this object opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _at_fork(call: Callable[[], None]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def _keep_owners() -> None:
    """Keep what the parent used, also while this child ends.

    A gRPC channel that is freed waits for its threads, which a child lacks. A SQLite connection that is freed
    rolls back a transaction of the parent, in memory that both share. An interpreter that ends frees what
    modules hold, but nothing that has a reference too many.
    """
    for reference in _used.copy():
        if (owner := reference()) is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


_at_fork(_keep_owners)

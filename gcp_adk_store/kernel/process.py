"""Bind what holds threads and connections to one process: after a fork, a child cannot use them."""

import ctypes
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from gcp_adk_store.errors import ForkedProcessError

# Not a WeakSet: other threads may add to it during a copy.
_used: Final[set[weakref.ref[Any]]] = set()


class OwnProcess:
    """The process that an object belongs to: the one that uses it first."""

    __slots__ = ("_owner", "pid")

    def __init__(self, owner: object) -> None:
        """Prepare for *owner*, which holds threads and connections, or what it opens them with."""
        self._owner = weakref.ref(owner)
        self.pid: int | None = None
        """The process that used the owner first; ``None`` before. A call in it needs no other check."""

    def require_own(self) -> None:
        """Bind the owner to this process at its first use.

        Raises:
            ForkedProcessError: a parent of this process used it before the fork.
        """
        pid = os.getpid()
        if self.pid is None:
            self.pid = pid
            _used.add(weakref.ref(self._owner(), _used.discard))
        elif pid != self.pid:
            raise ForkedProcessError(
                f"process {self.pid} used this store before it forked, so process {pid} has none of its "
                "threads and connections: fork before the first call, or make a Store after the fork"
            )

    def is_this(self) -> bool:
        """Return whether no parent of this process used the owner."""
        return self.pid is None or self.pid == os.getpid()


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

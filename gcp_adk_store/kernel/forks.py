"""Reset locks, threads and connections in each forked child process."""

import ctypes
import os
import threading
import weakref
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self

_POLLS: Final = "_poll_wrapper"
"""Part of the name of a thread that lives while gRPC has asynchronous channels; gRPC tells it nowhere else.

A channel that a child of such a process makes ends the child with SIGSEGV, or never answers (measured with
grpcio 1.85, with and without ``GRPC_ENABLE_FORK_SUPPORT``). Unless that variable is ``0``, gRPC's own fork
handlers start its threads in the child too. If calls were under way, these go on with them and may end
the child with SIGSEGV.
"""


_LATE_S: Final = 1.0
"""How long a fork waits for such a thread to end. gRPC does not wait for the last steps of its thread, which
take milliseconds, or longer where the processor is busy. A fork waits once for each thread."""


class BeginsAnew(Protocol):
    """Has state that belongs to one process: locks, threads, connections, calls."""

    def begin(self) -> None:
        """Create that state."""
        ...


_PID: Final = os.getpid()
# Not a WeakSet: other threads may add to it during a copy.
_parts: Final[set[weakref.ref[Any]]] = set()


class _Grpc:
    """Whether gRPC runs in this process before a fork, and whether it ran in a parent of this process."""

    polling: frozenset[threading.Thread] = frozenset()
    """The threads that lived on at the last fork."""
    runs = False
    is_lost = False


class OfOneProcess:
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


class Closing(OfOneProcess, ABC):
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


def begin(part: BeginsAnew) -> None:
    """Call ``part.begin()`` now, and again in each child before other code runs there.

    A part whose unused objects make a fork unsafe releases them in ``let_go()``, called before each fork;
    ``go_on()`` is called in the parent after it.
    """
    _parts.add(weakref.ref(part, _parts.discard))
    part.begin()


class Guard:
    """A lock that is free in each child: the thread that held it in the parent does not run there."""

    def __init__(self) -> None:
        begin(self)

    def begin(self) -> None:
        """Create a free lock."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def keep(of_the_parent: object) -> None:
    """Keep an object alive in children, also while they end.

    A gRPC channel that is freed waits for its threads. A child lacks these: it ends with SIGSEGV or SIGABRT.
    An interpreter that ends frees what modules hold, but nothing that has a reference too many.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(of_the_parent))


def is_child() -> bool:
    """Return whether this process forked after it imported this library."""
    return os.getpid() != _PID


def has_lost_grpc() -> bool:
    """Return whether gRPC ran in a parent of this process, so that it cannot run here."""
    return _Grpc.is_lost


def _living() -> list[Any]:
    return [part for reference in _parts.copy() if (part := reference()) is not None]


def _before() -> None:
    for part in _living():
        if hasattr(part, "let_go"):
            part.let_go()
    for thread in _polling() - _Grpc.polling:
        thread.join(_LATE_S)
    _Grpc.polling = _polling()
    _Grpc.runs = bool(_Grpc.polling)


def _polling() -> frozenset[threading.Thread]:
    return frozenset(thread for thread in threading.enumerate() if _POLLS in thread.name)


def _in_parent() -> None:
    for part in _living():
        if hasattr(part, "go_on"):
            part.go_on()


def _in_child() -> None:
    _Grpc.is_lost = _Grpc.is_lost or _Grpc.runs
    for part in _living():
        part.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

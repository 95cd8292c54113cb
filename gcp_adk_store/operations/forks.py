"""Let objects begin anew in each child that the process forks: locks, threads and connections stay behind."""

import os
import threading
import weakref
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

_POLLS: Final = "_poll_wrapper"
"""Part of the name of the thread that runs while gRPC has an asynchronous channel, in Python 3.10 and later.

Private-behaviour dependency, deliberately narrow: gRPC says nowhere else that it runs, and a channel that is
made in a child of such a process ends it with SIGSEGV, or never answers (measured with grpcio 1.85, with and
without ``GRPC_ENABLE_FORK_SUPPORT``).
"""


class BeginsAnew(Protocol):
    """Has state that belongs to one process: locks, threads, connections, calls."""

    def begin(self) -> None:
        """Make that state."""
        ...


@runtime_checkable
class LetsGo(Protocol):
    """Has what nobody uses any more, and what a fork would be in trouble with."""

    def let_go(self) -> None:
        """Let go of it; called before each fork."""
        ...


_PID: Final = os.getpid()
# A WeakSet is no such set: others may add to it while it is copied.
_parts: Final[set[weakref.ref[Any]]] = set()
_of_the_parent: Final[list[object]] = []


class _Grpc:
    """Whether gRPC runs in the process that forks, and whether it ran in one that this process comes from."""

    runs = False
    is_lost = False


class OfOneProcess:
    """Has connections and threads, which no copy of it could have."""

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


def begin(part: BeginsAnew) -> None:
    """Let *part* begin now, and again in each child before other code runs there."""
    _parts.add(weakref.ref(part, _parts.discard))
    part.begin()


class Guard:
    """A lock that nobody holds in a child: whoever held it in the parent does not run there."""

    def __init__(self) -> None:
        begin(self)

    def begin(self) -> None:
        """Be free."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def keep(of_the_parent: object) -> None:
    """Keep what a child must not end: a gRPC channel would wait for a thread that the child does not have."""
    _of_the_parent.append(of_the_parent)


def is_child() -> bool:
    """Tell whether the process was forked since this library was imported."""
    return os.getpid() != _PID


def has_lost_grpc() -> bool:
    """Tell whether gRPC ran in a process that this one is a child of, so that it cannot run here."""
    return _Grpc.is_lost


def _living() -> list[Any]:
    return [part for reference in _parts.copy() if (part := reference()) is not None]


def _before() -> None:
    for part in _living():
        if isinstance(part, LetsGo):
            part.let_go()
    _Grpc.runs = any(_POLLS in thread.name for thread in threading.enumerate())


def _in_child() -> None:
    _Grpc.is_lost = _Grpc.is_lost or _Grpc.runs
    for part in _living():
        part.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)

"""Refuse gRPC in a process that was forked while gRPC ran."""

import os
import threading
from typing import Final

from gcp_adk_store.errors import ForkedProcessError

_POLLS: Final = "_poll_wrapper"
"""Part of the name of a thread that lives while gRPC has asynchronous channels; gRPC shows it nowhere else.

A channel that a child of such a process makes ends the child with SIGSEGV, or never answers (measured with
grpcio 1.85, with and without ``GRPC_ENABLE_FORK_SUPPORT``).
"""

_LATE_S: Final = 1.0
"""How long a fork waits for such a thread to end. gRPC does not wait for the last steps of its thread, which
take milliseconds, or longer where the processor is busy. A fork waits once for each thread."""


class _Grpc:
    """Whether gRPC ran in a parent of this process."""

    polling: frozenset[threading.Thread] = frozenset()
    """The threads that lived on at the last fork."""
    is_lost = False


def require_grpc() -> None:
    """Accept a process in which gRPC can run.

    Raises:
        ForkedProcessError: gRPC ran in a parent of this process at the fork.
    """
    if _Grpc.is_lost:
        raise ForkedProcessError(
            "this process was forked while gRPC ran in its parent, and gRPC cannot run in it: fork before "
            "the first call to Firestore, or close() stores and clients of Firestore before the fork"
        )


def _polling() -> frozenset[threading.Thread]:
    return frozenset(thread for thread in threading.enumerate() if _POLLS in thread.name)


def _before() -> None:
    for thread in _polling() - _Grpc.polling:
        thread.join(_LATE_S)
    _Grpc.polling = _polling()


def _in_child() -> None:
    _Grpc.is_lost = _Grpc.is_lost or bool(_Grpc.polling)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)

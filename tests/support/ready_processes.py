"""Processes that have imported already what most of them need.

A process that imports ADK takes two seconds of a processor. These are forked from one that has imported the
modules below and has done nothing else, so each has its own connections, threads and locks all the same.
Python has one such server in a process, which imports what its first user says: so all say the same, here.
"""

import asyncio
import contextlib
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, Self

READY: Final = multiprocessing.get_context("forkserver")
_MODULES = [
    "a2a.types",
    "google.adk.runners",
    "google.cloud.firestore",
    "google.cloud.storage",
    "pytest",
    "gcp_adk_store.cli.command",
    "gcp_adk_store.store",
    "gcp_adk_store.local.backend",
    "gcp_adk_store.tasks",
    "tests.chaos.worker",
    "tests.faults.operations",
    "tests.faults.folder_world",
]
READY.set_forkserver_preload(_MODULES)
_LONGEST_S = 60


class ReadyProcess:
    """A process that runs ``function(connection, *arguments)``; what it sends, this one receives."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self._here, there = READY.Pipe()
        self._process = READY.Process(
            target=_run, args=(function, there, dict(os.environ), arguments), daemon=True
        )
        self._process.start()
        there.close()

    def send(self, said: Any) -> Self:
        """Say something to it."""
        self._here.send(said)
        return self

    def receive(self) -> Any:
        """Wait for the next thing that it sends; raise ``EOFError`` if it ends without."""
        assert self._here.poll(_LONGEST_S)
        return self._here.recv()

    def runs(self) -> bool:
        """Return whether it has not ended yet."""
        return self._process.is_alive()

    def join(self) -> int | None:
        """Wait until it has ended; return its status."""
        self._process.join(_LONGEST_S)
        return self._process.exitcode

    def end(self) -> list[Any]:
        """End it, whatever it is doing; return what it sent that nobody received."""
        self._process.kill()
        self._process.join()
        left = []
        with self._here, contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                left.append(self._here.recv())
        return left


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what *function*, or the coroutine that it returns, returns in another process."""
    process = ReadyProcess(_answer, function, arguments)
    try:
        answer = process.receive()
        assert 0 == process.join()
        return answer
    finally:
        process.end()


def _run(
    function: Callable[..., None], there: Connection, variables: dict[str, str], arguments: tuple[Any, ...]
) -> None:
    os.environ.clear()
    os.environ.update(variables)
    function(there, *arguments)


def _answer(there: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    result = function(*arguments)
    there.send(asyncio.run(result) if asyncio.iscoroutine(result) else result)

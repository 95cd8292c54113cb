"""Count what steps of an event loop compute, for there is other work that waits meanwhile.

Calls are counted, and the lengths of texts that are read, written, compressed or hashed in one call: what the
machine does besides changes neither.
"""

import asyncio
import hashlib
import json
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest

from gcp_adk_store.codec import packing
from gcp_adk_store.kernel import concurrency as pauses

_ON_TEXTS: Final = (
    (hashlib, "sha256", 10),
    (json, "dumps", 1),
    (json, "loads", 1),
    (packing, "from_json", 1),
    (zlib, "compress", 1),
)
"""Functions, and how many times as fast as reading JSON each of them is, at least."""


class LoopWork:
    """The most that one step did so far."""

    calls = 0
    """Of functions, Python's own included."""
    characters = 0
    """Of one text."""
    apart_characters = 0
    """Of one text, in another thread."""

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        self._of_step = 0

    def run(self, step: Callable[[], None]) -> None:
        """Run a step, and count it."""
        self._of_step = 0
        sys.setprofile(self._count)
        try:
            step()
        finally:
            sys.setprofile(None)
            self.calls = max(self.calls, self._of_step)

    def measured(self, work: Callable[..., Any], pace: int) -> Callable[..., Any]:
        """Return *work* on texts, which returns how long they are."""

        def measure(*args: Any, **options: Any) -> Any:
            result = work(*args, **options)
            texts = (each for each in (*args, result) if isinstance(each, str | bytes))
            length = max(map(len, texts), default=0) // pace
            if threading.current_thread() is self._thread:
                self.characters = max(self.characters, length)
            else:
                self.apart_characters = max(self.apart_characters, length)
            return result

        return measure

    def _count(self, _: FrameType, what: str, __: object) -> None:
        self._of_step += what.endswith("call")


@contextmanager
def counted_steps() -> Iterator[LoopWork]:
    """Count steps of this thread's event loop within the block."""
    found = LoopWork()
    run = asyncio.Handle._run

    def counted(self: asyncio.Handle) -> None:
        found.run(lambda: run(self))

    with pytest.MonkeyPatch.context() as patch:
        for module, name, pace in _ON_TEXTS:
            patch.setattr(module, name, found.measured(getattr(module, name), pace))
        patch.setattr(asyncio.Handle, "_run", counted)
        yield found


class Work:
    """What was done within a block."""

    calls = 0
    """Of functions, Python's own included."""


class _Here(Executor):
    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **options))
        except Exception as exc:  # noqa: BLE001  # whatever it is, the caller gets it
            done.set_exception(exc)
        return done


@contextmanager
def counted_work() -> Iterator[Work]:
    """Count what this thread does within the block, with what the library computes apart."""
    work = Work()

    def count(_: FrameType, what: str, __: object) -> None:
        work.calls += what.endswith("call")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pauses._APART, "thread", _Here())
        sys.setprofile(count)
        try:
            yield work
        finally:
            sys.setprofile(None)


class Turns:
    """Counts what is done in each turn of an event loop: before all that is ready there has run once more."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0
        self.count = 0
        """Turns so far."""

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            self.now = 0
            await asyncio.sleep(0)
            self.count += 1

    def add(self) -> None:
        """Count one thing that is done."""
        self.now += 1
        self.all += 1
        self.most = max(self.most, self.now)

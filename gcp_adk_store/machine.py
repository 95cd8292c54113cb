"""The machine that the library runs on: its clock, its random numbers and its threads.

Everything that differs from one run to the next comes from here, or from ADK's ``platform.time`` and
``platform.uuid``. So :mod:`gcp_adk_store.testing.simulation` can decide it. Call these as ``machine.NAME``: a
name that a module imports stays that of the real machine.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from random import SystemRandom
from typing import Protocol


class Machine(Protocol):
    """What replaces the real machine for a while."""

    def monotonic(self) -> float:
        """Return seconds since a time of its choice; they never go back."""
        ...

    def random_bytes(self, count: int, /) -> bytes:
        """Return so many random bytes, fit for keys."""
        ...

    def uniform(self, low: float, high: float, /) -> float:
        """Return a random number between *low* and *high*."""
        ...

    def threads(self, most: int, name: str, /) -> Executor:
        """Return *most* threads at most, whose names begin with *name*."""
        ...


def _threads(most: int, name: str, /) -> Executor:
    return ThreadPoolExecutor(most, thread_name_prefix=name)


monotonic: Callable[[], float] = time.monotonic
random_bytes: Callable[[int], bytes] = os.urandom
# Not the program's own generator: its random numbers stay as the program seeded them.
uniform: Callable[[float, float], float] = SystemRandom().uniform
threads: Callable[[int, str], Executor] = _threads


@contextmanager
def replaced_by(other: Machine) -> Iterator[None]:
    """Let the library run on *other* within the block."""
    global monotonic, random_bytes, uniform, threads  # callers look the names up here
    real = monotonic, random_bytes, uniform, threads
    monotonic, random_bytes, uniform, threads = (
        other.monotonic,
        other.random_bytes,
        other.uniform,
        other.threads,
    )
    try:
        yield
    finally:
        monotonic, random_bytes, uniform, threads = real

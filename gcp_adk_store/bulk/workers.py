"""Open a store in each worker of a Beam job, and run its coroutines there."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics

from gcp_adk_store.bulk.reading import PacedDocuments, Ramp
from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.settings import MEMORY, SessionLimits, StoreSettings
from gcp_adk_store.store import Store

logger = logging.getLogger(__name__)

T = TypeVar("T")

NAMESPACE: Final = "gcp_adk_store"
"""Of the metrics of all jobs."""

_AT_ONCE: Final = 32
"""Elements that a worker takes from a coroutine at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkStore:
    """The store that the workers of a job open, each for itself."""

    settings: StoreSettings
    """Where it is, and the identity; paths must be those of the workers."""
    processes: int = 1
    """Processes of all workers, which share the rate of Firestore's 500/50/5 rule."""

    def __post_init__(self) -> None:
        if self.settings.local == MEMORY:
            raise InvalidInputError("workers cannot share a store in memory; name a folder")
        if self.processes < 1:
            raise InvalidInputError(f"processes is {self.processes}, it must be 1 or more")


class StoreDoFn(beam.DoFn):
    """Has an open store, and an event loop, as long as it lives."""

    def __init__(self, at: BulkStore) -> None:
        self._at = at

    def setup(self) -> None:
        """Open the store; without I/O."""
        self._runner = asyncio.Runner()
        ramp = None if self._at.settings.local is not None else _ramp(self._at.processes)
        store = Store.from_settings(self._at.settings, session_limits=SessionLimits(segment_cache_bytes=0))
        self.store = store.through(lambda documents: PacedDocuments(documents, ramp, _count_documents))

    def teardown(self) -> None:
        """Close the store."""
        self._runner.run(self.store.close())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns."""
        return self._runner.run(work)

    def each(self, found: AsyncGenerator[T]) -> Iterator[T]:
        """Yield what *found* yields."""
        try:
            while some := self._runner.run(_taken(found)):
                yield from some
        finally:
            self._runner.run(found.aclose())


def count(name: str, number: int = 1) -> None:
    """Add to a metric of the job."""
    Metrics.counter(NAMESPACE, name).inc(number)


def tell_unreadable(exc: StoreError) -> None:
    """Count and log something that cannot be read; the message names it, and has no content."""
    count("unreadable")
    logger.warning("%s", exc)


async def _taken(found: AsyncGenerator[T]) -> list[T]:
    some: list[T] = []
    async for one in found:
        some.append(one)
        if len(some) == _AT_ONCE:
            break
    return some


def _count_documents(kind: str, documents: int, wait_s: float) -> None:
    count(f"documents_{kind}", documents)
    if wait_s:
        # Dataflow adds no workers while they wait by this metric.
        count("throttling-msecs", round(wait_s * 1000))


_RAMPS: dict[int, Ramp] = {}
_GUARD: Final = threading.Lock()


def _ramp(processes: int) -> Ramp:
    """Return the ramp of this process, which all of its threads share."""
    with _GUARD:
        return _RAMPS.setdefault(processes, Ramp(processes))

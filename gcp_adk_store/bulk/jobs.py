"""Open a store in each worker of a Beam job, build the job's pipeline, and report its counts."""

import asyncio
import json
import logging
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Final, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.runners.runner import PipelineState

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

    def __init__(self, at: BulkStore, work: "Work") -> None:
        """Prepare; *work* is called with this object and each element, and yields what comes out."""
        self._at = at
        self._work = work

    def process(self, element: Any) -> Iterator[Any]:
        """As Beam asks."""
        return self._work(self, element)

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


Work = Callable[[StoreDoFn, Any], Iterator[Any]]


def count(name: str, number: int = 1) -> None:
    """Add to a metric of the job."""
    Metrics.counter(NAMESPACE, name).inc(number)


def report_unreadable(reason: str) -> None:
    """Count and log something that cannot be read; *reason* names it, and has no content."""
    count("unreadable")
    logger.warning("%s", reason)


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


_HERE: Final = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
"""The part of the DirectRunner that runs in this process: the whole of it first downloads another program."""

Build = Callable[[beam.Pipeline, BulkStore], object]
"""Applies the transforms of a job to a pipeline."""


def run(
    build: Build, settings: StoreSettings, arguments: Sequence[str] = (), *, processes: int | None = None
) -> Mapping[str, int]:
    """Run a job, and return its counts by name.

    Args:
        build: Applies the transforms.
        settings: The store.
        arguments: Options of Beam, such as ``--runner DataflowRunner --region europe-west1``; by default the
            job runs in this process.
        processes: Processes of all workers, which share Firestore's rate; by default as many as Beam's
            options name.

    Raises:
        InvalidInputError: an option is invalid, or the number of processes is unknown.
        StoreError: the job failed.
    """
    options = PipelineOptions([*arguments])
    standard = options.view_as(StandardOptions)
    if standard.runner is None:
        standard.runner = _HERE
    at = BulkStore(settings=settings, processes=processes or _processes(options))
    try:
        pipeline = beam.Pipeline(options=options)
    except ValueError as exc:
        raise InvalidInputError(f"Beam refuses its options: {exc}") from exc
    build(pipeline, at)
    try:
        result = pipeline.run()
        if options.view_as(GoogleCloudOptions).template_location:
            return {}  # the template is stored, and nothing ran
        state = result.wait_until_finish()
    except StoreError:
        raise
    except Exception as exc:
        # Not its text, which may quote content.
        raise StoreError(
            f"the job failed with a {type(exc).__name__}; see its log, and run it again"
        ) from exc
    if state != PipelineState.DONE:
        raise StoreError(f"the job ended as {state}; see the log of its runner, and run it again")
    return counts_of(result)


def counts_of(result: Any) -> Mapping[str, int]:
    """Return the counts of a job that Beam ran, by the names of the metrics."""
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    counts: Counter[str] = Counter()
    for each in found:
        counts[each.key.metric.name] += each.result
    return dict(sorted(counts.items()))


def as_json_line(value: Any) -> str:
    """Return *value*, or its fields, as a line of JSON in ASCII."""
    return json.dumps(
        asdict(value) if is_dataclass(value) and not isinstance(value, type) else value, default=str
    )


def _processes(options: PipelineOptions) -> int:
    """Return how many processes Beam's *options* name.

    Raises:
        InvalidInputError: they name none, for a runner of other machines.
    """
    direct = options.view_as(DirectOptions).direct_num_workers
    workers = options.view_as(WorkerOptions)
    named = workers.max_num_workers or workers.num_workers
    runner = options.view_as(StandardOptions).runner or ""
    if named or runner == _HERE or "direct" in runner.lower():
        return int(named or direct or 1)
    raise InvalidInputError(
        "Firestore's rate is shared by all processes of all workers: pass their number, or Beam's "
        "--max_num_workers if each worker has one"
    )

"""Build a pipeline of a job, run it by Beam's options, and tell its counts."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Final

import apache_beam as beam
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.runners.runner import PipelineState

from gcp_adk_store.bulk.workers import NAMESPACE, BulkStore
from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.settings import StoreSettings

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
        InvalidInputError: an option is invalid, or nothing tells the number of processes.
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

"""See what this process says through OpenTelemetry, while a test looks."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter as SumOf
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

OWN = "gcp_adk_store"
Point = tuple[str, frozenset[tuple[str, Any]]]
"""A metric's name, and the attributes of one of its series."""


class Spans(SpanProcessor):
    """Keeps spans that end while it is on: providers stay for the life of the process."""

    def __init__(self) -> None:
        self.is_on = False
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep *span*."""
        if self.is_on:
            self.ended.append(span)


class Watched:
    """The spans and metrics of this process."""

    def __init__(self) -> None:
        """Install providers, or join those that are there, as ADK's servers set one."""
        self._spans = Spans()
        self._reader = InMemoryMetricReader(
            preferred_temporality={
                SumOf: AggregationTemporality.DELTA,
                Histogram: AggregationTemporality.DELTA,
            }
        )
        tracing = trace.get_tracer_provider()
        if not isinstance(tracing, TracerProvider):
            tracing = TracerProvider()
            trace.set_tracer_provider(tracing)
        tracing.add_span_processor(self._spans)
        metrics.set_meter_provider(MeterProvider([self._reader]))

    @contextmanager
    def on(self) -> Iterator[None]:
        """Look for the length of a block, as if nothing had been before."""
        self._spans.is_on = True
        self.take_spans()
        self.take_metrics()
        yield
        self._spans.is_on = False

    def take_all_spans(self) -> list[ReadableSpan]:
        """Return the spans that ended since the last call, whoever made them."""
        taken, self._spans.ended = self._spans.ended, []
        return taken

    def take_spans(self) -> list[ReadableSpan]:
        """Return those of this library."""
        return [span for span in self.take_all_spans() if span.name.startswith(f"{OWN}.")]

    def take_span(self) -> ReadableSpan:
        """Return the only one of this library."""
        (span,) = self.take_spans()
        return span

    def take_metrics(self) -> "Measurements":
        """Return what was added since the last call; of what is observed, what it is now."""
        return Measurements(self._reader.get_metrics_data())


class Measurements:
    """The metrics of this library: sums, numbers of measurements, observations."""

    def __init__(self, data: Any) -> None:
        self.units: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.points: Counter[Point] = Counter()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                if scope.scope.name == OWN:
                    self._learn(scope.metrics)

    def _learn(self, found: Any) -> None:
        for metric in found:
            self.units[metric.name] = metric.unit
            self.kinds[metric.name] = type(metric.data).__name__
            for point in metric.data.data_points:
                value = point.value if hasattr(point, "value") else point.count
                self.points[metric.name, frozenset(point.attributes.items())] += value

    def of(self, name: str, operation: str, **attributes: Any) -> int:
        """Return the sum of a metric over the series of *operation* with these *attributes*.

        In their names a double underline is a dot; those of this library are given without its name.
        """
        wanted = {("db.operation.name", operation)}
        for short, value in attributes.items():
            key = short.replace("__", ".")
            wanted.add((key if key in ("error.type", "db.system.name") else f"{OWN}.{key}", value))
        return sum(
            value
            for (metric, series), value in self.points.items()
            if metric == f"{OWN}.{name}" and wanted <= series
        )

    def attributes(self, name: str) -> set[str]:
        """Return the names of all attributes that a metric has."""
        return {key for (metric, series) in self.points if metric == name for key, _ in series}


def own(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes of this library, without its name before them."""
    return {
        name.removeprefix(f"{OWN}."): value
        for name, value in attributes_of(span).items()
        if name.startswith(f"{OWN}.")
    }


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    """Return all attributes of a span."""
    return span.attributes or {}

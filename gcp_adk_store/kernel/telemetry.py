"""Measure operations: the span, the duration and the counts of each, through OpenTelemetry's API alone.

Without an SDK nothing leaves the process, and the cost is close to zero. Spans and metrics hold only numbers,
names of this library and the app; ids of users and sessions only if the settings ask for them.

The names of spans, attributes and metrics are those of docs/telemetry.md.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from opentelemetry import context, metrics, trace
from opentelemetry.trace import SpanKind, StatusCode

from gcp_adk_store import errors, machine
from gcp_adk_store.kernel.operation import Counts, Operation, in_each_process, running

Cache: TypeAlias = Literal["segments", "versions", "memories", "queries"]
"""The caches of a process: sealed segments, the latest version of each artifact, sealed documents of a user's
memories, and vectors of queries."""

FIRESTORE: Final = "gcp.firestore"
STORAGE: Final = "gcp.storage"

SYSTEM: Final = "db.system.name"
OPERATION: Final = "db.operation.name"
ERROR: Final = "error.type"
USER: Final = "user.id"
SESSION: Final = "gen_ai.conversation.id"
"""ADK's own spans name the session so."""

_OWN: Final = "gcp_adk_store"
APP: Final = f"{_OWN}.app"
OUTCOME: Final = f"{_OWN}.outcome"
BACKEND: Final = f"{_OWN}.backend"
PLACE: Final = f"{_OWN}.place"
CACHE: Final = f"{_OWN}.cache.name"

_LONGEST_ID: Final = 128
"""Characters of an id: apps and users choose them, and may choose a kilobyte."""

# Failures that the caller resolves; every other one is a failure of the store.
_REFUSALS: Final = (
    errors.ArtifactConflictError,
    errors.InvalidInputError,
    errors.SessionConflictError,
    errors.SessionExistsError,
    errors.SessionMissingError,
    errors.TaskConflictError,
    errors.UploadMissingError,
)

# It passes calls on to an SDK that is set later, and does not read the environment again.
_PROVIDER: Final = trace.get_tracer_provider()
_METER: Final = metrics.get_meter(_OWN)

_DURATION: Final = _METER.create_histogram(
    f"{_OWN}.operation.duration",
    unit="s",
    description="Time that an operation took.",
    explicit_bucket_boundaries_advisory=(
        *(0.005, 0.01, 0.02, 0.03, 0.05, 0.075),
        *(0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
        *(1, 2.5, 5, 10, 30, 60),
    ),
)


def _counter(name: str, unit: str, description: str) -> metrics.Counter:
    return _METER.create_counter(f"{_OWN}.{name}", unit=unit, description=description)


_REQUESTS: Final = _counter(
    "requests", "{request}", "RPCs and HTTP requests that were sent, repeats included."
)
_RETRIES: Final = _counter("retries", "{retry}", "Requests that were sent again, by the failure before.")
_CONFLICTS: Final = _counter("conflicts", "{conflict}", "Writes that another writer preceded.")
_SPILLED: Final = _counter("spilled", "By", "Bytes of large content that the store moved into payloads.")
_HITS: Final = _counter("cache.hits", "{lookup}", "Lookups that a cache answered.")
_MISSES: Final = _counter("cache.misses", "{lookup}", "Lookups that a cache could not answer.")


class _Calls:
    """The operations that run in this process."""

    def __init__(self) -> None:
        in_each_process(self._begin)

    def _begin(self) -> None:
        self.in_flight: set[Operation] = set()
        self.guard = threading.Lock()


_CALLS: Final = _Calls()


class _Sdk:
    """The tracer of an SDK, once one is set."""

    tracer: trace.Tracer | None = None


# Bounded: one entry per method.
_KNOWN: Final[dict[tuple[str, str], None]] = {}
"""System and name of the operations that this process ran, for observations of 0."""


def _labels(operation: Operation) -> dict[str, str]:
    return {SYSTEM: operation.system, OPERATION: operation.name}


def begin_span(operation: Operation, names_ids: Callable[[], bool] = lambda: False) -> None:
    """Start the span of *operation* if an SDK is present; a span without one takes 2 % of an append.

    *names_ids* returns whether the span has the ids of the user and the session.
    """
    tracer = _PROVIDER.get_tracer(_OWN) if _Sdk.tracer is None else _Sdk.tracer
    if isinstance(tracer, trace.ProxyTracer):
        return
    _Sdk.tracer = tracer  # an SDK that is set stays
    span = tracer.start_span(f"{_OWN}.{operation.name}", kind=SpanKind.CLIENT, attributes=_labels(operation))
    operation.span = span
    if span.is_recording():
        named: dict[str, object] = {APP: operation.app}
        if names_ids():
            named |= {USER: operation.ids.get("user_id"), SESSION: operation.ids.get("session_id")}
        span.set_attributes({name: shown(value) for name, value in named.items() if isinstance(value, str)})


def _is_recorded(operation: Operation) -> bool:
    return operation.span is not None and operation.span.is_recording()


def attach(operation: Operation) -> None:
    """Make the span of *operation* the current one, and measure its time from now on."""
    if operation.span is not None:
        operation.attached = context.attach(trace.set_span_in_context(operation.span))
    _KNOWN[operation.system, operation.name] = None
    _CALLS.in_flight.add(operation)
    operation.since = machine.monotonic()


def detach(operation: Operation, *, in_context: bool) -> None:
    """Undo :func:`attach`; *in_context* says whether its context still exists."""
    operation.elapsed_s += machine.monotonic() - operation.since
    _CALLS.in_flight.discard(operation)
    if in_context and operation.attached is not None:
        context.detach(operation.attached)


@contextmanager
def idle() -> Iterator[None]:
    """Leave the time of the block, in which the running operation waits for news, out of its duration."""
    operation = running()
    if operation is None:
        yield
        return
    since = machine.monotonic()
    _CALLS.in_flight.discard(operation)
    try:
        yield
    finally:
        _CALLS.in_flight.add(operation)
        operation.elapsed_s -= machine.monotonic() - since


def finish(operation: Operation, failure: BaseException | None) -> None:
    """Record the end of *operation*: success, or *failure*."""
    ending = {**_labels(operation), OUTCOME: "ok"}
    if failure is not None:
        ending |= {OUTCOME: _outcome(failure), ERROR: error_type(failure)}
    _DURATION.record(operation.elapsed_s, ending)
    span = operation.span
    if span is not None:
        if span.is_recording():
            span.set_attributes({**ending, **_counts(operation.counts)})
        if isinstance(failure, Exception):
            # Without a description: the error's message names ids.
            span.set_status(StatusCode.ERROR)
        span.end()


def count_attempt(number: int, failure: Exception | None) -> None:
    """Count attempt *number*, from 1, of one request; *failure* is that of the attempt before."""
    operation = running()
    if operation is not None:
        operation.counts.attempts = max(operation.counts.attempts, number)
        if failure is not None:
            operation.counts.retries += 1
            _RETRIES.add(1, {**_labels(operation), ERROR: error_type(failure)})


def count_lookups(of: Cache, *, hits: int, misses: int) -> None:
    """Count the lookups of the running operation in a cache."""
    operation = running()
    if operation is not None:
        attributes = {**_labels(operation), CACHE: of}
        # Both exist from the first lookup on, so that their ratio does too.
        _HITS.add(hits, attributes)
        _MISSES.add(misses, attributes)
        known = operation.counts.lookups
        known[f"{of}.hits"] = known.get(f"{of}.hits", 0) + hits
        known[f"{of}.misses"] = known.get(f"{of}.misses", 0) + misses


def count_spilled(size: int, place: str) -> None:
    """Count bytes that the running operation moved into a payload."""
    operation = running()
    if operation is not None:
        operation.counts.spilled_bytes += size
        _SPILLED.add(size, {**_labels(operation), PLACE: place})


def count_conflict() -> None:
    """Count a write of the running operation that another writer preceded."""
    operation = running()
    if operation is not None:
        operation.counts.conflicts += 1
        _CONFLICTS.add(1, _labels(operation))


def count_rpc(size: Callable[[], int]) -> None:
    """Count an RPC to Firestore that the running operation sends; *size* computes its bytes."""
    operation = running()
    if operation is not None:
        operation.counts.rpcs += 1
        _REQUESTS.add(1, {**_labels(operation), BACKEND: "firestore"})
        if _is_recorded(operation):
            operation.counts.sent_bytes += size()


def count_answer(size: Callable[[], int]) -> None:
    """Count the bytes of Firestore's answer to the running operation; *size* computes them."""
    operation = running()
    if operation is not None and _is_recorded(operation):
        operation.counts.received_bytes += size()


def count_storage_request() -> None:
    """Count a request to Cloud Storage that the running operation sends; from any thread."""
    operation = running()
    if operation is not None:
        with _CALLS.guard:
            operation.counts.storage_requests += 1
        _REQUESTS.add(1, {**_labels(operation), BACKEND: "storage"})


def count_content(*, sent: int = 0, received: int = 0) -> None:
    """Count the bytes of objects that the running operation wrote or read."""
    operation = running()
    if operation is not None:
        operation.counts.sent_bytes += sent
        operation.counts.received_bytes += received


def shown(text: str) -> str:
    """Return *text* as an attribute: at most 128 characters of valid Unicode."""
    sendable = text[:_LONGEST_ID].encode("utf-8", "backslashreplace").decode()
    if len(text) <= _LONGEST_ID and len(sendable) <= _LONGEST_ID:
        return sendable
    return f"{sendable[: _LONGEST_ID - 1]}…"


def error_type(failure: BaseException) -> str:
    """Return the name of the exception's type, with its module unless it is Python's or this library's."""
    kind = type(failure)
    known = isinstance(failure, errors.StoreError) or kind.__module__ == "builtins"
    return shown(kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}")


def label() -> str:
    """Return the start of a log line about the running operation: its name and its ids."""
    operation = running()
    return "" if operation is None else f"{operation.name} {operation.key}: "


def log_fields(failure: BaseException | None = None) -> dict[str, str | int]:
    """Return ``extra=`` of a log record: the operation, its app, its attempts and its failure, if known."""
    operation = running()
    fields: dict[str, str | int] = {}
    if operation is not None:
        fields["operation"] = operation.name
        fields["attempts"] = operation.counts.attempts
        if operation.app is not None:
            fields["app"] = shown(operation.app)
    if isinstance(failure, errors.StoreError):
        fields["attempts"] = failure.attempts
    if failure is not None:
        fields["error_type"] = error_type(failure)
    return fields


def warn(logger: logging.Logger, message: str, failure: BaseException) -> None:
    """Log *message*, the ids of the running operation, and the type of a failure that does not end it."""
    logger.warning(
        "%s%s: %s", label(), message, type(failure).__name__, extra=log_fields(failure), stacklevel=2
    )


def _outcome(failure: BaseException) -> str:
    if isinstance(failure, _REFUSALS):
        return "refused"
    return "failed" if isinstance(failure, Exception) else "cancelled"


def _counts(counts: Counts) -> dict[str, int]:
    return {
        f"{_OWN}.firestore.rpcs": counts.rpcs,
        f"{_OWN}.storage.requests": counts.storage_requests,
        f"{_OWN}.attempts": counts.attempts,
        f"{_OWN}.retries": counts.retries,
        f"{_OWN}.conflicts": counts.conflicts,
        f"{_OWN}.sent.bytes": counts.sent_bytes,
        f"{_OWN}.received.bytes": counts.received_bytes,
        f"{_OWN}.spilled.bytes": counts.spilled_bytes,
        **{f"{_OWN}.cache.{of}": number for of, number in counts.lookups.items()},
    }


def _in_flight(*, waiting: bool) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
    def observe(_options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        seen = [one for one in _CALLS.in_flight.copy() if one.counts.waiting or not waiting]
        numbers = Counter((one.system, one.name) for one in seen)
        return [
            metrics.Observation(numbers[known], {SYSTEM: known[0], OPERATION: known[1]})
            for known in _KNOWN.copy()
        ]

    return observe


_METER.create_observable_up_down_counter(
    f"{_OWN}.operations.in_flight",
    [_in_flight(waiting=False)],
    unit="{operation}",
    description="Operations that run.",
)
_METER.create_observable_up_down_counter(
    f"{_OWN}.operations.waiting",
    [_in_flight(waiting=True)],
    unit="{operation}",
    description="Running operations that wait for a permit in this process.",
)

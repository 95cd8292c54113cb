"""Measure operations: the duration and the counts of each, through OpenTelemetry's API alone.

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

from opentelemetry import metrics
from opentelemetry.trace import StatusCode

from gcp_adk_store import errors, machine
from gcp_adk_store.kernel.operation import Counts, Operation, running
from gcp_adk_store.kernel.process import in_each_process

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

OWN: Final = "gcp_adk_store"
APP: Final = f"{OWN}.app"
OUTCOME: Final = f"{OWN}.outcome"
BACKEND: Final = f"{OWN}.backend"
PLACE: Final = f"{OWN}.place"
CACHE: Final = f"{OWN}.cache.name"

_LONGEST_ID: Final = 128
"""Characters of an id: apps and users choose them, and may choose a kilobyte."""

_FAILED: Final = 500
"""The HTTP status from which on an error is a failure of the store; the caller resolves the others."""

_METER: Final = metrics.get_meter(OWN)

_DURATION: Final = _METER.create_histogram(
    f"{OWN}.operation.duration",
    unit="s",
    description="Time that an operation took.",
    explicit_bucket_boundaries_advisory=(
        *(0.005, 0.01, 0.02, 0.03, 0.05, 0.075),
        *(0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
        *(1, 2.5, 5, 10, 30, 60),
    ),
)


def _counter(name: str, unit: str, description: str) -> metrics.Counter:
    return _METER.create_counter(f"{OWN}.{name}", unit=unit, description=description)


_REQUESTS: Final = _counter(
    "requests", "{request}", "RPCs and HTTP requests that were sent, repeats included."
)
_RETRIES: Final = _counter("retries", "{retry}", "Requests that were sent again, by the failure before.")
_CONFLICTS: Final = _counter("conflicts", "{conflict}", "Writes that another writer preceded.")
_SPILLED: Final = _counter("spilled", "By", "Bytes of large content that the store moved into payloads.")
_HITS: Final = _counter("cache.hits", "{lookup}", "Lookups that a cache answered.")
_MISSES: Final = _counter("cache.misses", "{lookup}", "Lookups that a cache could not answer.")


class Calls:
    """The operations of this process."""

    def __init__(self) -> None:
        # Bounded: one entry per method.
        self.known: dict[tuple[str, str], None] = {}
        """System and name of the operations that have run, for observations of 0."""
        in_each_process(self._begin)

    def _begin(self) -> None:
        self.in_flight: set[Operation] = set()
        """Those that run."""
        self.guard = threading.Lock()


CALLS: Final = Calls()


def labels(operation: Operation) -> dict[str, str]:
    """Return what names *operation* in spans and metrics."""
    return {SYSTEM: operation.system, OPERATION: operation.name}


def _is_recorded(operation: Operation) -> bool:
    return operation.span is not None and operation.span.is_recording()


@contextmanager
def idle() -> Iterator[None]:
    """Leave the time of the block, in which the running operation waits for news, out of its duration."""
    operation = running()
    if operation is None:
        yield
        return
    since = machine.monotonic()
    CALLS.in_flight.discard(operation)
    try:
        yield
    finally:
        CALLS.in_flight.add(operation)
        operation.elapsed_s -= machine.monotonic() - since


def finish(operation: Operation, failure: BaseException | None) -> None:
    """Record the end of *operation*: success, or *failure*."""
    ending = {**labels(operation), OUTCOME: "ok"}
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
            _RETRIES.add(1, {**labels(operation), ERROR: error_type(failure)})


def count_lookups(of: Cache, *, hits: int, misses: int) -> None:
    """Count the lookups of the running operation in a cache."""
    operation = running()
    if operation is not None:
        attributes = {**labels(operation), CACHE: of}
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
        _SPILLED.add(size, {**labels(operation), PLACE: place})


def count_conflict() -> None:
    """Count a write of the running operation that another writer preceded."""
    operation = running()
    if operation is not None:
        operation.counts.conflicts += 1
        _CONFLICTS.add(1, labels(operation))


def count_rpc(size: Callable[[], int]) -> None:
    """Count an RPC to Firestore that the running operation sends; *size* computes its bytes."""
    operation = running()
    if operation is not None:
        operation.counts.rpcs += 1
        _REQUESTS.add(1, {**labels(operation), BACKEND: "firestore"})
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
        with CALLS.guard:
            operation.counts.storage_requests += 1
        _REQUESTS.add(1, {**labels(operation), BACKEND: "storage"})


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
    return "" if operation is None else f"{operation.name} {operation.key}".rstrip() + ": "


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
    if isinstance(failure, errors.StoreError) and failure.http_status < _FAILED:
        return "refused"
    return "failed" if isinstance(failure, Exception) else "cancelled"


def _counts(counts: Counts) -> dict[str, int]:
    return {
        f"{OWN}.firestore.rpcs": counts.rpcs,
        f"{OWN}.storage.requests": counts.storage_requests,
        f"{OWN}.attempts": counts.attempts,
        f"{OWN}.retries": counts.retries,
        f"{OWN}.conflicts": counts.conflicts,
        f"{OWN}.sent.bytes": counts.sent_bytes,
        f"{OWN}.received.bytes": counts.received_bytes,
        f"{OWN}.spilled.bytes": counts.spilled_bytes,
        **{f"{OWN}.cache.{of}": number for of, number in counts.lookups.items()},
    }


def _in_flight(*, waiting: bool) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
    def observe(_options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        seen = [one for one in CALLS.in_flight.copy() if one.counts.waiting or not waiting]
        numbers = Counter((one.system, one.name) for one in seen)
        return [
            metrics.Observation(numbers[known], {SYSTEM: known[0], OPERATION: known[1]})
            for known in CALLS.known.copy()
        ]

    return observe


_METER.create_observable_up_down_counter(
    f"{OWN}.operations.in_flight",
    [_in_flight(waiting=False)],
    unit="{operation}",
    description="Operations that run.",
)
_METER.create_observable_up_down_counter(
    f"{OWN}.operations.waiting",
    [_in_flight(waiting=True)],
    unit="{operation}",
    description="Running operations that wait for a permit in this process.",
)

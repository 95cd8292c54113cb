"""Measure operations: a span, a duration and a tally of each, through OpenTelemetry's API alone.

Without an SDK nothing of it leaves the process, and next to nothing is computed. Nothing is ever told but
numbers, names of this library's own and the app; of whom it was about only where that is asked for.

The names of spans, attributes and metrics are those of docs/telemetry.md.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextvars import ContextVar, Token
from functools import cache
from types import MappingProxyType, TracebackType
from typing import Final, Literal, Protocol, TypeAlias

from opentelemetry import context, metrics, trace
from opentelemetry.trace import SpanKind, StatusCode

from gcp_adk_store import errors
from gcp_adk_store.operations import forks
from gcp_adk_store.operations.forks import Guard

Cache: TypeAlias = Literal["segments", "versions"]
"""What this process remembers: sealed segments, events, the latest version of an artifact."""

FIRESTORE: Final = "gcp.firestore"
STORAGE: Final = "gcp.storage"

SYSTEM: Final = "db.system.name"
OPERATION: Final = "db.operation.name"
ERROR: Final = "error.type"
USER: Final = "user.id"
SESSION: Final = "gen_ai.conversation.id"
"""What ADK's own spans call a session."""

_OWN: Final = "gcp_adk_store"
APP: Final = f"{_OWN}.app"
OUTCOME: Final = f"{_OWN}.outcome"
BACKEND: Final = f"{_OWN}.backend"
PLACE: Final = f"{_OWN}.place"
CACHE: Final = f"{_OWN}.cache.name"

_LONGEST_ID: Final = 128
"""Characters of an id: apps and users choose them, and may choose a kilobyte."""

# What the caller has to mend, or to decide upon; everything else that fails is a failure of the store.
_REFUSALS: Final = (
    errors.ArtifactConflictError,
    errors.InvalidInputError,
    errors.SessionConflictError,
    errors.SessionExistsError,
    errors.SessionMissingError,
    errors.UploadMissingError,
)

_TRACER: Final = trace.get_tracer(_OWN)
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
_REQUESTS: Final = _METER.create_counter(
    f"{_OWN}.requests",
    unit="{request}",
    description="RPCs and HTTP requests that were sent, repeats included.",
)
_RETRIES: Final = _METER.create_counter(
    f"{_OWN}.retries", unit="{retry}", description="Requests that were sent again, by the failure before."
)
_CONFLICTS: Final = _METER.create_counter(
    f"{_OWN}.conflicts", unit="{conflict}", description="Writes that met another writer who had been first."
)
_SPILLED: Final = _METER.create_counter(
    f"{_OWN}.spilled", unit="By", description="Bytes of large content that left for payloads."
)
_HITS: Final = _METER.create_counter(
    f"{_OWN}.cache.hits", unit="{lookup}", description="What was asked for and remembered."
)
_MISSES: Final = _METER.create_counter(
    f"{_OWN}.cache.misses", unit="{lookup}", description="What was asked for and not remembered."
)

_RUNNING: Final[ContextVar["Tally | None"]] = ContextVar("adk_store_tally", default=None)
_GUARD: Final = Guard()


class _Calls:
    """The calls of this process that have begun and not ended."""

    def __init__(self) -> None:
        forks.begin(self)

    def begin(self) -> None:
        self.in_flight: set[Tally] = set()


_CALLS: Final = _Calls()


class Message(Protocol):
    """A protobuf message."""

    def ByteSize(self) -> int:  # noqa: N802  # protobuf's name
        """Return how many bytes it takes on the wire."""
        ...


class Measured:
    """One operation of one service, whoever calls it."""

    def __init__(self, system: str, operation: str) -> None:
        """Prepare it; *system* is the service that is behind it."""
        self.operation: Final = operation
        self.span_name: Final = f"{_OWN}.{operation}"
        # One object for each set of attributes, so that the many counts make none.
        self.attributes: Final[Mapping[str, str]] = {SYSTEM: system, OPERATION: operation}
        self.of_firestore: Final = {**self.attributes, BACKEND: "firestore"}
        self.of_storage: Final = {**self.attributes, BACKEND: "storage"}
        self.well: Final = {**self.attributes, OUTCOME: "ok"}
        self.with_attribute: Final = cache(lambda name, value: {**self.attributes, name: value})

    def begin(self, app: object) -> "Tally":
        """Return the tally of a call that is made for an *app*; its span begins with it."""
        return Tally(self, app)


_MEASURED: Final[dict[tuple[str, str], Measured]] = {}


def measured(system: str, operation: str) -> Measured:
    """Return the one of this name: there are as many as methods."""
    name = (system, operation)
    found = _MEASURED.get(name)
    return found if found is not None else _MEASURED.setdefault(name, Measured(system, operation))


class Tally:
    """What one call of an operation has done so far.

    Whatever its tasks do is added up here. They are all of one event loop, so nothing is guarded but what
    threads count.
    """

    # What is counted begins as that of the class: most calls count next to nothing.
    is_recording = False
    """Whether its span is looked at by anybody."""
    attempts = 0
    """The most that one of its requests took."""
    retries = 0
    conflicts = 0
    waiting = 0
    rpcs = 0
    storage_requests = 0
    sent_bytes = 0
    received_bytes = 0
    spilled_bytes = 0
    lookups: Mapping[str, int] = MappingProxyType({})
    """What was looked for in caches, as ``segments.hits``."""
    _span: trace.Span | None = None
    _context: Token[context.Context] | None = None
    _elapsed_s = 0.0

    def __init__(self, measured: Measured, app: object) -> None:
        self.measured = measured
        self.app = app if isinstance(app, str) else None
        # Read past the API, whose spans that nobody sees took 2 % of an append. Where it has no such name any
        # more, they are made again.
        if getattr(trace, "_TRACER_PROVIDER", trace) is not None:
            self._trace()

    def _trace(self) -> None:
        measured = self.measured
        span = _TRACER.start_span(measured.span_name, kind=SpanKind.CLIENT, attributes=measured.attributes)
        self._span = span
        self.is_recording = span.is_recording()
        if self.is_recording and self.app is not None:
            span.set_attribute(APP, shown(self.app))

    def name(self, user: object, session: object) -> None:
        """Tell of whom it is about; for those who asked for it."""
        for attribute, value in ((USER, user), (SESSION, session)):
            if isinstance(value, str) and self._span is not None:
                self._span.set_attribute(attribute, shown(value))

    def enter(self) -> None:
        """Let what follows in this context, and the tasks that it starts, be of this call."""
        self._token = _RUNNING.set(self)
        if self._span is not None:
            self._context = context.attach(trace.set_span_in_context(self._span))
        _CALLS.in_flight.add(self)
        self._since = time.perf_counter()

    def leave(self, failure: BaseException | None = None) -> None:
        """End what :meth:`enter` began; the call may go on later."""
        self._elapsed_s += time.perf_counter() - self._since
        _CALLS.in_flight.discard(self)
        if isinstance(failure, GeneratorExit):
            return  # its task is gone, and its context with it
        if self._context is not None:
            context.detach(self._context)
        _RUNNING.reset(self._token)

    __enter__ = enter

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave(failure)
        self.finish(failure)

    def finish(self, failure: BaseException | None) -> None:
        """Record how it ended: well, or with *failure*."""
        ending: Mapping[str, str] = self.measured.well
        if failure is not None:
            ending = {**self.measured.attributes, OUTCOME: _outcome(failure), ERROR: error_type(failure)}
        _DURATION.record(self._elapsed_s, ending)
        if self._span is not None:
            if self.is_recording:
                self._span.set_attributes({**ending, **self._counts()})
            if isinstance(failure, Exception):
                # Without a description: an error's message names ids.
                self._span.set_status(StatusCode.ERROR)
            self._span.end()

    def count_attempt(self, number: int, failure: Exception | None) -> None:
        """Count the attempt of this *number*, counted from 1, of one request; *failure* is that before it."""
        self.attempts = max(self.attempts, number)
        if failure is not None:
            self.retries += 1
            _RETRIES.add(1, self.measured.with_attribute(ERROR, error_type(failure)))

    def _counts(self) -> dict[str, int]:
        counts = {
            f"{_OWN}.firestore.rpcs": self.rpcs,
            f"{_OWN}.storage.requests": self.storage_requests,
            f"{_OWN}.attempts": self.attempts,
            f"{_OWN}.retries": self.retries,
            f"{_OWN}.conflicts": self.conflicts,
            f"{_OWN}.sent.bytes": self.sent_bytes,
            f"{_OWN}.received.bytes": self.received_bytes,
            f"{_OWN}.spilled.bytes": self.spilled_bytes,
        }
        return counts | {f"{_OWN}.cache.{of}": number for of, number in self.lookups.items()}


def running() -> Tally | None:
    """Return the tally of the call that the running code is part of; ``None`` outside of all."""
    return _RUNNING.get()


def count_lookups(of: Cache, *, hits: int, misses: int) -> None:
    """Count what the running operation looked for in a cache."""
    tally = _RUNNING.get()
    if tally is not None:
        attributes = tally.measured.with_attribute(CACHE, of)
        # Both are there from the first lookup on, so that a ratio of them is.
        _HITS.add(hits, attributes)
        _MISSES.add(misses, attributes)
        known = tally.lookups
        tally.lookups = {
            **known,
            f"{of}.hits": known.get(f"{of}.hits", 0) + hits,
            f"{of}.misses": known.get(f"{of}.misses", 0) + misses,
        }


def count_spilled(size: int, place: str) -> None:
    """Count bytes of the running operation that left for a payload."""
    tally = _RUNNING.get()
    if tally is not None:
        tally.spilled_bytes += size
        _SPILLED.add(size, tally.measured.with_attribute(PLACE, place))


def count_conflict() -> None:
    """Count a write of the running operation that another writer was before."""
    tally = _RUNNING.get()
    if tally is not None:
        tally.conflicts += 1
        _CONFLICTS.add(1, tally.measured.attributes)


def count_rpc(request: Message) -> Tally | None:
    """Count an RPC to Firestore that the running operation sends; return its tally."""
    tally = _RUNNING.get()
    if tally is not None:
        tally.rpcs += 1
        _REQUESTS.add(1, tally.measured.of_firestore)
        if tally.is_recording:
            tally.sent_bytes += request.ByteSize()
    return tally


def count_storage_request() -> None:
    """Count a request to Cloud Storage that the running operation sends; from any thread."""
    tally = _RUNNING.get()
    if tally is not None:
        with _GUARD:
            tally.storage_requests += 1
        _REQUESTS.add(1, tally.measured.of_storage)


def count_content(*, sent: int = 0, received: int = 0) -> None:
    """Count bytes of objects that the running operation wrote or read."""
    tally = _RUNNING.get()
    if tally is not None:
        tally.sent_bytes += sent
        tally.received_bytes += received


def running_app() -> str | None:
    """Return the app that the running code works for, where that is known."""
    tally = _RUNNING.get()
    return None if tally is None else tally.app


def shown(text: str) -> str:
    """Return an id as an attribute may have it: 128 characters at most, and text that can be sent."""
    sendable = text[:_LONGEST_ID].encode("utf-8", "backslashreplace").decode()
    if len(text) <= _LONGEST_ID and len(sendable) <= _LONGEST_ID:
        return sendable
    return f"{sendable[: _LONGEST_ID - 1]}…"


def error_type(failure: BaseException) -> str:
    """Return the name of what went wrong: short for this library's and Python's own, else with its module."""
    kind = type(failure)
    known = isinstance(failure, errors.StoreError) or kind.__module__ == "builtins"
    return shown(kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}")


def log_fields(failure: BaseException | None = None, *, attempts: int | None = None) -> dict[str, str | int]:
    """Return ``extra=`` of a log record: the operation, its app, attempts and failure, where known."""
    tally = running()
    fields: dict[str, str | int] = {}
    if tally is not None:
        fields["operation"] = tally.measured.operation
        fields["attempts"] = tally.attempts
        if tally.app is not None:
            fields["app"] = shown(tally.app)
    if isinstance(failure, errors.StoreError):
        fields["attempts"] = failure.attempts
    if failure is not None:
        fields["error_type"] = error_type(failure)
    if attempts is not None:
        fields["attempts"] = attempts
    return fields


def _outcome(failure: BaseException) -> str:
    if isinstance(failure, _REFUSALS):
        return "refused"
    return "failed" if isinstance(failure, Exception) else "cancelled"


def _observed(counted: Iterable[Measured]) -> Iterable[metrics.Observation]:
    numbers = Counter(counted)
    return [metrics.Observation(numbers[one], one.attributes) for one in list(_MEASURED.values())]


def _in_flight(options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
    del options
    return _observed(tally.measured for tally in _CALLS.in_flight.copy())


def _waiting(options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
    del options
    return _observed(tally.measured for tally in _CALLS.in_flight.copy() if tally.waiting)


_METER.create_observable_up_down_counter(
    f"{_OWN}.operations.in_flight",
    [_in_flight],
    unit="{operation}",
    description="Operations that were begun and have not ended.",
)
_METER.create_observable_up_down_counter(
    f"{_OWN}.operations.waiting",
    [_waiting],
    unit="{operation}",
    description="Those of them that wait for their turn in this process.",
)

"""Hold the running public call of a service: its name, its ids, its deadline and its counts."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Span

from gcp_adk_store import machine


@dataclass(slots=True, eq=False)
class Counts:
    """Counts of what one operation has done so far.

    All its tasks add to them. They run in one event loop, so only counts of threads need a guard.
    """

    attempts: int = 0
    """The most attempts that one of its requests took."""
    retries: int = 0
    conflicts: int = 0
    waiting: int = 0
    """Its tasks that wait for a permit now."""
    rpcs: int = 0
    storage_requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    spilled_bytes: int = 0
    lookups: dict[str, int] = field(default_factory=dict)
    """Lookups in caches by cache and outcome, as ``segments.hits``."""


@dataclass(slots=True, eq=False)
class Operation:
    """One public call: its name, its ids, its deadline and its counts."""

    name: str
    """The method, such as ``append_event``; empty outside of all services."""
    system: str = ""
    """The service behind it, as telemetry names it."""
    app: str | None = None
    ids: Mapping[str, object] = field(default_factory=dict)
    """Its ids by the name of the argument, never content."""
    ends_at: float = math.inf
    """Its deadline, on the clock of ``machine.monotonic``."""
    counts: Counts = field(default_factory=Counts)
    span: Span | None = None
    attached: Token[Context] | None = None
    """Restores the context before the span."""
    since: float = 0.0
    elapsed_s: float = 0.0
    """Its running time in seconds, without the caller's time between two items."""

    @property
    def key(self) -> str:
        """Its ids as errors and log lines show them."""
        return " ".join(f"{name}={value!r}" for name, value in self.ids.items())

    def until(self, ends_at: float) -> "Operation":
        """Return the same operation with a deadline of its own."""
        return Operation(self.name, self.system, self.app, self.ids, ends_at, self.counts, self.span)


# A task that an operation starts has a copy of its context, and so its operation.
_RUNNING: Final[ContextVar[Operation | None]] = ContextVar("adk_store_operation", default=None)


def running() -> Operation | None:
    """Return the operation of the running code; ``None`` outside of all operations."""
    operation = _RUNNING.get()
    return operation if operation is not None and operation.name else None


def label() -> str:
    """Return the start of a log line about the running operation: its name and its ids."""
    operation = running()
    return "" if operation is None else f"{operation.name} {operation.key}: "


def enter(operation: Operation) -> Token[Operation | None]:
    """Make *operation* the running one in this context and in the tasks that it starts."""
    return _RUNNING.set(operation)


def leave(token: Token[Operation | None]) -> None:
    """Restore the operation before :func:`enter`."""
    _RUNNING.reset(token)


@contextmanager
def part_of(seconds: float) -> Iterator[None]:
    """Limit the block to *seconds*, and to the deadline of the running operation."""
    outer = _RUNNING.get() or Operation("")
    token = enter(outer.until(min(outer.ends_at, machine.monotonic() + seconds)))
    try:
        yield
    except GeneratorExit:
        raise  # the task is gone, and its context with it
    except BaseException:
        leave(token)
        raise
    leave(token)


def at_most(seconds: float) -> float:
    """Return *seconds*, or the remaining time of the running operation if that is less; at least 0."""
    operation = _RUNNING.get()
    return seconds if operation is None else max(0.0, min(seconds, operation.ends_at - machine.monotonic()))

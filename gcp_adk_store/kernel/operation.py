"""One call of a service: its ids, deadline and counts, when it begins, and the kinds of its arguments."""

import asyncio
import functools
import importlib
import inspect
import math
import os
import types
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import (
    Any,
    BinaryIO,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from opentelemetry.context import Context
from opentelemetry.trace import Span

from gcp_adk_store import machine
from gcp_adk_store.errors import InvalidInputError, require_number, shown


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
    payload_keys: dict[Hashable, bytes] = field(default_factory=dict)
    """Ids of the data keys of payloads that it stored and does not refer to yet, by what each key is for."""
    attached: Token[Context] | None = None
    """Restores the context before the span."""
    since: float = 0.0
    elapsed_s: float = 0.0
    """Its running time in seconds, without the caller's time between two items."""

    @property
    def key(self) -> str:
        """Its ids as errors and log lines show them."""
        return " ".join(f"{name}={_shown(value)}" for name, value in self.ids.items())

    def until(self, ends_at: float) -> "Operation":
        """Return the same operation with a deadline of its own."""
        return Operation(
            self.name, self.system, self.app, self.ids, ends_at, self.counts, self.span, self.payload_keys
        )


_MOST_SHOWN: Final = 1500
"""Characters of an id: none that can be stored has more."""


def _shown(value: object) -> str:
    try:
        return repr(value[:_MOST_SHOWN] if isinstance(value, str) else value)
    except ValueError:  # a number of over 4,300 digits
        return f"<{type(value).__name__}>"


_CALLS_A_TURN: Final = 4
"""Calls that begin in one turn of an event loop, and steps of others; one takes 0.05 to 0.5 ms.

With 16, a burst of 2,048 appends held up the loop for 20 ms of CPU; with 4, for 11 ms, and it took as long.
"""


class _Pace:
    """How many calls, or steps, begin in a turn of an event loop, and those that wait for a later turn.

    Thousands would stall the loop. While :attr:`is_full`, it calls :meth:`go_on` in each turn: none waits for
    ever.
    """

    def __init__(self) -> None:
        self.begun = 0
        """Calls since :meth:`go_on` ran last."""
        self.following = 0
        """Calls that :meth:`go_on` woke, and that begin next."""
        self.waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a call that arrives now has to wait: for its turn, or for those that came before it."""
        return self.begun == _CALLS_A_TURN or self.following > 0

    def count_call(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count a call that begins now."""
        self.begun += 1
        if self.is_full:
            loop.call_soon(self.go_on, loop)

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a turn, and let the calls that have waited longest begin in the next one."""
        self.begun, self.following = self.following, 0
        while self.waiting and self.following < _CALLS_A_TURN:
            call = self.waiting.popleft()
            if not call.done():  # otherwise its caller was cancelled
                call.set_result(None)
                self.following += 1
        if self.is_full:
            loop.call_soon(self.go_on, loop)


_Paces = tuple[_Pace, _Pace]  # of calls, and of steps
_PACES: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Paces]] = weakref.WeakKeyDictionary()


async def paced(*, is_step: bool = False) -> None:
    """Wait until a call may begin, or a step of one, which waits for other steps only; in their order."""
    loop = asyncio.get_running_loop()
    pace = (_PACES.get(loop) or _new_paces(loop))[is_step]
    if pace.is_full:
        call = loop.create_future()
        pace.waiting.append(call)
        await call
    else:
        pace.count_call(loop)


def _new_paces(loop: asyncio.AbstractEventLoop) -> _Paces:
    """Return the paces of *loop*, and forget closed loops: calls that wait in them would keep them."""
    for reference in _PACES.keyrefs():
        if (other := reference()) is not None and other.is_closed():
            _PACES.pop(other, None)
    paces = _PACES[loop] = _Pace(), _Pace()
    return paces


# A task that an operation starts has a copy of its context, and so its operation.
_RUNNING: Final[ContextVar[Operation | None]] = ContextVar("adk_store_operation", default=None)


def running() -> Operation | None:
    """Return the operation of the running code; ``None`` outside of all operations."""
    operation = _RUNNING.get()
    return operation if operation is not None and operation.name else None


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


@runtime_checkable
class _File(Protocol):
    """What every file has, also one that only behaves like those of :mod:`io`."""

    def close(self) -> None:
        """Close the file."""
        ...


_WIDER: Final[Mapping[type, type]] = {dict: Mapping, list: Sequence, BinaryIO: _File}

_SAYS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "True or False",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    type(None): "None",
    os.PathLike: "a path",
    _File: "a binary file",
    Mapping: "a mapping",
    Sequence: "a sequence",
    Callable: "a function",  # type: ignore[dict-item]  # a class at run time
}

_ANY_TAKES: Final = 10**300
"""Each number below it is one that some argument may take."""


class Kind(NamedTuple):
    """What an annotation says of a value."""

    name: str
    """The name of the value in messages."""
    classes: tuple[type, ...]
    """What a value may be an instance of; empty for anything."""
    says: str
    """How messages describe it, such as ``a string or None``."""
    items: "Kind | None" = None
    """The kind of what a sequence holds."""
    choices: tuple[object, ...] = ()
    """The values of a ``Literal``, and ``None`` if that is one; empty for others."""

    def accepts(self, value: object) -> bool:
        """Return whether *value* itself is of this kind; True and False are not numbers."""
        if not self.classes or type(value) in self.classes:
            return True
        if isinstance(value, bool) and bool not in self.classes:
            return False
        if isinstance(value, str | bytes) and Sequence in self.classes:
            return False
        return isinstance(value, self.classes)

    def require(self, value: object) -> None:
        """Check *value*, and all that it holds.

        Raises:
            InvalidInputError: it is of another kind, or a number that none takes; the message names it.
        """
        if isinstance(value, int | float) and not abs(value) < _ANY_TAKES:
            require_number(self.name, value)
        if self.choices and not any(isinstance(value, type(one)) and value == one for one in self.choices):
            raise InvalidInputError(f"{self.name} is {shown(value, 40)}, it must be {self.says}")
        if not self.accepts(value):
            raise InvalidInputError(f"{self.name} must be {self.says}, not {type(value).__name__}")
        if self.items is not None and isinstance(value, Sequence):
            for item in value:
                self.items.require(item)


@functools.cache
def kinds_of(method: Callable[..., object]) -> dict[str, Kind]:
    """Return the kinds of the arguments of *method*, by name."""
    hints = _hints_of(method)
    kinds = {}
    for name, parameter in inspect.signature(method).parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            kinds[name] = _kind(name, hint)
        for options in get_args(hint) if get_origin(hint) is Unpack else ():
            kinds |= kinds_of_members(options)
    return kinds


@functools.cache
def kinds_of_members(of_class: type) -> dict[str, Kind]:
    """Return the kinds of the members that *of_class* declares, by name."""
    return {name: _kind(name, hint) for name, hint in get_type_hints(of_class).items()}


def arguments_of(
    method: Callable[..., object], args: Iterable[object], given: Mapping[str, object]
) -> Iterator[tuple[Kind, object]]:
    """Yield the arguments of a call of *method*, each behind its kind; unknown ones are left out."""
    kinds = kinds_of(method)
    yield from zip(kinds.values(), args, strict=False)
    yield from ((kinds[name], value) for name, value in given.items() if name in kinds)


def require_arguments(method: Callable[..., object], given: Mapping[str, object]) -> None:
    """Check the arguments of *method* among those *given* by name; raises as :meth:`Kind.require`."""
    for kind, value in arguments_of(method, (), given):
        kind.require(value)


def require_members(holder: object) -> None:
    """Check all members that the class of *holder* declares; raises as :meth:`Kind.require`."""
    for name, kind in kinds_of_members(type(holder)).items():  # type: ignore[arg-type]  # as if not hashable
        kind.require(getattr(holder, name))


def require_count(name: str, given: Any, *, most: int) -> None:
    """Check the size of a page or of an answer.

    Raises:
        InvalidInputError: *given* is not a whole number from 1 to *most*.
    """
    if not is_count(given) or given > most:
        raise InvalidInputError(f"{name} is {shown(given, 40)}, it must be 1 to {most}")


def is_count(given: object) -> bool:
    """Return whether *given* is a whole number from 1 on."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1


def _hints_of(method: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of *method*.

    A class that only type checkers import is anything, unless its module has it in ``IMPORTED_LATER``.
    """
    homes: Mapping[str, str] = inspect.unwrap(method).__globals__.get("IMPORTED_LATER", {})
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(method, localns=unknown)
        except NameError as exc:
            name = exc.name or ""
            unknown[name] = getattr(importlib.import_module(homes[name]), name) if name in homes else Any


def _kind(name: str, hint: Any) -> Kind:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if all(get_origin(part) is Literal or part is type(None) for part in parts):
        choices = [choice for part in parts for choice in get_args(part) or (None,)]
        *others, last = map(repr, choices)
        return Kind(name, (), f"{', '.join(others)} or {last}" if others else last, choices=(*choices,))
    classes = [_class_of(part) for part in parts]
    if None in classes:
        return Kind(name, (), "anything")
    known = tuple(each for each in classes if each is not None)
    named = [each for each in known if each is not types.EllipsisType]  # "leave as it is" by default
    says = " or ".join(_SAYS.get(each, _with_article(each.__name__)) for each in named)
    held = get_args(parts[0]) if classes[0] is Sequence else ()
    items = _kind(f"each of {name}", held[0]) if held else None
    return Kind(name, (*known, int) if float in known else known, says, items)


def _class_of(hint: Any) -> type | None:
    """Return the class of values with *hint*; ``None`` if the hint names no class."""
    found = type(None) if hint is None else get_origin(hint) or hint
    is_protocol = getattr(found, "_is_protocol", False) and not getattr(found, "_is_runtime_protocol", False)
    if not isinstance(found, type) or found in (object, Any) or is_protocol:
        return None
    return _WIDER.get(found, found)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"

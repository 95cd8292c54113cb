"""Hold what every public call of a service has: checked arguments, a permit, a deadline, telemetry."""

import enum
import functools
import inspect
import math
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from types import MappingProxyType, TracebackType
from typing import Any, Final, TypeVar, cast, overload

from google.adk.sessions import Session
from opentelemetry import context, trace
from opentelemetry.trace import SpanKind

from gcp_adk_store import machine, settings
from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.kernel.operation import Operation, arguments_of, at_most, enter, leave, paced
from gcp_adk_store.kernel.process import OwnProcess
from gcp_adk_store.kernel.telemetry import APP, CALLS, OWN, SESSION, USER, finish, labels, shown
from gcp_adk_store.model.keys import require_text

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

_NAMED_IDS: Final = ("app_name", "filename", "owner", "anchors")
"""Ids, and with them all whose names end with ``_id``."""
_STORED_ID: Final = "event_id"
"""But this one: a session may hold events of any id."""


def require_kinds(method: Callable[..., object], args: Sequence[object], given: Mapping[str, object]) -> None:
    """Check the arguments of a call of *method*; those that its annotation cannot decide pass.

    Raises:
        InvalidInputError: an argument is of another kind, or an id is not one; the message names it.
    """
    for kind, value in arguments_of(method, args, given):
        kind.require(value)
        is_id = kind.name in _NAMED_IDS or (kind.name.endswith("_id") and kind.name != _STORED_ID)
        if isinstance(value, str) and is_id:
            require_text(value, kind.name)


def checks_kinds(service: type[T]) -> type[T]:
    """Let a class check the arguments of its constructor and its public methods when they are called.

    Operations do so already.
    """
    for name, method in [*vars(service).items()]:
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(method, classmethod):
            setattr(service, name, classmethod(checks_arguments(method.__func__)))
        elif inspect.isfunction(method) and not hasattr(method, "checks_kinds"):
            setattr(service, name, checks_arguments(method))
    return service


def checks_arguments(method: Method) -> Method:
    """Let a function, or a method, check its arguments when it is called."""

    @functools.wraps(method)
    def call(*args: Any, **given: Any) -> Any:
        args, given = _plain(args, given)
        require_kinds(method, args, given)
        return method(*args, **given)

    return cast("Method", call)


def _plain(args: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with plain texts: enumerations format theirs by name."""
    return tuple(map(_plain_text, args)), {name: _plain_text(value) for name, value in given.items()}


def _plain_text(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else value


_IDS: Final = ("app_name", "user_id", "session_id", "filename", "version", "task_id")


class _End(enum.Enum):
    END = enum.auto()


class Bounds:
    """Deadlines and concurrency limit of one service, which holds them as ``_bounds``."""

    def __init__(
        self,
        service: type,
        *,
        system: str,
        deadlines_s: Mapping[str, float] = MappingProxyType({}),
        limiter: Limiter | None = None,
        ready: Callable[[Operation], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Prepare bounds; without *limiter* any number of operations may run.

        Args:
            service: The service's class.
            system: The service behind it, for telemetry.
            deadlines_s: Deadlines in seconds by the method's name.
            limiter: The permits that operations acquire.
            ready: Waits for what an operation must see, before it begins; not for one that is not *limited*.

        Raises:
            InvalidInputError: *deadlines_s* names a method that is not an operation of *service*.
        """
        for name in deadlines_s:
            if not hasattr(getattr(service, name, None), "is_operation"):
                raise InvalidInputError(
                    f"deadlines_s names {name!r}, which is not an operation of {service.__name__}"
                )
        self._system = system
        self._deadlines_s = dict(deadlines_s)
        self._limiter = limiter
        self._ready = ready
        self._process = OwnProcess(self)

    def begin_operation(
        self, method: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Operation:
        """Return the operation of a call of *method*; its deadline counts from now.

        Raises:
            ForkedProcessError: the service was used in a parent of this process.
        """
        if self._process.pid != os.getpid():
            self._process.require_own()
        session = kwargs.get("session")
        if session is None and len(args) > 1 and isinstance(args[1], Session):
            session = args[1]
        ids = _ids(session, kwargs)
        app = ids.get("app_name")
        operation = Operation(
            method.__name__,
            self._system,
            app if isinstance(app, str) else None,
            ids,
            # No longer than an operation that it is a part of.
            machine.monotonic() + at_most(self._deadlines_s.get(method.__name__, math.inf)),
        )
        begin_span(operation, settings.names_ids)
        return operation

    async def wait_until_ready(self, operation: Operation) -> None:
        """Wait until *operation* may begin."""
        if self._ready is not None:
            await self._ready(operation)

    def admitted(self) -> AbstractAsyncContextManager[None]:
        """Return what makes a block one of those that may run at a time.

        It raises an :class:`~gcp_adk_store.errors.OverloadedError` if it gets no permit in time.
        """
        return nullcontext() if self._limiter is None else self._limiter.permit()


@overload
def operation(method: Method, /) -> Method: ...


@overload
def operation(*, limited: bool) -> Callable[[Method], Method]: ...


def operation(method: Method | None = None, /, *, limited: bool = True) -> Any:
    """Make a method of a service an operation: bounded, measured, and named in the errors that it raises.

    The service holds its :class:`Bounds` as ``_bounds``. A method that yields is measured while it works on
    its next item; its caller bounds how long it goes on.

    Args:
        method: A coroutine function, or an asynchronous generator function.
        limited: Whether the operation acquires a permit; otherwise *method* does so, as an append does.
    """
    if method is None:
        return functools.partial(operation, limited=limited)

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        await paced()
        args, kwargs = _plain(args, kwargs)
        bounds: Bounds = args[0]._bounds  # noqa: SLF001  # the service's, which has it for this alone
        running = bounds.begin_operation(method, args, kwargs)
        with Entered(running, ends=True):
            require_kinds(method, args, kwargs)
            if limited:
                await bounds.wait_until_ready(running)
                async with bounds.admitted():
                    return await method(*args, **kwargs)
            return await method(*args, **kwargs)

    @functools.wraps(method)
    async def iterate(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await paced()
        args, kwargs = _plain(args, kwargs)
        bounds: Bounds = args[0]._bounds  # noqa: SLF001
        running = bounds.begin_operation(method, args, kwargs)
        items = method(*args, **kwargs)
        failure: BaseException | None = None
        try:
            with Entered(running):
                require_kinds(method, args, kwargs)
                await bounds.wait_until_ready(running)
            # Step by step: between two of them the caller's own code runs, in the same context.
            while True:
                with Entered(running):
                    item = await anext(items, _End.END)
                if item is _End.END:
                    return
                yield item
        except GeneratorExit:
            await items.aclose()  # the caller stopped early
            raise
        except BaseException as exc:
            failure = exc
            raise
        finally:
            finish(running, failure)

    call.checks_kinds = iterate.checks_kinds = True  # type: ignore[attr-defined]
    if inspect.isasyncgenfunction(method):
        return iterate
    call.is_operation = True  # type: ignore[attr-defined]  # it may have a deadline
    return call


class Entered:
    """Lets a block belong to an operation, and names the operation in the errors that leave the block."""

    def __init__(self, operation: Operation, *, ends: bool = False) -> None:
        self._operation = operation
        self._ends = ends

    def __enter__(self) -> None:
        running = self._operation
        self._token = enter(running)
        if running.span is not None:
            running.attached = context.attach(trace.set_span_in_context(running.span))
        CALLS.known[running.system, running.name] = None
        CALLS.in_flight.add(running)
        running.since = machine.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        running = self._operation
        if isinstance(failure, StoreError):
            failure.operation, failure.key = running.name, running.key
        running.elapsed_s += machine.monotonic() - running.since
        CALLS.in_flight.discard(running)
        if not isinstance(failure, GeneratorExit):  # the task is gone, and its context with it
            if running.attached is not None:
                context.detach(running.attached)
            leave(self._token)
        if self._ends:
            finish(running, failure)


@contextmanager
def named_as(name: str, ids: Mapping[str, object]) -> Iterator[None]:
    """Name a public method that is made of operations in the errors with its *ids* that leave the block.

    Errors with other ids are of what an agent asked for.
    """
    try:
        yield
    except StoreError as exc:
        key = Operation(name, ids=ids).key
        if exc.key in {"", key}:
            exc.operation, exc.key = name, key
        raise


def _ids(session: Session | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids alone: tasks that outlive the call, such as those of a channel, keep them in memory."""
    if isinstance(session, Session):
        return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
    return {name: arguments[name] for name in _IDS if arguments.get(name) is not None}


# It passes calls on to an SDK that is set later, and does not read the environment again.
_PROVIDER: Final = trace.get_tracer_provider()


class _Sdk:
    """The tracer of an SDK, once one is set."""

    tracer: trace.Tracer | None = None


def begin_span(operation: Operation, names_ids: Callable[[], bool] = lambda: False) -> None:
    """Start the span of *operation* if an SDK is present; a span without one takes 2 % of an append.

    *names_ids* returns whether the span has the ids of the user and the session.
    """
    tracer = _PROVIDER.get_tracer(OWN) if _Sdk.tracer is None else _Sdk.tracer
    if isinstance(tracer, trace.ProxyTracer):
        return
    _Sdk.tracer = tracer  # an SDK that is set stays
    ids = operation.ids if names_ids() else {}  # it may raise: no span has begun yet
    span = tracer.start_span(f"{OWN}.{operation.name}", kind=SpanKind.CLIENT, attributes=labels(operation))
    operation.span = span
    if span.is_recording():
        named = {APP: operation.app, USER: ids.get("user_id"), SESSION: ids.get("session_id")}
        span.set_attributes({name: shown(value) for name, value in named.items() if isinstance(value, str)})

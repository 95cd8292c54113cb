"""What every call of a service has: a bound in time and number, a span, its name and ids in every error."""

import enum
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.operations import deadlines, telemetry
from gcp_adk_store.operations.limiter import Turns

P = ParamSpec("P")
T = TypeVar("T")

_IDS: Final = ("app_name", "user_id", "session_id", "filename", "version")
_ALL: Final = None  # the one key of the turns of all operations


class _End(enum.Enum):
    END = enum.auto()


class Operations:
    """The bounds of one service's operations, which keeps them as ``operations``."""

    def __init__(
        self,
        service: type,
        *,
        system: str,
        deadlines_s: Mapping[str, float],
        turns: Turns | None,
        names_ids: Callable[[], bool],
    ) -> None:
        """Prepare bounds; without *turns* any number may run.

        Args:
            service: The service's class.
            system: What is behind it, for telemetry.
            deadlines_s: Deadlines by the method's name.
            turns: Those that operations take.
            names_ids: Whether spans tell the ids of users and sessions; asked again for each.

        Raises:
            InvalidInputError: *deadlines_s* names what is no operation of *service*.
        """
        for name in deadlines_s:
            if not hasattr(getattr(service, name, None), "is_operation"):
                raise InvalidInputError(
                    f"deadlines_s names {name!r}, which is no method of {service.__name__}"
                )
        self._system = system
        self._measured: dict[str, telemetry.Measured] = {}
        self._deadlines_s = dict(deadlines_s)
        self._turns = turns
        self._names_ids = names_ids

    def deadline_s(self, name: str) -> float | None:
        """Return how long the operation *name* may take, ``None`` without a bound."""
        return self._deadlines_s.get(name)

    def begin(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> telemetry.Tally:
        """Return the tally of a call of the operation *name*."""
        session = kwargs.get("session")
        if session is None and len(args) > 1:
            session = args[1]
        app = kwargs.get("app_name") if session is None else getattr(session, "app_name", None)
        measured = self._measured.get(name)
        if measured is None:
            measured = self._measured[name] = telemetry.measured(self._system, name)
        tally = telemetry.Tally(measured, app)
        if tally.is_recording and self._names_ids():
            tally.name(
                kwargs.get("user_id", getattr(session, "user_id", None)),
                kwargs.get("session_id", getattr(session, "id", None)),
            )
        return tally

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run *work* as one of those that may run at a time.

        Raises:
            OverloadedError: its turn did not come; it was not begun.
        """
        if self._turns is None:
            return await work()
        turn = await self._turns.take(_ALL)
        try:
            return await work()
        finally:
            self._turns.pass_on(turn)


def operation(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Bound a *method* of a service, and fill in ``operation`` and ``key`` of the errors it raises."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        operations = _of(args)
        return await _reported(
            method, operations.run(lambda: method(*args, **kwargs)), operations, args, kwargs
        )

    return _marked(call)


def operation_of_its_own(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Do the same for a *method* that waits for its turn by itself."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _reported(method, method(*args, **kwargs), _of(args), args, kwargs)

    return _marked(call)


def operation_that_yields(
    method: Callable[P, AsyncIterator[T]],
) -> Callable[P, AsyncIterator[T]]:
    """Fill in the errors of a *method* that yields; its caller bounds how long it goes on."""

    @functools.wraps(method)
    async def iterate(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        tally = _of(args).begin(method.__name__, args, kwargs)
        items = method(*args, **kwargs)
        failure: BaseException | None = None
        try:
            # Step by step: between two of them the caller's own code runs, in the same context.
            while True:
                item = await _step(items, tally)
                if item is _End.END:
                    return
                yield item
        except GeneratorExit:
            raise  # the caller has seen enough
        except BaseException as exc:
            failure = exc
            if isinstance(exc, StoreError):
                _fill_in(exc, method, args, kwargs)
            raise
        finally:
            tally.finish(failure)

    return iterate


async def _reported(
    method: Callable[..., object],
    work: Coroutine[Any, Any, T],
    operations: Operations,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> T:
    name = method.__name__
    deadline_s = operations.deadline_s(name)
    tally = operations.begin(name, args, kwargs)
    with tally:
        try:
            if deadline_s is None:
                return await work
            with deadlines.operation_of(deadline_s):
                return await work
        except StoreError as exc:
            _fill_in(exc, method, args, kwargs)
            raise


async def _step(items: AsyncIterator[T], tally: telemetry.Tally) -> T | _End:
    """Return the next of *items*, as a part of the operation."""
    tally.enter()
    try:
        item = await anext(items, _End.END)
    except BaseException as exc:
        tally.leave(exc)
        raise
    tally.leave()
    return item


def _of(args: tuple[Any, ...]) -> Operations:
    operations: Operations = args[0].operations
    return operations


def _marked(call: Callable[P, T]) -> Callable[P, T]:
    call.is_operation = True  # type: ignore[attr-defined]  # what Operations asks for
    return call


def _fill_in(
    exc: StoreError, method: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    exc.operation = method.__name__
    exc.key = _ids(inspect.signature(method).bind(*args, **kwargs).arguments)


def _ids(arguments: dict[str, Any]) -> str:
    session = arguments.get("session")
    if session is not None:
        arguments = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
    return " ".join(f"{name}={arguments[name]!r}" for name in _IDS if arguments.get(name) is not None)

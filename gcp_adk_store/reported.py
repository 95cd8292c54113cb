"""Say of every error which call of which service it ended, and of which ids."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

from gcp_adk_store.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")

_IDS: Final = ("app_name", "user_id", "session_id", "filename", "version")


def reported(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Fill in ``operation`` and ``key`` of the errors that *method* of a service raises."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except StoreError as exc:
            _fill_in(exc, method, args, kwargs)
            raise

    return call


def reported_iteration(
    method: Callable[P, AsyncIterator[T]],
) -> Callable[P, AsyncIterator[T]]:
    """Do the same for a *method* that yields."""

    @functools.wraps(method)
    async def iterate(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        try:
            async for item in method(*args, **kwargs):
                yield item
        except StoreError as exc:
            _fill_in(exc, method, args, kwargs)
            raise

    return iterate


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

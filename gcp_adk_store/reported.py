"""Say of every error which call of which service it ended, and of which ids."""

import functools
import inspect
from collections.abc import Callable, Coroutine
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
            exc.operation = method.__name__
            exc.key = _ids(inspect.signature(method).bind(*args, **kwargs).arguments)
            raise

    return call


def _ids(arguments: dict[str, Any]) -> str:
    session = arguments.get("session")
    if session is not None:
        arguments = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
    return " ".join(f"{name}={arguments[name]!r}" for name in _IDS if arguments.get(name) is not None)

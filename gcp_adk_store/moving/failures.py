"""Tell the failures of one session from those of a whole store."""

from http import HTTPStatus
from typing import Final

from gcp_adk_store.errors import (
    InvalidInputError,
    PayloadMissingError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
    StoreError,
    UnavailableError,
)

_OF_ONE: Final = (
    InvalidInputError,
    PayloadMissingError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
)
"""Errors of one session; after others no session can be copied."""

_FOR_ALL: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
"""Answers of a server, beside those from 500 on, that concern every request."""

_OF_CONNECTIONS: Final = frozenset({"OperationalError", "InterfaceError"})
"""Names of PEP 249, which all SQL drivers share, for failures of the database itself."""


def failure_of_one(exc: Exception) -> str:
    """Return what a report says of *exc*, which concerns one session or user: the others go on.

    A service of ADK raises whatever its database does; the text names the type alone.

    Raises:
        StoreError: *exc* concerns all sessions.
    """
    if isinstance(exc, _OF_ONE):
        return str(exc)
    if isinstance(exc, StoreError):
        raise exc
    code = getattr(exc, "code", None)  # of Google's exceptions
    status = code if isinstance(code, int) else 0
    kinds = {kind.__name__ for kind in type(exc).__mro__}
    if isinstance(exc, OSError) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _FOR_ALL:
        kinds |= _OF_CONNECTIONS
    if kinds & _OF_CONNECTIONS:
        raise UnavailableError(
            f"the service does not answer, or refuses requests: {type(exc).__name__}; see the cause, and "
            "call again: what is finished is kept"
        ) from exc
    return f"a {type(exc).__name__} of the service"

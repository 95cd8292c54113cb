"""Adapt the FastAPI app of ADK's server: its shutdown, its error answers and Python's garbage collector."""

import gc
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler

from gcp_adk_store.adk_server.services import close_services
from gcp_adk_store.errors import StoreError, UnavailableError

logger = logging.getLogger(__name__)

_FAILED: Final = 500


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001  # FastAPI's signature
    """Close the services of all URIs when the server ends: ``get_fast_api_app(lifespan=...)``."""
    try:
        yield
    finally:
        await close_services()


def answer_errors(app: FastAPI) -> None:
    """Let *app*, from ``get_fast_api_app``, answer the store's errors by what the client does next.

    | error | status |
    |---|---|
    | ``InvalidInputError`` | 400 |
    | ``SessionMissingError``, ``PointMissingError``, ``UploadMissingError`` | 404 |
    | ``SessionExistsError`` and ``...ConflictError`` | 409 |
    | ``SessionBusyError``, ``SessionInboxFullError`` | 409, the first with ``Retry-After`` |
    | ``UnavailableError``, ``OverloadedError`` | 503, with ``Retry-After`` |

    ADK answers most of them with 500, and all other errors keep that: a client cannot repair missing
    permissions, and must not repeat a write that may have happened (``OutcomeUnknownError``). From 500 on the
    answer names only the error's class, and the log has its message for the operator. In ``/run_sse`` the
    answer has begun already, so ADK sends the error as the stream's last event. An error of ``TurnPlugin``,
    for which ADK raises a ``RuntimeError``, is answered as itself.

    Raises:
        RuntimeError: *app* serves already, so a new handler has no effect.
    """
    if app.middleware_stack is not None:
        raise RuntimeError("answer_errors() comes after get_fast_api_app() and before it serves")
    app.add_exception_handler(StoreError, answer)
    app.add_exception_handler(RuntimeError, answer)
    app.add_exception_handler(HTTPException, answer)


def tune_gc() -> None:
    """Set Python's garbage collector for this process; call it once, after all imports and before it serves.

    It freezes the imported objects, which the collector then skips. It collects new objects in small steps,
    and all of them seldom. Python still frees memory outside of cycles at once.

    With turns of 32 sessions at a time, the longest collection falls from 339 to 7 ms of CPU, and the
    99th percentile of appends to 0.29 times what it was: ``python -m tools.benchmarks.collector``, with its
    figures in docs/performance.md.
    """
    gc.collect()
    gc.freeze()
    # It collects after 1,000, 5,000 and 2 million new objects.
    gc.set_threshold(1_000, 5, 400)


async def answer(request: Request, exc: Exception) -> Response:
    """Return the answer to a request that *exc* ended."""
    # ADK's catch-all raises a 500 from the original error.
    failure = exc.__cause__ if isinstance(exc, HTTPException) and exc.status_code == _FAILED else exc
    # ADK raises a RuntimeError from the error of a plugin.
    if isinstance(failure, RuntimeError) and isinstance(failure.__cause__, StoreError):
        failure = failure.__cause__
    if isinstance(failure, StoreError):
        status, detail, headers = failure.http_status, type(failure).__name__, {}
        # From 500 on the message names accounts, files and projects, which a client must not see.
        if isinstance(failure, UnavailableError):
            headers["Retry-After"] = str(math.ceil(failure.retry_after_s or 1))
            logger.warning("%s: %s", detail, failure)
        elif status == _FAILED:
            logger.error("%s: %s", detail, failure, exc_info=failure)
        else:
            detail += f": {failure}"
            if failure.retry_after_s is not None:
                headers["Retry-After"] = str(max(1, math.ceil(failure.retry_after_s)))
        exc = HTTPException(status, detail=detail, headers=headers)
    elif not isinstance(exc, HTTPException):
        raise exc
    return await http_exception_handler(request, exc)

"""Translate the SDKs' exceptions into this library's, by type or status code, never by message.

Reads and writes map the same status differently: a failed read changed nothing, while a write whose answer
was lost may have happened.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
import requests
import urllib3
from google.adk.platform import time as platform_time
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode as Code

from gcp_adk_store import settings
from gcp_adk_store.cloud.auth.tokens import WAYS, is_for_now
from gcp_adk_store.errors import (
    AccessDeniedError,
    CredentialsError,
    EmulatorMissingError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel.ports import (
    ConditionFailedError,
    RefusedError,
    TargetExistsError,
    TargetMissingError,
)

_LOST: Final = (Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNAVAILABLE, Code.UNKNOWN)
"""What a client gets for a lost answer: the RPC may have been executed."""

_READ: Final[Mapping[Code, type[StoreError]]] = {
    **dict.fromkeys((Code.ABORTED, Code.RESOURCE_EXHAUSTED, *_LOST), UnavailableError),
    # A database in Datastore mode, or a query whose index is missing.
    **dict.fromkeys((Code.FAILED_PRECONDITION, Code.NOT_FOUND), NotProvisionedError),
    Code.INVALID_ARGUMENT: InvalidInputError,
    **dict.fromkeys((Code.PERMISSION_DENIED, Code.UNAUTHENTICATED), AccessDeniedError),
}

_WRITE: Final[Mapping[Code, type[StoreError | RefusedError]]] = {
    **_READ,
    **dict.fromkeys(_LOST, OutcomeUnknownError),
    Code.ALREADY_EXISTS: TargetExistsError,
    Code.FAILED_PRECONDITION: ConditionFailedError,
    # A missing database answers the same: the read after a refused write distinguishes them.
    Code.NOT_FOUND: TargetMissingError,
}

_POLICY: Final = (
    "no condition of the request explains it, so an organization policy or a setting of the bucket forbids "
    "it: see the cause, and gcloud org-policies list --project=PROJECT, with the bucket's project"
)

_UNANSWERED: Final = (
    api.InternalServerError,
    api.BadGateway,
    api.ServiceUnavailable,
    api.GatewayTimeout,
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    # A broken body: the answer is cut off, or not from Cloud Storage.
    requests.exceptions.InvalidJSONError,
    DataCorruption,
    TimeoutError,
    ConnectionError,
    urllib3.exceptions.HTTPError,
)

STORAGE_FAILURES: Final = (
    api.GoogleAPIError,
    auth.GoogleAuthError,
    requests.RequestException,
    DataCorruption,
    InvalidResponse,
    # Errors of streamed bodies, which requests does not wrap.
    urllib3.exceptions.HTTPError,
    ConnectionError,
)
"""Failures of a request; every other exception is a bug and passes through unchanged."""

FIRESTORE_FAILURES: Final = (grpc.RpcError, grpc.aio.BaseError, asyncio.CancelledError)
"""Failures of an RPC: a status, a closed channel, or a channel that closes during the RPC."""

_STORAGE: Final[Sequence[tuple[tuple[type[Exception], ...], type[StoreError], str]]] = (
    ((api.PreconditionFailed,), AccessDeniedError, _POLICY),
    ((api.TooManyRequests,), UnavailableError, "try again later"),
    (
        (api.Unauthorized, api.Forbidden),
        AccessDeniedError,
        "this identity lacks {permission} on it; grant roles/storage.objectUser",
    ),
    (
        (api.NotFound,),
        NotProvisionedError,
        "the bucket does not exist; correct its name, or make it: gcloud storage buckets create gs://{bucket}",
    ),
    ((api.BadRequest,), InvalidInputError, "Cloud Storage refused the request as invalid; see the cause"),
    ((auth.GoogleAuthError,), CredentialsError, f"no usable Google Cloud credentials: {WAYS}"),
)

_ADVICE: Final[Mapping[type[Exception], str]] = {
    AccessDeniedError: "grant roles/datastore.user on the database to this identity",
    InvalidInputError: "Firestore refused it as invalid; a document may not exceed 1 MiB",
    NotProvisionedError: "create the Firestore database, or correct project and database",
    OutcomeUnknownError: "the write was sent and not answered; read before repeating it",
    UnavailableError: "Firestore did not take it for now; try again later",
}


def is_unknown_rpc(exc: BaseException | None) -> bool:
    """Return whether a server refused an RPC because it does not have it."""
    return isinstance(exc, grpc.aio.AioRpcError) and exc.code() is Code.UNIMPLEMENTED


def firestore_read_error(exc: BaseException, where: str) -> Exception:
    """Return the error for a failed read; a status outside of the table is a StoreError."""
    return _firestore_error(exc, where, _READ, {**_ADVICE, InvalidInputError: "check project and database"})


def firestore_write_error(exc: BaseException, where: str) -> Exception:
    """Return the error for a failed commit; a status outside of the table is a StoreError."""
    return _firestore_error(exc, where, _WRITE, _ADVICE)


def storage_read_error(exc: Exception, where: str, bucket: str, permission: str) -> Exception:
    """Return the error for a failed read request; exceptions of other sources stay as they are.

    *permission* is the IAM permission that the request needs.
    """
    return _storage_error(exc, where, bucket, permission, unanswered=UnavailableError)


def storage_write_error(exc: Exception, where: str, bucket: str, permission: str) -> Exception:
    """Return the error for a failed request that may have changed something; otherwise as for a read."""
    return _storage_error(exc, where, bucket, permission, unanswered=OutcomeUnknownError)


def storage_condition_error(exc: Exception, where: str, bucket: str, permission: str) -> Exception:
    """Return the error for a failed conditional write of an object; otherwise as for a write.

    Cloud Storage also answers 412 to a write that a policy forbids, so the caller must check the object.
    """
    if isinstance(_sorted(exc), api.PreconditionFailed):
        return ConditionFailedError(f"{where}: the object is not as required")
    return storage_write_error(exc, where, bucket, permission)


def unexplained(refused: RefusedError, bucket: str) -> StoreError:
    """Return the error if the object meets the condition of the *refused* write."""
    message = f"bucket {bucket!r}: PreconditionFailed; {_POLICY}"
    if refused.maybe_applied:
        message = f"{message}; an earlier try was not answered: read before repeating it"
    error: StoreError = (OutcomeUnknownError if refused.maybe_applied else AccessDeniedError)(message)
    error.attempts = refused.attempts
    return error


def project_error() -> StoreError:
    """Return the error for credentials that name no project."""
    return NotProvisionedError(
        "no Google Cloud project: pass project=, or set ADK_STORE_PROJECT or GOOGLE_CLOUD_PROJECT"
    )


def _firestore_error(
    exc: BaseException,
    where: str,
    table: Mapping[Code, type[StoreError | RefusedError]],
    advices: Mapping[type[Exception], str],
) -> Exception:
    if isinstance(exc, grpc.aio.BaseError):
        return StoreError(f"{where}: the connection was closed before the call; nothing was sent")
    code = Code.CANCELLED if isinstance(exc, asyncio.CancelledError) else Code.UNKNOWN
    asked_s = None
    if isinstance(exc, grpc.aio.AioRpcError):
        code, asked_s = exc.code(), _retry_info(exc)
    kind = table.get(code, StoreError)
    parts = [f"{where}: {code.name}", *([advices[kind]] if kind in advices else ())]
    return _asking(kind("; ".join(parts)), asked_s)


def _storage_error(
    exc: Exception,
    where: str,
    bucket: str,
    permission: str,
    *,
    unanswered: type[UnavailableError | OutcomeUnknownError],
) -> Exception:
    if isinstance(exc, InvalidResponse) and exc.response.status_code < HTTPStatus.BAD_REQUEST:
        return unanswered(f"{where} gave an answer that cannot be read")
    exc = _sorted(exc)
    if (unsent := _unsent(exc, where)) is not None:
        return unsent
    asked_s = _retry_after(getattr(exc, "response", None))
    if isinstance(exc, _UNANSWERED) or getattr(exc, "code", None) == HTTPStatus.REQUEST_TIMEOUT:
        return _asking(unanswered(f"{where} did not answer ({type(exc).__name__})"), asked_s)
    for causes, kind, advice in _STORAGE:
        if isinstance(exc, causes):
            hint = advice.format(permission=permission, bucket=bucket)
            return _asking(kind(f"{where}: {type(exc).__name__}; {hint}"), asked_s)
    if isinstance(exc, STORAGE_FAILURES):
        return StoreError(f"{where}: {type(exc).__name__}; see the cause")
    return exc


def _unsent(exc: Exception, where: str) -> StoreError | None:
    """Return the error for a request without a token or a connection; ``None`` if it may have been sent.

    urllib3 raises its two errors before it sends. An attempt of several requests ends at the first that
    fails, and those before it changed no object.
    """
    if isinstance(exc, auth.GoogleAuthError) and is_for_now(exc, None):
        return UnavailableError(f"{where}: no token could be fetched ({type(exc).__name__}); try again later")
    cause = exc.args[0] if isinstance(exc, requests.ConnectionError) and exc.args else None
    reason = getattr(cause, "reason", None)
    if not isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
        return None
    if isinstance(reason.__cause__, ConnectionRefusedError) and settings.storage_emulator_url() is not None:
        address = urlsplit(getattr(exc.request, "url", None) or "").netloc  # type: ignore[attr-defined]  # theirs
        return EmulatorMissingError.at(address, "STORAGE_EMULATOR_HOST")
    return UnavailableError(
        f"{where}: no connection ({type(reason).__name__}), nothing was sent; try again later"
    )


def _sorted(exc: Exception) -> Exception:
    """Return the error for an answer that Google's library raises unchanged, by its status."""
    return api.from_http_response(exc.response) if isinstance(exc, InvalidResponse) else exc


def _asking(error: StoreError | RefusedError, asked_s: float | None) -> Exception:
    if isinstance(error, StoreError):
        error.retry_after_s = asked_s
    return error


def _retry_info(exc: grpc.aio.AioRpcError) -> float | None:
    """Return the seconds of google.rpc.RetryInfo, which Google's services add to refusals."""
    trailer = dict(exc.trailing_metadata() or ()).get("grpc-status-details-bin")
    try:
        details = Status.FromString(trailer).details if isinstance(trailer, bytes) else ()
        for detail in details:
            info = RetryInfo()
            if detail.Unpack(info):
                return max(0.0, float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9))
    except (DecodeError, OverflowError):
        pass
    return None


def _retry_after(response: Any) -> float | None:
    """Return the seconds of the header Retry-After: a number of them, or a date (RFC 9110, 10.2.3)."""
    asked = getattr(response, "headers", {}).get("Retry-After", "").strip()
    if asked.isdecimal():
        seconds = float(asked)
        return seconds if math.isfinite(seconds) else None
    try:
        return (
            max(0.0, parsedate_to_datetime(asked).timestamp() - platform_time.get_time()) if asked else None
        )
    except (OverflowError, TypeError, ValueError):
        return None

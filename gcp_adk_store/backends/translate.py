"""Translate the SDKs' exceptions into this library's, by type or status code, never by message.

A read and a write map the same status differently: after a read nothing changed, after a write whose
answer was lost nobody knows.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import grpc
import requests
import urllib3
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

from gcp_adk_store.errors import (
    AccessDeniedError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    StoreError,
    UnavailableError,
)


class RefusedError(Exception):
    """A condition of a write did not hold; nothing was written. Never leaves the services."""


class ConditionFailedError(RefusedError):
    """A document or object is not as the write required."""


class TargetExistsError(RefusedError):
    """A document or object that the write required to be absent exists."""


class TargetMissingError(RefusedError):
    """A document that the write required to exist does not."""


_READ: Final[Mapping[grpc.StatusCode, type[StoreError]]] = {
    grpc.StatusCode.ABORTED: UnavailableError,
    grpc.StatusCode.CANCELLED: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: UnavailableError,
    grpc.StatusCode.INTERNAL: UnavailableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: UnavailableError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.UNKNOWN: UnavailableError,
    # A database in Datastore mode, or a query whose index is missing.
    grpc.StatusCode.FAILED_PRECONDITION: NotProvisionedError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInputError,
    grpc.StatusCode.NOT_FOUND: NotProvisionedError,
    grpc.StatusCode.PERMISSION_DENIED: AccessDeniedError,
    grpc.StatusCode.UNAUTHENTICATED: AccessDeniedError,
}

_WRITE: Final[Mapping[grpc.StatusCode, type[StoreError | RefusedError]]] = {
    **_READ,
    grpc.StatusCode.CANCELLED: OutcomeUnknownError,
    grpc.StatusCode.DEADLINE_EXCEEDED: OutcomeUnknownError,
    grpc.StatusCode.INTERNAL: OutcomeUnknownError,
    grpc.StatusCode.UNAVAILABLE: OutcomeUnknownError,
    grpc.StatusCode.UNKNOWN: OutcomeUnknownError,
    grpc.StatusCode.ALREADY_EXISTS: TargetExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: ConditionFailedError,
    # Also what a missing database answers: the read that settles a refused write tells them apart.
    grpc.StatusCode.NOT_FOUND: TargetMissingError,
}

_NO_CREDENTIALS: Final = (
    "no usable Google Cloud credentials: run `gcloud auth application-default login`, attach a service "
    "account, or set FIRESTORE_EMULATOR_HOST and STORAGE_EMULATOR_HOST to use emulators"
)

_UNANSWERED: Final = (
    api.InternalServerError,
    api.BadGateway,
    api.ServiceUnavailable,
    api.GatewayTimeout,
    auth.TransportError,
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    DataCorruption,
    TimeoutError,
    ConnectionError,
    urllib3.exceptions.HTTPError,
)

_OF_THE_SDK: Final = (
    api.GoogleAPICallError,
    auth.GoogleAuthError,
    requests.RequestException,
    InvalidResponse,
)

_STORAGE: Final[Sequence[tuple[tuple[type[Exception], ...], type[StoreError | RefusedError], str]]] = (
    ((api.PreconditionFailed,), ConditionFailedError, "the object is not as required"),
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
    ((auth.DefaultCredentialsError, auth.RefreshError), AccessDeniedError, _NO_CREDENTIALS),
)

_ADVICE: Final[Mapping[type[Exception], str]] = {
    AccessDeniedError: "grant roles/datastore.user on the database to this identity",
    InvalidInputError: "Firestore refused it as invalid; a document may not exceed 1 MiB",
    NotProvisionedError: "create the Firestore database, or correct project and database",
    OutcomeUnknownError: "the write was sent and not answered; read before repeating it",
    UnavailableError: "Firestore did not take it for now; try again later",
}


def firestore_read_error(exc: grpc.RpcError, what: str) -> Exception:
    """Return what to raise for a failed read; a status without a place in the table is a StoreError."""
    return _firestore_error(exc, what, _READ, {**_ADVICE, InvalidInputError: "check project and database"})


def firestore_write_error(exc: grpc.RpcError, what: str) -> Exception:
    """Return what to raise for a failed commit; a status without a place in the table is a StoreError."""
    return _firestore_error(exc, what, _WRITE, _ADVICE)


def storage_read_error(exc: Exception, what: str, bucket: str, permission: str) -> Exception:
    """Return what to raise for a failed request that changes nothing; what no SDK raised as it is.

    *permission* is the one of IAM that the request takes.
    """
    return _storage_error(exc, what, bucket, permission, unanswered=UnavailableError)


def storage_write_error(exc: Exception, what: str, bucket: str, permission: str) -> Exception:
    """Return what to raise for a failed request that may have changed something; else as for a read."""
    return _storage_error(exc, what, bucket, permission, unanswered=OutcomeUnknownError)


def credentials_error() -> StoreError:
    """Return what to raise when no credentials can be had."""
    return AccessDeniedError(_NO_CREDENTIALS)


def project_error() -> StoreError:
    """Return what to raise when credentials name no project."""
    return NotProvisionedError(
        "no Google Cloud project: pass project=, or set ADK_STORE_PROJECT or GOOGLE_CLOUD_PROJECT"
    )


def _firestore_error(
    exc: grpc.RpcError,
    what: str,
    table: Mapping[grpc.StatusCode, type[StoreError | RefusedError]],
    advices: Mapping[type[Exception], str],
) -> Exception:
    code = exc.code() if isinstance(exc, grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
    kind = table.get(code, StoreError)
    advice = advices.get(kind)
    return kind(f"{what}: {code.name}" + (f"; {advice}" if advice else ""))


def _storage_error(
    exc: Exception,
    what: str,
    bucket: str,
    permission: str,
    *,
    unanswered: type[UnavailableError | OutcomeUnknownError],
) -> Exception:
    if isinstance(exc, _UNANSWERED) or getattr(exc, "code", None) == HTTPStatus.REQUEST_TIMEOUT:
        return unanswered(f"{what}: bucket {bucket!r} did not answer ({type(exc).__name__})")
    for causes, kind, advice in _STORAGE:
        if isinstance(exc, causes):
            told = advice.format(permission=permission, bucket=bucket)
            return kind(f"{what}: bucket {bucket!r}: {type(exc).__name__}; {told}")
    if isinstance(exc, _OF_THE_SDK):
        return StoreError(f"{what}: bucket {bucket!r}: {type(exc).__name__}; see the cause")
    return exc

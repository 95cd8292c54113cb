"""Show which error each failure of the SDKs becomes, after a read and after a write."""

from collections.abc import Callable

import grpc
import pytest
import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from grpc.aio import Metadata

from gcp_adk_store.backends.translate import (
    ConditionFailedError,
    RefusedError,
    TargetExistsError,
    TargetMissingError,
    credentials_error,
    firestore_read_error,
    firestore_write_error,
    project_error,
    storage_read_error,
    storage_write_error,
)
from gcp_adk_store.errors import (
    AccessDeniedError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    StoreError,
    UnavailableError,
)

Code = grpc.StatusCode

# Status: (after a read, after a write); None passes through.
FIRESTORE: dict[grpc.StatusCode, tuple[type[Exception] | None, type[Exception] | None]] = {
    Code.ABORTED: (UnavailableError, UnavailableError),
    Code.ALREADY_EXISTS: (StoreError, TargetExistsError),
    Code.CANCELLED: (UnavailableError, OutcomeUnknownError),
    Code.DATA_LOSS: (StoreError, StoreError),
    Code.DEADLINE_EXCEEDED: (UnavailableError, OutcomeUnknownError),
    Code.FAILED_PRECONDITION: (NotProvisionedError, ConditionFailedError),
    Code.INTERNAL: (UnavailableError, OutcomeUnknownError),
    Code.INVALID_ARGUMENT: (InvalidInputError, InvalidInputError),
    Code.NOT_FOUND: (NotProvisionedError, TargetMissingError),
    Code.OUT_OF_RANGE: (StoreError, StoreError),
    Code.PERMISSION_DENIED: (AccessDeniedError, AccessDeniedError),
    Code.RESOURCE_EXHAUSTED: (UnavailableError, UnavailableError),
    Code.UNAUTHENTICATED: (AccessDeniedError, AccessDeniedError),
    Code.UNAVAILABLE: (UnavailableError, OutcomeUnknownError),
    Code.UNIMPLEMENTED: (StoreError, StoreError),
    Code.UNKNOWN: (UnavailableError, OutcomeUnknownError),
}

# Failure: (after a read, after a write); None passes through.
STORAGE: list[tuple[type[Exception], type[Exception] | None, type[Exception] | None]] = [
    (api.InternalServerError, UnavailableError, OutcomeUnknownError),
    (api.BadGateway, UnavailableError, OutcomeUnknownError),
    (api.ServiceUnavailable, UnavailableError, OutcomeUnknownError),
    (api.GatewayTimeout, UnavailableError, OutcomeUnknownError),
    (auth.TransportError, UnavailableError, OutcomeUnknownError),
    (requests.ConnectionError, UnavailableError, OutcomeUnknownError),
    (requests.ReadTimeout, UnavailableError, OutcomeUnknownError),
    (requests.ConnectTimeout, UnavailableError, OutcomeUnknownError),
    (requests.exceptions.ChunkedEncodingError, UnavailableError, OutcomeUnknownError),
    (api.TooManyRequests, UnavailableError, UnavailableError),
    (api.PreconditionFailed, ConditionFailedError, ConditionFailedError),
    (api.Unauthorized, AccessDeniedError, AccessDeniedError),
    (api.Forbidden, AccessDeniedError, AccessDeniedError),
    (api.NotFound, NotProvisionedError, NotProvisionedError),
    (api.BadRequest, InvalidInputError, InvalidInputError),
    (auth.DefaultCredentialsError, AccessDeniedError, AccessDeniedError),
    (auth.RefreshError, AccessDeniedError, AccessDeniedError),
    (api.Conflict, StoreError, StoreError),
    (api.RequestRangeNotSatisfiable, StoreError, StoreError),
    (requests.TooManyRedirects, StoreError, StoreError),
    (ValueError, None, None),
]


def became(exc: Exception, error: Exception) -> type[Exception] | None:
    """Return the kind of *error*, ``None`` where *exc* passed through as itself."""
    return None if error is exc else type(error)


def failed(code: grpc.StatusCode, details: str = "secret") -> grpc.aio.AioRpcError:
    """Return what an RPC raises that ended with *code*."""
    return grpc.aio.AioRpcError(code, Metadata(), Metadata(), details=details)


def test_every_status_is_decided_upon() -> None:
    """A status that a later gRPC adds has to be thought about here."""
    assert set(Code) - {Code.OK} == set(FIRESTORE)


@pytest.mark.parametrize("code", FIRESTORE)
@pytest.mark.parametrize(("translate", "column"), [(firestore_read_error, 0), (firestore_write_error, 1)])
def test_a_status_becomes_what_the_caller_does_next(
    code: grpc.StatusCode, translate: Callable[[grpc.RpcError, str], Exception], column: int
) -> None:
    """After a read nothing changed; after a write that was not answered nobody knows."""
    exc = failed(code)

    assert FIRESTORE[code][column] is became(exc, translate(exc, "append_event k"))


@pytest.mark.parametrize("details", ["", "The datastore operation timed out", "ABORTED", "already exists"])
def test_a_servers_message_decides_nothing(details: str) -> None:
    """Only the status counts: messages differ between emulator, production and next week."""
    error = firestore_write_error(failed(Code.FAILED_PRECONDITION, details), "append_event k")

    assert (ConditionFailedError, "append_event k: FAILED_PRECONDITION") == (type(error), str(error))


def test_a_failure_without_a_status_is_an_unknown_one() -> None:
    """An RPC error of another kind is treated as unanswered, not as a bug."""
    exc = grpc.RpcError()
    errors = firestore_read_error(exc, "get k"), firestore_write_error(exc, "get k")

    assert [UnavailableError, OutcomeUnknownError] == [type(error) for error in errors]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (Code.PERMISSION_DENIED, "grant roles/datastore.user on the database to this identity"),
        (Code.INVALID_ARGUMENT, "Firestore refused it as invalid; a document may not exceed 1 MiB"),
        (Code.UNAVAILABLE, "the write was sent and not answered; read before repeating it"),
        (Code.ABORTED, "Firestore did not take it for now; try again later"),
    ],
)
def test_a_failed_commit_says_what_to_do(code: grpc.StatusCode, advice: str) -> None:
    """The message names the operation, the status and the next step, and quotes no server."""
    error = firestore_write_error(failed(code), "append_event k")

    assert f"append_event k: {code.name}; {advice}" == str(error)


def test_a_missing_database_says_what_to_do() -> None:
    """A read that finds no database tells to create it or to correct its name."""
    error = firestore_read_error(failed(Code.NOT_FOUND), "get_session k")

    assert "get_session k: NOT_FOUND; create the Firestore database, or correct project and database" == str(
        error
    )


@pytest.mark.parametrize(("failure", "read", "write"), STORAGE)
def test_a_storage_failure_becomes_what_the_caller_does_next(
    failure: type[Exception], read: type[Exception] | None, write: type[Exception] | None
) -> None:
    """Each kind of failed request is sorted by type; what is not known passes through as itself."""
    exc = failure("secret")
    kinds = (
        became(exc, storage_read_error(exc, "load_artifact k", "bkt", "p.get")),
        became(exc, storage_write_error(exc, "save_artifact k", "bkt", "p.create")),
    )

    assert (read, write) == kinds


def test_a_request_that_timed_out_at_the_server_is_unanswered() -> None:
    """Google's library has no class for status 408; a method that is missing will not come back."""
    timeout = api.from_http_status(408, "x")
    missing = api.MethodNotImplemented("x")

    assert isinstance(storage_read_error(timeout, "w", "b", "p"), UnavailableError)
    assert isinstance(storage_write_error(timeout, "w", "b", "p"), OutcomeUnknownError)
    assert StoreError is type(storage_write_error(missing, "w", "b", "p"))


@pytest.mark.parametrize("failure", [failure for failure, read, _ in STORAGE if read is not None])
def test_a_storage_error_names_operation_bucket_and_kind(failure: type[Exception]) -> None:
    """What failed where is in the message; the server's own words stay in the cause."""
    message = str(storage_write_error(failure("secret"), "save_artifact k", "bkt", "p.create"))

    assert message.startswith("save_artifact k: bucket 'bkt'")
    assert failure.__name__ in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        (api.Forbidden, "this identity lacks p.get on it; grant roles/storage.objectUser"),
        (api.NotFound, "or make it: gcloud storage buckets create gs://bkt"),
        (auth.RefreshError, "run `gcloud auth application-default login`"),
    ],
)
def test_a_storage_error_says_what_to_do(failure: type[Exception], advice: str) -> None:
    """A wrong set-up is told with the step that puts it right."""
    assert advice in str(storage_read_error(failure("x"), "load_artifact k", "bkt", "p.get"))


@pytest.mark.parametrize("kind", [ConditionFailedError, TargetExistsError, TargetMissingError])
def test_a_refusal_is_the_services_to_settle(kind: type[Exception]) -> None:
    """Refused conditions are one family, and none of them is an error for users."""
    assert (True, False) == (issubclass(kind, RefusedError), issubclass(kind, StoreError))


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (credentials_error(), AccessDeniedError, ["gcloud auth", "FIRESTORE_EMULATOR_HOST"]),
        (project_error(), NotProvisionedError, ["project=", "ADK_STORE_PROJECT", "GOOGLE_CLOUD_PROJECT"]),
    ],
)
def test_a_missing_set_up_names_its_remedies(
    error: StoreError, kind: type[StoreError], words: list[str]
) -> None:
    """Without credentials or project the message lists what to set."""
    assert kind is type(error)
    assert words == [word for word in words if word in str(error)]

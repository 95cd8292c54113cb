"""Show which error each failure of the SDKs becomes, after a read and after a write, and their order.

tests/project/test_documents_for_readers.py compares what they are of ADK's with the page of errors.
"""

import inspect
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import ModuleType
from typing import Any

import grpc
import pytest
import requests
import urllib3
from google.adk.platform import time as platform_time
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud.storage import exceptions as storage_exceptions
from google.cloud.storage.exceptions import InvalidResponse
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc.aio import Metadata

import gcp_adk_store
from gcp_adk_store import (
    AccessDeniedError,
    ArtifactLimits,
    CredentialsError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    StoreError,
    UnavailableError,
    errors,
)
from gcp_adk_store.cloud.errors import (
    FIRESTORE_FAILURES,
    firestore_read_error,
    firestore_write_error,
    storage_condition_error,
    storage_read_error,
    storage_write_error,
)
from gcp_adk_store.cloud.storage.calls import Permission, StorageCalls
from gcp_adk_store.kernel.ports import (
    ConditionFailedError,
    RefusedError,
    TargetExistsError,
    TargetMissingError,
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
    (auth.TransportError, UnavailableError, UnavailableError),
    (auth.TimeoutError, UnavailableError, UnavailableError),
    (requests.ConnectionError, UnavailableError, OutcomeUnknownError),
    (requests.ReadTimeout, UnavailableError, OutcomeUnknownError),
    (requests.ConnectTimeout, UnavailableError, OutcomeUnknownError),
    (requests.exceptions.ChunkedEncodingError, UnavailableError, OutcomeUnknownError),
    (requests.exceptions.InvalidJSONError, UnavailableError, OutcomeUnknownError),
    (api.TooManyRequests, UnavailableError, UnavailableError),
    (api.PreconditionFailed, AccessDeniedError, AccessDeniedError),
    (api.Unauthorized, AccessDeniedError, AccessDeniedError),
    (api.Forbidden, AccessDeniedError, AccessDeniedError),
    (api.NotFound, NotProvisionedError, NotProvisionedError),
    (api.BadRequest, InvalidInputError, InvalidInputError),
    (auth.DefaultCredentialsError, CredentialsError, CredentialsError),
    (auth.RefreshError, CredentialsError, CredentialsError),
    (auth.OAuthError, CredentialsError, CredentialsError),
    (api.Conflict, StoreError, StoreError),
    (api.RequestRangeNotSatisfiable, StoreError, StoreError),
    (requests.TooManyRedirects, StoreError, StoreError),
    (ValueError, None, None),
]


def packed(message: Message) -> AnyMessage:
    """Return *message* as a status carries it."""
    detail = AnyMessage()
    detail.Pack(message)
    return detail


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


@pytest.mark.parametrize(
    ("translate", "code", "advice"),
    [
        (firestore_write_error, Code.PERMISSION_DENIED, "grant roles/datastore.user on the database to this"),
        (firestore_write_error, Code.INVALID_ARGUMENT, "Firestore refused it as invalid; a document may not"),
        (firestore_write_error, Code.UNAVAILABLE, "the write was sent and not answered; read before"),
        (firestore_write_error, Code.ABORTED, "Firestore did not take it for now; try again later"),
        (firestore_read_error, Code.NOT_FOUND, "create the Firestore database, or correct project and"),
    ],
)
def test_a_failure_says_what_to_do(
    translate: Callable[[grpc.RpcError, str], Exception], code: grpc.StatusCode, advice: str
) -> None:
    """The message names the operation, the status and the next step, and quotes no server."""
    message = str(translate(failed(code), "append_event k"))

    assert message.startswith(f"append_event k: {code.name}; {advice}")
    assert "secret" not in message


@pytest.mark.parametrize(("failure", "read", "write"), STORAGE)
def test_a_storage_failure_becomes_what_the_caller_does_next(
    failure: type[Exception], read: type[Exception] | None, write: type[Exception] | None
) -> None:
    """Each kind of failed request is sorted by type; what is not known passes through as itself.

    A conditional write differs in its refusal alone: a 412 is to be settled by a look at the object, with or
    without Google's own sorting.
    """
    exc = failure("secret")
    kinds = (
        became(exc, storage_read_error(exc, "load_artifact k", "bkt", "p.get")),
        became(exc, storage_write_error(exc, "save_artifact k", "bkt", "p.create")),
        became(exc, storage_condition_error(exc, "save_artifact k", "bkt", "p.create")),
    )
    raw = storage_condition_error(InvalidResponse(answered({}, 412), "secret"), "w", "b", "p")

    assert (read, write, ConditionFailedError if failure is api.PreconditionFailed else write) == kinds
    assert ConditionFailedError is type(raw)


def test_a_request_that_timed_out_at_the_server_is_unanswered() -> None:
    """Google's library has no class for status 408; a method that is missing will not come back."""
    timeout = api.from_http_status(408, "x")
    missing = api.MethodNotImplemented("x")

    assert isinstance(storage_read_error(timeout, "w", "b", "p"), UnavailableError)
    assert isinstance(storage_write_error(timeout, "w", "b", "p"), OutcomeUnknownError)
    assert StoreError is type(storage_write_error(missing, "w", "b", "p"))


def answered(headers: dict[str, str], status: int = 503) -> requests.Response:
    """Return a response as the client has it."""
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    response.request = requests.Request("GET", "http://localhost/").prepare()
    return response


@pytest.mark.parametrize(
    ("headers", "asked_s"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 7 "}, 7.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": "Mon, 01 Jan 99999999999 00:00:00 +99999999999999999999"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_storage_error_knows_how_long_to_wait(
    headers: dict[str, str], asked_s: float | None, status: int
) -> None:
    """Seconds, or a date, which may have passed; what is neither is left alone."""
    error = storage_write_error(api.from_http_response(answered(headers, status)), "w", "b", "p")

    assert isinstance(error, StoreError)
    assert asked_s == error.retry_after_s


def test_a_date_to_wait_for_is_reported_in_seconds(request: pytest.FixtureRequest) -> None:
    """It is counted from now."""
    now = datetime(2027, 1, 1, tzinfo=UTC)
    request.addfinalizer(platform_time.reset_time_provider)
    platform_time.set_time_provider(now.timestamp)
    header = format_datetime(now + timedelta(hours=1), usegmt=True)
    error = storage_read_error(api.from_http_response(answered({"Retry-After": header})), "w", "b", "p")

    assert isinstance(error, StoreError)
    assert 3600 == error.retry_after_s


def test_an_answer_that_the_client_does_not_sort_is_sorted_by_its_status() -> None:
    """Google's library raises some answers as they are."""
    refused = InvalidResponse(answered({"Retry-After": "3"}, 429), "secret")
    error = storage_write_error(refused, "w", "b", "p")

    assert isinstance(error, UnavailableError)
    assert 3.0 == error.retry_after_s


@pytest.mark.parametrize("status", [200, 204, 302])
def test_an_answer_of_success_that_the_client_cannot_use_is_unanswered(status: int) -> None:
    """Such as the page of a proxy where a location was to be."""
    refused = InvalidResponse(answered({}, status), "secret")
    errors = storage_read_error(refused, "w", "b", "p"), storage_write_error(refused, "w", "b", "p")

    assert [UnavailableError, OutcomeUnknownError] == [type(error) for error in errors]


@pytest.mark.parametrize(
    ("details", "asked_s"),
    [
        (Status(details=[packed(RetryInfo(retry_delay=Duration(seconds=2, nanos=500_000_000)))]), 2.5),
        (Status(details=[packed(Duration(seconds=9))]), None),
        (Status(), None),
        (None, None),
    ],
)
def test_a_firestore_error_knows_how_long_to_wait(details: Any, asked_s: float | None) -> None:
    """Google's services add it to the details of a status."""
    raw = b"\xff" if details is None else details.SerializeToString()
    trailing = Metadata(("grpc-status-details-bin", raw))
    exc = grpc.aio.AioRpcError(Code.RESOURCE_EXHAUSTED, Metadata(), trailing)
    error = firestore_write_error(exc, "append_event k")

    assert isinstance(error, UnavailableError)
    assert asked_s == error.retry_after_s


def test_a_channel_that_is_closed_says_that_nothing_was_sent() -> None:
    """It is no status of a server, and no other try helps."""
    error = firestore_write_error(grpc.aio.UsageError("Channel is closed."), "append_event k")

    assert (StoreError, True) == (type(error), "nothing was sent" in str(error))


# What cannot come out of a request, and why.
APART = {
    "AsyncRestUnsupportedParameterError": "of a client that is not used",
    "CompatJSONDecodeError": "of the standard library; requests raises its own in its place",
    "DataCorruptionDynamicParent": "a base, never raised",
    "InvalidPathError": "of the transfer manager, which is not used",
    "InvalidResponseDynamicParent": "a base, never raised",
    "MessageDefect": "of the standard library's e-mail",
    "ProxySchemeUnsupported": "raised where a session is set up for a proxy, by its owner",
    "httplib_IncompleteRead": "of the standard library; urllib3 raises its own in its place",
}


def exceptions_of(*modules: ModuleType) -> list[type[Exception]]:
    """Return the exceptions that *modules* name, without warnings."""
    found = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Exception) and not issubclass(kind, Warning)
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def named(module: ModuleType, kind: type[Exception]) -> set[str]:
    """Return the names under which *module* has *kind*."""
    return {name for name, value in vars(module).items() if value is kind}


PACKAGES = (api, auth, requests.exceptions, storage_exceptions, urllib3.exceptions)
REACHING = [
    kind
    for kind in exceptions_of(*PACKAGES)
    if not any(named(module, kind) & APART.keys() for module in PACKAGES)
]


def raised(kind: type[Exception]) -> Exception:
    """Return an exception of *kind*, whatever its constructor wants."""
    if issubclass(kind, InvalidResponse):
        return kind(answered({}), "secret")
    try:
        return kind("secret")
    except TypeError:
        return kind.__new__(kind)


def test_what_is_set_apart_exists() -> None:
    """A name that a package dropped is dropped here, too."""
    names = {name for module in PACKAGES for name in vars(module)}

    assert set() == APART.keys() - names


@pytest.mark.sample(40)
@pytest.mark.parametrize("kind", REACHING, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@pytest.mark.parametrize("error", [storage_read_error, storage_write_error, storage_condition_error])
def test_every_exception_of_the_sdks_becomes_ours(
    kind: type[Exception], error: Callable[..., Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a request raises reaches the caller as a typed error, chained, without the server's words."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")  # nothing is sent there
    calls = StorageCalls("bkt", project=None, client=None, credentials=None, limits=ArtifactLimits())
    cause = raised(kind)

    def fail(*_: object) -> None:
        raise cause

    with pytest.raises((StoreError, RefusedError)) as caught:
        calls._send(fail, Permission.GET, error, 1.0)

    assert cause is caught.value.__cause__
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", exceptions_of(grpc, grpc.aio), ids=lambda kind: kind.__name__)
def test_every_exception_of_grpc_is_decided_upon(kind: type[Exception]) -> None:
    """What an RPC raises is caught by its family; the rest belongs to servers and to other clients."""
    apart = {"FutureTimeoutError", "FutureCancelledError"}  # of the client that blocks

    assert issubclass(kind, FIRESTORE_FAILURES) != (kind.__name__ in apart)


ALL = sorted(
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, StoreError)
)
DRAWN = re.findall(r"^[ │]*[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
BRANCHES = {
    "CredentialsError": errors.AccessDeniedError,
    "EmulatorMissingError": UnavailableError,
    "KeyDestroyedError": errors.StoredDataError,
    "OverloadedError": UnavailableError,
    "PayloadMissingError": errors.StoredDataError,
    "TurnLostError": SessionConflictError,
}


def test_the_drawing_shows_every_error_where_it_hangs() -> None:
    """In the module's docstring; each hangs below the root, or the branch it is drawn below."""
    assert sorted([*DRAWN, "StoreError"]) == sorted(ALL)
    assert {name: BRANCHES.get(name, StoreError) for name in DRAWN} == {
        name: getattr(gcp_adk_store, name).__bases__[0] for name in DRAWN
    }


@pytest.mark.parametrize("error", [InvalidInputError, SessionExistsError])
def test_adks_message_attribute_is_filled(error: type[StoreError]) -> None:
    """ADK's HTTP server, which reads ``message``, answers with the real one."""
    assert "id s is taken" == getattr(error("id s is taken"), "message", None)


def test_an_error_of_an_operation_without_ids_begins_with_its_name() -> None:
    """Such as that of a check of all sessions."""
    assert "check: it is gone" == str(StoreError("it is gone", operation="check"))


@pytest.mark.parametrize("name", ALL)
def test_an_error_survives_pickle(name: str) -> None:
    """Type, text, which begins with the operation, and what else it carries cross a process boundary."""
    error = getattr(errors, name)("the message", operation="save_artifact", key="app='a'")
    error.attempts, error.retry_after_s = 3, 1.5
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # pickled one line above

    assert (type(error), "save_artifact app='a': the message") == (type(copy), str(copy))
    assert ("save_artifact", "app='a'", 3, 1.5) == (
        copy.operation,
        copy.key,
        copy.attempts,
        copy.retry_after_s,
    )

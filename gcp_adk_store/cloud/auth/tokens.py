"""Share one access token among clients, and say why a request for a token failed.

Google's library raises one exception for a revoked login and for an overloaded token endpoint. Only the
status of the endpoint's answer distinguishes them.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import requests
from google.auth import exceptions as auth
from google.auth.credentials import Credentials, TokenState
from google.auth.transport import Request as Transport
from google.auth.transport.requests import Request

from gcp_adk_store import machine
from gcp_adk_store.errors import CredentialsError, StoreError, UnavailableError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import at_most

_FOR_NOW: Final = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_SILENCE_S: Final = 10.0

NO_TOKEN: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of Google's library for a successful answer without a token, such as a proxy's page."""

_LOGIN: Final = "run `gcloud auth application-default login`"
WAYS: Final = (
    f"{_LOGIN}, attach a service account, name a file in ADK_STORE_CREDENTIALS_FILE, "
    "set FIRESTORE_EMULATOR_HOST and STORAGE_EMULATOR_HOST to use emulators, or ADK_STORE_LOCAL for a folder"
)
"""How to give the store an identity."""


class Exchange(Transport):
    """Sends the requests of one refresh, and keeps the status of the last answer."""

    def __init__(self, transport: Callable[..., Any]) -> None:
        self._transport = transport
        self.url = ""
        self.status: int | None = None

    def __call__(self, url: str, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Send one request; it fails after 10 s of silence."""
        self.url, self.status = url, None
        silence_s = _LONGEST_SILENCE_S if timeout is None else timeout
        response = self._transport(url, *args, timeout=silence_s, **kwargs)
        self.status = response.status
        return response


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a store at Google Cloud; it contains no secret."""

    kind: str
    """``service account key``, ``user login``, ``workload identity federation``, ``metadata server``,
    ``impersonation``, or the name of the caller's class."""
    found_in: str
    """The source of the credentials: the caller, a file, or the environment."""
    principal: str | None = None
    """Email of the service account, if known."""
    impersonates: str | None = None
    """Email of the impersonated service account."""
    quota_project: str | None = None
    """The project whose quota requests use, if it is not the project itself."""
    universe_domain: str = "googleapis.com"

    def __str__(self) -> str:
        whose = f" of {self.principal}" if self.principal else ""
        acts = f", acting as {self.impersonates}" if self.impersonates else ""
        return f"{self.kind}{whose} from {self.found_in}{acts}"


def not_refreshed(exc: BaseException, identity: Identity, exchange: Exchange | None = None) -> StoreError:
    """Return the error for *identity* without a token: a temporary one, or one that names the remedy.

    *exchange* is the one that failed, if a request was sent.
    """
    status, url = (exchange.status, exchange.url) if exchange else (None, "")
    answered = f"status {status}" if status else type(exc).__name__
    if is_for_now(exc, status):
        if status == HTTPStatus.OK:
            answered += ", and no token: does a proxy answer?"
        return UnavailableError(f"no token for the {identity} ({answered}); try again later")
    refused = f"refused with {answered}" if status else answered
    return CredentialsError(f"no token for the {identity}: {refused}; {_remedy(identity, url)}")


def is_for_now(exc: BaseException | None, status: int | None) -> bool:
    """Return whether a later refresh may succeed unchanged; *status* is that of the last answer, if any."""
    if getattr(exc, "retryable", False):
        return True
    if status is not None and status >= HTTPStatus.BAD_REQUEST:
        return status in _FOR_NOW
    while exc is not None:
        if isinstance(exc, auth.TransportError | auth.TimeoutError | TimeoutError):
            return True
        if status == HTTPStatus.OK and isinstance(exc, NO_TOKEN):
            return True
        exc = exc.__cause__
    return False


def _remedy(identity: Identity, url: str) -> str:
    if ":generateAccessToken" in url:
        target = identity.impersonates or "the service account that is acted as"
        return (
            f"let this identity act as {target}: gcloud iam service-accounts add-iam-policy-binding {target} "
            "--member=MEMBER --role=roles/iam.serviceAccountTokenCreator, and enable the API: "
            "gcloud services enable iamcredentials.googleapis.com"
        )
    return _REMEDIES.get(identity.kind, f"{_LOGIN}, or correct the credentials that are passed")


_REMEDIES: Final = {
    "user login": f"the login has ended or was revoked: {_LOGIN}",
    "service account key": (
        "the key was deleted, its account is disabled, or this machine's clock is wrong: list the keys with "
        "`gcloud iam service-accounts keys list --iam-account=EMAIL`, or use no key at all: attach the "
        "service account, or impersonate it"
    ),
    "workload identity federation": (
        "the pool's provider does not take this token: compare audience, issuer and attribute condition with "
        "`gcloud iam workload-identity-pools providers describe PROVIDER --workload-identity-pool=POOL "
        "--location=global`"
    ),
    "metadata server": (
        "no service account is attached here: gcloud run services update SERVICE --service-account=EMAIL, or "
        "--service-account of the instance or node pool"
    ),
}


logger = logging.getLogger(__name__)

_LONGEST_WAIT_S: Final = 30.0
_LONGEST_REFRESH_S: Final = 90.0
"""After this time a second request starts: a server that sends a byte every few seconds never times out."""
_BETWEEN_FAILURES_S: Final = 10.0
"""Seconds between failed refreshes while the token is still valid."""


@dataclass(frozen=True, slots=True)
class _Failure:
    cause: Exception
    exchange: Exchange


_Refresh: TypeAlias = "Future[_Failure | None]"


class SharedToken(Credentials):
    """Credentials for Google's clients, whose requests carry the one token of another credentials object.

    Without a valid token, every caller waits for the one running refresh and gets its outcome. In its last
    minutes a token stays in use during the refresh, so a token endpoint may fail that long. google-auth's own
    refresh without blocking lets each caller without a valid token ask for one.
    """

    def __init__(self, credentials: Credentials, identity: Identity) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # google-auth types half
        self.credentials = credentials
        self._identity = identity
        self._guard = threading.Lock()
        self._running: _Refresh | None = None
        self._begun_at = 0.0
        self._failed_at: float | None = None
        self._sent = threading.local()

    async def ready(self) -> None:
        """Wait for a valid token.

        Raises:
            UnavailableError: the endpoint yields no token for now.
            CredentialsError: the endpoint yields no token until a person follows the message.
        """
        running = self._needed()
        if running is not None:
            outcome = asyncio.wrap_future(running)
            await asyncio.wait([outcome], timeout=at_most(_LONGEST_WAIT_S))
            self._raise_failure(outcome)

    def wait(self) -> None:
        """Wait for a valid token, blocking."""
        running = self._needed()
        if running is not None:
            self._wait_for(running)
        self._sent.token = self.credentials.token

    @property
    def valid(self) -> bool:
        """Whether the token stays valid for some minutes."""
        return bool(self.credentials.valid)

    @property
    def expired(self) -> bool:
        """Whether the token is missing or about to expire."""
        return bool(self.credentials.expired)

    @property
    def token_state(self) -> TokenState:
        """The state of the token in its lifetime."""
        return TokenState(self.credentials.token_state)

    @property
    def quota_project_id(self) -> str | None:
        """The project whose quota requests use."""
        quota_project: str | None = self.credentials.quota_project_id
        return quota_project

    @property
    def universe_domain(self) -> str:
        """The universe of the credentials."""
        return str(self.credentials.universe_domain)

    def before_request(self, request: Any, method: str, url: str, headers: Any) -> None:
        """Put the token into *headers*, after a refresh if necessary."""
        self.wait()
        if self.credentials.valid:
            self.credentials.before_request(request, method, url, headers)
        else:  # in its last minutes: any other state makes the credentials refresh it themselves
            self.credentials.apply(headers)

    def apply(self, headers: Any, token: Any = None) -> None:
        """Put the current token into *headers*."""
        self.credentials.apply(headers, token)

    def refresh(self, request: Any) -> None:
        """Replace a token that a server refused, unless another caller did so already; blocks.

        It uses a connection of its own, not *request*.

        Raises:
            UnavailableError, CredentialsError: as :meth:`ready`.
        """
        del request
        with self._guard:
            if self.credentials.token != getattr(self._sent, "token", None):
                return
            running = self._under_way() or self._start()
        self._wait_for(running)

    def _needed(self) -> "_Refresh | None":
        """Return the running refresh, started here if necessary; ``None`` if the token is valid."""
        if self.credentials.valid:
            return None
        with self._guard:
            if self.credentials.valid:
                return None
            serves = self.credentials.token_state is TokenState.STALE
            running = self._under_way()
            if running is None and not (serves and self._failed_lately()):
                running = self._start()
            return None if serves else running

    def _under_way(self) -> "_Refresh | None":
        is_stuck = machine.monotonic() - self._begun_at >= _LONGEST_REFRESH_S
        return None if is_stuck else self._running

    def _failed_lately(self) -> bool:
        return self._failed_at is not None and machine.monotonic() - self._failed_at < _BETWEEN_FAILURES_S

    def _start(self) -> "_Refresh":
        running: _Refresh = Future()
        running.set_running_or_notify_cancel()  # from now on a waiting caller cannot cancel it
        self._running, self._begun_at = running, machine.monotonic()
        # A daemon: the process may end before the endpoint answers.
        threading.Thread(target=self._settle, args=(running,), name="adk-store-token", daemon=True).start()
        return running

    def _settle(self, running: "_Refresh") -> None:
        try:
            failure = self._refresh()
        except BaseException as exc:  # noqa: BLE001  # every waiting caller gets it
            self._end(running, failed=False)
            running.set_exception(exc)
            return
        self._end(running, failed=failure is not None)
        if failure and self.credentials.token_state is TokenState.STALE:
            error = self._error(failure)
            logger.warning("%s; the current token stays in use", error, extra=telemetry.log_fields(error))
        running.set_result(failure)

    def _refresh(self) -> _Failure | None:
        with requests.Session() as session:
            exchange = Exchange(Request(session))
            try:
                self.credentials.refresh(exchange)
            except auth.GoogleAuthError as exc:
                return _Failure(exc, exchange)
            except NO_TOKEN as exc:
                if exchange.status is None:
                    raise  # the failure does not come from an answer
                return _Failure(exc, exchange)
        return None

    def _end(self, running: "_Refresh", *, failed: bool) -> None:
        with self._guard:
            if self._running is running:
                self._running = None
            self._failed_at = machine.monotonic() if failed else None

    def _wait_for(self, running: "_Refresh") -> None:
        wait([running], timeout=at_most(_LONGEST_WAIT_S))
        self._raise_failure(running)

    def _raise_failure(self, outcome: "_Refresh | asyncio.Future[_Failure | None]") -> None:
        if not outcome.done():
            raise UnavailableError(f"no token for the {self._identity} in time; try again later")
        failure = outcome.result()
        if failure is not None:
            # Each waiting caller gets its own error object, which names its operation.
            raise self._error(failure) from failure.cause

    def _error(self, failure: _Failure) -> Exception:
        return not_refreshed(failure.cause, self._identity, failure.exchange)

"""Errors that explain a missing token and name the command that repairs it.

Google's library raises one exception for a revoked login and for an overloaded token endpoint. Only the
status of the endpoint's answer distinguishes them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from google.auth import exceptions as auth
from google.auth.transport import Request as Transport

from gcp_adk_store.errors import CredentialsError, StoreError, UnavailableError

_FOR_NOW: Final = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_SILENCE_S: Final = 10.0

NO_TOKEN: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of Google's library for a successful answer without a token, such as a proxy's page."""

_LOGIN: Final = "run `gcloud auth application-default login`"
WAYS: Final = (
    f"{_LOGIN}, attach a service account, name a file in ADK_STORE_CREDENTIALS_FILE, "
    "or set FIRESTORE_EMULATOR_HOST and STORAGE_EMULATOR_HOST to use emulators"
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

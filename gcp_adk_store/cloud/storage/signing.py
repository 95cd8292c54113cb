"""Sign URLs that let a browser read or upload one object: with a key, or through IAM without one."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from google.adk.platform import time as platform_time
from google.auth import exceptions as auth
from google.auth import iam
from google.auth.credentials import Scoped, Signing
from google.auth.transport.requests import Request

from gcp_adk_store import settings
from gcp_adk_store.cloud.auth.credentials import PLATFORM_SCOPES, StoreCredentials
from gcp_adk_store.cloud.auth.tokens import NO_TOKEN, Exchange
from gcp_adk_store.cloud.storage.calls import Once, Permission, StorageCalls
from gcp_adk_store.errors import AccessDeniedError, InvalidInputError, UnavailableError

_OURS: Final = frozenset({"credentials", "client", "service_account_email", "access_token", "headers"})
_FORBIDDEN: Final = frozenset({401, 403, 404})
_EMULATOR_EMAIL: Final = "emulator@adk-store.invalid"


class UrlSigner:
    """Signs URLs of the objects of a bucket, as :class:`gcp_adk_store.kernel.ports.Signer` says.

    A service account's key signs locally. Credentials without a key, such as those of Cloud Run and GKE, let
    IAM sign for their service account, which needs ``iam.serviceAccounts.signBlob`` on itself. Impersonating
    credentials let IAM sign for the impersonated account.
    """

    def __init__(
        self,
        calls: StorageCalls,
        *,
        credentials: StoreCredentials,
        service_account: str | None,
    ) -> None:
        self._calls = calls
        self._credentials = credentials
        self._service_account = service_account
        self._signing: Signing | None = None

    def require_urls(self) -> None:
        """Accept all."""

    async def sign(
        self,
        name: str,
        *,
        method: str,
        expiration: datetime | timedelta | int,
        headers: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """As the port; one request to IAM if the credentials have no key."""
        given = _OURS & (options or {}).keys()
        if given:
            raise InvalidInputError(
                f"{', '.join(sorted(given))} cannot be passed; credentials= and "
                "signing_service_account= of the service say who signs"
            )
        if not (method.isascii() and method.isalpha()):
            raise InvalidInputError(f"method {ascii(method)[:40]} is no HTTP method")
        is_v2 = (options or {}).get("version") == "v2"
        if _seconds_left(expiration, is_unix=is_v2) < 1:
            raise InvalidInputError(f"expiration is over: {expiration}; give a later one")

        def work(bucket: Any, once: Once) -> str:
            del once  # this process signs, or IAM does with a time limit of its own
            arguments = {"version": "v4", "credentials": self._signer(), **(options or {})}
            try:
                url: str = bucket.blob(name).generate_signed_url(
                    expiration=expiration, method=method, headers=dict(headers or {}), **arguments
                )
            except (TypeError, ValueError, AttributeError, OverflowError) as exc:
                raise InvalidInputError("the URL cannot be signed as asked for; see the cause") from exc
            return url

        return await self._calls.work(work, Permission.GET)

    def _signer(self) -> Signing:
        if self._signing is None:
            self._signing = self._find_signer()
        return self._signing

    def _find_signer(self) -> Signing:
        named = self._credentials.is_named
        if settings.storage_emulator_url() is not None and not named:
            return _EmulatorSigner()
        if self._calls.is_borrowed and not named:
            # The client signs with a key alone, and IAM signs with these.
            lent: Any = self._calls.client()
            credentials, acts_as = lent._credentials, None  # noqa: SLF001
        else:
            found = self._credentials.find()
            credentials, acts_as = found.source, found.acts_as
        if acts_as is None and isinstance(credentials, Signing):
            return credentials
        # For another account IAM signs and explains a refusal; a key would sign for its own account.
        if isinstance(credentials, Scoped):
            credentials = credentials.with_scopes(PLATFORM_SCOPES)  # a store's scopes do not include signing
        return _IamSigner(credentials, self._service_account or acts_as)


def _seconds_left(expiration: datetime | timedelta | int, *, is_unix: bool) -> float:
    """Return the seconds until *expiration*, whose whole ones count; *is_unix* if a number is Unix time."""
    now = platform_time.get_time()
    if isinstance(expiration, datetime):
        ends_at = expiration if expiration.tzinfo else expiration.replace(tzinfo=UTC)  # as Google's client
        expiration = ends_at - datetime.fromtimestamp(now, UTC)
    if isinstance(expiration, timedelta):
        return expiration.total_seconds()
    return expiration - now if is_unix else expiration


class _IamSigner(Signing):
    """Lets IAM sign for a service account."""

    def __init__(self, credentials: Any, service_account: str | None) -> None:
        self._credentials = credentials
        self._service_account = service_account
        self._exchange = Exchange(Request())  # the library's error has the answer only in its message

    @property
    def signer_email(self) -> str:
        email = self._service_account or getattr(self._credentials, "service_account_email", None)
        if email == "default":
            # The metadata server returns it with the first token.
            self._credentials.refresh(self._exchange)
            email = self._credentials.service_account_email
        if not email:
            raise AccessDeniedError(
                "these credentials sign no URL: use those of a service account, name one with "
                "GcsArtifactService(signing_service_account=...), or impersonate one: "
                "gcloud auth application-default login --impersonate-service-account=EMAIL"
            )
        return str(email)

    @property
    def signer(self) -> iam.Signer:
        return iam.Signer(self._exchange, self._credentials, self.signer_email)

    def sign_bytes(self, message: bytes) -> bytes:
        try:
            signature: bytes = self.signer.sign(message)
        except auth.TransportError as exc:
            if self._exchange.status in _FORBIDDEN:
                raise AccessDeniedError(
                    f"IAM does not let these credentials sign for {self.signer_email} "
                    f"({self._exchange.status}): they lack "
                    "iam.serviceAccounts.signBlob on it; grant roles/iam.serviceAccountTokenCreator"
                ) from exc
            raise UnavailableError(f"IAM did not sign for {self.signer_email}; try again later") from exc
        except NO_TOKEN as exc:
            if self._exchange.status != HTTPStatus.OK:
                raise  # the failure does not come from an answer
            raise UnavailableError(
                f"IAM gave no signature for {self.signer_email}, with the status of success: does a proxy "
                "answer? try again later"
            ) from exc
        return signature


class _EmulatorSigner(Signing):
    """Signs for emulators, which ignore signatures."""

    @property
    def signer_email(self) -> str:
        return _EMULATOR_EMAIL

    @property
    def signer(self) -> None:
        return None

    def sign_bytes(self, message: bytes) -> bytes:
        return message[:32]

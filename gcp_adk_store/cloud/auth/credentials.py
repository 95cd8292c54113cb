"""Find credentials once for all clients of a store: from the environment, a file, or by impersonation."""

import asyncio
import json
import math
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import google.auth
import requests
from google.auth import compute_engine, external_account, impersonated_credentials
from google.auth import exceptions as auth
from google.auth.credentials import Credentials, CredentialsWithQuotaProject, with_scopes_if_required
from google.auth.transport.requests import Request
from google.oauth2 import credentials as user_login
from google.oauth2 import service_account

from gcp_adk_store import settings
from gcp_adk_store.cloud.auth.tokens import WAYS, Exchange, Identity, SharedToken, not_refreshed
from gcp_adk_store.cloud.translation import translated
from gcp_adk_store.errors import CredentialsError, InvalidInputError, UnavailableError
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.kernel.operation import at_most
from gcp_adk_store.settings import StoreSettings

T = TypeVar("T")

STORE_SCOPES: Final = (
    "https://www.googleapis.com/auth/datastore",
    "https://www.googleapis.com/auth/devstorage.read_write",
)
"""Scopes of a store: documents and objects, nothing else of the project."""

PLATFORM_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
"""Scopes to read a project's configuration, and to sign through IAM."""

_KINDS: Final[Sequence[tuple[type[Any], str]]] = (
    (impersonated_credentials.Credentials, "impersonation"),
    (service_account.Credentials, "service account key"),
    (user_login.Credentials, "user login"),
    (external_account.Credentials, "workload identity federation"),
    (compute_engine.Credentials, "metadata server"),
)
_MALFORMED: Final = (
    *(auth.GoogleAuthError, OSError, ValueError, KeyError, TypeError, AttributeError),
    RecursionError,  # of JSON that nests too deep
)
"""Exceptions of Google's library for a file that is missing, is not JSON, or lacks a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCredentials:
    """Credentials and their known properties."""

    source: Credentials
    """The original credentials, before impersonation and before the scopes apply."""
    acts_as: str | None
    """Email of the service account that they impersonate."""
    token: SharedToken
    project: str | None
    """The project that they name themselves."""
    identity: Identity


@checks_kinds
class StoreCredentials:
    """The identity of one or more stores: found at the first use, with one token for all clients.

    Any number of threads and event loops may use it. Emulators ignore it.
    """

    def __init__(
        self,
        credentials: Credentials | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        impersonate_service_account: str | None = None,
        quota_project: str | None = None,
        universe_domain: str | None = None,
        iam_endpoint: str | None = None,
        scopes: Sequence[str] = STORE_SCOPES,
    ) -> None:
        """Configure the credentials; the first use reads and contacts, not this call.

        Args:
            credentials: Of ``google.auth``; without them and *file*, those of the environment (ADC): of
                ``GOOGLE_APPLICATION_CREDENTIALS``, of ``gcloud auth application-default login``, or of
                the attached service account.
            file: A service account's key, a configuration of workload identity federation
                (``external_account``), or any other file that Google's library reads. Its writer
                controls where tokens are requested: use files of trusted sources only.
            impersonate_service_account: Email of the service account to act as.
            quota_project: Project whose quota requests use, if it differs from the requested project.
            universe_domain: By default ``GOOGLE_CLOUD_UNIVERSE_DOMAIN``, then that of the credentials.
            iam_endpoint: ``https://...`` of a regional or private endpoint of the IAM Credentials API, for
                *impersonate_service_account*.
            scopes: The scopes of the token.

        Raises:
            InvalidInputError: both *credentials* and *file* are given, or a setting is malformed.
        """
        if credentials is not None and file is not None:
            raise InvalidInputError("credentials and file exclude each other; pass one of them")
        # Refuses malformed settings.
        StoreSettings(
            impersonate_service_account=impersonate_service_account,
            quota_project=quota_project,
            universe_domain=universe_domain,
        )
        self._given = credentials
        self._file = None if file is None else Path(file)
        self._impersonate = impersonate_service_account
        self._quota_project = quota_project
        self._universe_domain = universe_domain
        self._iam_endpoint = iam_endpoint
        self._scopes = tuple(scopes)
        self._found: FoundCredentials | None = None
        self._project: str | None = None
        self._finding = threading.Lock()

    @classmethod
    def of(cls, given: "Credentials | StoreCredentials | None") -> "StoreCredentials":
        """Return a caller's credentials as :class:`StoreCredentials`."""
        return given if isinstance(given, StoreCredentials) else cls(given)

    @classmethod
    def from_settings(cls, place: StoreSettings, *, scopes: Sequence[str] = STORE_SCOPES) -> Self:
        """Return the credentials that *place* describes."""
        return cls(
            file=place.credentials_file,
            impersonate_service_account=place.impersonate_service_account,
            quota_project=place.quota_project,
            universe_domain=place.universe_domain,
            scopes=scopes,
        )

    def scoped(self, scopes: Sequence[str]) -> "StoreCredentials":
        """Return the same identity with a token of its own for other *scopes*."""
        return StoreCredentials(
            self._given,
            file=self._file,
            impersonate_service_account=self._impersonate,
            quota_project=self._quota_project,
            universe_domain=self._universe_domain,
            iam_endpoint=self._iam_endpoint,
            scopes=scopes,
        )

    @property
    def is_named(self) -> bool:
        """Whether the caller passed credentials or a file, instead of using the environment's."""
        return self._given is not None or self._file is not None

    def find(self) -> FoundCredentials:
        """Return the credentials, found at the first call. It blocks; it asks at most the metadata server.

        Raises:
            CredentialsError: they are missing, or do not fit the settings.
            UnavailableError: their source is unreachable for now.
        """
        with self._finding:
            if self._found is None:
                self._found = self._look()
            return self._found

    async def ready(self) -> SharedToken:
        """Return the token, once it is valid, within the running operation's time.

        Raises:
            CredentialsError: they are missing, or yield no token until a person repairs them.
            UnavailableError: they yield no token for now.
        """
        found = self._found
        if found is None:
            found = await in_time(self.find)
        await found.token.ready()
        return found.token

    def identity(self) -> Identity:
        """Return their identity; some credentials know it only once they have a token. Blocks."""
        found = self.find()
        return _identity(found.token.credentials, found.identity.found_in, source=found.source)

    def find_project(self) -> str | None:
        """Return the project of the credentials, or ask for it if they do not name it; blocks."""
        found = self.find()
        self._project = self._project or found.project
        ask = getattr(found.token.credentials, "get_project_id", None)
        if self._project is None and callable(ask):
            with requests.Session() as session:
                exchange = Exchange(Request(session))
                with translated((auth.GoogleAuthError, ValueError), not_refreshed, found.identity, exchange):
                    self._project = ask(request=exchange)
        return self._project

    def _look(self) -> FoundCredentials:
        source, project, found_in = self._source()
        with translated(
            (auth.GoogleAuthError,), not_refreshed, Identity(kind=_kind(source), found_in=found_in)
        ):
            # The metadata server is asked for the universe.
            universe = str(source.universe_domain)
            narrowed = self._narrowed(source)
        configured = self._universe_domain or settings.universe_domain()
        identity = _identity(narrowed, found_in, source=source)
        if configured not in (None, universe):
            raise CredentialsError(
                f"the {identity} belongs to the universe {universe}, and the settings name {configured}: "
                "correct GOOGLE_CLOUD_UNIVERSE_DOMAIN, or use credentials of that universe"
            )
        return FoundCredentials(
            source=source,
            acts_as=self._impersonate,
            token=SharedToken(narrowed, identity),
            project=project,
            identity=identity,
        )

    def _source(self) -> tuple[Credentials, str | None, str]:
        """Return the original credentials, the project that they name, and their source."""
        if self._given is not None:
            return self._given, None, "the caller"
        found_in = str(self._file or settings.default_credentials_file() or "the environment")
        try:
            # Without scopes, because with them the library requests the project of a pool at once.
            source, project = google.auth.default() if self._file is None else _load(self._file)
        except auth.TransportError as exc:
            raise not_refreshed(exc, Identity(kind="metadata server", found_in=found_in)) from exc
        except _MALFORMED as exc:
            raise CredentialsError(
                f"no usable Google Cloud credentials in {found_in} ({type(exc).__name__}): {WAYS}"
            ) from exc
        return source, project, found_in

    def _narrowed(self, source: Credentials) -> Credentials:
        """Return *source* with the scopes, the impersonation and the quota project applied."""
        quota_project = self._quota_project
        if self._impersonate is None:
            narrowed = with_scopes_if_required(source, self._scopes)
        else:
            endpoint = self._iam_endpoint and (
                f"{self._iam_endpoint.rstrip('/')}/v1/projects/-/serviceAccounts/"
                f"{self._impersonate}:generateAccessToken"
            )
            narrowed = impersonated_credentials.Credentials(
                source_credentials=source,
                target_principal=self._impersonate,
                target_scopes=list(self._scopes),
                iam_endpoint_override=endpoint,
            )
            quota_project = quota_project or source.quota_project_id
        if quota_project is None:
            return narrowed  # type: ignore[no-any-return]  # google-auth types half
        if not isinstance(narrowed, CredentialsWithQuotaProject):
            raise CredentialsError(
                f"credentials of the class {type(narrowed).__name__} take no quota project; leave it out"
            )
        return narrowed.with_quota_project(quota_project)  # type: ignore[no-any-return]  # as above


async def in_time(find: Callable[[], T]) -> T:
    """Run *find* on a thread, within the running operation's time, and return its result.

    Raises:
        UnavailableError: it takes longer; the thread ends at the timeout of Google's library.
    """
    try:
        return await asyncio.wait_for(asyncio.to_thread(find), at_most(math.inf))
    except TimeoutError as exc:
        raise UnavailableError("the credentials' source did not answer in time; try again later") from exc


def _load(file: Path) -> tuple[Credentials, str | None]:
    info = json.loads(file.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        # Google's library warns about untrusted files, as the docstring above does.
        warnings.simplefilter("ignore", DeprecationWarning)
        loaded: tuple[Credentials, str | None] = google.auth.load_credentials_from_dict(info)
    return loaded


def _identity(credentials: Credentials, found_in: str, *, source: Credentials | None = None) -> Identity:
    kind = _kind(credentials)
    impersonates = None
    if isinstance(credentials, impersonated_credentials.Credentials):
        impersonates = str(credentials.signer_email)
        if source is not None and source is not credentials and _kind(source) != "impersonation":
            kind = _kind(source)
    elif isinstance(credentials, external_account.Credentials):
        impersonates = credentials.service_account_email
    emails = [getattr(one, "service_account_email", None) for one in (credentials, source)]
    return Identity(
        kind=kind,
        found_in=found_in,
        principal=next((email for email in emails if email not in (None, "default", impersonates)), None),
        impersonates=impersonates,
        quota_project=credentials.quota_project_id,
        universe_domain=str(credentials.universe_domain),
    )


def _kind(credentials: Credentials) -> str:
    return next((name for kind, name in _KINDS if isinstance(credentials, kind)), type(credentials).__name__)

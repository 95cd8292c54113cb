"""Read a deployment's configuration from Google's REST APIs, without changes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import requests
from google.auth.transport.requests import AuthorizedSession

from gcp_adk_store.cloud.auth.tokens import SharedCredentials
from gcp_adk_store.doctor import access
from gcp_adk_store.doctor.answers import Answer
from gcp_adk_store.doctor.findings import Place
from gcp_adk_store.doctor.report import Answers

_SILENCE_S: Final = 15.0
_PAGES: Final = 100
_CONFIGURED: Final = "indexConfig.usesAncestorConfig:false OR ttlConfig:*"
"""The only filter for fields that the Admin API accepts: fields with a configuration of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Base URLs of the APIs."""

    firestore: str
    storage: str
    service_usage: str
    resource_manager: str

    @classmethod
    def of(cls, universe_domain: str) -> Self:
        """Return the URLs of a universe."""
        return cls(
            firestore=f"https://firestore.{universe_domain}",
            storage=f"https://storage.{universe_domain}",
            service_usage=f"https://serviceusage.{universe_domain}",
            resource_manager=f"https://cloudresourcemanager.{universe_domain}",
        )


class AdminApi:
    """Requests to the APIs, which block."""

    def __init__(self, credentials: SharedCredentials, *, endpoints: Endpoints | None = None) -> None:
        self._endpoints = endpoints or Endpoints.of(credentials.universe_domain)
        self._universe_domain = credentials.universe_domain
        self._session: Any = AuthorizedSession(credentials)

    def look(self, place: Place, *, at_database: bool, at_bucket: bool) -> Answers:
        """Return the APIs' answers about *place*, or only about its database or its bucket.

        Raises:
            CredentialsError, UnavailableError: the credentials yield no token.
        """
        database = at_database or None
        of_bucket = (at_bucket and place.bucket) or None
        return Answers(
            services=self.services(place),
            database=database and self.database(place),
            indexes=database and self.indexes(place),
            fields=database and self.fields(place),
            project_permissions=database and self.project_permissions(place),
            bucket=of_bucket and self.bucket(of_bucket),
            bucket_permissions=of_bucket and self.bucket_permissions(of_bucket),
        )

    def services(self, place: Place) -> Answer:
        """Return the state of the APIs that a store calls."""
        names = [
            f"projects/{place.project}/services/{name}"
            for name in access.services(place, self._universe_domain)
        ]
        url = f"{self._endpoints.service_usage}/v1/projects/{place.project}/services:batchGet"
        return self._ask("GET", url, params={"names": names})

    def database(self, place: Place) -> Answer:
        """Return the database's settings."""
        return self._ask("GET", f"{self._endpoints.firestore}/v1/{place.database_path}")

    def indexes(self, place: Place) -> Answer:
        """Return the composite indexes of all collections."""
        url = f"{self._endpoints.firestore}/v1/{place.database_path}/collectionGroups/-/indexes"
        return self._ask_for_all(url, "indexes", {})

    def fields(self, place: Place) -> Answer:
        """Return the fields of all collections that have a configuration of their own."""
        url = f"{self._endpoints.firestore}/v1/{place.database_path}/collectionGroups/-/fields"
        return self._ask_for_all(url, "fields", {"filter": _CONFIGURED})

    def project_permissions(self, place: Place) -> Answer:
        """Return which permissions these credentials have on the whole project."""
        url = f"{self._endpoints.resource_manager}/v1/projects/{place.project}:testIamPermissions"
        return self._ask("POST", url, body={"permissions": list(access.DATABASE_PERMISSIONS)})

    def bucket(self, name: str) -> Answer:
        """Return the bucket's settings."""
        url = f"{self._endpoints.storage}/storage/v1/b/{quote(name, safe='')}"
        return self._ask("GET", url, params={"projection": "noAcl"})

    def bucket_permissions(self, name: str) -> Answer:
        """Return which permissions these credentials have on the bucket."""
        url = f"{self._endpoints.storage}/storage/v1/b/{quote(name, safe='')}/iam/testPermissions"
        return self._ask("GET", url, params={"permissions": list(access.BUCKET_PERMISSIONS)})

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask_for_all(self, url: str, items: str, params: Mapping[str, str]) -> Answer:
        """Return all pages as one; these lists refuse a page size."""
        found: list[Any] = []
        token: str | None = None
        for _ in range(_PAGES):
            answer = self._ask("GET", url, params={**params, **({"pageToken": token} if token else {})})
            if not answer.is_ok:
                return answer
            found += answer.body.get(items, ())
            token = answer.body.get("nextPageToken")
            if not token:
                break
        return Answer(
            status=answer.status,
            body={items: found},
            date=answer.date,
            asked_at=answer.asked_at,
            answered_at=answer.answered_at,
        )

    def _ask(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str | Sequence[str]] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        asked_at = time.time()
        try:
            response = self._session.request(
                method, url, params=params, json=body, timeout=_SILENCE_S, allow_redirects=False
            )
        except requests.RequestException as exc:
            return Answer(status=0, reason=type(exc).__name__)
        body = _json(response.json)
        if body is None and response.status_code == HTTPStatus.OK:
            return Answer(status=0, reason="an answer that is no JSON object")
        return Answer(
            status=response.status_code,
            body=body or {},
            date=response.headers.get("Date", ""),
            asked_at=asked_at,
            answered_at=time.time(),
        )


def _json(read: Callable[[], Any]) -> Mapping[str, Any] | None:
    try:
        body = read()
    except requests.JSONDecodeError:
        return None
    return body if isinstance(body, Mapping) else None

"""Read a deployment's configuration from Google's REST APIs, without changes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import requests
from google.auth.transport.requests import AuthorizedSession

from gcp_adk_store.cloud.auth.tokens import SharedCredentials
from gcp_adk_store.doctor import access
from gcp_adk_store.doctor.facts import Answer, Place

_SILENCE_S: Final = 15.0
_PAGES: Final = 100
_CONFIGURED: Final = "indexConfig.usesAncestorConfig:false OR ttlConfig:*"
"""The only filter for fields that the Admin API accepts: fields with a configuration of their own."""


def look(
    credentials: SharedCredentials,
    place: Place,
    *,
    at_database: bool = True,
    at_bucket: bool = True,
    endpoint: str | None = None,
) -> dict[str, Answer]:
    """Return the APIs' answers about *place*, or only about its database or its bucket; it blocks.

    Args:
        credentials: Whose token the requests carry.
        place: The deployment.
        at_database: Whether to ask about the database: ``database``, ``indexes``, ``fields`` and
            ``project_permissions``; ``services`` is always asked for.
        at_bucket: Whether to ask about the bucket, if *place* has one: ``bucket`` and ``bucket_permissions``.
        endpoint: The URL of the APIs, with ``{api}`` for an API's name; by default the credentials' universe.

    Raises:
        CredentialsError, UnavailableError: the credentials yield no token.
    """
    universe = credentials.universe_domain
    services = access.services(place, universe)
    project, database = f"v1/projects/{place.project}", f"v1/{place.database_path}"
    groups, bucket = f"{database}/collectionGroups/-", f"storage/v1/b/{quote(place.bucket or '', safe='')}"
    with AuthorizedSession(credentials) as session:
        api = _Api(session, endpoint or f"https://{{api}}.{universe}")
        names = [f"projects/{place.project}/services/{name}" for name in services]
        found = {"services": api.get("serviceusage", f"{project}/services:batchGet", names=names)}
        if at_database:
            permissions = {"permissions": access.DATABASE_PERMISSIONS}
            found |= {
                "database": api.get("firestore", database),
                "indexes": api.get_all("firestore", f"{groups}/indexes", "indexes"),
                "fields": api.get_all("firestore", f"{groups}/fields", "fields", filter=_CONFIGURED),
                "project_permissions": api.ask(
                    "cloudresourcemanager", f"{project}:testIamPermissions", json=permissions
                ),
            }
        if at_bucket and place.bucket:
            permissions = {"permissions": access.BUCKET_PERMISSIONS}
            found |= {
                "bucket": api.get("storage", bucket, projection="noAcl"),
                "bucket_permissions": api.get("storage", f"{bucket}/iam/testPermissions", **permissions),
            }
    return found


class _Api:
    def __init__(self, session: requests.Session, endpoint: str) -> None:
        self._session = session
        self._endpoint = endpoint

    def get_all(self, api: str, path: str, items: str, **params: str) -> Answer:
        """Return all pages of a list as one answer; these lists refuse a page size."""
        found: list[Any] = []
        for _ in range(_PAGES):
            answer = self.get(api, path, **params)
            if not answer.is_ok:
                return answer
            found += answer.body.get(items, ())
            params["pageToken"] = answer.body.get("nextPageToken") or ""
            if not params["pageToken"]:
                break
        return replace(answer, body={items: found})

    def get(self, api: str, path: str, **params: str | Sequence[str]) -> Answer:
        """Return the answer of a request that reads."""
        return self.ask(api, path, params=params)

    def ask(self, api: str, path: str, **content: Any) -> Answer:
        """Return the answer of a request: one that reads with ``params``, or one with ``json``."""
        method, url = "POST" if "json" in content else "GET", f"{self._endpoint.format(api=api)}/{path}"
        asked_at = time.time()
        try:
            response = self._session.request(
                method, url, timeout=_SILENCE_S, allow_redirects=False, **content
            )
        except requests.RequestException as exc:
            return Answer(status=0, reason=type(exc).__name__)
        answered_at = time.time()
        try:
            body = response.json()
        except requests.JSONDecodeError:
            body = None
        if not isinstance(body, Mapping):
            if response.status_code == HTTPStatus.OK:
                return Answer(status=0, reason="an answer that is no JSON object")
            body = {}
        return Answer(
            status=response.status_code,
            body=body,
            date=response.headers.get("Date", ""),
            asked_at=asked_at,
            answered_at=answered_at,
        )

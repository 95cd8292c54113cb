"""Read a deployment's configuration from Google's REST APIs, without changes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import requests
from google.auth.transport.requests import AuthorizedSession

from gcp_adk_store.cloud.auth.tokens import SharedToken
from gcp_adk_store.doctor import access
from gcp_adk_store.doctor.findings import Answer, Place

_SILENCE_S: Final = 15.0
_PAGES: Final = 100
_CONFIGURED: Final = "indexConfig.usesAncestorConfig:false OR ttlConfig:*"
"""The only filter for fields that the Admin API accepts: fields with a configuration of their own."""


def look(
    credentials: SharedToken,
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
        at_bucket: Whether to ask about the bucket, if *place* has one: ``bucket`` and ``bucket_permissions``;
            also about that of anchors: ``anchors`` and ``anchors_permissions``.
        endpoint: The URL of the APIs, with ``{api}`` for an API's name; by default the credentials' universe.

    Raises:
        CredentialsError, UnavailableError: the credentials yield no token.
    """
    root = endpoint or f"https://{{api}}.{credentials.universe_domain}"
    database = f"{root.format(api='firestore')}/v1/{place.database_path}"
    buckets = f"{root.format(api='storage')}/storage/v1/b"
    services = f"{root.format(api='serviceusage')}/v1/projects/{place.project}/services:batchGet"
    permissions = f"{root.format(api='cloudresourcemanager')}/v1/projects/{place.project}:testIamPermissions"
    names = access.services(place, credentials.universe_domain)
    with AuthorizedSession(credentials) as session:
        ask, ask_for_all = partial(_ask, session), partial(_ask_for_all, session)
        found = {
            "services": ask(services, names=[f"projects/{place.project}/services/{each}" for each in names])
        }
        if at_database:
            groups = f"{database}/collectionGroups/-"
            found |= {
                "database": ask(database),
                "indexes": ask_for_all(f"{groups}/indexes", "indexes"),
                "fields": ask_for_all(f"{groups}/fields", "fields", filter=_CONFIGURED),
                "project_permissions": ask(permissions, json={"permissions": access.DATABASE_PERMISSIONS}),
            }
        for name, bucket, permissions_of_bucket in (
            ("bucket", place.bucket, access.BUCKET_PERMISSIONS),
            ("anchors", place.anchors, access.PERMISSIONS),
        ):
            if at_bucket and bucket:
                url = f"{buckets}/{quote(bucket, safe='')}"
                found[name] = ask(url, projection="noAcl")
                found[f"{name}_permissions"] = ask(
                    f"{url}/iam/testPermissions", permissions=permissions_of_bucket
                )
    return found


def look_at_recovery(
    credentials: SharedToken,
    place: Place,
    *,
    at_database: bool,
    at_bucket: bool,
    endpoint: str | None = None,
) -> dict[str, Answer]:
    """Return answers on how long deleted data is kept; the arguments and errors are those of :func:`look`.

    About the database: ``database``, ``backups`` of all databases of the project, and ``schedules`` of its
    backups. About the bucket: ``bucket``.
    """
    root = endpoint or f"https://{{api}}.{credentials.universe_domain}"
    firestore = f"{root.format(api='firestore')}/v1"
    found: dict[str, Answer] = {}
    with AuthorizedSession(credentials) as session:
        if at_database:
            backups = f"{firestore}/projects/{place.project}/locations/-/backups"
            found |= {
                "database": _ask(session, f"{firestore}/{place.database_path}"),
                "backups": _ask_for_all(session, backups, "backups"),
                "schedules": _ask(session, f"{firestore}/{place.database_path}/backupSchedules"),
            }
        if at_bucket:
            url = f"{root.format(api='storage')}/storage/v1/b/{quote(place.bucket or '', safe='')}"
            found["bucket"] = _ask(session, url, projection="noAcl")
    return found


def _ask_for_all(session: requests.Session, url: str, items: str, **params: str) -> Answer:
    """Return all pages of a list as one answer; these lists refuse a page size."""
    found: list[Any] = []
    for _ in range(_PAGES):
        answer = _ask(session, url, **params)
        if not answer.is_ok:
            return answer
        found += answer.body.get(items, ())
        params["pageToken"] = answer.body.get("nextPageToken") or ""
        if not params["pageToken"]:
            break
    return replace(answer, body={items: found})


def _ask(session: requests.Session, url: str, *, json: Any = None, **params: str | Sequence[str]) -> Answer:
    method = "GET" if json is None else "POST"
    asked_at = time.time()
    try:
        response = session.request(
            method, url, params=params, json=json, timeout=_SILENCE_S, allow_redirects=False
        )
    except requests.RequestException as exc:
        return Answer(status=0, reason=type(exc).__name__)
    answered_at, status = time.time(), response.status_code
    try:
        body = response.json()
    except requests.JSONDecodeError:
        body = None
    if not isinstance(body, Mapping):
        if status == HTTPStatus.OK:
            return Answer(status=0, reason="the answer is not a JSON object")
        body = {}
    date = response.headers.get("Date", "")
    return Answer(status=status, body=body, date=date, asked_at=asked_at, answered_at=answered_at)

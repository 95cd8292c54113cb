"""Read a deployment's configuration from Google's REST APIs, without changes."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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


OF_DATABASE: Final = ("database", "indexes", "fields", "project_permissions")
"""What the doctor asks about a database."""
OF_RECOVERY: Final = ("database", "backups", "schedules")
"""What says how long a database keeps deleted data: it, all backups, and their schedules."""


def look(
    credentials: SharedToken, place: Place, names: Iterable[str], *, endpoint: str | None = None
) -> dict[str, Answer]:
    """Return the APIs' answers about *place* by *names*; it blocks.

    Args:
        credentials: Whose token the requests carry.
        place: The deployment.
        names: What to ask for: ``services``; those of :data:`OF_DATABASE` and :data:`OF_RECOVERY`; of the
            bucket that *place* has ``bucket`` and ``bucket_permissions``; of that of anchors ``anchors`` and
            ``anchors_permissions``.
        endpoint: The URL of the APIs, with ``{api}`` for an API's name; by default the credentials' universe.

    Raises:
        CredentialsError, UnavailableError: the credentials yield no token.
    """
    root = endpoint or f"https://{{api}}.{credentials.universe_domain}"
    firestore = f"{root.format(api='firestore')}/v1"
    database = f"{firestore}/{place.database_path}"
    groups = f"{database}/collectionGroups/-"
    bucket, anchors = (
        f"{root.format(api='storage')}/storage/v1/b/{quote(name or '', safe='')}"
        for name in (place.bucket, place.anchors)
    )
    project = f"projects/{place.project}"
    services = access.services(place, credentials.universe_domain)
    with AuthorizedSession(credentials) as session:
        ask, ask_for_all = partial(partial, _ask, session), partial(partial, _ask_for_all, session)
        asks: dict[str, Callable[[], Answer]] = {
            "services": ask(
                f"{root.format(api='serviceusage')}/v1/{project}/services:batchGet",
                names=[f"{project}/services/{each}" for each in services],
            ),
            "database": ask(database),
            "indexes": ask_for_all(f"{groups}/indexes", "indexes"),
            "fields": ask_for_all(f"{groups}/fields", "fields", filter=_CONFIGURED),
            "project_permissions": ask(
                f"{root.format(api='cloudresourcemanager')}/v1/{project}:testIamPermissions",
                json={"permissions": access.DATABASE_PERMISSIONS},
            ),
            "backups": ask_for_all(f"{firestore}/{project}/locations/-/backups", "backups"),
            "schedules": ask(f"{database}/backupSchedules"),
            "bucket": ask(bucket, projection="noAcl"),
            "bucket_permissions": ask(f"{bucket}/iam/testPermissions", permissions=access.BUCKET_PERMISSIONS),
            "anchors": ask(anchors, projection="noAcl"),
            "anchors_permissions": ask(f"{anchors}/iam/testPermissions", permissions=access.PERMISSIONS),
        }
        return {name: asks[name]() for name in names}


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

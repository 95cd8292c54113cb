"""Answer requests about buckets and their IAM policies."""

import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Final

from gcp_storage_emulator.handlers import buckets as gse

from gcp_adk_store.testing.storage_emulator.exchange import (
    ApiError,
    JsonObject,
    Request,
    Response,
    bad_request,
    check_bucket_name,
    json_response,
    not_emulated,
    of_kind,
)
from gcp_adk_store.testing.storage_emulator.resources import Preconditions, Version
from gcp_adk_store.testing.storage_emulator.storage import ListQuery, StrictStorage, select_page

_DEFAULT_STORAGE_CLASS: Final = "STANDARD"
_SETTINGS: Final = (
    "cors",
    "iamConfiguration",
    "labels",
    "lifecycle",
    "location",
    "logging",
    "softDeletePolicy",
    "storageClass",
    "website",
)


def list_buckets(storage: StrictStorage, request: Request) -> Response:
    """Answer with one page of all buckets."""
    page = select_page(
        ((name, 0) for name in storage.buckets),
        ListQuery.parse(request.args()),
        matches=lambda _: True,
    )
    answer = {
        "kind": "storage#buckets",
        "items": [storage.buckets[name] for name, _ in page.items],
        "nextPageToken": page.next_token,
    }
    return json_response({name: value for name, value in answer.items() if value})


def insert_bucket(storage: StrictStorage, request: Request) -> Response:
    """Create a bucket with the settings in the body."""
    body = request.json()
    settings = _settings(body)
    name = check_bucket_name(body.get("name"))
    bucket = gse.create_bucket(name, storage)
    if not bucket:
        raise ApiError(HTTPStatus.CONFLICT, "Your previous request to create the named bucket succeeded.")
    bucket.update({name: value for name, value in settings.items() if value is not None})
    bucket["selfLink"] = f"{request.base_url}/storage/v1/b/{name}"
    return json_response(bucket)


def get_bucket(storage: StrictStorage, request: Request) -> Response:
    """Answer with a bucket's resource."""
    return json_response(_bucket(storage, request, reading=True))


def patch_bucket(storage: StrictStorage, request: Request) -> Response:
    """Merge the body into a bucket's settings; labels merge key by key."""
    bucket = _bucket(storage, request)
    changes = _settings(request.json())
    if changes.get("labels") is not None:
        merged = {**bucket.get("labels", {}), **changes["labels"]}
        changes["labels"] = {key: value for key, value in merged.items() if value is not None}
    metageneration = str(int(bucket["metageneration"]) + 1)
    changed = {**bucket, **changes, "metageneration": metageneration}
    kept = {name: value for name, value in changed.items() if value is not None}
    return json_response(storage.create_bucket(request.params["bucket"], kept))


def delete_bucket(storage: StrictStorage, request: Request) -> Response:
    """Delete a bucket that holds no objects."""
    _bucket(storage, request)
    storage.delete_bucket(request.params["bucket"])
    return Response(status=HTTPStatus.NO_CONTENT)


def _answer_of_gse(handler: Callable[..., None], storage: StrictStorage, request: Request) -> Response:
    """Return what one of gse's handlers answers about a bucket that exists."""
    storage.check_bucket(request.params["bucket"])
    answers: list[JsonObject] = []
    asked = SimpleNamespace(
        params={"bucket_name": request.params["bucket"]}, query=request.query, data=request.json()
    )
    handler(asked, SimpleNamespace(json=answers.append), storage)
    return json_response(answers[0])


get_iam_policy = partial(_answer_of_gse, gse.get_iam_policy)
"""Answer with the policy that was stored; nothing enforces it."""

set_iam_policy = partial(_answer_of_gse, gse.set_iam_policy)
"""Store a policy; nothing enforces it."""

test_iam_permissions = partial(_answer_of_gse, gse.test_iam_permissions)
"""Answer that every permission asked about is granted."""


def _bucket(storage: StrictStorage, request: Request, *, reading: bool = False) -> JsonObject:
    storage.check_bucket(request.params["bucket"])
    bucket = storage.buckets[request.params["bucket"]]
    found = Version(0, int(bucket["metageneration"]))
    Preconditions.parse(request.args()).check(found, reading=reading)
    return bucket


def _settings(body: JsonObject) -> JsonObject:
    if of_kind(dict, "versioning", body.get("versioning")).get("enabled"):
        raise not_emulated("object versioning")
    of_kind(dict, "labels", body.get("labels"))
    of_kind(str, "storageClass", body.get("storageClass"))
    policy = of_kind(dict, "softDeletePolicy", body.get("softDeletePolicy"))
    kept_s = policy.get("retentionDurationSeconds", 0)
    if not re.fullmatch("[0-9]{1,9}", str(kept_s)):
        raise bad_request(f"Invalid value for retentionDurationSeconds: {kept_s!r:.80}")
    if body.get("retentionPolicy"):
        raise not_emulated("retention policies")
    settings: JsonObject = {name: body[name] for name in _SETTINGS if name in body}
    if settings.get("storageClass", "") is None:
        settings["storageClass"] = _DEFAULT_STORAGE_CLASS
    return settings

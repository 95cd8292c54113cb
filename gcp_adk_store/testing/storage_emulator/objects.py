"""Answer requests that read, list, change or delete one bucket's objects."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from gcp_storage_emulator.gcs_glob import (
    gcs_glob_match,
)

from .errors import bad_request
from .exchange import JsonObject, Request, Response, json_response
from .listing import ListQuery, select_page
from .metadata import WRITABLE_FIELDS, patched_fields, replaced_fields
from .preconditions import Preconditions, check_etags
from .projection import parse_fields, project
from .resources import next_metageneration, version_of

if TYPE_CHECKING:
    from .storage import StrictStorage


def find_for_reading(storage: StrictStorage, request: Request) -> JsonObject:
    """Return the object a read names, once its generation and conditions hold.

    Raises:
        ApiError: 404, 412 or 304.
    """
    resource = storage.get(
        request.params["bucket"], request.params["object"], generation=request.arg("generation")
    )
    Preconditions.parse(request.args()).check(version_of(resource), reading=True)
    check_etags(
        found=resource["etag"],
        match=request.header("If-Match"),
        none_match=request.header("If-None-Match"),
    )
    return resource


def find_for_writing(storage: StrictStorage, request: Request) -> JsonObject:
    """Return the object a change names, once its generation and conditions hold.

    Raises:
        ApiError: 404 or 412.
    """
    resource = storage.get(
        request.params["bucket"], request.params["object"], generation=request.arg("generation")
    )
    Preconditions.parse(request.args()).check(version_of(resource))
    return resource


def get_object(storage: StrictStorage, request: Request) -> Response:
    """Answer with an object's resource, or with a soft-deleted generation's."""
    if not request.flag("softDeleted"):
        return json_response(find_for_reading(storage, request))
    generation = request.arg("generation")
    if generation is None:
        raise bad_request("Required parameter: generation")
    bucket, name = request.params["bucket"], request.params["object"]
    storage.check_bucket(bucket)
    return json_response(storage.get_soft_deleted_file_obj(bucket, name, generation))


def list_objects(storage: StrictStorage, request: Request) -> Response:
    """Answer with one page of a bucket's objects, or of its soft-deleted generations."""
    bucket = request.params["bucket"]
    storage.check_bucket(bucket)
    query = ListQuery.parse(request.args())
    glob = request.arg("matchGlob")
    if glob and query.delimiter not in {"", "/"}:
        raise bad_request("When listing with matchGlob, the only supported delimiter is '/'.")
    resources: dict[tuple[str, int], JsonObject]
    if request.flag("softDeleted"):
        found, _ = storage.get_file_list(bucket, query.prefix, soft_deleted=True)
        resources = {(item["name"], int(item["generation"])): item for item in found}
    else:
        resources = {
            (name, 0): item
            for name, item in storage.objects.get(bucket, {}).items()
            if name.startswith(query.prefix)
        }
    # Here, and not of the answer: a thousand whole resources take longer to encode than to find.
    selected = parse_fields(request.arg("fields") or "*")
    below = selected.get("items", selected.get("*", {}))
    page = select_page(resources, query, matches=partial(gcs_glob_match, glob) if glob else lambda _: True)
    answer = {
        "kind": "storage#objects",
        "items": [project(resources[key], below) if below else resources[key] for key in page.items],
        "prefixes": page.prefixes,
        "nextPageToken": page.next_token,
    }
    return json_response({name: value for name, value in answer.items() if value})


def patch_object(storage: StrictStorage, request: Request) -> Response:
    """Merge the body into an object's metadata."""
    resource = find_for_writing(storage, request)
    return _replace_fields(storage, resource, patched_fields(resource, request.json()))


def update_object(storage: StrictStorage, request: Request) -> Response:
    """Replace an object's metadata with the body."""
    resource = find_for_writing(storage, request)
    return _replace_fields(storage, resource, replaced_fields(resource, request.json()))


def delete_object(storage: StrictStorage, request: Request) -> Response:
    """Delete an object."""
    resource = find_for_writing(storage, request)
    storage.delete_file(resource["bucket"], resource["name"])
    return Response(status=HTTPStatus.NO_CONTENT)


def _replace_fields(storage: StrictStorage, resource: JsonObject, fields: JsonObject) -> Response:
    changed = next_metageneration(resource, fields=fields, writable=WRITABLE_FIELDS)
    storage.patch_object(resource["bucket"], resource["name"], changed)
    return json_response(changed)

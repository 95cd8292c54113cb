"""Read, list, change and delete objects, and download their contents."""

import gzip
import re
import zlib
from functools import partial
from http import HTTPStatus
from typing import Final

from gcp_storage_emulator.gcs_glob import gcs_glob_match

from gcp_adk_store.testing.storage_emulator.exchange import (
    JsonObject,
    Request,
    Response,
    bad_request,
    json_response,
    parse_fields,
    project,
)
from gcp_adk_store.testing.storage_emulator.resources import (
    Preconditions,
    check_etags,
    next_metageneration,
    parse_range,
    patched_fields,
    replaced_fields,
    version_of,
)
from gcp_adk_store.testing.storage_emulator.storage import ListQuery, StrictStorage, select_page


def _find(storage: StrictStorage, request: Request, *, reading: bool = False) -> JsonObject:
    """Return the object that a request names, once its generation and conditions hold.

    Raises:
        ApiError: 404 or 412, or of a read 304.
    """
    resource = storage.get(
        request.params["bucket"], request.params["object"], generation=request.arg("generation")
    )
    Preconditions.parse(request.args()).check(version_of(resource), reading=reading)
    if reading:
        check_etags(
            found=resource["etag"],
            match=request.header("If-Match"),
            none_match=request.header("If-None-Match"),
        )
    return resource


def get_object(storage: StrictStorage, request: Request) -> Response:
    """Answer with an object's resource, or with a soft-deleted generation's."""
    if not request.flag("softDeleted"):
        return json_response(_find(storage, request, reading=True))
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
    try:
        gcs_glob_match(glob or "", "")
    except re.error as exc:
        raise bad_request("Invalid value for matchGlob") from exc
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
    resource = _find(storage, request)
    return _replace_fields(storage, resource, patched_fields(resource, request.json()))


def update_object(storage: StrictStorage, request: Request) -> Response:
    """Replace an object's metadata with the body."""
    resource = _find(storage, request)
    return _replace_fields(storage, resource, replaced_fields(resource, request.json()))


def delete_object(storage: StrictStorage, request: Request) -> Response:
    """Delete an object."""
    resource = _find(storage, request)
    storage.delete_file(resource["bucket"], resource["name"])
    return Response(status=HTTPStatus.NO_CONTENT)


def _replace_fields(storage: StrictStorage, resource: JsonObject, fields: JsonObject) -> Response:
    changed = next_metageneration(resource, fields)
    storage.patch_object(resource["bucket"], resource["name"], changed)
    return json_response(changed)


_DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE: Final = re.compile(r"[ -~]*")

_FIELD_HEADERS: Final = {
    "Cache-Control": "cacheControl",
    "Content-Disposition": "contentDisposition",
    "Content-Language": "contentLanguage",
    "Content-Type": "contentType",
    "ETag": "etag",
    "X-Goog-Generation": "generation",
    "X-Goog-Metageneration": "metageneration",
    "X-Goog-Storage-Class": "storageClass",
    "X-Goog-Stored-Content-Length": "size",
}


def download(storage: StrictStorage, request: Request) -> Response:
    """Answer with an object's bytes, or with the range of them that was asked for."""
    resource = _find(storage, request, reading=True)
    content = storage.read(resource)
    headers = media_headers(resource)
    status = HTTPStatus.OK
    if resource.get("contentEncoding") == "gzip":
        if "gzip" in (request.header("Accept-Encoding") or ""):
            headers["Content-Encoding"] = "gzip"
        elif (plain := _gunzip(content)) is not None:
            # Production ignores the range of a request that it decompresses for.
            return Response(headers=headers, body=plain)
    wanted = parse_range(request.header("Range"), size=len(content))
    if wanted is not None:
        status = HTTPStatus.PARTIAL_CONTENT
        headers["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{len(content)}"
        content = content[wanted.start : wanted.stop]
    return Response(status=status, headers=headers, body=content)


def media_headers(resource: JsonObject) -> dict[str, str]:
    """Return the headers that describe an object beside its bytes.

    What a header cannot carry (names that are not tokens, values outside printable ASCII) is
    left out: sending it would break the response.
    """
    hashes = {"crc32c": resource.get("crc32c"), "md5": resource.get("md5Hash")}
    headers = {
        "Content-Type": _DEFAULT_CONTENT_TYPE,
        "Accept-Ranges": "bytes",
        "X-Goog-Hash": ",".join(f"{kind}={value}" for kind, value in hashes.items() if value),
        "X-Goog-Stored-Content-Encoding": resource.get("contentEncoding", "identity"),
    }
    stored = {header: resource.get(name) for header, name in _FIELD_HEADERS.items()}
    custom = {f"X-Goog-Meta-{key}": text for key, text in resource.get("metadata", {}).items()}
    described = {
        header: value
        for header, value in {**stored, **custom}.items()
        if value and _TOKEN.fullmatch(header) and _PRINTABLE.fullmatch(value)
    }
    return headers | described


def _gunzip(content: bytes) -> bytes | None:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        # Labelled gzip, but the bytes are not gzip: they stay as they are.
        return None

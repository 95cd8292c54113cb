"""Answer requests that create an object from other objects."""

from typing import Any, Final

from gcp_adk_store.testing.storage_emulator.exchange import (
    JsonObject,
    Request,
    Response,
    bad_request,
    check_object_name,
    json_response,
    key_fields,
    of_kind,
)
from gcp_adk_store.testing.storage_emulator.resources import (
    WRITABLE_FIELDS,
    Hashes,
    Preconditions,
    hashes_of,
    version_of,
    writable_fields,
)
from gcp_adk_store.testing.storage_emulator.storage import StrictStorage
from gcp_adk_store.testing.storage_emulator.uploads import check_live

MAX_COMPOSE_SOURCES: Final = 32


def copy_object(storage: StrictStorage, request: Request) -> Response:
    """Copy an object; a body replaces the metadata that would be copied. No copy takes a key along."""
    return json_response(_copy(storage, request, to_bucket=request.params["to_bucket"]))


def rewrite_object(storage: StrictStorage, request: Request) -> Response:
    """Copy an object, always in one call."""
    resource = _copy(storage, request, to_bucket=request.params["to_bucket"])
    return json_response(
        {
            "kind": "storage#rewriteResponse",
            "totalBytesRewritten": resource["size"],
            "objectSize": resource["size"],
            "done": True,
            "resource": resource,
        }
    )


def move_object(storage: StrictStorage, request: Request) -> Response:
    """Rename an object inside its bucket."""
    bucket, name = request.params["bucket"], request.params["object"]
    if name == request.params["to_object"]:
        raise bad_request("The source and the destination of a move must differ")
    resource = _copy(storage, request, to_bucket=bucket, keep_key=True)
    storage.delete_file(bucket, name)
    return json_response(resource)


def compose_object(storage: StrictStorage, request: Request) -> Response:
    """Join objects of one bucket, in the order given.

    The result has no MD5, counts its components, and takes no metadata from its sources.
    """
    bucket, name = request.params["bucket"], check_object_name(request.params["object"])
    body = request.json()
    wanted = of_kind(list, "sourceObjects", body.get("sourceObjects"))
    if not 1 <= len(wanted) <= MAX_COMPOSE_SOURCES:
        raise bad_request(f"Compose takes 1 to {MAX_COMPOSE_SOURCES} sources, not {len(wanted)}")
    check_live(storage, bucket, name, Preconditions.parse(request.args()))
    sources = [_compose_source(storage, bucket, source) for source in wanted]
    content = b"".join(storage.read(source) for source in sources)
    fields = {
        **writable_fields(body.get("destination") or {}),
        **key_fields(request.arg("kmsKeyName")),
        "componentCount": sum(source.get("componentCount", 1) for source in sources),
    }
    hashes = Hashes(crc32c=hashes_of(content).crc32c)
    return json_response(
        storage.write(bucket, name, content, base_url=request.base_url, hashes=hashes, fields=fields)
    )


def restore_object(storage: StrictStorage, request: Request) -> Response:
    """Make a soft-deleted generation live again, as a new generation."""
    bucket, name = request.params["bucket"], request.params["object"]
    generation = request.arg("generation")
    if generation is None:
        raise bad_request("Required parameter: generation")
    storage.check_bucket(bucket)
    check_live(storage, bucket, name, Preconditions.parse(request.args()))
    deleted = storage.get_soft_deleted_file_obj(bucket, name, generation)
    content = storage.get_soft_deleted_file(bucket, name, generation)
    key = _same_key(deleted)
    return json_response(_write(storage, request, deleted, content, to_bucket=bucket, to_name=name, key=key))


def _copy(storage: StrictStorage, request: Request, *, to_bucket: str, keep_key: bool = False) -> JsonObject:
    to_name = check_object_name(request.params["to_object"])
    source = storage.get(
        request.params["bucket"],
        request.params["object"],
        generation=request.arg("sourceGeneration"),
    )
    Preconditions.parse(request.args(), prefix="ifSource").check(version_of(source))
    check_live(storage, to_bucket, to_name, Preconditions.parse(request.args()))
    return _write(
        storage,
        request,
        source,
        storage.read(source),
        to_bucket=to_bucket,
        to_name=to_name,
        key=_same_key(source) if keep_key else key_fields(request.arg("destinationKmsKeyName")),
        fields=writable_fields(request.json()),
    )


def _write(
    storage: StrictStorage,
    request: Request,
    source: JsonObject,
    content: bytes,
    *,
    to_bucket: str,
    to_name: str,
    key: JsonObject,
    fields: JsonObject | None = None,
) -> JsonObject:
    copied = {name: source[name] for name in WRITABLE_FIELDS if name in source}
    component_count = {"componentCount": source.get("componentCount")}
    return storage.write(
        to_bucket,
        to_name,
        content,
        base_url=request.base_url,
        hashes=Hashes(md5=source.get("md5Hash"), crc32c=source["crc32c"]),
        fields=(fields or copied) | component_count | key,
    )


def _same_key(source: JsonObject) -> JsonObject:
    return {"kmsKeyName": source.get("kmsKeyName")}


def _compose_source(storage: StrictStorage, bucket: str, source: Any) -> JsonObject:
    if not isinstance(source, dict) or not isinstance(source.get("name"), str):
        raise bad_request("A source object has no name")
    generation = source.get("generation")
    resource = storage.get(bucket, source["name"], generation=None if generation is None else str(generation))
    conditions = of_kind(dict, "objectPreconditions", source.get("objectPreconditions"))
    Preconditions.parse(conditions).check(version_of(resource))
    return resource

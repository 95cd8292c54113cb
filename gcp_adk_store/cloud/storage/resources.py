"""Convert the client's resources of objects to values of this library."""

from typing import Any

from gcp_adk_store.codec.objects import ScannedObject, StoredObject
from gcp_adk_store.errors import StoredDataError


def stored(blob: Any) -> StoredObject:
    """Return an object from a listing or a read.

    Raises:
        StoredDataError: its resource lacks a field that every object has.
    """
    return StoredObject(
        name=blob.name,
        generation=_required(blob, "generation"),
        content_type=blob.content_type,
        metadata=blob.metadata or {},
        create_time=_required(blob, "time_created").timestamp(),
        size=_required(blob, "size"),
        content_encoding=blob.content_encoding,
        crc32c=blob.crc32c,
        md5=blob.md5_hash,
    )


def scanned(blob: Any) -> ScannedObject:
    """Return an object from a scan.

    Raises:
        StoredDataError: as :func:`stored`.
    """
    return ScannedObject(
        name=blob.name,
        version=f"{_required(blob, 'generation')}/{_required(blob, 'metageneration')}",
        size=_required(blob, "size"),
        metadata=blob.metadata or {},
        update_time=_required(blob, "updated").timestamp(),
    )


def _required(blob: Any, field: str) -> Any:
    try:
        value = getattr(blob, field)
    except (TypeError, ValueError) as exc:
        raise StoredDataError(f"the {field} of object {blob.name!r} cannot be read") from exc
    if value is None:
        raise StoredDataError(f"object {blob.name!r} has no {field}")
    return value

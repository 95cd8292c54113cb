"""Read what the client has of an object into values of this library."""

from typing import Any

from gcp_adk_store.codec.objects import ScannedObject, StoredObject


def stored(blob: Any) -> StoredObject:
    """Return an object that was listed or read."""
    return StoredObject(
        name=blob.name,
        generation=blob.generation,
        content_type=blob.content_type,
        metadata=blob.metadata or {},
        create_time=blob.time_created.timestamp(),
        size=blob.size,
        content_encoding=blob.content_encoding,
        crc32c=blob.crc32c,
        md5=blob.md5_hash,
    )


def scanned(blob: Any) -> ScannedObject:
    """Return an object as a scan over many finds it."""
    return ScannedObject(
        name=blob.name,
        version=f"{blob.generation}/{blob.metageneration}",
        size=blob.size,
        metadata=blob.metadata or {},
        update_time=blob.updated.timestamp(),
    )

"""Build the resource that describes one generation of one object."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import google_crc32c

from .errors import bad_request
from .naming import media_link, self_link
from .preconditions import Version

if TYPE_CHECKING:
    from .exchange import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashes:
    """Hashes a sender claims for its bytes, in base64; None where it claims nothing."""

    md5: str | None = None
    crc32c: str | None = None

    @classmethod
    def parse(cls, metadata: JsonObject, *, header: str | None) -> Hashes:
        """Read the claims from an object's metadata and from ``X-Goog-Hash``; the header wins."""
        claims = dict(claim.strip().split("=", 1) for claim in (header or "").split(",") if "=" in claim)
        return cls(
            md5=claims.get("md5", metadata.get("md5Hash")),
            crc32c=claims.get("crc32c", metadata.get("crc32c")),
        )

    def check(self, actual: Hashes) -> None:
        """Return if no claim differs from *actual*, or refuse the upload with 400."""
        for kind, claimed, found in (
            ("MD5 hash", self.md5, actual.md5),
            ("CRC32C", self.crc32c, actual.crc32c),
        ):
            if claimed is not None and claimed != found:
                raise bad_request(f'Provided {kind} "{claimed}" doesn\'t match calculated {kind} "{found}".')


def hashes_of(content: bytes) -> Hashes:
    """Return both hashes of *content*."""
    return Hashes(
        md5=_base64(hashlib.md5(content, usedforsecurity=False).digest()),
        crc32c=_base64(google_crc32c.value(content).to_bytes(4, "big")),
    )


def new_resource(
    *,
    base_url: str,
    bucket: str,
    name: str,
    generation: int,
    hashes: Hashes,
    size: int,
    storage_class: str,
    fields: JsonObject,
) -> JsonObject:
    """Return the resource of a new generation, of *storage_class* unless *fields* have one.

    Without a content type the resource has none; its bytes are then served as
    ``application/octet-stream``.
    """
    # A generation counts microseconds, so it is also the time of the write.
    written = timestamp(datetime.fromtimestamp(generation / 1e6, tz=UTC))
    resource = {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{generation}",
        "selfLink": self_link(base_url, bucket, name),
        "mediaLink": media_link(base_url, bucket, name, generation),
        "name": name,
        "bucket": bucket,
        "generation": str(generation),
        "metageneration": "1",
        "storageClass": storage_class,
        "size": str(size),
        "md5Hash": hashes.md5,
        "crc32c": hashes.crc32c,
        "etag": _etag(generation, 1),
        "timeCreated": written,
        "updated": written,
        "timeStorageClassUpdated": written,
        "timeFinalized": written,
        **fields,
    }
    return {key: value for key, value in resource.items() if value is not None}


def next_metageneration(resource: JsonObject, *, fields: JsonObject, writable: tuple[str, ...]) -> JsonObject:
    """Return *resource* with its *writable* fields replaced, one metageneration later."""
    generation, metageneration = version_of(resource)
    kept = {key: value for key, value in resource.items() if key not in writable}
    return (
        kept
        | fields
        | {
            "metageneration": str(metageneration + 1),
            "etag": _etag(generation, metageneration + 1),
            "updated": timestamp(datetime.now(tz=UTC)),
        }
    )


def version_of(resource: JsonObject) -> Version:
    """Return what preconditions compare with."""
    return Version(int(resource["generation"]), int(resource["metageneration"]))


def timestamp(moment: datetime) -> str:
    """Return *moment*, in UTC, as Cloud Storage writes times."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _etag(generation: int, metageneration: int) -> str:
    return _base64(f"{generation}/{metageneration}".encode())


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")

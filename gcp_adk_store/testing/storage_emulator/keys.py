"""Read the names of Cloud KMS keys; nothing is encrypted with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .errors import bad_request

if TYPE_CHECKING:
    from .exchange import JsonObject

_KEY_NAME: Final = re.compile(
    r"projects/[^/\s]+/locations/[a-z0-9-]+/keyRings/[\w-]{1,63}/cryptoKeys/[\w-]{1,63}", re.ASCII
)


def key_fields(name: str | None) -> JsonObject:
    """Return what writing an object under the key *name* adds to its resource: the key's version.

    Raises:
        ApiError: 400 when *name* does not name a key.
    """
    if not name:
        return {}
    if not _KEY_NAME.fullmatch(name):
        raise bad_request(f"Invalid Cloud KMS key name: {name!r}")
    return {"kmsKeyName": f"{name}/cryptoKeyVersions/1"}

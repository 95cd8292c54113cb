"""Derive the kind of a document and the owner of payloads from paths."""

import hashlib
import re
from typing import Final

from gcp_adk_store.codec.names import unescape_name
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadOwner

OWNER: Final = "adkStoreOwner"
"""Metadata key of a payload's object: the path of the document that owns it."""

PUT_TIME: Final = "adkStorePutTime"
"""Metadata key of a payload's object: the time of a repeated write, which makes the object new again."""

_CHUNK: Final = re.compile(r"(?P<owner>.+)/[^/]+/(?P<life>[^/]+)-(?P<sha256>[0-9a-f]{64})-[0-9]+")
_LEVELS: Final = ("apps", "users", "sessions")


def owner_digest(path: str) -> str:
    """Return the digest of *path* for names of objects, for which ids can be too long."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def chunk_owner(path: str) -> tuple[PayloadOwner, str] | None:
    """Return the owner of the chunk at *path*, and the SHA-256 of its payload; ``None`` for another path."""
    found = _CHUNK.fullmatch(path)
    return found and (PayloadOwner(path=found["owner"], life=found["life"]), found["sha256"])


def object_owner(name: str, path: str | None) -> tuple[PayloadOwner, str] | None:
    """Return the same for an object of this *name* whose metadata names the document at *path*."""
    folder, _, sha256 = name.rpartition("/")
    folder, _, life = folder.rpartition("/")
    if path is None or folder.rpartition("/")[2] != owner_digest(path):
        return None
    return PayloadOwner(path=path, life=life), sha256


def level_of(path: str, prefix: str) -> int | None:
    """Return 1, 2 or 3 for the document of an app, a user or a session; ``None`` for any other."""
    collections = path.split("/")[::2]
    known = [f"{prefix}_{level}" for level in _LEVELS[: len(collections)]]
    return len(collections) if collections == known and path.count("/") % 2 else None


def session_at(path: str, prefix: str) -> SessionKey | None:
    """Return the session whose document is at *path*; ``None`` for another path.

    Raises:
        StoredDataError: it is below a collection of sessions, but not the encoding of an id.
    """
    if level_of(path, prefix) != len(_LEVELS):
        return None
    app, user, session = ids_of(path)
    key = SessionKey(app=app, user=user, session=session)
    if key.session != session:  # a padded id names the session without the padding
        raise StoredDataError(f"{path} is spelled as no session is")
    return key


def ids_of(path: str) -> list[str]:
    """Return the ids of the app, the user and the session in the *path* of a document.

    Raises:
        StoredDataError: a name is not the encoding of an id.
    """
    try:
        return [unescape_name(name) for name in path.split("/")[1::2]]
    except ValueError:
        raise StoredDataError(f"{path} is spelled as no session is") from None

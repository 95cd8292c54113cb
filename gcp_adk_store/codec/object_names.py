"""Name artifacts and their uploads in Cloud Storage.

::

    {app}/{user}/{session}/{filename}/{version}
    {app}/{user}/user/{filename}/{version}          filename starts with "user:"

These are the names of ADK's own service, so each reads what the other wrote.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from gcp_adk_store.codec.names import MAX_OBJECT_NAME_BYTES, escape_segment
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope

UPLOADS: Final = "adk-store-uploads"
"""Prefix of the names of uploads that browsers made and that are not artifacts yet."""
_UPLOAD: Final = re.compile(rf"{UPLOADS}/[0-9a-f]{{32}}/[0-9a-f]{{32}}")

_SCOPE_SEGMENTS: Final = 3  # app, user and session, before the filename
_VERSION: Final = re.compile(r"0|[1-9][0-9]*")  # as object_name encodes it: a load accepts no other object


def scope_prefix(scope: ArtifactScope) -> str:
    """Return the prefix of the names of all artifacts of *scope*."""
    session = "user" if scope.session is None else escape_segment(scope.session)
    return f"{user_prefix(scope)}{session}/"


def user_prefix(scope: ArtifactScope) -> str:
    """Return the prefix of the names of all artifacts of a user, in all sessions."""
    return f"{escape_segment(scope.app)}/{escape_segment(scope.user)}/"


def version_prefix(key: ArtifactKey) -> str:
    """Return the prefix of the names of all versions of an artifact, and of artifacts nested below it."""
    return f"{scope_prefix(key.scope)}{key.filename}/"


def object_name(key: ArtifactKey, version: int) -> str:
    """Return the name of one version.

    Raises:
        InvalidInputError: the name exceeds 1,024 bytes.
    """
    name = f"{version_prefix(key)}{version}"
    size = len(name.encode())
    if size > MAX_OBJECT_NAME_BYTES:
        raise InvalidInputError(
            f"filename and ids make an object name of {size} bytes, the limit is {MAX_OBJECT_NAME_BYTES}; "
            "use a shorter filename"
        )
    return name


def following_object_name(key: ArtifactKey, version: int) -> str | None:
    """Return the name of the version after *version*; ``None`` if one more digit makes it too long."""
    name = f"{version_prefix(key)}{version + 1}"
    return name if len(name.encode()) <= MAX_OBJECT_NAME_BYTES else None


def upload_name(key: ArtifactKey, upload_id: str) -> str:
    """Return the name of an upload for an artifact before it becomes a version of it.

    Only a caller that names the same artifact finds it. Artifacts never have such a name: theirs have more
    segments.
    """
    return f"{uploads_prefix(key.scope)}{_digest(version_prefix(key))}/{upload_id}"


def uploads_prefix(scope: ArtifactScope) -> str:
    """Return the prefix of the names of all uploads for artifacts of a user, in all sessions."""
    return f"{UPLOADS}/{_digest(user_prefix(scope))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_upload_name(name: str) -> bool:
    """Return whether *name* has the form of :func:`upload_name`: an app's name may equal the prefix."""
    return _UPLOAD.fullmatch(name) is not None


def parse_version(name: str, prefix: str) -> int | None:
    """Return the version in *name* for the artifact with *prefix*; ``None`` for another artifact's name."""
    suffix = name.removeprefix(prefix)
    return int(suffix) if name.startswith(prefix) and _VERSION.fullmatch(suffix) else None


def version_of(name: str) -> int:
    """Return the version in *name*, for any artifact."""
    return int(name.rpartition("/")[2])


def filenames(names: Iterable[str], prefix: str) -> set[str]:
    """Return the filenames of the artifacts whose objects have *names* below a scope's *prefix*.

    Below a user's prefix, each filename starts with the session's id and a ``/``.
    """
    whole = prefix.count("/") >= _SCOPE_SEGMENTS
    split = (name.removeprefix(prefix).rpartition("/") for name in names)
    return {
        filename
        for filename, _, version in split
        if filename and (whole or "/" in filename) and parse_version(version, "") is not None
    }

"""Encode ids as ids of documents, and names of artifacts as names of objects.

::

    {app}/{user}/{session}/{filename}/{version}
    {app}/{user}/user/{filename}/{version}          filename starts with "user:"

These are the names of ADK's own service, so each reads what the other wrote.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope

MAX_NAME_BYTES: Final = 1500
"""Firestore's limit on a document id and on a field name, in UTF-8 bytes (its quota page)."""

MAX_OBJECT_NAME_BYTES: Final = 1024
"""Cloud Storage's limit on an object's name, in UTF-8 bytes (its naming page)."""

# '%' is the escape itself, '/' ends an id, '`' and '\' need quoting in field paths, control characters break
# logs and consoles, and UTF-8 cannot hold lone surrogates.
_ESCAPED: Final = re.compile(r"[%/`\\\x00-\x1f\x7f\ud800-\udfff]")
_RESERVED: Final = re.compile(r"__.*__", re.DOTALL)
_EMPTY: Final = "%"  # unambiguous, because an escaped '%' is '%25'

# A '%' is escaped only if it looks like an escape, so that other names stay as ADK writes them.
_AMBIGUOUS_PERCENT: Final = re.compile(r"%(?=2F|25)")
_ENCODED: Final = re.compile(r"%(?:2F|25)")


@lru_cache(maxsize=2048)  # every write encodes the same few ids and keys; at most 17 MB
def escape_name(text: str, *, what: str) -> str:
    """Return *text* as a legal document id or field name, different for each text.

    Raises:
        InvalidInputError: the escaped form exceeds 1,500 bytes. *what* names the field.
    """
    if not text:
        return _EMPTY
    escaped = _ESCAPED.sub(_percent, text)
    if escaped in (".", ".."):
        escaped = escaped.replace(".", "%2E")
    elif _RESERVED.fullmatch(escaped):
        escaped = f"%5F{escaped[1:]}"
    size = len(escaped.encode())
    if size > MAX_NAME_BYTES:
        raise InvalidInputError(
            f"{what} takes {size} bytes as a Firestore name, the limit is {MAX_NAME_BYTES}; use a shorter one"
        )
    return escaped


def unescape_name(name: str) -> str:
    """Return the text that :func:`escape_name` encoded as *name*.

    Raises:
        ValueError: *name* is not the encoding of any text.
    """
    if name and _ESCAPED.search(name) is None and not name.startswith((".", "_")):
        return name  # contains no escape
    text = "" if name == _EMPTY else unquote(name, errors="surrogatepass")
    if escape_name(text, what="name") != name:
        raise ValueError("not encoded as it would be")
    return text


def escape_segment(text: str) -> str:
    """Return an id as one segment of an object's name, as ADK writes it unless that could collide."""
    return _AMBIGUOUS_PERCENT.sub("%25", text).replace("/", "%2F")


def unescape_segment(segment: str) -> str:
    """Return the id that :func:`escape_segment` encoded as *segment*."""
    return _ENCODED.sub(lambda match: unquote(match[0]), segment)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


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

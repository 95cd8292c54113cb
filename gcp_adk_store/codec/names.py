"""Encode ids injectively as Firestore document ids, field names and Cloud Storage path segments."""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from gcp_adk_store.errors import InvalidInputError

MAX_NAME_BYTES: Final = 1500
"""Firestore's limit on a document id and on a field name, in UTF-8 bytes (its quota page)."""

MAX_OBJECT_NAME_BYTES: Final = 1024
"""Cloud Storage's limit on an object's name, in UTF-8 bytes (its naming page)."""

# '%' is the escape itself, '/' ends an id, '`' and '\' need quoting in field paths, control characters break
# logs and consoles, and UTF-8 cannot hold halves of surrogate pairs.
_ESCAPED: Final = re.compile(r"[%/`\\\x00-\x1f\x7f\ud800-\udfff]")
_RESERVED: Final = re.compile(r"__.*__", re.DOTALL)
_EMPTY: Final = "%"  # unambiguous, because an escaped '%' is '%25'

# A '%' is escaped only if it looks like an escape, so that other names stay as ADK writes them.
_AMBIGUOUS_PERCENT: Final = re.compile(r"%(?=2F|25)")
_SPELLED: Final = re.compile(r"%(?:2F|25)")


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
    return _SPELLED.sub(lambda match: unquote(match[0]), segment)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))

"""Tell a redacted event from its text: a marker stands in its place, with the hash of what stood there."""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.errors import InvalidInputError

KEY: Final = "adk_store_redacted"
"""The last key of a marker's JSON, and the key of what a marker says in its event's ``custom_metadata``."""

_END: Final = re.compile(rf',"{KEY}":\{{"sha256":"([0-9a-f]{{64}})"\}}\}}')
_END_LENGTH: Final = len(f',"{KEY}":{{"sha256":""}}}}') + 64

DIGEST_BYTES: Final = 8
"""Bytes of a digest that tells events of one document apart; the chain proves what was appended."""


def as_marker(text: str, replaced: bytes) -> str:
    """Return the JSON object *text* as the marker of the event whose hash is *replaced*."""
    return f'{text[:-1]},"{KEY}":{{"sha256":"{replaced.hex()}"}}}}'


def replaced_by(text: str) -> bytes | None:
    """Return the hash of the event that the marker *text* replaced; ``None`` for an event.

    Only the store writes this key at the top of an event's JSON: two closing braces at its end prove that it
    is there, and not in what an event says.
    """
    found = _END.fullmatch(text[-_END_LENGTH:]) if len(text) > _END_LENGTH else None
    return None if found is None else bytes.fromhex(found[1])


def hash_of(text: str) -> bytes:
    """Return the SHA-256 of the event that was appended as *text*, or that a marker in its place replaced."""
    return replaced_by(text) or hashlib.sha256(text.encode()).digest()


def holds(stored: Collection[str], text: str) -> bool:
    """Return whether *text* is among the *stored* texts, perhaps as a marker."""
    if text in stored:
        return True
    markers = {replaced for one in stored if (replaced := replaced_by(one)) is not None}
    return bool(markers) and hash_of(text) in markers


def digests_of(texts: Iterable[str]) -> list[bytes]:
    """Return the first 8 bytes of the hash of each of *texts*."""
    return [hash_of(text)[:DIGEST_BYTES] for text in texts]


MAX_REASON: Final = 500
"""The most characters of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What a redaction replaced and removed, or what it would."""

    app_name: str
    user_id: str
    session_id: str
    event_id: str
    is_dry_run: bool
    is_new: bool
    """Whether this call redacts the event; ``False`` if an earlier one did."""
    positions: tuple[int, ...]
    """Numbers of the events with this id, from 0."""
    sha256: tuple[str, ...]
    """Hash of each of them, in hex digits: what the marker keeps."""
    audit_id: str
    """Id of the event that tells of the redaction; empty in a dry run, and if there was nothing to redact."""
    payloads: int
    """Payloads that nothing refers to any more, and that were removed."""
    state_keys: tuple[str, ...]
    """Keys, with their prefixes, whose recorded values went with the event."""
    state_kept: tuple[str, ...]
    """Those of them that still have the value that the event gave them."""
    state_removed: tuple[str, ...]
    """Those that had it, and are ``None`` now."""
    title_removed: bool
    """Whether the title repeated a text of the event, and was removed."""
    compactions: tuple[str, ...]
    """Ids of events that summarise others of the event's time, perhaps also this one."""
    memories: tuple[str, ...] = ()
    """Ids of memories that were made of the event."""
    memories_removed: bool = False
    """Whether these were removed."""


def require_reason(reason: object) -> str:
    """Return why an event is redacted.

    Raises:
        InvalidInputError: it is not one line of 1 to 500 characters.
    """
    if isinstance(reason, str) and reason.strip() and reason.isprintable() and len(reason) <= MAX_REASON:
        return reason
    raise InvalidInputError(
        f"reason must be one line of 1 to {MAX_REASON} characters, such as a ticket's number"
    )


def repeats(title: str | None, texts: Iterable[str]) -> bool:
    """Return whether a session's *title* is part of one of *texts*, without regard to case and spaces."""
    name = " ".join((title or "").casefold().split()).rstrip("\u2026.")
    return bool(name) and any(name in " ".join(text.casefold().split()) for text in texts)

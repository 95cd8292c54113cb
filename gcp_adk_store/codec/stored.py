"""Read the documents of a session, as :class:`~gcp_adk_store.codec.documents.Layout` wrote them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.fields import Fields
from gcp_adk_store.codec.formats import current_fields
from gcp_adk_store.codec.names import escape_name
from gcp_adk_store.codec.segments import MAX_SEGMENTS, unpack_segment
from gcp_adk_store.codec.values import decode_state
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.expiry import MAX_TTL_S, Expiry
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.sessions import Segment, StoredSession

_EPOCH: Final = re.compile(r"[^%/`\\\x00-\x1f\x7f]{1,200}")  # documents' ids contain it unchanged

HEADER_FIELDS: Final = (
    "format",
    "epoch",
    "app",
    "user",
    "id",
    "rev",
    "last_update_time",
    "state",
    "sealed",
    "sealed_max",
    "spilled",
    "ttl_s",
    "expire_at",
    "parts_expire_at",
)
"""The part of a session that a listing reads: everything but its events."""

HEADER_WITHOUT_STATE: Final = tuple(field for field in HEADER_FIELDS if field != "state")


def read_session(document: Document) -> StoredSession:
    """Return the session in *document*.

    Raises:
        StoredDataError: it has another format, is incomplete or damaged.
    """
    stored = read_header(document)
    fields = _fields(document)
    tail = fields.texts("tail")
    if bool(tail) != bool(fields.count("tail_bytes")):  # the value before a seal emptied the tail
        raise fields.wrong("tail_bytes")
    if stored.revision < stored.sealed + len(tail):  # each segment holds at least one event
        raise fields.wrong("rev")
    return replace(stored, tail=tail)


def read_header(document: Document, *, with_state: bool = True) -> StoredSession:
    """Return the session in *document* of a listing, without its tail and perhaps without its state.

    Raises:
        StoredDataError: it has another format, lacks a requested field, or is damaged.
    """
    fields = _fields(document)
    sealed = fields.count("sealed", limit=MAX_SEGMENTS)
    sealed_max = fields.number_or_none("sealed_max")
    if (sealed_max is None) != (sealed == 0):
        raise fields.wrong("sealed_max")
    return StoredSession(
        key=_read_key(fields),
        epoch=_read_epoch(fields),
        revision=fields.count("rev"),
        last_update_time=fields.number("last_update_time"),
        state=_read_state(fields) if with_state else {},
        tail=[],
        sealed=sealed,
        sealed_max=sealed_max,
        spilled=_read_places(fields),
        update_time=document.update_time,
        read_time=document.read_time,
        expiry=_read_expiry(fields),
    )


def read_state(document: Document | None) -> dict[str, Any]:
    """Return the state of an app or a user; without a document it is empty.

    Raises:
        StoredDataError: it has another format or is damaged.
    """
    if document is None:
        return {}
    fields = _fields(document)
    return _read_state(fields) if "state" in fields else {}


def read_segment(document: Document) -> Segment:
    """Return the run of events in *document*.

    Raises:
        StoredDataError: it has another format, is damaged, or differs from its stated length.
    """
    fields = _fields(document)
    body, count = fields.bytes("body"), fields.count("count")
    try:
        texts = unpack_segment(body)
    except StoredDataError as exc:
        raise StoredDataError(f"{document.path}: {exc}") from exc.__cause__
    if not texts:  # a seal needs a tail with events
        raise fields.wrong("count")
    if len(texts) != count:
        raise StoredDataError(f"{document.path} holds {len(texts)} events, not {count}")
    return Segment(texts=texts, running_max=fields.number("running_max"))


def read_chunk(document: Document) -> bytes:
    """Return a part of a payload.

    Raises:
        StoredDataError: the document has another format or lacks the bytes.
    """
    return _fields(document).bytes("body")


def read_deletions(documents: Sequence[Document]) -> list[Deletion]:
    """Return the unfinished deletions among *documents*.

    Raises:
        StoredDataError: one has another format or is damaged.
    """
    return [_read_deletion(document) for document in documents]


def _read_deletion(document: Document) -> Deletion:
    fields = _fields(document)
    epoch = _read_epoch(fields)
    if epoch != document.path.rpartition("/")[2]:  # of another life: a removal would hit the living session
        raise fields.wrong("epoch")
    sealed = fields.count("sealed", limit=MAX_SEGMENTS)
    return Deletion(epoch=epoch, sealed=sealed, spilled=_read_places(fields))


def _read_state(fields: Fields) -> dict[str, Any]:
    found = fields.map("state")
    try:
        return decode_state(found)
    except StoredDataError as exc:
        raise StoredDataError(f"{fields.path}: {exc}") from exc.__cause__


def _read_key(fields: Fields) -> SessionKey:
    """Return the key of a session, which must lead to the same document."""
    try:
        key = SessionKey(app=fields.text("app"), user=fields.text("user"), session=fields.text("id"))
        names = [escape_name(id_, what="id") for id_ in (key.app, key.user, key.session)]
    except InvalidInputError:
        raise fields.wrong("app, user or id") from None
    if names != fields.path.split("/")[1::2]:
        raise fields.wrong("app, user or id")
    return key


def _read_epoch(fields: Fields) -> str:
    epoch = fields.text("epoch")
    if not _EPOCH.fullmatch(epoch):
        raise fields.wrong("epoch")
    return epoch


def _read_places(fields: Fields) -> frozenset[PayloadPlace]:
    names = fields.texts("spilled") if "spilled" in fields else ()
    try:
        return frozenset(map(PayloadPlace, names))
    except ValueError:
        raise fields.wrong("spilled") from None


def _read_expiry(fields: Fields) -> Expiry | None:
    """Return a session's expiry; without a time to live, ``expire_at`` is a deployment's own field."""
    if "ttl_s" not in fields:
        return None
    return Expiry(
        ttl_s=fields.count("ttl_s", limit=MAX_TTL_S),
        at=fields.time("expire_at"),
        parts_at=fields.time("parts_expire_at") if "parts_expire_at" in fields else None,
    )


def _fields(document: Document) -> Fields:
    return Fields(document.path, current_fields(document))

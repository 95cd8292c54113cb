"""Read the documents of a session, and tell its lease, inbox, chain and size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.inspector.conversation import moment
from gcp_adk_store.inspector.documents import document_tree
from gcp_adk_store.inspector.links import Place
from gcp_adk_store.inspector.masking import Mask, Shown, json_text
from gcp_adk_store.inspector.timeline import price_of_writes
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.session_fields import Turn
from gcp_adk_store.model.sessions import Origin, StoredSession
from gcp_adk_store.store import Store

SEGMENTS_LISTED: Final = 200
"""Segments whose documents one page reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a session is, beside its events and its state."""

    title: Shown | None
    labels: tuple[tuple[str, str], ...]
    created: str
    updated: str
    expires: str
    events: int
    restores: int
    origin: Origin | None
    """Where a fork comes from; ``None`` for any other session."""
    is_running: bool
    fence: int
    holder: str
    until: str
    abort: bool
    inbox: tuple[Shown, ...]
    chain: str
    epoch: str
    tail_events: int
    tail_bytes: int
    segments: int
    segments_read: int
    segment_events: int
    segment_bytes: int
    payloads: int
    stored_bytes: int
    """Of the tail, the state and the segments that were read."""
    dollars: float
    """List price of the writes of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDocument:
    """A stored document."""

    path: str
    text: str | None
    """Its fields as JSON; ``None`` if it does not exist."""
    update_time: str


async def look(store: Store, place: Place, mask: Mask) -> Vitals:
    """Return the vitals of a session; 1 read, and 1 query of its segments' documents.

    Raises:
        SessionMissingError: the session does not exist.
    """
    storage = store.sessions.storage
    key = _key(place)
    path = storage.layout.session(key)
    (document,) = await storage.documents.get([path])
    if document is None:
        raise SessionMissingError("the session does not exist")
    stored = read_session(document)
    found = await _segments(store, path)
    return vitals(document, stored, found, mask)


async def raw(store: Store, place: Place, name: str, mask: Mask) -> tuple[RawDocument, list[str]]:
    """Return a document of a session, and the names of its segments; 1 read, and 1 query of names.

    *name* is ``session``, ``user`` or the name of a segment.
    """
    storage = store.sessions.storage
    layout = storage.layout
    key = _key(place)
    path = layout.session(key)
    if name == "user":
        path = layout.user(UserKey(app=key.app, user=key.user))
    elif name != "session":
        if "/" in name or not name:
            raise SessionMissingError("the session has no such document")
        path = f"{path}/{layout.segments_collection}/{name}"
    (document,) = await storage.documents.get([path])
    page = Page(field=None, descending=False, limit=SEGMENTS_LISTED, after=None)
    segments = await storage.documents.query(
        layout.session(key), layout.segments_collection, fields=("count",), page=page
    )
    shown = RawDocument(
        path=path,
        text=None if document is None else json_text(document_tree(document, mask)),
        update_time="" if document is None else moment(float(document.update_time)),
    )
    return shown, [each.path.rpartition("/")[2] for each in segments]


def vitals(document: Document, stored: StoredSession, segments: Sequence[Document], mask: Mask) -> Vitals:
    """Return the vitals of a session from its documents."""
    turn = stored.turn or Turn()
    title, labels = document.fields.get("title"), document.fields.get("labels")
    tail_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in stored.tail)
    segment_bytes = sum(_body_bytes(each) for each in segments)
    counts = [each.fields.get("count") for each in segments]
    return Vitals(
        title=mask.over(title) if isinstance(title, str) else None,
        labels=tuple((str(name), str(value)) for name, value in sorted(labels.items()))
        if isinstance(labels, dict)
        else (),
        created=moment(stored.create_time),
        updated=moment(stored.last_update_time),
        expires=moment(stored.expiry.at) if stored.expiry is not None else "",
        events=stored.revision,
        restores=stored.restores,
        origin=stored.origin,
        is_running=turn.is_held(stored.read_time),
        fence=turn.fence,
        holder=turn.holder,
        until=moment(turn.until),
        abort=turn.abort,
        inbox=tuple(mask.over(text, most=2_000) for text in stored.inbox),
        chain=stored.chain.hex(),
        epoch=stored.epoch,
        tail_events=len(stored.tail),
        tail_bytes=tail_bytes,
        segments=len(stored.live),
        segments_read=len(segments),
        segment_events=sum(count for count in counts if isinstance(count, int)),
        segment_bytes=segment_bytes,
        payloads=len(stored.spilled),
        stored_bytes=tail_bytes
        + segment_bytes
        + len(json_text(dict(stored.state)).encode("utf-8", "replace")),
        dollars=price_of_writes(stored.revision + 1),
    )


async def _segments(store: Store, path: str) -> list[Document]:
    storage = store.sessions.storage
    page = Page(field=None, descending=False, limit=SEGMENTS_LISTED, after=None)
    return await storage.documents.query(path, storage.layout.segments_collection, page=page)


def _body_bytes(document: Document) -> int:
    body = document.fields.get("body")
    return len(body) if isinstance(body, bytes) else 0


def _key(place: Place) -> SessionKey:
    return SessionKey(app=place.app or "", user=place.user or "", session=place.session or "")

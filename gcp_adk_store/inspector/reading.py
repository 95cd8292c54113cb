"""Read what pages show, and put the events of two sessions side by side."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.codec.cursors import decode_event_cursor, decode_place_in, encode_cursor, encode_place_in
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.inspector.conversation import price_of_writes
from gcp_adk_store.inspector.documents import Place, document_tree
from gcp_adk_store.inspector.look import Look, Near
from gcp_adk_store.inspector.masking import Mask, json_text
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.internal_metadata import public_event
from gcp_adk_store.model.json_values import fields_of
from gcp_adk_store.model.keys import SessionKey, UserKey, moment, require_text
from gcp_adk_store.model.session_fields import Turn
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState, merge_scopes
from gcp_adk_store.sessions.read.events import SessionEvent, SessionEvents
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.store import Store

SEGMENTS_LISTED: Final = 40
"""Segments whose documents one page reads."""


async def vitals_of(store: Store, place: Place, mask: Mask) -> dict[str, Any]:
    """Return what a page shows of a session beside its events; 1 read, and 1 query of its segments.

    Sizes, conflicts and events of segments are those of the tail and the segments that were read.

    Raises:
        SessionMissingError: the session does not exist.
    """
    storage = store.sessions.storage
    path = storage.layout.session(_key(place))
    (document,) = await storage.documents.get([path])
    if document is None:
        raise SessionMissingError
    stored = read_session(document)
    page = Page(field=None, descending=False, limit=SEGMENTS_LISTED, after=None)
    segments = await storage.documents.query(path, storage.layout.segments_collection, page=page)
    turn = stored.turn or Turn()
    title, labels = document.fields.get("title"), document.fields.get("labels")
    tail_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in stored.tail)
    segment_bytes = sum(_body_bytes(each) for each in segments)
    state_bytes = len(json_text(dict(stored.state)).encode("utf-8", "replace"))
    return {
        "stored": stored,
        "title": mask.over(title) if isinstance(title, str) else None,
        "labels": sorted(labels.items()) if isinstance(labels, dict) else (),
        "conflicts": stored.conflicts + _sum_of("conflicts", segments),
        "turn": turn,
        "is_running": turn.is_held(stored.read_time),
        "inbox": [mask.over(text, most=2_000) for text in stored.inbox],
        "tail_bytes": tail_bytes,
        "segments_read": len(segments),
        "segment_events": _sum_of("count", segments),
        "segment_bytes": segment_bytes,
        "stored_bytes": tail_bytes + segment_bytes + state_bytes,
        "dollars": price_of_writes(stored.revision + 1),
    }


async def raw(store: Store, place: Place, name: str, mask: Mask, *, after: str | None) -> dict[str, Any]:
    """Return a document of a session, and 40 names of its segments; 1 read, and 1 query of names.

    *name* is ``session``, ``user`` or the name of a segment, and *after* the name of a segment before those
    that are named. The text has the fields as JSON; ``None`` if the document does not exist. The last of 40
    names is the one to go on after.

    Raises:
        SessionMissingError: the session has no document of such a name.
    """
    storage = store.sessions.storage
    layout = storage.layout
    key = _key(place)
    path = layout.session(key)
    if name == "user":
        path = layout.user(UserKey(app=key.app, user=key.user))
    elif name != "session":
        path = _segment(layout, key, name)
    (document,) = await storage.documents.get([path])
    place_after = None if after is None else (0.0, _segment(layout, key, after))
    page = Page(field=None, descending=False, limit=SEGMENTS_LISTED, after=place_after)
    segments = await storage.documents.query(
        layout.session(key), layout.segments_collection, fields=("count",), page=page
    )
    names = [each.path.rpartition("/")[2] for each in segments]
    return {
        "path": path,
        "text": None if document is None else json_text(document_tree(document, mask)),
        "update_time": "" if document is None else moment(float(document.update_time)),
        "segments": names,
        "after": names[-1] if len(names) == SEGMENTS_LISTED else None,
    }


def _segment(layout: Layout, key: SessionKey, name: str) -> str:
    """Return the path of a segment by its name.

    Raises:
        SessionMissingError: it is not the name of a document.
    """
    if "/" in name or not name:
        raise SessionMissingError("the session has no such document")
    return f"{layout.session(key)}/{layout.segments_collection}/{name}"


def _sum_of(name: str, segments: Sequence[Document]) -> int:
    found = [each.fields.get(name) for each in segments]
    return sum(number for number in found if isinstance(number, int))


def _body_bytes(document: Document) -> int:
    body = document.fields.get("body")
    return len(body) if isinstance(body, bytes) else 0


def _key(place: Place) -> SessionKey:
    return SessionKey(app=place.app or "", user=place.user or "", session=place.session or "")


EVENTS_PER_PAGE: Final = 50
NAMES_PER_PAGE: Final = 48
"""Users on one page; each takes a query of one document."""

Order = Literal["oldest", "newest"]
_BEYOND: Final = "\U0010ffff"
"""A name of a collection after all others, so that a path through it follows all that is below a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Apps of a store, or users of an app, that have a session."""

    names: list[str]
    after: str | None
    """The place to go on after, though perhaps with no further name; ``None`` at the end."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An event, and where it is."""

    event: Event
    place: str
    """The cursor at which an iteration forward begins with this event."""
    segment: int | None = None
    """The number of the segment that begins with it: those before are sealed; ``None`` within one."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a session's document."""

    revision: int
    """Events of the session."""
    update_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """A part of a session's events."""

    events: list[Placed]
    last: str | None
    """The cursor of the last event of the page; ``None`` if it has none."""
    has_more: bool
    stored: StoredSession
    """The session as it was read for the page."""


class Reader:
    """Reads from one store; it writes nothing."""

    def __init__(self, store: Store) -> None:
        self.store = store
        storage, limits = store.sessions.storage, store.sessions.limits
        self._sessions = SessionReader(storage, cache_bytes=limits.segment_cache_bytes, placeholders=True)
        self._events = SessionEvents(storage, self._sessions)

    async def names(self, app: str | None, *, after: str | None, most: int = NAMES_PER_PAGE) -> Names:
        """Return apps, or users of *app*, in the order of their names.

        1 query of 1 document for each, and 1 more.
        """
        storage = self.store.sessions.storage
        layout = storage.layout
        parent = "" if app is None else layout.app(app)
        listing = f"names below {parent}"
        start: str | None = None
        if after is not None:
            (start,) = decode_place_in(listing, after, str, of="apps, or of another app's users")
            require_text(start, "after")
        names: list[str] = []
        for _ in range(2 * most):
            page = Page(field=None, descending=False, limit=1, after=None if start is None else (0.0, start))
            found = await storage.documents.query(
                parent, layout.sessions_collection, all_descendants=True, fields=("app", "user"), page=page
            )
            if not found:
                return Names(names=names, after=None)
            if len(names) == most:
                break
            path = found[0].path
            try:
                key = layout.session_at(path)
            except StoredDataError:
                start = path
                continue
            if key is None:  # another program's collection of this name
                start = f"{path.rpartition('/')[0]}/{_BEYOND}"
                continue
            names.append(key.app if app is None else key.user)
            beyond = layout.app(key.app) if app is None else layout.user(key.owner)
            start = f"{beyond}/{_BEYOND}/{_BEYOND}"
        return Names(names=names, after=None if start is None else encode_place_in(listing, start))

    async def events(
        self, place: Place, *, cursor: str | None, order: Order, limit: int = EVENTS_PER_PAGE
    ) -> EventPage:
        """Return one page of events with all their payloads.

        Takes 1 read of the session, 1 for each run of 1, 2, 4 and then 8 segments with events of the page of
        which this process does not know all, and those of the payloads.
        """
        found: list[Placed] = []
        versions: list[StoredSession] = []
        last = cursor
        async for each in self._events.iterate(
            _key(place),
            cursor=cursor,
            limit=limit + 1,
            direction="forward" if order == "oldest" else "backward",
            follow=False,
            seen=versions.append,
        ):
            if len(found) == limit:
                return EventPage(events=found, last=last, has_more=True, stored=versions[0])
            if order == "oldest":
                found.append(Placed(each.event, _before(each.cursor), _begun(last, each.cursor)))
            else:
                found.append(Placed(each.event, each.cursor))
            last = each.cursor
        return EventPage(events=found, last=last, has_more=False, stored=versions[0])

    def following(
        self, place: Place, cursor: str | None, seen: Callable[[StoredSession], None]
    ) -> AsyncGenerator[SessionEvent]:
        """Yield the events after *cursor*, also new ones; call *seen* with each version of the session."""
        return self._events.iterate(
            _key(place), cursor=cursor, limit=None, direction="forward", follow=True, seen=seen
        )

    async def version_before(self, stored: StoredSession, update_time: str) -> Version | None:
        """Return the version that one of this time replaced, if the database still knows it; 1 read.

        ``None`` also if that was by a restore, or of another session of this id.
        """
        storage = self.store.sessions.storage
        path, asked = storage.layout.session(stored.key), ("epoch", "rev", "restores")
        found = await storage.documents.before(path, update_time, fields=asked)
        epoch, revision, restores = (None if found is None else found.fields.get(name) for name in asked)
        if found is None or (epoch, restores or 0) != (stored.epoch, stored.restores):
            return None
        return Version(revision, found.update_time) if isinstance(revision, int) else None

    async def written(self, stored: StoredSession, numbers: Sequence[int]) -> dict[int, float]:
        """Return when documents of segments were last written, as Unix time in seconds; 1 read of each."""
        storage = self.store.sessions.storage
        paths = storage.layout.segments(stored.key, stored.epoch, numbers)
        found = await storage.documents.get(paths, fields=("count",)) if paths else []
        pairs = zip(numbers, found, strict=True)
        return {number: float(each.update_time) for number, each in pairs if each is not None}

    async def look(self, place: Place) -> Look:
        """Look at a session as it is now; 1 read.

        Raises:
            SessionMissingError: it does not exist.
        """
        return Look(await self._sessions.living(_key(place)), self._sessions, self._events)

    def look_at(self, stored: StoredSession, *, segments: int) -> Look:
        """Look at a session that was read, and at most so many *segments* of it."""
        return Look(stored, self._sessions, self._events, most=segments)

    async def look_with_state(self, place: Place) -> tuple[Look, dict[str, Any]]:
        """Look at a session, and return the state of its user and app, too; 3 reads, and payloads of state.

        Raises:
            SessionMissingError: it does not exist.
        """
        found = await self._sessions.find(_key(place), GetSessionConfig(num_recent_events=1))
        if found is None:
            raise SessionMissingError
        shared = ScopedState(app=found.shared.app, user=found.shared.user)
        return Look(found.stored, self._sessions, self._events), merge_scopes(shared)

    async def event(self, place: Place, event_id: str, at: str | None, near: Near | None) -> Placed:
        """Return one event; 2 reads if *at* is its place, and otherwise it is looked for before *near*.

        Raises:
            FartherError: it is not among the events that a page reads.
            SessionMissingError: the session does not exist, or has no such event.
        """
        look = await self.look(place)
        step = await look.event(event_id, at, look.known(near))
        page = await self.events(place, cursor=look.cursor(step.place), order="oldest", limit=1)
        return page.events[0]

    async def session_at(self, place: Place, at: Point) -> Session:
        """Return a session as it was.

        Raises:
            SessionMissingError: the session does not exist.
        """
        session = await self.store.sessions.get_session_at(**place.ids, at=at)
        if session is None:
            raise SessionMissingError
        return session


def _before(cursor: str) -> str:
    """Return the place before the event that a walk forward comes to *cursor* with."""
    epoch, place = decode_event_cursor(cursor)
    return encode_cursor((epoch, place.segment, place.offset - 1))


def _begun(before: str | None, after: str) -> int | None:
    """Return the segment that begins with the event between two cursors; ``None`` if none does."""
    if before is None:
        return None
    segment = decode_event_cursor(after)[1].segment
    return None if segment == decode_event_cursor(before)[1].segment else segment


COMPARED: Final = 100
"""Events of each session on one page; the comparison takes at most the square of it."""


Row = tuple[Sequence[Placed], Sequence[Placed], Sequence[Placed]]
"""Events that are the same in both, or those of each that stand beside each other."""


def rows(left: Sequence[Placed], right: Sequence[Placed]) -> Iterator[Row]:
    """Yield both in their order. Events are the same if they say the same: a fork keeps them as they are."""
    matcher = SequenceMatcher(
        None, [_said(each) for each in left], [_said(each) for each in right], autojunk=False
    )
    for what, begin, end, other_begin, other_end in matcher.get_opcodes():
        if what == "equal":
            yield left[begin:end], (), ()
        else:
            yield (), left[begin:end], right[other_begin:other_end]


def _said(placed: Placed) -> str:
    """Return what an event says, without its id and its time, which two runs never share."""
    own = {"id", "timestamp", "invocation_id"}
    said = fields_of(public_event(placed.event), exclude=own, exclude_none=True, exclude_defaults=True)
    return json_text(said)

"""Read a session: its documents, the segments that are asked for, and the payloads that they refer to."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.codec.event_payloads import WHOLE
from gcp_adk_store.codec.events import StoredEvent, complete_event, decode_event
from gcp_adk_store.codec.initial import unpack_initial
from gcp_adk_store.codec.spilling import unpack_value
from gcp_adk_store.codec.stored import HEADER_FIELDS, read_header, read_segment, read_session, read_state
from gcp_adk_store.codec.writes import Document, has_few_keys
from gcp_adk_store.errors import PayloadMissingError, StoredDataError
from gcp_adk_store.model.history import Point, keys_of_initial, last_values, state_at, unknown_state
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import PayloadOwner, PayloadRef
from gcp_adk_store.model.sessions import (
    Marker,
    Segment,
    StoredSession,
    events_to_settle,
    select_events,
    wants_all_events,
    wants_events,
    wants_older,
)
from gcp_adk_store.model.state import ScopedState, split_scopes
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.operations.lru import Lru
from gcp_adk_store.operations.pauses import Pauses, apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.storage import SessionStorage

logger = logging.getLogger(__name__)

T = TypeVar("T")

NOT_FOUND: Final = "session not found"

_SEGMENTS_PER_READ: Final = 1000
"""Keeps requests far below 10 MiB, with paths of up to 6 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A session as a read returns it, payloads included."""

    stored: StoredSession
    shared: ScopedState
    """App and user state."""
    events: list[Event]
    changed: frozenset[str] = frozenset()
    """In a read of a point, the keys of the session's state that later events changed."""

    @property
    def state(self) -> ScopedState:
        """The state of all scopes."""
        return replace(self.shared, session=self.stored.state)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a read returns of a session, without payloads."""

    stored: StoredSession
    events: list[StoredEvent]
    changed: frozenset[str] = frozenset()


class SessionReader:
    """The sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, *, cache_bytes: int, placeholders: bool) -> None:
        """Prepare the reader, which remembers segments up to *cache_bytes* of their texts.

        With *placeholders*, an event is read without payloads that are gone.
        """
        self._documents, self._payloads, self._layout = storage.documents, storage.payloads, storage.layout
        # A path holds the epoch of its session, so its segment never changes. Of 1,000 events, a later read
        # takes 84 ms instead of 113 ms on the emulator, and Firestore bills 9 reads less.
        self._known_segments = Lru[str, Segment](cache_bytes, size_of=_size)
        self._placeholders = placeholders

    async def find(self, key: SessionKey, config: GetSessionConfig | None) -> Found | None:
        """Return a session with the events that *config* asks for.

        Raises:
            StoredDataError: a segment or a payload that the session names does not exist.
            UnavailableError: others changed the session each time until the deadline.
        """

        async def choose(stored: StoredSession) -> _Chosen | None:
            events = await self._events(stored, config)
            return None if events is None else _Chosen(stored, events)

        return await self._find(key, choose, whole=wants_events(config))

    async def find_at(self, key: SessionKey, point: Point, *, omit_unknown: bool) -> Found | None:
        """Return a session as it was at *point*, with the state of its app and user as it is now.

        Raises:
            PointMissingError: the session does not have the point.
            InitialStateUnknownError: values of keys are unknown, and *omit_unknown* is false.
            StoredDataError, UnavailableError: as :meth:`find`.
        """
        return await self._find(key, partial(self._at, point=point, omit_unknown=omit_unknown), whole=True)

    async def _find(
        self, key: SessionKey, choose: Callable[[StoredSession], Awaitable["_Chosen | None"]], *, whole: bool
    ) -> Found | None:
        """Return what *choose* picks of a session, read again while others change what it needs.

        It picks nothing if a segment is gone. The document has no tail unless it is read *whole*.
        """
        lost: tuple[str, int] | None = None
        incomplete: list[str | None] | None = None
        rereads = Rereads(self._documents.deadline_s)
        while True:
            fields = None if whole else HEADER_FIELDS
            document, app, user = await self._documents_of(key, fields=fields)
            if document is None:
                return None
            stored = await decoded(read_session if whole else read_header, document)
            if stored.has_expired:
                return None
            # Another call may delete the session, or replace a value and remove its payload, during the read:
            # only what is missing from an unchanged document is an error.
            try:
                chosen = await choose(stored)
                if chosen is not None:
                    shared = await self._complete_shared(key.owner, app, user)
                    found = await self.complete(chosen.stored, chosen.events, shared)
                    if found is not None:
                        return replace(found, changed=chosen.changed)
                elif lost == (stored.epoch, stored.sealed):
                    raise segment_missing(stored)
                else:
                    lost = stored.epoch, stored.sealed
            except PayloadMissingError:
                seen = [one.update_time if one else None for one in (document, app, user)]
                if seen == incomplete:
                    raise
                incomplete = seen
            await rereads.again()

    async def _at(self, stored: StoredSession, *, point: Point, omit_unknown: bool) -> "_Chosen | None":
        """Return a session as it was at *point*, without payloads; ``None`` if a segment is gone."""
        segments = await self.segments(stored, range(stored.sealed))
        if segments is None:
            return None
        pauses = Pauses()
        events: list[StoredEvent] = []
        for number, texts in enumerate([*(segment.texts for segment in segments), stored.tail]):
            events += await decode_events(texts, where=self.place_of(stored, number), pauses=pauses)
        events = await self._unpacked(stored, events)
        count = point.kept([one.event for one in events])
        deltas = [split_scopes(one.event.actions.state_delta).session for one in events]
        kept, later = last_values(deltas[:count]), last_values(deltas[count:])
        initial: Mapping[str, Any] | None = {}
        if keys_of_initial(kept, later):
            initial = await self._initial(stored, segments)
        state, unknown = state_at(stored.state, kept=kept, later=later, initial=initial)
        if unknown and not omit_unknown:
            raise unknown_state(unknown)
        if count < len(events):
            last = events[count - 1].timestamp if count else stored.create_time
            stored = replace(
                stored,
                state=state,
                revision=max(0, stored.revision - len(events) + count),
                last_update_time=stored.last_update_time if last is None else last,
                update_time="",  # of a handle that others have overtaken: an append conflicts, or merges
            )
        return _Chosen(stored, events[:count], frozenset(later))

    async def _unpacked(self, stored: StoredSession, events: Sequence[StoredEvent]) -> list[StoredEvent]:
        """Return *events* with those in full that are a payload as a whole; their state is needed."""
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        found = await self._fetch(mine, {one.missing[WHOLE] for one in events if WHOLE in one.missing})
        try:
            return [
                _with_warning(await apart(partial(complete_event, one, found), light=False))
                if WHOLE in one.missing
                else one
                for one in events
            ]
        except StoredDataError as exc:
            raise StoredDataError(f"{mine.path}: {exc}") from exc.__cause__

    async def _initial(self, stored: StoredSession, segments: Sequence[Segment]) -> Mapping[str, Any] | None:
        """Return the state that a session was created with, without payloads; ``None`` if it is unknown."""
        initial = segments[0].initial if segments else stored.initial
        if not isinstance(initial, PayloadRef):
            return initial
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        found = await self._fetch(mine, {initial})
        try:
            return await apart(partial(unpack_initial, initial, found[initial]), light=False)
        except StoredDataError as exc:
            raise StoredDataError(f"{mine.path}: {exc}") from exc.__cause__

    async def since(self, key: SessionKey, marker: Marker) -> Found | None:
        """Return a session with the events appended since *marker*; ``None`` if it is another one now."""
        document, app, user = await self._documents_of(key)
        stored = await decoded(read_session, document) if document else None
        if stored is None or stored.epoch != marker.epoch:
            return None
        count = events_to_settle(marker, stored)
        texts = await self.newest(stored, at_least=count)
        start = max(0, len(texts) - count)
        newest = await decode_events(
            texts[start:], where=self.place_of(stored, stored.sealed), pauses=Pauses()
        )
        shared = await self._complete_shared(key.owner, app, user)
        return await self.complete(stored, newest, shared)

    async def _documents_of(
        self, key: SessionKey, *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """Return the documents of a session, its app and its user."""
        layout = self._layout
        return await self._documents.get(
            [layout.session(key), layout.app(key.app), layout.user(key.owner)], fields=fields
        )

    async def header(self, key: SessionKey) -> StoredSession | None:
        """Return the session document as it is now, without its tail."""
        (document,) = await self._documents.get([self._layout.session(key)], fields=HEADER_FIELDS)
        return await decoded(read_header, document) if document else None

    async def stored(self, key: SessionKey) -> StoredSession | None:
        """Return the session document as it is now."""
        (document,) = await self._documents.get([self._layout.session(key)])
        return await decoded(read_session, document) if document else None

    async def newest(self, stored: StoredSession | None, *, at_least: int | None) -> Sequence[str]:
        """Return the newest events as texts: *at_least* so many if the session has them; ``None`` is all."""
        if stored is None:
            return ()
        texts = list(stored.tail)
        unread = stored.sealed
        step = unread if at_least is None else 1
        while unread and (at_least is None or len(texts) < at_least):
            first = max(0, unread - step)
            segments = await self.segments(stored, range(first, unread))
            if segments is None:
                break  # another call deleted the session: the next commit finds that out
            texts[:0] = [text for segment in segments for text in segment.texts]
            unread, step = first, step * 2
        return texts

    async def shared_state(self, owner: UserKey) -> ScopedState:
        """Return app and user state."""
        app, user = await self._documents.get([self._layout.app(owner.app), self._layout.user(owner)])
        return await self._complete_shared(owner, app, user)

    async def user_state(self, owner: UserKey) -> Mapping[str, Any]:
        """Return the state of a user, keys without prefix."""
        (document,) = await self._documents.get([self._layout.user(owner)])
        return await self.lasting_state(self._layout.user_payloads(owner), document)

    async def _events(
        self, stored: StoredSession, config: GetSessionConfig | None
    ) -> list[StoredEvent] | None:
        """Return the events that *config* asks for, without payloads; ``None`` if a segment is gone."""
        if not wants_events(config):
            return []
        pauses = Pauses()
        events = await decode_events(stored.tail, where=self.place_of(stored, stored.sealed), pauses=pauses)
        unread = stored.sealed
        step = unread if wants_all_events(config) else 1
        running_max = stored.sealed_max
        while unread and wants_older(
            config, have=len(select_events(events, config)), running_max=running_max
        ):
            first = max(0, unread - step)
            segments = await self.segments(stored, range(first, unread))
            if segments is None:
                return None
            older: list[StoredEvent] = []
            for number, segment in enumerate(segments, start=first):
                older += await decode_events(
                    segment.texts, where=self.place_of(stored, number), pauses=pauses
                )
            events[:0] = older
            running_max = segments[0].running_max
            unread, step = first, step * 2
        return select_events(events, config)

    def place_of(self, stored: StoredSession, number: int) -> str:
        """Return the path of the document that holds a segment; the tail has the number of its later one."""
        if number == stored.sealed:
            return self._layout.session(stored.key)
        return self._layout.segments(stored.key, stored.epoch, range(number, number + 1))[0]

    async def segments(self, stored: StoredSession, numbers: range) -> list[Segment] | None:
        """Return segments by number, from memory where they are known; ``None`` if one is gone.

        Raises:
            StoredDataError: one is damaged, or the newest is not the one that the session ends with.
        """
        paths = self._layout.segments(stored.key, stored.epoch, numbers)
        known = {path: segment for path in paths if (segment := self._known_segments.get(path)) is not None}
        unknown = [path for path in paths if path not in known]
        telemetry.count_lookups("segments", hits=len(known), misses=len(unknown))
        pauses = Pauses()
        for start in range(0, len(unknown), _SEGMENTS_PER_READ):
            some = unknown[start : start + _SEGMENTS_PER_READ]
            for path, document in zip(some, await self._documents.get(some), strict=True):
                if document is None:
                    return None
                known[path] = read_segment(document)
                self._known_segments.put(path, known[path])
                if pauses.is_due:
                    await pauses.take()
        found = [known[path] for path in paths]
        if numbers.stop == stored.sealed and found and found[-1].running_max != stored.sealed_max:
            # One commit writes both: others follow it that the session does not count.
            raise StoredDataError(f"{self._layout.session(stored.key)} does not end with {paths[-1]}")
        return found

    async def is_gone(self, stored: StoredSession) -> bool:
        """Return whether another call deleted a session after it was read, or it has expired."""
        now = await self.header(stored.key)
        return now is None or now.epoch != stored.epoch or now.has_expired

    async def complete(
        self, stored: StoredSession, selected: Sequence[StoredEvent], shared: ScopedState
    ) -> Found | None:
        """Return the session with its payloads, fetched side by side; ``None`` if it is gone."""
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        try:
            events = await self.complete_events(stored, selected)
            state = await self._complete_state(mine, stored.state)
        except PayloadMissingError:
            if await self.is_gone(stored):
                return None
            raise
        return Found(stored=replace(stored, state=state), shared=shared, events=events)

    async def complete_events(self, stored: StoredSession, selected: Sequence[StoredEvent]) -> list[Event]:
        """Return events of *stored* with their payloads, fetched side by side."""
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        while missing := {ref for event in selected for ref in event.missing.values()}:
            found = await self._fetch(mine, missing, placeholders=self._placeholders)
            if len(found) < len(missing) and await self.is_gone(stored):
                raise PayloadMissingError(f"{mine.path} is gone, and its payloads with it")
            try:
                selected = [
                    await apart(partial(complete_event, event, found), light=WHOLE not in event.missing)
                    for event in selected
                ]
            except StoredDataError as exc:
                raise StoredDataError(f"{mine.path}: {exc}") from exc.__cause__
            selected = [_with_warning(event) for event in selected]
        return [event.event for event in selected]

    async def whole_event(self, stored: StoredSession, event: StoredEvent) -> Event:
        """Return *event*, fetched if it is a payload as a whole, without payloads of parts of its content."""
        ref = event.missing.get(WHOLE)
        if ref is None:
            return event.event
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        found = await self._fetch(mine, {ref}, placeholders=self._placeholders)
        try:
            completed = await apart(partial(complete_event, event, found), light=False)
        except StoredDataError as exc:
            raise StoredDataError(f"{mine.path}: {exc}") from exc.__cause__
        return _with_warning(completed).event

    async def _complete_shared(
        self, owner: UserKey, app: Document | None, user: Document | None
    ) -> ScopedState:
        """Return app and user state with its payloads."""
        layout = self._layout
        return ScopedState(
            app=await self.lasting_state(layout.app_payloads(owner.app), app),
            user=await self.lasting_state(layout.user_payloads(owner), user),
        )

    async def lasting_state(self, owner: PayloadOwner, document: Document | None) -> Mapping[str, Any]:
        """Return the state of an app or a user and its payloads, reread if it changes."""
        rereads = Rereads(self._documents.deadline_s)
        while document is not None:
            try:
                return await self._complete_state(owner, await decoded(read_state, document))
            except PayloadMissingError:
                # Another call may replace a value and remove its payload during the read.
                (now,) = await self._documents.get([owner.path])
                if now is None or now.update_time == document.update_time:
                    raise
                document = now
            await rereads.again()
        return {}

    async def _complete_state(self, owner: PayloadOwner, state: Mapping[str, Any]) -> Mapping[str, Any]:
        if not refers(state):
            return state
        refs = {key: value for key, value in state.items() if isinstance(value, PayloadRef)}
        found = await self._fetch(owner, set(refs.values()))
        try:
            unpacked = {
                key: await apart(partial(unpack_value, ref, found[ref]), light=False)
                for key, ref in refs.items()
            }
        except StoredDataError as exc:
            raise StoredDataError(f"{owner.path}: {exc}") from exc.__cause__
        return {**state, **unpacked}

    async def _fetch(
        self, owner: PayloadOwner, refs: AbstractSet[PayloadRef], *, placeholders: bool = False
    ) -> dict[PayloadRef, bytes]:
        """Return payloads; those that are gone are left out where there are *placeholders* for them."""

        async def get(ref: PayloadRef) -> bytes | None:
            try:
                return await self._payloads.get(owner, ref)
            except PayloadMissingError as exc:
                if not placeholders:
                    raise
                logger.warning(
                    "an event is read without its content: %s", exc, extra=telemetry.log_fields(exc)
                )
                return None

        wanted = sorted(refs, key=lambda ref: ref.sha256)
        found = await fan_out(get(ref) for ref in wanted)
        return {ref: data for ref, data in zip(wanted, found, strict=True) if data is not None}


def segment_missing(stored: StoredSession) -> StoredDataError:
    """Return the error for a session that lacks a segment."""
    return StoredDataError(f"one of the {stored.sealed} segments is missing")


async def decode_events(
    texts: Sequence[str], *, where: str, pauses: Pauses, first: int = 0
) -> list[StoredEvent]:
    """Return the events of *texts* with pauses: a thousand events take tens of milliseconds.

    Raises:
        StoredDataError: one cannot be read; the message names the document *where* they are, and the place of
            the event, counted from *first*.
    """
    events: list[StoredEvent] = []
    try:
        for text in texts:
            events.append(_with_warning(decode_event(text)))
            if pauses.is_due:  # an event can have 256 KB of JSON
                await pauses.take()
    except StoredDataError as exc:
        raise StoredDataError(f"{where}: event {first + len(events)}: {exc}") from exc.__cause__
    return events


def _with_warning(event: StoredEvent) -> StoredEvent:
    if event.left_out:
        logger.warning(
            "a newer google-adk wrote an event; left out: %s", event.left_out, extra=telemetry.log_fields()
        )
    return event


async def decoded(read: Callable[[Document], T], document: Document) -> T:
    """Return what *read* reads in *document*, in a thread where that takes long: for thousands of keys."""
    return await apart(partial(read, document), light=has_few_keys(document.fields))


def refers(state: Mapping[str, Any]) -> bool:
    """Return whether *state* has payloads."""
    return any(isinstance(value, PayloadRef) for value in state.values())


def _size(segment: Segment) -> int:
    initial = segment.initial if isinstance(segment.initial, Mapping) else {}
    return sum(len(text.encode()) for text in segment.texts) + sum(
        len(repr(item)) for item in initial.items()
    )

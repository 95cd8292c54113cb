"""Read a session: its documents, the segments that are asked for, and the payloads that they refer to."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any, Final

from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.codec.decode import StoredEvent
from gcp_adk_store.codec.segments import unpack_initial
from gcp_adk_store.codec.stored import (
    HEADER_WITH_DIGESTS,
    archive_of,
    read_header,
    read_segment,
    read_session,
    read_tail_digests,
)
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import PayloadMissingError, SessionMissingError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Lru, Pauses, offload, yielding
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.appends import Marker
from gcp_adk_store.model.history import Point, keys_of_initial, last_values, state_at
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import PayloadRef, StoredPayload
from gcp_adk_store.model.session_fields import newest_live
from gcp_adk_store.model.sessions import (
    HistoryConfig,
    Segment,
    StoredSession,
    events_to_resolve,
    select_events,
    wants_all_events,
    wants_events,
    wants_older,
)
from gcp_adk_store.model.state import ScopedState, split_scopes
from gcp_adk_store.sessions.read.completion import (
    CompletingReader,
    Found,
    Past,
    decode_events,
    decoded,
    named,
    refs_in,
)
from gcp_adk_store.sessions.read.known import AsOf, FollowedDocuments, KnownTails, WindowReader, segment_bytes
from gcp_adk_store.sessions.read.storage import SessionStorage

_SEGMENTS_PER_READ: Final = 1000
"""Keeps requests far below 10 MiB, with paths of up to 6 kB."""

Chosen = tuple[StoredSession, list[StoredEvent]]
"""What a read returns of a session, without payloads."""


class SessionReader(CompletingReader):
    """The sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, *, cache_bytes: int, placeholders: bool) -> None:
        """Prepare the reader, which remembers segments up to *cache_bytes* of their texts, and windows, too.

        With *placeholders*, an event is read without payloads that are gone.
        """
        super().__init__(storage, placeholders=placeholders)
        # A path holds the epoch of its session, so only redactions and archives change its segment: each is
        # known as of a number of redactions, of restores, after which fewer segments count as archived, and
        # of archived segments. Of 1,000 events, a later read takes 84 ms instead of 113 ms on the emulator,
        # and Firestore bills 9 reads less.
        self._known_segments = Lru[str, tuple[AsOf, Segment]](cache_bytes, size_of=segment_bytes)
        self.windows = WindowReader(self, cache_bytes)
        self.tails = KnownTails()
        self.followed = FollowedDocuments()

    async def find(
        self,
        key: SessionKey,
        config: GetSessionConfig | None,
        *,
        known: Document | None = None,
        follows: bool = False,
        look: Callable[[StoredSession], None] | None = None,
    ) -> Found | None:
        """Return a session with the events that *config* asks for.

        *known* is its document, which is not read then. With *follows*, this process keeps it known. *look*
        gets what it says before segments and payloads are read; its errors are raised.

        Raises:
            StoredDataError: a segment or a payload that the session names does not exist.
            UnavailableError: others changed the session each time until the deadline.
        """

        async def choose(stored: StoredSession) -> Chosen | None:
            if look is not None:
                look(stored)
            events = await self._events(stored, config)
            return None if events is None else (stored, events)

        return await self._find(key, choose, whole=wants_events(config), known=known, follows=follows)

    async def find_at(
        self, key: SessionKey, point: Point | None, *, reader: UserKey | None = None
    ) -> tuple[Past, Found] | None:
        """Return what a session was at *point*, by default now, and as its user, or *reader*, reads that.

        The state of the app and the user is as it is now.

        Raises:
            PointMissingError: the session does not have the point.
            StoredDataError, UnavailableError: as :meth:`find`.
        """
        past: Past | None = None

        async def choose(stored: StoredSession) -> Chosen | None:
            nonlocal past
            past = await self.past(stored, point=point)
            return None if past is None else (past.stored, past.events[: past.count])

        found = await self._find(key, choose, whole=True, reader=reader)
        return None if past is None or found is None else (past, found)

    async def read_at(self, key: SessionKey, point: Point) -> Found | None:
        """Return what a session was at *point*, as :meth:`find_at`, without what that took to find."""
        found = await self.find_at(key, point)
        at = None if found is None else found[1]
        del found
        await Pauses().pause()  # the caller may free thousands of events at once
        return at

    async def _find(
        self,
        key: SessionKey,
        choose: Callable[[StoredSession], Awaitable[Chosen | None]],
        *,
        whole: bool,
        reader: UserKey | None = None,
        known: Document | None = None,
        follows: bool = False,
    ) -> Found | None:
        """Return what *choose* picks of a session, read again while others change what it needs.

        It picks nothing if a segment is gone. The document has no tail unless it is read *whole*. The state
        of the user is that of *reader*, by default the session's own. The rest is as of :meth:`find`.
        """
        reader = reader or key.owner
        lost: tuple[str, int] | None = None
        incomplete: list[str | None] | None = None

        async def look() -> Found | Changed | None:
            nonlocal lost, incomplete, known
            fields = None if whole else HEADER_WITH_DIGESTS
            document, app, user = await self._documents_of(key, fields, reader, known, follows=follows)
            known = None
            if document is None:
                return None
            stored = await self._noted(document) if whole else await decoded(read_header, document)
            if stored.has_expired:
                return None
            if not whole and (digests := read_tail_digests(document)) is not None:
                self.tails.saw(replace(stored, digests=digests))
            # Another call may delete the session, or replace a value and remove its payload, during the read:
            # only what is missing from an unchanged document is an error.
            try:
                chosen = await choose(stored)
                if chosen is not None:
                    shared = await self.complete_shared(reader, app, user)
                    found = await self.complete(*chosen, shared)
                    if found is not None:
                        return found
                elif lost == (stored.epoch, stored.sealed):
                    raise segment_missing(stored)
                else:
                    lost = stored.epoch, stored.sealed
            except PayloadMissingError:
                seen = [one.update_time if one else None for one in (document, app, user)]
                if seen == incomplete:
                    raise
                incomplete = seen
            return CHANGED

        return await read_whole(self._documents.deadline_s, look)

    async def past_unless_changed(self, stored: StoredSession, *, point: Point | None) -> Past | None:
        """Return what *stored* was at *point*; ``None`` if others changed it meanwhile."""
        try:
            past = await self.past(stored, point=point)
        except PayloadMissingError:
            if await self.lost(stored) is None:
                raise
            return None
        if past is None and await self.lost(stored) is None:
            raise segment_missing(stored)
        return past

    async def past(self, stored: StoredSession, *, point: Point | None) -> "Past | None":
        """Return a session as it was at *point*, without payloads; ``None`` if a segment is gone."""
        segments = await self.segments(stored, stored.live)
        if segments is None:
            return None
        pauses = Pauses()
        events: list[StoredEvent] = []
        runs = [*(segment.texts for segment in segments), stored.tail]
        for number, texts in zip([*stored.live, stored.sealed], runs, strict=True):
            events += await decode_events(texts, where=self.place_of(stored, number), pauses=pauses)
        events = await self.unpacked(stored, events)
        count = len(events) if point is None else point.kept([one.event for one in events])
        deltas = await yielding(split_scopes(one.event.actions.state_delta).session for one in events)
        kept, later = last_values(deltas[:count]), last_values(deltas[count:])
        initial: Mapping[str, Any] = {}
        if keys_of_initial(kept, later):
            initial = await self.initial(stored, segments)
        state, now = state_at(stored.state, kept=kept, later=later, initial=initial), stored
        if count < len(events):
            last = events[count - 1].timestamp if count else stored.create_time
            stored = replace(
                stored,
                state=state,
                revision=max(0, stored.revision - len(events) + count),
                last_update_time=stored.last_update_time if last is None else last,
                update_time="",  # of a handle that others have overtaken: an append conflicts, or merges
            )
        return Past(now, stored, segments, events, count, frozenset(later))

    async def initial(self, stored: StoredSession, segments: Sequence[Segment]) -> Mapping[str, Any]:
        """Return the state that a session was created with, without payloads."""
        initial = segments[0].initial if segments else stored.initial
        if initial is None:
            raise StoredDataError(f"{self._layout.session(stored.key)} lacks initial")
        if not isinstance(initial, PayloadRef):
            return initial
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        found = await self._fetch(mine, {initial})
        with named(mine.path):
            return await offload(partial(unpack_initial, initial, found[initial]), light=False)

    async def unused(
        self, stored: StoredSession, past: Past, refs: AbstractSet[PayloadRef]
    ) -> list[StoredPayload]:
        """Return those payloads of *refs* that its initial state does not refer to, as they are now.

        If another call puts one again, it changes, and so it stays.
        """
        if refs:
            refs = refs - await self.in_initial(stored, past)
        return await self._payloads.found(self._layout.session_payloads(stored.key, stored.epoch), refs)

    async def in_initial(self, stored: StoredSession, past: Past) -> set[PayloadRef]:
        """Return the payloads that a session's initial state refers to, and the one that it is."""
        initial = past.segments[0].initial if past.segments else stored.initial
        if initial is None:
            return set()
        found = refs_in(await self.initial(stored, past.segments) or {})
        return found | ({initial} if isinstance(initial, PayloadRef) else set())

    async def since(self, key: SessionKey, marker: Marker) -> Found | None:
        """Return a session with the events appended since *marker*; ``None`` if it is another one."""
        document, app, user = await self._documents_of(key)
        stored = await self._noted(document) if document else None
        if stored is None or (stored.epoch, stored.restores) != (marker.epoch, marker.restores):
            return None
        count = events_to_resolve(marker, stored) or 0
        texts = await self.newest(stored, at_least=count)
        if texts is None:
            return None
        start = max(0, len(texts) - count)
        newest = await decode_events(
            texts[start:], where=self.place_of(stored, stored.sealed), pauses=Pauses()
        )
        shared = await self.complete_shared(key.owner, app, user)
        return await self.complete(stored, newest, shared)

    async def _documents_of(
        self,
        key: SessionKey,
        fields: Sequence[str] | None = None,
        reader: UserKey | None = None,
        known: Document | None = None,
        *,
        follows: bool = False,
    ) -> list[Document | None]:
        """Return the documents of a session, its app and its user, or another user, the *reader*."""
        layout = self._layout
        paths = [layout.session(key), layout.app(key.app), layout.user(reader or key.owner)]
        if known is not None:
            return [known, *await self._documents.get(paths[1:])]
        found = await self._documents.get(paths, fields=fields)
        if follows and fields is None and found[0] is not None:
            self.followed.follow(found[0])
        return found

    async def stored(self, key: SessionKey) -> StoredSession | None:
        """Return the session document as it is now."""
        (document,) = await self._documents.get([self._layout.session(key)])
        return await self._noted(document) if document else None

    async def living(self, key: SessionKey) -> StoredSession:
        """Return the session document as it is now.

        Raises:
            SessionMissingError: it does not exist, or has expired.
        """
        stored = await self.stored(key)
        if stored is None or stored.has_expired:
            raise SessionMissingError
        return stored

    async def _noted(self, document: Document) -> StoredSession:
        """Return the session in *document*, and take note of its tail for later appends."""
        stored = await decoded(read_session, document)
        self.tails.saw(stored)
        return stored

    async def newest(self, stored: StoredSession, *, at_least: int | None) -> Sequence[str] | None:
        """Return the newest events as texts: *at_least* so many if the session has them; ``None`` is all.

        ``None`` if a segment is gone: another call deletes or restores the session.
        """
        texts = list(stored.tail)
        live = stored.live
        unread = len(live)
        step = unread if at_least is None else 1
        while unread and (at_least is None or len(texts) < at_least):
            first = max(0, unread - step)
            segments = await self.segments(stored, live[first:unread])
            if segments is None:
                return None
            texts[:0] = [text for segment in segments for text in segment.texts]
            unread, step = first, step * 2
        return texts

    async def shared_state(self, owner: UserKey) -> ScopedState:
        """Return app and user state."""
        app, user = await self._documents.get([self._layout.app(owner.app), self._layout.user(owner)])
        return await self.complete_shared(owner, app, user)

    async def user_state(self, owner: UserKey) -> Mapping[str, Any]:
        """Return the state of a user, keys without prefix."""
        (document,) = await self._documents.get([self._layout.user(owner)])
        return await self.lasting_state(self._layout.user_payloads(owner), document)

    async def _events(
        self, stored: StoredSession, config: GetSessionConfig | None
    ) -> list[StoredEvent] | None:
        """Return the events that *config* asks for, without payloads; ``None`` if a segment is gone."""
        if isinstance(config, HistoryConfig) and config.history == "since_compaction":
            return await self.windows.events(stored)
        if not wants_events(config):
            return []
        pauses = Pauses()
        events = await decode_events(stored.tail, where=self.place_of(stored, stored.sealed), pauses=pauses)
        live = stored.unarchived
        unread = len(live)
        step = unread if wants_all_events(config) else 1
        running_max = stored.sealed_max
        while unread and wants_older(
            config, have=len(select_events(events, config)), running_max=running_max
        ):
            first = max(0, unread - step)
            segments = await self.segments(stored, live[first:unread])
            if segments is None:
                return None
            older: list[StoredEvent] = []
            for number, segment in zip(live[first:unread], segments, strict=True):
                older += await decode_events(
                    segment.texts, where=self.place_of(stored, number), pauses=pauses
                )
            events[:0] = older
            running_max = segments[0].running_max
            unread, step = first, step * 2
        most = stored.revision - stored.archived.events
        if unread < len(live):
            await pauses.pause()  # the caller may free thousands of events at once
        return select_events(events[max(0, len(events) - most) :], config)

    def place_of(self, stored: StoredSession, number: int) -> str:
        """Return the path of the document that holds a segment; the tail has the number of its later one."""
        if number == stored.sealed:
            return self._layout.session(stored.key)
        return self._layout.segments(stored.key, stored.epoch, [number])[0]

    async def segments(
        self, stored: StoredSession, numbers: Sequence[int], *, exactly: bool = False
    ) -> list[Segment] | None:
        """Return segments by number, from memory where they are known; ``None`` if one is gone.

        After a restore, one from memory may lack its archive unless they are wanted *exactly*.

        Raises:
            StoredDataError: one is damaged, or the newest is not the one that the session ends with.
        """
        paths = self._layout.segments(stored.key, stored.epoch, numbers)
        known: dict[str, Segment] = {}
        for path, number in zip(paths, numbers, strict=True):
            found = self._known_segments.lookup(path)
            if found is not None and found[0].is_now(stored, number, exactly=exactly):
                known[path] = found[1]
        unknown = [path for path in paths if path not in known]
        telemetry.count_lookups("segments", hits=len(known), misses=len(unknown))
        pauses = Pauses()
        for start in range(0, len(unknown), _SEGMENTS_PER_READ):
            some = unknown[start : start + _SEGMENTS_PER_READ]
            documents = [one for one in await self._documents.get(some) if one is not None]
            archives = await self._archives(stored, documents)
            if len(documents) < len(some) or archives is None:
                return None
            for path, document in zip(some, documents, strict=True):
                known[path] = read_segment(document, archives.get(path))
                self._known_segments.put(path, (AsOf.of(stored), known[path]))
                if pauses.is_due:
                    await pauses.pause()
        segments = [known[path] for path in paths]
        ends = segments and numbers[-1] == newest_live(stored.sealed, stored.cut)
        if ends and segments[-1].running_max != stored.sealed_max:
            # One commit writes both: others follow it that the session does not count.
            raise StoredDataError(f"{self._layout.session(stored.key)} does not end with {paths[-1]}")
        return segments

    async def _archives(
        self, stored: StoredSession, documents: Sequence[Document]
    ) -> dict[str, bytes] | None:
        """Return the archived events of segments by their paths; ``None`` if others changed them.

        Raises:
            PayloadMissingError: some are gone or damaged.
        """
        refs = {one.path: ref for one in documents if (ref := archive_of(one)) is not None}
        if not refs:
            return {}
        try:
            mine = self._layout.session_payloads(stored.key, stored.epoch)
            found = await self._fetch(mine, {*refs.values()})
        except PayloadMissingError:
            if await self.lost(stored):
                return None
            raise
        return {path: found[ref] for path, ref in refs.items()}


def segment_missing(stored: StoredSession) -> StoredDataError:
    """Return the error for a session that lacks a segment."""
    return StoredDataError(f"one of the {len(stored.live)} segments is missing: gcp-adk-store fsck names it")

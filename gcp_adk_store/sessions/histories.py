"""Read histories: a session at a point, what a session used, and all events of a user."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.codec.cursors import decode_user_event_cursor, encode_user_event_cursor
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Page
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.model.history import Point, require_point
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.segment_numbers import is_cut
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.model.usage import SessionUsage, UsageCounter
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.lru import Lru
from gcp_adk_store.operations.pauses import Pauses, apart
from gcp_adk_store.sessions.arguments import (
    beyond,
    require_either,
    require_limit,
    require_place,
    require_time,
)
from gcp_adk_store.sessions.completion import decode_events, decoded
from gcp_adk_store.sessions.handle import to_session
from gcp_adk_store.sessions.iterations import IterationMethods
from gcp_adk_store.sessions.reader import NOT_FOUND
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.sessions.unreadable import place_by_update

_SESSIONS_PER_READ: Final = 16
"""Session documents, of 1 MiB at most, that an iteration over a user's events holds."""

_KNOWN_SESSIONS: Final = 1000
"""Sessions of which an iteration over a user's events knows how far it came: some 100 kB."""

_LIGHT_TURNS: Final = 500
"""Turns that are added up in some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEvent:
    """An event of one of a user's sessions."""

    session_id: str
    event: Event
    cursor: str
    """With it, an iteration of the same user and *after* continues after this event."""


class HistoryMethods(IterationMethods):
    """The methods of the session service that go through the events of sessions.

    The service's constructor sets the attributes.
    """

    _storage: SessionStorage

    @operation
    async def get_session_at(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: Point,
        unknown_initial: Literal["raise", "omit"] = "raise",
    ) -> Session | None:
        """Return a session as it was at a point, or ``None``; it costs what :meth:`get_session` does.

        The events and the session's own state are exactly those of the point. The state of the user and the
        app is today's. An initial state over 64 KiB, and events over 256 KiB after the point, are payloads
        that are read too. An append to the returned session conflicts, as with any handle that others
        overtook, unless the point keeps all events.

        Args:
            app_name: As :meth:`create_session` takes it.
            user_id: As *app_name*.
            session_id: As *app_name*.
            at: The point, such as ``Point.before_invocation("e-1")``.
            unknown_initial: What to do about keys of a session from format 1 that events changed first after
                the point: raise an error, or leave these keys out of the state.

        Raises:
            PointMissingError: the session does not have the point.
            InitialStateUnknownError: the session is from format 1, which does not keep the state that it was
                created with; the error names the keys.
            InvalidInputError: *at* is not a point.
            PayloadMissingError: an event that may have changed the state is gone, also with
                ``on_missing_payload="placeholder"``.
        """
        require_either("unknown_initial", unknown_initial, "raise", "omit")
        require_point(at)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if not key.session:
            return None
        found = await self._reader.find_at(key, at, omit_unknown=unknown_initial == "omit")
        return None if found is None else to_session(found)

    @operation
    async def get_session_usage(self, *, app_name: str, user_id: str, session_id: str) -> SessionUsage:
        """Return the tokens, tool calls and time of a session, by turn and by model.

        They come from all events that the session has when the call begins. Turns that ADK's rewind undid
        count too: their tokens were used. Takes 1 read, and 1 for the next one to eight segments that this
        process does not know; payloads are not read, except those that are a whole event. A history of any
        length takes the memory of a few segments and of its turns.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.

        Raises:
            SessionMissingError: the session does not exist, or was deleted during the read.
            SessionConflictError: another call restored the session during the read.
            PayloadMissingError: an event is a payload that is gone; with
                ``on_missing_payload="placeholder"`` the event counts without tokens, in no turn.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        stored = await self._reader.stored(key)
        if stored is None or stored.has_expired:
            raise SessionMissingError(NOT_FOUND)
        counter = UsageCounter()
        pauses = Pauses()
        async for number, texts in self._runs(stored, 0, backward=False):
            where = self._reader.place_of(stored, number)
            for event in await decode_events(texts, where=where, pauses=pauses):
                counter.add(await self._completed_event(stored, event, only_whole=True))
                if pauses.is_due:
                    await pauses.take()
        return await apart(counter.usage, light=counter.turns <= _LIGHT_TURNS)

    @operation
    async def iter_user_events(
        self,
        *,
        app_name: str,
        user_id: str,
        after: float | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[UserEvent]:
        """Yield the events of all sessions of a user, with payloads, session by session.

        The least recently updated session comes first: one that is updated meanwhile moves to the end, so
        the iteration still comes to it, and yields its new events there. Within a session, events come in
        append order. Each event comes once, if the user has at most 1,000 sessions; beyond that, a session
        that is updated meanwhile may come as a whole again, and so does one that is restored. Sessions that
        have expired or are deleted meanwhile are left out, or end early.

        Takes 1 query for every 16 sessions, which bills 1 read for each; then, for a session with segments,
        1 read for the next one to eight segments that hold later events and that this process does not know.
        Finding the first of them takes 1 read each of about twice the binary logarithm of their number. At
        most 16 session documents and 8 segments are in memory.

        Args:
            app_name: The app.
            user_id: The user.
            after: Unix time in seconds: yields events with a later timestamp, and reads only sessions whose
                last event is later; ``None`` for all. An event is missed if it is later by its writer's clock
                than *after*, and the last event of its session is not: subtract what clocks may differ.
            cursor: ``cursor`` of an event, to continue after it, with the same user and *after*. If its
                session is gone, continues with the next one. Another session that was updated since comes
                with all its events after *after*, so a session may come as a whole again.
            limit: The most events; ``None`` for all.

        Raises:
            InvalidInputError: *after*, *cursor* or *limit* is invalid.
            SessionConflictError: another call restored a session while its events were read; go on from the
                last cursor.
            StoredDataError: a session is damaged, or lacks a part; the error comes after the events of all
                others.
        """
        require_limit(limit)
        if after is not None:
            after = require_time("after", after)
        user = UserKey(app=app_name, user=user_id)
        listing = f"{user} {after}"
        came_to = Lru[str, tuple[str, EventPlace]](_KNOWN_SESSIONS)
        place = None
        if cursor is not None:
            time, session_id, epoch, reached = decode_user_event_cursor(cursor, listing=listing)
            place = time, SessionKey(app=app_name, user=user_id, session=session_id), epoch
            came_to.put(session_id, (epoch, reached))
        count = 0
        damaged: StoredDataError | None = None
        async for last_update, stored in self._updated_sessions(user, after, place):
            session_id, epoch = stored.key.session, stored.epoch
            before = came_to.get(session_id)
            start = before[1] if before is not None and before[0] == epoch else None
            if start is not None and is_cut(start.segment, stored.cut):
                start = None  # it was restored: what comes after that place is not what came after it before
            try:
                async for reached, event in self._later_events(stored, start, after):
                    came_to.put(session_id, (epoch, reached))
                    told = encode_user_event_cursor(
                        listing, last_update, session_id, epoch=epoch, place=reached
                    )
                    yield UserEvent(session_id=session_id, event=event, cursor=told)
                    count += 1
                    if count == limit:
                        return
            except SessionMissingError:
                continue  # another call deleted it, or it has expired
            except StoredDataError as exc:
                damaged = damaged or exc
        if damaged is not None:
            raise damaged

    async def _updated_sessions(
        self, user: UserKey, after: float | None, place: tuple[float, SessionKey, str] | None
    ) -> AsyncIterator[tuple[float, StoredSession]]:
        """Yield living sessions of *user* that were updated later than *after*, by their last update.

        With the *place* of a cursor, these are its session, if it has the epoch, and those after it. The time
        that comes with a session is its own, and for the session of a cursor that of the cursor.

        Raises:
            StoredDataError: a session cannot be read; it comes after all others were yielded.
        """
        documents, layout = self._storage.documents, self._storage.layout
        last: tuple[FieldValue, str] | None = None
        damaged: StoredDataError | None = None
        if place is not None:
            time, key, epoch = place
            last = time, layout.session(key)
            stored = await self._reader.stored(key)
            if stored is not None and stored.epoch == epoch and not stored.has_expired:
                yield time, stored
        elif after is not None:
            last = after, layout.session(SessionKey(app=user.app, user=user.user, session="-"))
        page = Page(field="last_update_time", descending=False, limit=_SESSIONS_PER_READ, after=last)
        while True:
            found = await documents.query(layout.user(user), layout.sessions_collection, page=page)
            for document in found:
                last = place_by_update(document)
                try:
                    stored = await decoded(read_session, document)
                except StoredDataError as exc:
                    damaged = damaged or exc
                    continue
                # The first page begins at *after* itself, with the sessions whose names are later.
                if not stored.has_expired and (after is None or stored.last_update_time > after):
                    yield stored.last_update_time, stored
            if len(found) < page.limit:
                break
            page = replace(page, after=last)
        if damaged is not None:
            raise damaged

    async def _later_events(
        self, stored: StoredSession, start: EventPlace | None, after: float | None
    ) -> AsyncIterator[tuple[EventPlace, Event]]:
        """Yield events of *stored* later than *after*, from *start* on if given, and the place after each."""
        if start is None:
            start = EventPlace(segment=0 if after is None else await self._first_later(stored, after))
        require_place(start, stored)
        pauses = Pauses()
        async for number, texts in self._runs(stored, start.segment, backward=False):
            offset = start.offset if number == start.segment else 0
            if offset > len(texts):
                raise beyond()
            where = self._reader.place_of(stored, number)
            events = await decode_events(texts[offset:], where=where, first=offset, pauses=pauses)
            for index, event in enumerate(events, start=offset):
                if after is None or event.timestamp > after:
                    place = EventPlace(segment=number, offset=index + 1)
                    yield place, await self._completed_event(stored, event)

    async def _first_later(self, stored: StoredSession, after: float) -> int:
        """Return the number of the first segment with an event later than *after*, or that of the tail."""
        if stored.sealed_max is None or stored.sealed_max <= after:
            return stored.sealed
        # The newest times do not fall from segment to segment, and callers mostly ask for recent events.
        live = stored.live
        low, high, step = 0, len(live) - 1, 1
        while low < high:
            middle = max((low + high) // 2, high - step)
            (segment,) = await self._segments(stored, [live[middle]])
            if segment.running_max > after:
                high, step = middle, step * 2
            else:
                low = middle + 1
        return live[low]

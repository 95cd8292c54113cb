"""Give operators and applications what goes beyond ADK's interface: histories, proofs, and upkeep."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from google.adk.sessions import Session

from gcp_adk_store.errors import OutcomeUnknownError, SessionMissingError, StoreError
from gcp_adk_store.kernel.calls import checks_kinds, operation
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.model.history import Point, Redaction, require_point, require_reason
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import DEFAULT_AGE_S, Garbage, require_age
from gcp_adk_store.sessions.append.commit import EventEncoder
from gcp_adk_store.sessions.archive.decide import SessionArchive
from gcp_adk_store.sessions.archive.run import archive
from gcp_adk_store.sessions.collect import Collector
from gcp_adk_store.sessions.fork.run import SessionForks, fork_key
from gcp_adk_store.sessions.fsck.faults import Fault
from gcp_adk_store.sessions.fsck.run import Checker, OnProgress, start_of
from gcp_adk_store.sessions.lifecycle.run import SessionArtifacts, SessionLifecycle
from gcp_adk_store.sessions.listing.usage import SessionUsage, UserEvent, UserEvents, usage_of
from gcp_adk_store.sessions.read.events import SessionEvents
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.session_objects import to_session
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.redact.run import Redactor
from gcp_adk_store.sessions.restore.run import Restorer
from gcp_adk_store.sessions.verify.decide import HistoryProof
from gcp_adk_store.sessions.verify.run import AnchorsOf, verify
from gcp_adk_store.settings import SessionLimits


@checks_kinds
class SessionAdministration(Closing):
    """The methods of the session service beyond ADK's interface: histories, proofs, and upkeep."""

    def __init__(
        self,
        storage: SessionStorage,
        limits: SessionLimits,
        *,
        default_ttl_seconds: float | None,
        skip_missing: bool,
    ) -> None:
        """Prepare; with *skip_missing*, a read replaces payloads that are gone, and a fork omits them."""
        self._storage = storage
        self._limits = limits
        self._default_ttl_s = default_ttl_seconds
        self._encoder = EventEncoder(limits, storage.payloads.place)
        self._reader = SessionReader(
            storage, cache_bytes=limits.segment_cache_bytes, placeholders=skip_missing
        )
        self._lifecycle = SessionLifecycle(storage, self._reader)
        self._events = SessionEvents(storage, self._reader)
        self._user_events = UserEvents(storage, self._reader, self._events)
        self._restorer = Restorer(storage, self._reader, self._lifecycle, self._encoder, limits)
        self._redactor = Redactor(storage, self._reader, self._encoder, limits)
        self._forks = SessionForks(storage, self._reader, self._lifecycle, limits, skip_missing)
        self._collector = Collector(storage, self._reader, self._lifecycle, self._restorer)

    @property
    def storage(self) -> SessionStorage:
        """Where the sessions are stored, for the other services of one store."""
        return self._storage

    @property
    def limits(self) -> SessionLimits:
        """The limits of the service."""
        return self._limits

    @property
    def default_ttl_seconds(self) -> float | None:
        """Seconds after the last append at which its new sessions end; ``None`` for never."""
        return self._default_ttl_s

    @operation
    async def get_session_at(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: Point,
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

        Raises:
            PointMissingError: the session does not have the point.
            InvalidInputError: *at* is not a point.
            PayloadMissingError: an event that may have changed the state is gone, also with
                ``on_missing_payload="placeholder"``.
        """
        require_point(at)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if not key.session:
            return None
        found = await self._reader.read_at(key, at)
        return None if found is None else to_session(found)

    @operation
    async def get_session_usage(self, *, app_name: str, user_id: str, session_id: str) -> SessionUsage:
        """Return the tokens, tool calls and time of a session, by turn and by model.

        They come from all events that the session has when the call begins. Turns that ADK's rewind undid
        count too: their tokens were used. Takes 1 read, and 1 for the next one to eight segments that this
        process does not know; payloads are not read, except those that are a whole event. A history of any
        length takes the memory of a few segments and of its turns.

        Raises:
            SessionMissingError: the session does not exist, or was deleted during the read.
            SessionConflictError: another call restored the session, or redacted an event, during the read.
            PayloadMissingError: an event is a payload that is gone; a placeholder counts without tokens.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await usage_of(key, self._reader, self._events)

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
        have expired or are deleted meanwhile are left out, or end early. One that is restored before the
        iteration comes to it may be missed, as its last update is then an earlier one.

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
            SessionConflictError: another call restored a session, or redacted an event, during the read; go
                on from the last cursor.
            StoredDataError: a session is damaged, or lacks a part; the error comes after the events of all
                others.
        """
        user = UserKey(app=app_name, user=user_id)
        events = self._user_events.iterate(user, after=after, cursor=cursor, limit=limit)
        async with aclosing(events):
            async for event in events:
                yield event

    @operation
    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: Point | None = None,
        to_session_id: str | None = None,
        to_user_id: str | None = None,
        artifacts: SessionArtifacts | None = None,
    ) -> Session:
        """Fork a session without its artifacts; :meth:`gcp_adk_store.Store.fork_session` copies them, too.

        The arguments and errors are those of that method; it passes what copies the *artifacts*.
        """
        if at is not None:
            require_point(at)
        source = SessionKey(app=app_name, user=user_id, session=session_id)
        if not source.session:
            raise SessionMissingError
        return await self._forks.fork(
            source,
            fork_key(source, to_user_id=to_user_id, to_session_id=to_session_id),
            at,
            ttl_seconds=self._default_ttl_s,
            artifacts=artifacts,
        )

    @operation
    async def restore_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: Point,
        artifacts: SessionArtifacts | None = None,
        only_of_events: Sequence[str] | None = None,
    ) -> Session:
        """Take a session back to a point, in one atomic step, and return it.

        Its events and its own state are then exactly those that :meth:`get_session_at` returns. The state of
        the user and the app stays as it is. Handles that were read before conflict at their next append, also
        with ``on_conflict="merge"``: read the session again. The events after the point are lost. A point
        that keeps all events changes nothing, and handles stay valid. The call also finishes restores of the
        session that were interrupted.

        Artifacts stay; ``Store.restore_session`` takes them back, too. Takes 1 read beside 1 query, 1 more
        read for segments that this process does not know, and 1 commit of 1 or 2 writes; then deletes what
        was cut off, and reads the session.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            at: The point, such as ``Point.before_invocation("e-1")``.
            artifacts: What takes them back.
            only_of_events: Restores only if the session has the events of these ids; by default any.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            PointMissingError: the session does not have this point, perhaps because another call restored it
                to an earlier one; nothing was written.
            SessionConflictError: the session has other events than *only_of_events*; nothing was written.
            InvalidInputError: *at* is not a point, or the session's document would exceed Firestore's limits.
            OutcomeUnknownError: not answered, or restored but not read or not finished. Read the session
                before repeating the call.
        """
        require_point(at)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        only_of = None if only_of_events is None else [*only_of_events]
        await self._restorer.restore(key, at, artifacts, only_of_events=only_of)
        try:
            found = await self._reader.find(key, None)
        except StoreError as exc:
            raise OutcomeUnknownError.since(
                exc, f"the session is restored, but could not be read; get it again: {exc}"
            ) from exc
        if found is None:
            raise SessionMissingError("the session was restored, and another call deleted it since")
        return to_session(found)

    @operation
    async def redact_event(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        event_id: str,
        reason: str,
        state: bool = False,
        dry_run: bool = False,
    ) -> Redaction:
        """Replace an event's content by a marker with the hash of what stood there, permanently.

        One commit changes the session document and the segments that hold the event, and appends an event
        that reports it; :meth:`verify_session` still proves the history. All events with this id are
        replaced. Then payloads that nothing else refers to are removed. Handles that were read before keep
        the content in memory, and conflict at their next append, as after any other writer.

        The marker keeps ids, author, times, branch, token counts, and the names of state keys, tools and
        artifacts. A title that repeats a text of the event goes, too. Forks, artifacts, memories and backups
        stay: docs/erasure.md says what to do about them. ``Store.redact_event`` also names memories.

        Reads the whole session; takes 1 commit. An event that was redacted before is not redacted again, and
        what an interrupted call left is removed.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            event_id: The event's id.
            reason: Why, in one line of at most 500 characters; it is stored.
            state: Also set the keys of state to ``None`` that still have the value that the event gave them,
                those of the user and the app too; by default the state stays as it is.
            dry_run: Only say what would be replaced and removed.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            PointMissingError: none of its events has this id; nothing was written.
            InvalidInputError: *reason* is not one line, the event reports a redaction, or a document of the
                session would exceed its limits.
            PayloadMissingError: an event that is a payload as a whole is gone.
            OutcomeUnknownError: not answered, or redacted and something may be left. Call again.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await self._redactor.redact(
            key, event_id, reason=require_reason(reason), state=state, dry_run=dry_run
        )

    @operation
    async def archive_session(
        self, *, app_name: str, user_id: str, session_id: str, before: Point, dry_run: bool = False
    ) -> SessionArchive:
        """Leave a session's events *before* a point out of reads of all, and move them to the bucket.

        :meth:`get_session` then returns the events after the point, and the state as it is. A turn that
        continues after the point stays whole, as does a call with a later response. Other reads have the
        archived events: docs/how-to/long-histories.md. *dry_run* only reports what would move.

        Raises:
            SessionMissingError: the session does not exist.
            PointMissingError: the session does not have the point, or it is among the archived events.
            InvalidInputError: *before* is not a point, or the store has no bucket.
            StoredDataError: the session lacks a segment, or a whole event.
            OutcomeUnknownError: not answered, or done in part. Call again. Look at the session before, if the
                message says that it was restored meanwhile.
        """
        require_point(before, name="before")
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await archive(self._storage, self._reader, key, before, dry_run=dry_run)

    @operation
    async def verify_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        known_events: int | None = None,
        known_head: str | None = None,
        anchors_of: AnchorsOf | None = None,
    ) -> HistoryProof:
        """Check that the events of a session were neither changed, dropped, swapped nor cut off.

        A break names the first event that is not the one that was appended in its place; all events before it
        are proven. If the digests of its document were changed, too, it names the events of that document.
        A redacted event is proven by the hash in its marker, if a later event of the chain reports the
        redaction and has the hash of the marker.

        Whoever can write the database can write a whole new chain, too: against that, keep ``events`` and
        ``head`` of an earlier proof elsewhere, and pass them, or let ``Store.anchor`` keep heads. Reads the
        session document and its segments, past all caches.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            known_events: Number of events of an earlier proof of the session.
            known_head: Head of the same proof.
            anchors_of: Returns anchors to compare the history with; ``Store.verify_session`` passes it.

        Raises:
            SessionMissingError: the session does not exist.
            InvalidInputError: only one of *known_events* and *known_head* is given, or it is malformed.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await verify(
            self._storage, key, known_events=known_events, known_head=known_head, anchors_of=anchors_of
        )

    @operation
    async def check(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        full: bool = False,
        older_than_s: float = DEFAULT_AGE_S,
        on_progress: OnProgress | None = None,
    ) -> AsyncIterator[Fault]:
        """Yield what contradicts the invariants of docs/data-model.md, below the service's prefix.

        Writers may run at the same time: two looks at a session must find the same fault. Faults name ids,
        counts, sizes and hashes, never content. Sessions that have expired are not looked at. Reads each
        session document once, each segment twice, of each chunk the name and the times, and of the bucket
        the names; memory holds 16 documents, the names of one session's parts, and 8 bytes for each of
        its events. It also reads all documents of users' memories, unless *session_id* is given.

        Args:
            app_name: Only this app; by default all.
            user_id: Only this user of it.
            session_id: Only this session of the user.
            full: Also read all payloads, and compare their sizes and hashes.
            older_than_s: Seconds after which a payload without a reference, or a deletion that is not
                complete, is a fault; an hour at least, a day by default.
            on_progress: Called after each session, with counts of what was looked at so far.

        Raises:
            InvalidInputError: *older_than_s* is below an hour, or an id comes without the one above it.
        """
        require_age(older_than_s)
        start = start_of(self._storage.layout, app_name, user_id, session_id)
        async for fault in Checker(self._storage).find(
            start, full=full, older_than_s=older_than_s, on_progress=on_progress
        ):
            yield fault

    @operation
    async def repair(self, faults: Sequence[Fault]) -> list[Fault]:
        """Repair *faults* of :meth:`check` that have a ``repair``; return those that were repaired.

        Each document changes in one commit, and only if no one has written it since it was looked at. Pass
        all faults of a session in one call: the first commit changes the time of its document.

        Raises:
            OutcomeUnknownError: not answered; check again.
        """
        return await Checker(self._storage).repair(faults)

    @operation
    async def find_garbage(self, *, older_than_s: float = DEFAULT_AGE_S) -> AsyncIterator[Garbage]:
        """Yield unreferenced data below the service's prefix that is older than *older_than_s*.

        These are interrupted deletions, restores and forks, and payloads without a reference: of failed
        appends, of values that were replaced, of sessions that Firestore removed. Data of a document that
        cannot be read has the kind ``GarbageKind.UNREADABLE``, and stays. Reads the names of all payloads,
        and the documents that old payloads belong to.

        Args:
            older_than_s: Seconds since the last write, an hour at least, a day by default: far more than the
                time between writing a payload and the commit that refers to it.

        Raises:
            InvalidInputError: *older_than_s* is below an hour.
        """
        async for garbage in self._collector.find(older_than_s=older_than_s):
            yield garbage

    @operation
    async def remove_garbage(self, garbage: Garbage, *, artifacts: SessionArtifacts | None = None) -> bool:
        """Remove what :meth:`find_garbage` found unless it is in use again; return whether it is gone.

        Writers and other collectors may run at the same time. Without *artifacts*, a restore that has some to
        take back stays, and a fork that may have copied some: ``Store.remove_garbage`` passes them.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        return await self._collector.remove(garbage, artifacts)

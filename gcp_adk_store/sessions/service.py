"""Store ADK sessions, as ADK's session service, over any storage."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import EllipsisType
from typing import Any, Final, Literal, Unpack

from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds, operation
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.sessions import read_of
from gcp_adk_store.sessions.administration import SessionAdministration
from gcp_adk_store.sessions.append.content_hooks import ContentHooks
from gcp_adk_store.sessions.append.queue import QueuedAppend
from gcp_adk_store.sessions.append.recorder import SessionRecorder
from gcp_adk_store.sessions.append.run import Appender
from gcp_adk_store.sessions.append.turn import ENTERED, held
from gcp_adk_store.sessions.describe.decide import Description, SessionInfo
from gcp_adk_store.sessions.describe.run import describe, find_info
from gcp_adk_store.sessions.listing.sessions import Listings, SessionPage
from gcp_adk_store.sessions.read.events import SessionEvent
from gcp_adk_store.sessions.read.session_objects import made_session, to_session
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings import SessionLimits
from gcp_adk_store.settings.options import SessionOptions, require_options


@checks_kinds
class SessionService(SessionAdministration, BaseSessionService):
    """ADK's session service over any storage, for any number of processes, threads and event loops.

    ``async with`` closes the connections of its storage. It can be made before the process forks. It cannot
    be pickled. :class:`~gcp_adk_store.FirestoreSessionService` makes one over Firestore, and
    :meth:`Store.local` one over a folder.

    Guarantees: an acknowledged create or append is durable and visible to every later read. An append
    is atomic over event, session, user and app state, and happens exactly once under retries and lost
    answers; a failed append changes neither storage nor the caller's ``Session``, except ``temp:`` keys.
    Events keep their append order. ``get_session`` returns a session equal to that of the process that
    appended.

    Every method may raise :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError`, :class:`~gcp_adk_store.errors.NotProvisionedError`
    and :class:`~gcp_adk_store.errors.StoredDataError`, in addition to the errors that it names.
    """

    def __init__(self, storage: SessionStorage, **options: Unpack[SessionOptions]) -> None:
        """Prepare the service; nothing is read or written before the first call.

        Args:
            storage: Where the sessions are; :meth:`close` closes it.
            options: As docs/reference/options.md describes them.

        Raises:
            InvalidInputError: an option is unknown or malformed, or *storage* does not encrypt and
                ``encryption`` is given.
        """
        require_options(options, SessionService)
        if options.get("encryption") is not None and storage.encryption is None:
            raise InvalidInputError(
                "encryption= belongs to what makes the storage: FirestoreSessionService, Store.connect or "
                "Store.local; this storage does not encrypt"
            )
        on_conflict = options.get("on_conflict", "raise")
        on_missing_payload = options.get("on_missing_payload", "raise")
        durability = options.get("durability", "event")
        default_ttl_seconds = options.get("default_ttl_seconds")
        self.history: Final = options.get("history", "full")
        if default_ttl_seconds is not None:
            Expiry.begin(default_ttl_seconds, now=0)  # refuses an invalid one
        limits = options.get("limits") or SessionLimits()
        super().__init__(
            storage,
            limits,
            default_ttl_seconds=default_ttl_seconds,
            skip_missing=on_missing_payload == "placeholder",
        )
        redactors = options.get("redactors") or ()
        self._hooks = ContentHooks(redactors, timeout_s=limits.redactor_timeout_s) if redactors else None
        self._listings = Listings(storage, self._reader)
        running = Limiter(
            at_once=limits.max_in_flight, max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s
        )
        self._appender = Appender(
            SessionRecorder(storage, self._reader),
            self._encoder,
            limits,
            merging=on_conflict == "merge",
            running=running,
        )
        self._defers = durability == "turn"
        self._bounds = Bounds(
            SessionService,
            system=telemetry.FIRESTORE,
            deadlines_s=limits.deadlines_s,
            limiter=running,
            ready=self._appender.ready,
        )

    @operation
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
        ttl_seconds: float | None = None,
    ) -> Session:
        """Make a session; 1 commit beside 1 read.

        Args:
            app_name: Any text up to 1,500 bytes as a Firestore name.
            user_id: As *app_name*.
            state: Initial state; ``app:`` and ``user:`` keys change the shared state in the same
                commit, ``temp:`` keys are dropped.
            session_id: As *app_name*, without the spaces around it; blank or ``None`` takes a random one.
            ttl_seconds: Seconds after the last append at which the session ends, by Firestore's clock,
                rounded up: then it is not found, and its id is free. Firestore removes its documents if it
                has the TTL policies of docs/data-model.md. At most 100 years; by default that of the
                service, which by default keeps sessions forever.

        Returns:
            The session with its merged state, equal to what :meth:`get_session` returns.

        Raises:
            SessionExistsError: the id is taken; nothing was written.
            InvalidInputError: an id or a state key is too long, or a value or *ttl_seconds* cannot be
                stored.
            RedactorError: a redactor failed; nothing was written.
            OutcomeUnknownError: not answered; the session may exist.
        """
        if session_id is None or not session_id.strip():
            session_id = platform_uuid.new_uuid()
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        now = platform_time.get_time()
        given: Mapping[str, Any] = state or {}
        initial = await self._encoder.of_state(
            given if self._hooks is None else await self._hooks.of_state(given)
        )
        marker, merged = await self._lifecycle.create(
            key,
            epoch=platform_uuid.new_uuid().replace("-", ""),
            time=now,
            initial=initial,
            ttl_seconds=self._default_ttl_s if ttl_seconds is None else ttl_seconds,
        )
        return made_session(key, state=merged, events=[], last_update_time=now, marker=marker)

    @operation
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with merged state, or ``None``; 1 read, 1 more for sealed segments.

        *config* chooses events at or after ``after_timestamp``, then the last ``num_recent_events`` of
        them; the returned session is the caller's own. A :class:`~gcp_adk_store.HistoryConfig` asks for the
        full history, or for what ADK needs of it since its summaries; it goes before ``history=``.

        Raises:
            InvalidInputError: *config* asks for the events since a compaction, and for others.
        """
        config = read_of(config, self.history)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if not key.session:
            return None
        hold = held(self._storage, key) if ENTERED.get() else None
        found = None if hold is None else hold.read_already(config)
        if found is None:
            found = await self._reader.find(key, config, follows=hold is not None)
        return None if found is None else to_session(found)

    @operation
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return sessions with merged state and without events, least recently updated first.

        1 query beside 1 read for a user; for all users of the app, 1 query, then 1 read for the state of
        every 500 users. The empty string is a user like any other.

        A session that cannot be read is left out, because the answer has no place for it, and a warning in
        the log names it; :meth:`list_sessions_page` returns such sessions apart.

        Raises:
            StoredDataError: none of the sessions can be read, or the state of the app, or of *user*.
        """
        return await self._listings.all_of(app_name, user_id)

    @operation
    async def list_sessions_page(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        page_size: int = 50,
        cursor: str | None = None,
        order: Literal["newest", "oldest"] = "newest",
        include_state: bool = True,
        labels: Mapping[str, str] | None = None,
        updated_after: float | None = None,
    ) -> SessionPage:
        """Return one page of the sessions of a user or an app by last update, without events.

        For a user, 1 query beside 1 read; for all users of the app, 1 query, then 1 read of the state of
        those on the page. Firestore bills 1 read for each session of the page and each scope of state, while
        :meth:`list_sessions`, for which ADK has no pages, reads all sessions. A session that is updated
        between two pages moves to its new place. A page omits expired sessions, so it may hold fewer than
        *page_size* and still have a successor. ``infos`` of the page has title, labels, numbers of events and
        turns, and the last message of each session; it takes no further read. A session that cannot be read
        is in ``unreadable`` of the page, with what is wrong and the command that looks at it.

        Args:
            app_name: The app.
            user_id: The user; ``None`` for all of the app, which needs an index (docs/data-model.md).
            page_size: The most sessions of the page, 1 to 1,000.
            cursor: ``next_cursor`` of the page before, of the same user, order, *labels* and
                *updated_after*.
            order: The most or the least recently updated first.
            include_state: Whether sessions have their merged state; without it their state is empty, and is
                not read.
            labels: Lists only sessions that have all these labels, which needs an index. The database finds
                the first label by the index; the others are compared in this process, and sessions that
                lack one are read and omitted. So begin with the label that the fewest sessions have.
            updated_after: Unix time in seconds: lists only sessions whose last event, or else creation, has a
                later time.

        Raises:
            InvalidInputError: an argument is invalid.
            NotProvisionedError: the database has no index for such pages; the error has the command.
        """
        return await self._listings.page(
            app_name,
            user_id,
            page_size=page_size,
            cursor=cursor,
            order=order,
            include_state=include_state,
            labels=labels,
            updated_after=updated_after,
        )

    @operation
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session and its events; a missing session is accepted.

        Its artifacts stay, as with ADK's services: a new session with this id has them. Delete both with
        :meth:`Store.delete_session`. After the first commit, readers and writers do not find the session. The
        next call removes the remains of an interrupted deletion.

        Raises:
            OutcomeUnknownError: not answered; the session may be gone. Calling again is safe.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if key.session:
            await self._lifecycle.delete(key)

    @operation(limited=False)
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event* and its change of state, then apply both to *session*; 1 commit.

        Appends of this process to one session that wait for each other go in one commit, in their order, as
        long as each event is small and *session* is the same, or ``on_conflict="merge"``. Each has its own
        outcome: an event that cannot be stored does not affect the others.

        A partial event is returned unchanged. An equal event that is stored already is not stored again, if
        *session* holds it or this process stored it lately. Cancelling the caller does not stop an append
        that began, as long as its event loop runs: *session* stays equal to storage. Large content becomes
        payloads, which are written first.

        With ``durability="turn"`` it returns when the order of the event is certain, and commits run in the
        background. The final response of an agent waits until all before it are stored. So does a summary of
        ADK's event compaction, which ADK gives up if it conflicts. An event that was not stored after its
        append returned is an error of the next append through *session*, of the end of the turn, or of
        :meth:`flush`; nothing more is stored through *session* then.

        An event of ADK's ``Runner.rewind_async`` is stored with the state delta that leaves the session's own
        state as :meth:`get_session_at` says; keys that it did not have become ``None``. It takes 1 read, and
        1 more each time that it follows an event of another writer.

        A store with ``index_on_append=True`` remembers the event afterwards, beside the caller; that never
        fails the append. :meth:`flush` waits for it.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            SessionConflictError: another writer was first; nothing was written. Reload and decide again,
                or use ``on_conflict="merge"``.
            InvalidInputError: the event is not JSON, a piece of it is over
                ``SessionLimits.max_payload_bytes``, or the state would exceed Firestore's limits.
            TurnLostError: the append is a part of a turn, and the turn has ended; nothing was written.
            RedactorError: a redactor failed or took too long; nothing was written.
            OutcomeUnknownError: not answered before the deadline; reload before repeating.
        """
        if event.partial:
            return event
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        hold = held(self._storage, key) if ENTERED.get() else None
        if hold is not None:
            hold.require_running()
        redacted = event if self._hooks is None else await self._hooks.of_event(event)
        mine = QueuedAppend(session, redacted, asyncio.get_running_loop(), hold=hold, given=event)
        if self._defers or (hold is not None and hold.defers):
            return await self._appender.append_deferred(key, mine, waits=not self._defers)
        return await self._appender.append(key, mine)

    async def flush(self) -> None:
        """Wait for the running appends of this event loop, also those whose caller was cancelled.

        Of a store with ``index_on_append=True``, also until their memories are stored, or the log says that
        they are not.

        ADK's servers call it when they end, and do not close the service. Every acknowledged write is durable
        before, unless ``durability="turn"`` acknowledges it early.

        Raises:
            StoreError: with ``durability="turn"``, an append failed, and its error was not raised yet.
        """
        await self._appender.flush()

    async def flush_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Wait until the appends of this event loop to one session are stored.

        Raises:
            StoreError: with ``durability="turn"``, one of them failed, and its error was not raised yet.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        await self._appender.flush_session(key, held(self._storage, key))

    @operation
    async def iter_events(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        cursor: str | None = None,
        limit: int | None = None,
        direction: Literal["forward", "backward"] = "forward",
        follow: bool = False,
    ) -> AsyncGenerator[SessionEvent]:
        """Yield the events of a session one by one, with payloads, in append order or in reverse.

        They are those that the session has when the first one is requested. Takes 1 read then, and 1 for the
        next one to eight segments that this process does not know: a history of any length takes little
        memory.

        With *follow*, it goes on: it yields each event that any process appends, once and in append order,
        until the session is gone or the caller stops. Each change of the session document is 1 read, and
        holds the new events; a segment is read only if it was sealed together with events that were not
        yielded yet. Waiting costs nothing on Firestore. A local store yields the events of its own process at
        once, and those of others within half a second. A lost connection is opened again, which is 1 read,
        with growing waits of a minute at most. To begin with the last *n* events, pass the cursor of the
        *n*-th event of ``direction="backward"``.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            cursor: ``cursor`` of an event, to continue after it in *direction*; appends do not invalidate
                it. By default all events.
            limit: The most events; ``None`` for all.
            direction: ``forward`` from the oldest on, ``backward`` from the newest on.
            follow: Whether to wait for further events after the last one; only ``forward``.

        Raises:
            SessionMissingError: the session does not exist, or *cursor* belongs to an earlier one of its id;
                with *follow*, also when it is deleted or expires, also if another one then has its id.
            SessionConflictError: another call restored the session during the iteration, and events are gone:
                read the session again, and follow it anew. Without *follow*, also if another call redacted an
                event, and its content went before it was read.
            InvalidInputError: *cursor*, *limit* or *direction* is invalid, or a restore of the session took
                away the place of *cursor*: those of segments before the restore's point go on.
            UnavailableError: with *follow*, also when Firestore does not answer any more; go on from the last
                cursor.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        events = self._events.iterate(key, cursor=cursor, limit=limit, direction=direction, follow=follow)
        async with aclosing(events):
            async for event in events:
                yield event

    @operation
    async def get_session_info(self, *, app_name: str, user_id: str, session_id: str) -> SessionInfo | None:
        """Return title, labels, numbers of events and turns, times and last message, or ``None``; 1 read.

        Events are not read.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await find_info(self._storage, key)

    @operation
    async def update_session_info(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        title: str | EllipsisType | None = ...,
        labels: Mapping[str, str | None] | EllipsisType | None = ...,
    ) -> SessionInfo:
        """Change a session's title and labels, and return what it is then; 1 commit after 1 read.

        The session keeps its events, its place in listings, its ``last_update_time`` and its ``expire_at``;
        readers find it for its time to live after this call, unless a TTL policy removes it before. Appends
        do not conflict with this call. The next append through a handle that was read before takes 1 read and
        1 commit more. Of two changes at the same time, the later one sees the earlier one. Without a change,
        nothing is written.

        Args:
            app_name: As :meth:`create_session` takes it.
            user_id: As *app_name*.
            session_id: As *app_name*.
            title: One line of at most 256 characters; ``None`` removes the title.
            labels: Labels to set; those that are not named stay. The value ``None`` removes a label, and
                ``None`` as a whole removes all. A session has at most 64 labels. A name has 1 to 63
                letters and digits of any language, ``_``, ``-`` and ``.``, and begins with a letter or a
                digit; a value is a line of at most 63 characters and may be empty.

        Raises:
            SessionMissingError: the session does not exist.
            InvalidInputError: the title or a label is over its limit or malformed; nothing was written.
            OutcomeUnknownError: not answered; the change may be stored. Calling again is safe.
        """
        if isinstance(title, str) and self._hooks is not None:
            title = await self._hooks.of_values(title)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await describe(self._storage, key, Description(title=title, labels=labels))

    @operation
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state, keys without prefix; 1 read."""
        return dict(await self._reader.user_state(UserKey(app=app_name, user=user_id)))

    async def close(self) -> None:
        """Wait as :meth:`flush` does, then close own connections, also if an append failed."""
        try:
            await self.flush()
        finally:
            await self._storage.close()

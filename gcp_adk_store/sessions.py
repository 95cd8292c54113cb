"""Offer the recorded sessions as ADK's session service."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.auth.credentials import Credentials

from gcp_adk_store.backends.channels import ClientInterceptor, FirestoreClient
from gcp_adk_store.backends.firestore import open_documents
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.events import encode_event
from gcp_adk_store.errors import SessionConflictError
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import Append, Marker, StoredSession, is_held
from gcp_adk_store.model.state import ScopedState, merge_scopes, persistent, split_scopes
from gcp_adk_store.recorder import SessionRecorder
from gcp_adk_store.reported import reported
from gcp_adk_store.settings import SessionLimits, StoreSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")


class FirestoreSessionService(BaseSessionService):
    """ADK's session service on Firestore, for any number of processes, threads and event loops.

    Guarantees: an acknowledged create or append is durable and visible to every later read. An append
    is atomic over event, session, user and app state, and happens exactly once under retries and lost
    answers; a failed one changes neither storage nor the caller's ``Session`` (``temp:`` keys aside).
    Events come back in append order. ``get_session`` equals the session that the appending process
    holds.

    With ``FIRESTORE_EMULATOR_HOST`` set it talks to that emulator, without credentials.

    Every method may raise :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError`, :class:`~gcp_adk_store.errors.NotProvisionedError`
    and :class:`~gcp_adk_store.errors.StoredDataError`, beside what it names itself.
    """

    def __init__(
        self,
        *,
        project: str | None = None,
        database: str = "(default)",
        prefix: str = "adk",
        client: FirestoreClient | None = None,
        credentials: Credentials | None = None,
        limits: SessionLimits | None = None,
        interceptors: Sequence[ClientInterceptor] = (),
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            project: Google Cloud project; by default ``GOOGLE_CLOUD_PROJECT``, then that of the
                credentials.
            database: Firestore database id.
            prefix: Start of the collections' names; services with different ones never meet.
            client: A ``google.cloud.firestore.AsyncClient`` to borrow: it decides project and database,
                stays open on :meth:`close`, and works in the event loop it was first used in only.
            credentials: By default those of the environment.
            limits: Sizes and deadlines.
            interceptors: gRPC client interceptors that see every RPC, for tracing or metering.

        Raises:
            InvalidInputError: *prefix*, *project* or *database* cannot be a name.
        """
        place = StoreSettings(project=project, database=database, prefix=prefix)
        self._limits = limits or SessionLimits()
        self._recorder = SessionRecorder(
            open_documents(
                project=place.project,
                database=place.database,
                credentials=credentials,
                client=client,
                interceptors=interceptors,
                limits=self._limits,
            ),
            Layout(place.prefix),
        )
        # Locks keep the appends of this process in order, so that one handle shared by several tasks
        # never conflicts with itself; what makes a write correct is its precondition.
        self._locks: WeakKeyDictionary[
            asyncio.AbstractEventLoop, WeakValueDictionary[SessionKey, asyncio.Lock]
        ] = WeakKeyDictionary()
        self._unawaited: set[asyncio.Task[Any]] = set()

    @reported
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Make a session; 1 commit beside 1 read.

        Args:
            app_name: Any text up to 1,500 bytes as a Firestore name.
            user_id: As *app_name*.
            state: Initial state; ``app:`` and ``user:`` keys change the shared state in the same
                commit, ``temp:`` keys are dropped.
            session_id: As *app_name*, padding does not count; blank or ``None`` draws one.

        Returns:
            The session with its merged state, equal to what :meth:`get_session` returns.

        Raises:
            SessionExistsError: the id is taken; nothing was written.
            InvalidInputError: an id or a state key is too long, or a value cannot be stored.
            OutcomeUnknownError: not answered; the session may exist.
        """
        if session_id is None or not session_id.strip():
            session_id = platform_uuid.new_uuid()
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        now = platform_time.get_time()
        marker, merged = await self._recorder.create(
            key,
            epoch=platform_uuid.new_uuid().replace("-", ""),
            time=now,
            state=split_scopes(persistent(state or {})),
        )
        return _session(key, state=merged, events=[], last_update_time=now, marker=marker)

    @reported
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with merged state, or ``None``; 1 read, 1 more for sealed segments.

        *config* chooses events at or after ``after_timestamp``, then the last ``num_recent_events`` of
        them; the returned session is the caller's own.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if not key.session:
            return None
        found = await self._recorder.find(key, config)
        return None if found is None else _read(found.stored, found.shared, found.events)

    @reported
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event* and its change of state, then apply both to *session*; 1 commit.

        A partial event is returned as it is. An event that *session* holds already, equal in all, is
        not stored again. Once sent, an append is seen through even if the caller is cancelled, so that
        *session* stays in step with storage.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            SessionConflictError: another writer was first; nothing was written. Reload and decide again.
            InvalidInputError: the event is over ``SessionLimits.max_event_bytes``, is no JSON, or the
                document would exceed Firestore's limits.
            OutcomeUnknownError: not answered before the deadline; reload before repeating.
        """
        if event.partial:
            return event
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        return await self._see_through(self._append_in_turn(key, session, event), what=f"append_event {key}")

    @reported
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return sessions with merged state and without events, least recently updated first.

        1 query beside 1 read for a user; for all users of the app, 1 query, then 1 read for the state of
        every 500 users. The empty string is a user like any other.
        """
        listed = await self._recorder.listing(app_name, user_id)
        sessions = [_read(stored, shared, []) for stored, shared in listed]
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    @reported
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session and its events; one that does not exist is no error.

        From the first commit on the session is gone for readers and writers. What an interrupted
        deletion left is removed by the next call.

        Raises:
            OutcomeUnknownError: not answered; the session may be gone. Calling again is safe.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if key.session:
            await self._recorder.delete(key)

    @reported
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state with raw keys, empty when there is none; 1 read."""
        return await self._recorder.user_state(UserKey(app=app_name, user=user_id))

    async def flush(self) -> None:
        """Return at once: every acknowledged write is durable already."""

    async def close(self) -> None:
        """Wait for the appends of this loop that nobody awaits any more, then close own connections."""
        loop = asyncio.get_running_loop()
        mine = [task for task in self._unawaited if task.get_loop() is loop]
        if mine:
            await asyncio.wait(mine)
        await self._recorder.close()

    async def _append_in_turn(self, key: SessionKey, session: Session, event: Event) -> Event:
        async with self._lock(key):
            self._apply_temp_state(session, event)
            delta = persistent(event.actions.state_delta)
            append = Append(
                text=encode_event(event, state_delta=delta, max_bytes=self._limits.max_event_bytes),
                timestamp=event.timestamp,
                delta=split_scopes(delta),
            )
            # That the handle holds an equal event may mean that it was delivered before, and it may not.
            if is_held(event, session.events) and await self._recorder.holds(key, append):
                return self._trim_temp_delta_state(event)
            while True:
                marker = _marker(session)
                try:
                    appended = await self._recorder.append(key, append, marker)
                    break
                except SessionConflictError:
                    if _marker(session) == marker:
                        raise
                    # Not another writer: this very handle was advanced from another event loop.
            # Nothing awaits until the caller's session is as storage is.
            event = self._trim_temp_delta_state(event)
            event.actions.state_delta = delta
            self._update_session_state(session, event)
            session.events.append(event)
            session.last_update_time = event.timestamp
            _mark(session, appended.marker)
            if appended.tail_bytes >= self._limits.seal_tail_bytes:
                _mark(session, await self._recorder.seal(key, appended.marker))
            return event

    def _lock(self, key: SessionKey) -> asyncio.Lock:
        locks = self._locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        return locks.setdefault(key, asyncio.Lock())

    async def _see_through(self, work: Coroutine[Any, Any, T], *, what: str) -> T:
        """Await *work* so that cancelling the caller does not cancel it."""
        task = asyncio.create_task(work)
        self._unawaited.add(task)
        task.add_done_callback(self._unawaited.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: _report_unawaited(done, what))
            raise


def _marker(session: Session) -> Marker | None:
    # ADK's place for what a service knows of the stored session; no public way leads to it.
    return Marker.parse(session._storage_update_marker)  # noqa: SLF001


def _mark(session: Session, marker: Marker | None) -> None:
    session._storage_update_marker = None if marker is None else str(marker)  # noqa: SLF001


def _read(stored: StoredSession, shared: ScopedState, events: list[Event]) -> Session:
    return _session(
        stored.key,
        state=ScopedState(app=shared.app, user=shared.user, session=stored.state),
        events=events,
        last_update_time=stored.last_update_time,
        marker=stored.marker,
    )


def _session(
    key: SessionKey, *, state: ScopedState, events: list[Event], last_update_time: float, marker: Marker
) -> Session:
    session = Session(
        id=key.session,
        app_name=key.app,
        user_id=key.user,
        state=merge_scopes(state),
        events=events,
        last_update_time=last_update_time,
    )
    _mark(session, marker)
    return session


def _report_unawaited(task: asyncio.Task[Any], what: str) -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.warning("%s failed after its caller was cancelled: %s", what, type(failure).__name__)

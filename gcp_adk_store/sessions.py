"""Offer the recorded sessions as ADK's session service."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.auth.credentials import Credentials

from gcp_adk_store.backends.channels import ClientInterceptor, FirestoreClient
from gcp_adk_store.backends.firestore import open_documents
from gcp_adk_store.backends.gcs import StorageClient
from gcp_adk_store.backends.payloads import open_payloads
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.event_payloads import is_large
from gcp_adk_store.codec.events import EncodedEvent, EventLimits, encode_event
from gcp_adk_store.codec.payloads import Spilled, spill_scopes
from gcp_adk_store.delivered import DeliveredEvents
from gcp_adk_store.errors import InvalidInputError, SessionConflictError, StoreError
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import Append, Marker, may_be_held
from gcp_adk_store.model.state import ScopedState, merge_scopes, persistent, split_scopes
from gcp_adk_store.reader import Found, SessionReader
from gcp_adk_store.recorder import SessionRecorder
from gcp_adk_store.reported import reported
from gcp_adk_store.segment_cache import SegmentCache
from gcp_adk_store.settings import SessionLimits, StoreSettings
from gcp_adk_store.turns import Turns

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
        bucket: str | None = None,
        client: FirestoreClient | None = None,
        storage: StorageClient | None = None,
        credentials: Credentials | None = None,
        on_conflict: Literal["raise", "merge"] = "raise",
        limits: SessionLimits | None = None,
        interceptors: Sequence[ClientInterceptor] = (),
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            project: Google Cloud project; by default ``GOOGLE_CLOUD_PROJECT``, then that of the
                credentials.
            database: Firestore database id.
            prefix: Start of the collections' names; services with different ones never meet.
            bucket: Bucket for large payloads; without one they are kept in Firestore documents.
            client: A ``google.cloud.firestore.AsyncClient`` to borrow: it decides project and database,
                stays open on :meth:`close`, and works in the event loop it was first used in only.
            storage: A ``google.cloud.storage.Client`` to borrow for the *bucket*.
            credentials: By default those of the environment.
            on_conflict: What an append does when another writer was first: ``raise`` tells the caller,
                ``merge`` stores the event after the others' and lets the caller's session learn them.
            limits: Sizes and deadlines.
            interceptors: gRPC client interceptors that see every RPC, for tracing or metering.

        Raises:
            InvalidInputError: a name cannot be one, or *on_conflict* is neither of the two.
        """
        place = StoreSettings(project=project, database=database, bucket=bucket, prefix=prefix)
        if on_conflict not in ("raise", "merge"):
            raise InvalidInputError(f"on_conflict is {on_conflict!r}, it must be 'raise' or 'merge'")
        self._on_conflict = on_conflict
        self._limits = limits or SessionLimits()
        layout = Layout(place.prefix)
        self._documents = open_documents(
            project=place.project,
            database=place.database,
            credentials=credentials,
            client=client,
            interceptors=interceptors,
            limits=self._limits,
        )
        payloads = open_payloads(
            self._documents,
            bucket=place.bucket,
            project=place.project,
            credentials=credentials,
            client=storage,
            prefix=place.prefix,
        )
        self._payloads = payloads
        self._payload_place = payloads.place
        self._reader = SessionReader(
            self._documents, payloads, layout, SegmentCache(self._limits.segment_cache_bytes)
        )
        self._recorder = SessionRecorder(self._documents, payloads, layout, self._reader)
        # One handle shared by several tasks, threads or loops never conflicts with itself.
        self._turns = Turns()
        self._delivered = DeliveredEvents(self._limits.delivered_events)
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
            initial=self._spill(split_scopes(persistent(state or {}))),
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
        found = await self._reader.find(key, config)
        return None if found is None else _read(found)

    @reported
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event* and its change of state, then apply both to *session*; 1 commit.

        A partial event is returned as it is. An equal event that storage has already is not stored again,
        if *session* holds it or this process stored it lately. Once begun, an append is seen through even
        if the caller is cancelled (as long as its event loop runs), so that *session* stays in step with
        storage. Large content leaves for payloads, which are written first.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            SessionConflictError: another writer was first; nothing was written. Reload and decide again,
                or use ``on_conflict="merge"``.
            InvalidInputError: the event is no JSON, a piece of it is over
                ``SessionLimits.max_payload_bytes``, or the state would exceed Firestore's limits.
            OutcomeUnknownError: not answered before the deadline; reload before repeating.
        """
        if event.partial:
            return event
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        await self._turns.take(key)  # cancelled here, nothing was sent
        return await self._see_through(key, self._append(key, session, event))

    @reported
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return sessions with merged state and without events, least recently updated first.

        1 query beside 1 read for a user; for all users of the app, 1 query, then 1 read for the state of
        every 500 users. The empty string is a user like any other.
        """
        sessions = [_read(found) for found in await self._reader.listing(app_name, user_id)]
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
        return dict(await self._reader.user_state(UserKey(app=app_name, user=user_id)))

    async def flush(self) -> None:
        """Return at once: every acknowledged write is durable already."""

    async def close(self) -> None:
        """Wait for the appends of this loop that nobody awaits any more, then close own connections."""
        loop = asyncio.get_running_loop()
        mine = [task for task in self._unawaited if task.get_loop() is loop]
        if mine:
            await asyncio.wait(mine)
        await self._documents.close()
        await self._payloads.close()

    async def _append(self, key: SessionKey, session: Session, event: Event) -> Event:
        self._apply_temp_state(session, event)
        delta = persistent(event.actions.state_delta)
        encoded = await self._encode(event, delta)
        change = self._spill(split_scopes(delta))
        change = replace(change, session=[*change.session, *encoded.payloads])
        append = Append(
            text=encoded.text,
            timestamp=event.timestamp,
            delta=change.state,
            spilled=frozenset(payload.ref.place for payload in change.session),
        )
        # An event of an id that is known may have been delivered before; whether it was, storage tells.
        known = (key, event.id) in self._delivered or may_be_held(event, session.events)
        if known and await self._recorder.holds(key, append):
            return self._trim_temp_delta_state(event)
        marker = _marker(session)
        missed: _Missed | None = None
        try:
            appended = await self._recorder.append(key, append, marker, change)
        except SessionConflictError:
            if self._on_conflict == "raise" or marker is None:
                raise
            appended = await self._recorder.append(key, append, None, change)
            missed = await self._missed(key, marker)
        self._delivered.add(key, event.id)
        # Nothing awaits until the caller's session is as storage is.
        event = self._trim_temp_delta_state(event)
        event.actions.state_delta = delta
        self._update_session_state(session, event)
        # As it will be read: where JSON changes nothing in it, that is the very event.
        held = event if event == encoded.event else encoded.event
        if not any(known is event for known in session.events):
            session.events.append(held)
        session.last_update_time = event.timestamp
        if missed is not None:
            _learn(session, missed, held)
            return event
        _mark(session, appended.marker)
        if appended.tail_bytes >= self._limits.seal_tail_bytes:
            _mark(session, await self._recorder.seal(key, appended.marker))
        return event

    async def _missed(self, key: SessionKey, marker: Marker) -> "_Missed":
        """Return what a handle with *marker* has to learn after its event was merged."""
        try:
            found = await self._reader.since(key, marker)
        except StoreError as exc:
            # The event is stored; that must not look like a failure. The next append conflicts and learns.
            logger.warning(
                "append_event %s: merged, but what others wrote is not read yet: %s", key, type(exc).__name__
            )
            found = None
        return _Missed(marker=marker, found=found)

    async def _encode(self, event: Event, delta: Mapping[str, Any]) -> EncodedEvent:
        limits = EventLimits(
            inline_bytes=self._limits.inline_bytes,
            text_bytes=self._limits.event_text_bytes,
            payload_bytes=self._limits.max_payload_bytes,
            place=self._payload_place,
        )
        if not is_large(event, over=limits.inline_bytes):
            return encode_event(event, state_delta=delta, limits=limits)
        # Hashing and compressing megabytes would hold up the event loop.
        return await asyncio.to_thread(encode_event, event, state_delta=delta, limits=limits)

    def _spill(self, state: ScopedState) -> Spilled:
        return spill_scopes(
            state,
            over=self._limits.state_value_bytes,
            limit=self._limits.max_payload_bytes,
            place=self._payload_place,
        )

    async def _see_through(self, key: SessionKey, work: Coroutine[Any, Any, T]) -> T:
        """Await *work*, then pass on the turn of *key*; cancelling the caller does not cancel it."""
        task = asyncio.create_task(work)
        # Callbacks, not a block around the work: a task that is cancelled before it starts runs no block.
        task.add_done_callback(lambda _: self._turns.pass_on(key))
        self._unawaited.add(task)
        task.add_done_callback(self._unawaited.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: _report_unawaited(done, f"append_event {key}"))
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missed:
    """What others wrote since a handle's marker; nothing where it could not be read."""

    marker: Marker
    found: Found | None


def _learn(session: Session, missed: _Missed, mine: Event) -> None:
    """Bring *session* up to date in the order of storage; *mine* is the event it just stored."""
    if missed.found is None:
        _mark(session, missed.marker.at(""))
        return
    before = [known for known in session.events if known.id != mine.id]
    known = {event.id for event in before}
    new = [event for event in missed.found.events if event.id not in known]
    session.events[:] = [*before, *(mine if event.id == mine.id else event for event in new)]
    stored = missed.found.stored
    shared = missed.found.shared
    session.state.update(merge_scopes(ScopedState(app=shared.app, user=shared.user, session=stored.state)))
    session.last_update_time = stored.last_update_time
    _mark(session, stored.marker)


def _marker(session: Session) -> Marker | None:
    # ADK's place for what a service knows of the stored session; no public way leads to it.
    return Marker.parse(session._storage_update_marker)  # noqa: SLF001


def _mark(session: Session, marker: Marker | None) -> None:
    session._storage_update_marker = None if marker is None else str(marker)  # noqa: SLF001


def _read(found: Found) -> Session:
    stored = found.stored
    return _session(
        stored.key,
        state=ScopedState(app=found.shared.app, user=found.shared.user, session=stored.state),
        events=found.events,
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

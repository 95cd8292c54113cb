"""Store ADK sessions in Firestore, as ADK's session service."""

import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import partial
from typing import Any, Literal, Self, Unpack

from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.auth.credentials import Credentials

from gcp_adk_store import settings
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import ClientInterceptor, FirestoreClient
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.cloud.storage.calls import StorageCalls, StorageClient
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.expiry import Expiry
from gcp_adk_store.model.garbage import DEFAULT_AGE_S, Garbage
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.bounds import Bounds, operation
from gcp_adk_store.operations.closing import Closing
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.operations.kinds import checks_kinds
from gcp_adk_store.operations.limiter import Limiter
from gcp_adk_store.operations.lru import Lru
from gcp_adk_store.operations.operation import Operation
from gcp_adk_store.sessions.appending import AppendMethods
from gcp_adk_store.sessions.appends import HeldEvents, Spelling, UnderWay
from gcp_adk_store.sessions.arguments import require_either
from gcp_adk_store.sessions.check_methods import CheckMethods
from gcp_adk_store.sessions.content_hooks import ContentHooks, ContentRedactor
from gcp_adk_store.sessions.descriptions import DescriptionMethods
from gcp_adk_store.sessions.fork_methods import ForkMethods
from gcp_adk_store.sessions.forking import SessionForks
from gcp_adk_store.sessions.garbage import Collector
from gcp_adk_store.sessions.handle import made_session, to_session
from gcp_adk_store.sessions.lifecycle import Condition, RemoveCopies, SessionLifecycle
from gcp_adk_store.sessions.listings import ListingMethods
from gcp_adk_store.sessions.payload_store import Payloads
from gcp_adk_store.sessions.queues import Behind, Queues, Waiting
from gcp_adk_store.sessions.reader import SessionReader
from gcp_adk_store.sessions.recorder import SessionRecorder
from gcp_adk_store.sessions.redact_methods import RedactMethods
from gcp_adk_store.sessions.redacting import Redactor
from gcp_adk_store.sessions.restores import PutBack, RestoreMethods, Restorer
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.sessions.verification import VerifyMethods
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
from gcp_adk_store.settings.envelope import KmsEnvelope
from gcp_adk_store.settings.options import SessionOptions, require_options

logger = logging.getLogger(__name__)


@checks_kinds
class FirestoreSessionService(
    AppendMethods,
    CheckMethods,
    VerifyMethods,
    ForkMethods,
    RestoreMethods,
    RedactMethods,
    ListingMethods,
    DescriptionMethods,
    OfOneProcess,
    Closing,
    BaseSessionService,
):
    """ADK's session service on Firestore, for any number of processes, threads and event loops.

    ``async with`` closes the connections that the service opened. It can be made before the process forks. It
    cannot be pickled.

    Guarantees: an acknowledged create or append is durable and visible to every later read. An append
    is atomic over event, session, user and app state, and happens exactly once under retries and lost
    answers; a failed append changes neither storage nor the caller's ``Session``, except ``temp:`` keys.
    Events keep their append order. ``get_session`` returns a session equal to that of the process that
    appended.

    If ``FIRESTORE_EMULATOR_HOST`` is set, the service uses that emulator, without credentials.

    Every method may raise :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError`, :class:`~gcp_adk_store.errors.NotProvisionedError`
    and :class:`~gcp_adk_store.errors.StoredDataError`, in addition to the errors that it names.
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
        credentials: StoreCredentials | Credentials | None = None,
        interceptors: Sequence[ClientInterceptor] = (),
        **options: Unpack[SessionOptions],
    ) -> None:
        """Prepare the service; nothing is contacted before the first call.

        Args:
            project: Google Cloud project; by default ``GOOGLE_CLOUD_PROJECT``, then that of the
                credentials.
            database: Firestore database id.
            prefix: Start of the collections' names; services with different prefixes share no sessions.
            bucket: Bucket for large payloads; by default they are stored in Firestore documents.
            client: A ``google.cloud.firestore.AsyncClient`` to use. It decides project and database.
                :meth:`close` does not close it. It works only in the event loop of its first use.
            storage: A ``google.cloud.storage.Client`` to use for the *bucket*; it stays open, too.
            credentials: Credentials of ``google.auth``, or a :class:`~gcp_adk_store.StoreCredentials` to
                share; by default those of the environment.
            interceptors: gRPC client interceptors that see every RPC, for tracing or metering.
            options: As docs/reference/options.md describes them.

        Raises:
            InvalidInputError: a name or an option is unknown or malformed.
        """
        require_options(options, FirestoreSessionService)
        place = StoreSettings(project=project, database=database, bucket=bucket, prefix=prefix)
        limits = options.get("limits") or SessionLimits()
        credentials = StoreCredentials.of(credentials)  # documents and payloads share its token
        of_calls: dict[str, Any] = {"interceptors": interceptors, "limits": limits}
        opened = partial(open_documents, project=place.project, credentials=credentials, **of_calls)
        documents = opened(database=place.database, client=client)
        objects = None
        if place.bucket is not None:
            requests = ArtifactLimits(deadline_s=limits.payload_deadline_s, max_waiting=limits.max_waiting)
            calls = StorageCalls(
                place.bucket, project=place.project, client=storage, credentials=credentials, limits=requests
            )
            objects = Objects(calls)
        layout = Layout(place.prefix)
        envelope = options.get("encryption")
        if envelope is None:
            self._begin(SessionStorage(documents, Payloads(documents, objects, layout), layout), **options)
            return
        if client is not None or envelope.keys_database == place.database:
            raise InvalidInputError(
                "encryption keeps its keys in a database of its own: leave out client=, and let "
                "keys_database differ from database"
            )
        from gcp_adk_store.sessions.encrypting import encrypted_storage  # noqa: PLC0415  # with its ciphers

        encrypted = encrypted_storage(
            documents,
            objects,
            layout,
            envelope,
            open_keys=lambda database: opened(database=database, client=None),
            credentials=credentials,
        )
        self._begin(encrypted, **options)

    @classmethod
    def over(cls, storage: SessionStorage, **options: Unpack[SessionOptions]) -> Self:
        """Return the service over another *storage* than Firestore; :meth:`close` closes it.

        Raises:
            InvalidInputError: an option is unknown or malformed.
        """
        require_options(options, FirestoreSessionService.over)
        service = cls.__new__(cls)
        service._begin(storage, **options)  # noqa: SLF001  # its own class
        return service

    def _begin(
        self,
        storage: SessionStorage,
        *,
        on_conflict: Literal["raise", "merge"] = "raise",
        on_missing_payload: Literal["raise", "placeholder"] = "raise",
        durability: Literal["event", "turn"] = "event",
        default_ttl_seconds: float | None = None,
        redactors: Sequence[ContentRedactor] = (),
        limits: SessionLimits | None = None,
        encryption: KmsEnvelope | None = None,  # noqa: ARG002  # the storage encrypts
    ) -> None:
        require_either("on_conflict", on_conflict, "raise", "merge")
        require_either("on_missing_payload", on_missing_payload, "raise", "placeholder")
        require_either("durability", durability, "event", "turn")
        if default_ttl_seconds is not None:
            Expiry.begin(default_ttl_seconds, now=0)  # refuses an invalid one
        self._default_ttl_s = default_ttl_seconds
        self._on_conflict = on_conflict
        self._durability = durability
        self._limits = limits or SessionLimits()
        self._hooks = ContentHooks(redactors, timeout_s=self._limits.redactor_timeout_s)
        self._storage = storage
        self._spelling = Spelling(self._limits, self._storage.payloads.place)
        self._reader = SessionReader(
            self._storage,
            cache_bytes=self._limits.segment_cache_bytes,
            placeholders=on_missing_payload == "placeholder",
        )
        self._recorder = SessionRecorder(self._storage, self._reader)
        self._lifecycle = SessionLifecycle(self._storage, self._reader)
        self._restorer = Restorer(self._storage, self._reader, self._spelling, self._limits)
        self._redactor = Redactor(self._storage, self._reader, self._spelling, self._limits)
        self._forks = SessionForks(
            self._storage,
            self._reader,
            self._lifecycle,
            self._limits,
            skip_missing=on_missing_payload == "placeholder",
        )
        self._collector = Collector(self._storage, self._reader, self._lifecycle, self._restorer)
        limiter = partial(
            Limiter, max_waiting=self._limits.max_waiting, longest_wait_s=self._limits.deadline_s
        )
        self.bounds = Bounds(
            FirestoreSessionService,
            system=telemetry.FIRESTORE,
            deadlines_s=self._limits.deadlines_s,
            limiter=limiter(at_once=self._limits.max_in_flight),
            ready=self._ready,
            names_ids=settings.names_ids,
        )
        # Tasks, threads and loops that share one handle do not conflict with each other.
        self._limiter = limiter()
        # Ids of events that this process stored lately: a handle that was read without its events does not
        # hold them. A known id is only a reason to ask storage for the event.
        self._delivered = Lru[tuple[SessionKey, str], bool](self._limits.delivered_events)
        self._held = HeldEvents()
        self.follower = None
        self._queues = Queues()
        self._behind = Behind()
        self._under_way = UnderWay(self._limiter)

    @property
    def hooks(self) -> ContentHooks:
        """Its redactors, for messages that wait for a turn."""
        return self._hooks

    @property
    def storage(self) -> SessionStorage:
        """Where it stores sessions, for the other services of one store."""
        return self._storage

    @property
    def limits(self) -> SessionLimits:
        """Its limits."""
        return self._limits

    @property
    def default_ttl_seconds(self) -> float | None:
        """Seconds after the last append at which its new sessions end; ``None`` for never."""
        return self._default_ttl_s

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
        initial = await self._spelling.of_state(await self._hooks.of_state(state or {}))
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
        them; the returned session is the caller's own.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        if not key.session:
            return None
        found = await self._reader.find(key, config)
        return None if found is None else to_session(found)

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

    def delete_session_if(self, key: SessionKey, condition: Condition) -> Awaitable[bool]:
        """Remove a session if it meets *condition*, for :meth:`Store.prune`; return whether it did."""
        return self._lifecycle.delete_if(key, condition)

    @operation
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state, keys without prefix; 1 read."""
        return dict(await self._reader.user_state(UserKey(app=app_name, user=user_id)))

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
    async def remove_garbage(
        self, garbage: Garbage, *, put_back: PutBack | None = None, remove_copies: RemoveCopies | None = None
    ) -> bool:
        """Remove what :meth:`find_garbage` found unless it is in use again; return whether it is gone.

        Writers and other collectors may run at the same time. A restore that has artifacts to take back stays
        without *put_back*, and a fork that may have copied artifacts without *remove_copies*:
        ``Store.remove_garbage`` calls this with both.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        return await self._collector.remove(garbage, put_back, remove_copies)

    @property
    def permits(self) -> Limiter:
        """The permits by session that appends hold."""
        return self._limiter

    async def _ready(self, operation: Operation) -> None:
        """Wait for the appends that *operation* must see: of the same user, and to the state of the app."""
        if not self._behind:
            return
        app, user = operation.ids.get("app_name"), operation.ids.get("user_id")

        def concerns(key: SessionKey, waiting: Waiting) -> bool:
            of_app = waiting.spelled is not None and bool(waiting.spelled.append.delta.app)
            return app in (None, key.app) and (of_app or user in (None, key.user))

        await self._behind.stored(concerns)

    async def close(self) -> None:
        """Wait as :meth:`flush` does, then close own connections, also if an append failed."""
        try:
            await self.flush()
        finally:
            await self._storage.close()

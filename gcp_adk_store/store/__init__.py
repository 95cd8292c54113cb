"""Own the services of one deployment and their connections."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from google.auth.credentials import Credentials

from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.erasure.anchoring import Anchors, OnAnchored
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.kernel.ports import Backend, Documents
from gcp_adk_store.local.backend import open_backend, open_keys
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.sessions.read.storage import storage_over
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.sessions.verify.decide import AnchorReport, HistoryProof
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
from gcp_adk_store.settings.options import (
    ServiceOptions,
    SessionOptions,
    StoreOptions,
    of_services,
    of_sessions,
    options_of,
    require_options,
)
from gcp_adk_store.store.opening import OtherPlaces, beside_a_backend, beside_a_folder, encrypted
from gcp_adk_store.store.operations import StoreOperations
from gcp_adk_store.tasks.sdk import needs_a2a
from gcp_adk_store.turns.running import Turns

if TYPE_CHECKING:
    from gcp_adk_store.cloud.auth.credentials import StoreCredentials
    from gcp_adk_store.cloud.firestore.channels import FirestoreClient
    from gcp_adk_store.cloud.storage.calls import StorageClient
    from gcp_adk_store.encryption.rotation import RotationReport
    from gcp_adk_store.memory.service import MemoryService
    from gcp_adk_store.tasks import PushNotificationConfigStore, TaskStore

IMPORTED_LATER: Final = {
    "StoreCredentials": "gcp_adk_store.cloud.auth.credentials",
    "FirestoreClient": "gcp_adk_store.cloud.firestore.channels",
    "StorageClient": "gcp_adk_store.cloud.storage.calls",
}
"""Kinds of arguments that no store in a folder has: Google's clients take long to import."""


@checks_kinds
class Store(StoreOperations):
    """Sessions, artifacts, memories and A2A tasks of one deployment; ``async with`` closes their connections.

    ::

        async with Store.from_env() as store:
            runner = Runner(..., session_service=store.sessions, artifact_service=store.artifacts)
    """

    def __init__(
        self,
        *,
        sessions: SessionService,
        artifacts: ArtifactService | None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        """Prepare a store of given services; *options* are those of its memories and tasks.

        Raises:
            InvalidInputError: an option is unknown, malformed, or belongs to a service itself.
        """
        _require(options, Store)
        task_ttl_s = options.get("task_ttl_seconds")
        if task_ttl_s is not None:
            Expiry.begin(task_ttl_s, now=0)  # refuses an invalid one
        encryption = sessions.storage.encryption
        if artifacts is not None and encryption is not None and encryption.envelope.artifacts:
            artifacts = encrypted(artifacts, encryption)
        super().__init__(sessions, artifacts)
        self._turns = Turns(sessions)
        self._options = options
        self._session_options: SessionOptions = {}
        extract = options.get("extract")
        if options.get("index_on_append"):
            from gcp_adk_store.memory.remembering import Remembering  # noqa: PLC0415  # where it is used

            sessions._appender.follower = Remembering(self.memory, extract)  # noqa: SLF001  # of one store
        elif extract is not None:
            raise InvalidInputError("extract= makes memories of appended events; pass index_on_append=True")

    @classmethod
    def connect(
        cls,
        *,
        project: str | None = None,
        database: str = "(default)",
        bucket: str | None = None,
        prefix: str = "adk",
        credentials: "StoreCredentials | Credentials | None" = None,
        impersonate_service_account: str | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a store with connections of its own; it contacts nothing before the first call.

        The arguments are those of :class:`~gcp_adk_store.StoreSettings` and the options of
        docs/reference/options.md. The clients of both services share one token.
        *impersonate_service_account* is short for the *credentials*
        ``StoreCredentials(impersonate_service_account=...)``.

        Raises:
            InvalidInputError: an option is unknown, a setting is malformed, or *impersonate_service_account*
                comes with a :class:`~gcp_adk_store.StoreCredentials`, which has that argument itself.
        """
        _require(options, Store.connect)
        from gcp_adk_store.store.project import open_in_project  # noqa: PLC0415  # with Google's clients

        place = StoreSettings(project=project, database=database, bucket=bucket, prefix=prefix)
        return cls._made(*open_in_project(place, options, credentials, impersonate_service_account))

    @classmethod
    def local(
        cls, path: str | os.PathLike[str], *, prefix: str = "adk", **options: Unpack[StoreOptions]
    ) -> Self:
        """Return a store in a folder of this machine, for any number of its processes; without a cloud.

        The services keep the guarantees of docs/guarantees.md, as far as one machine can: docs/local.md says
        where they differ. The folder is made at the first call.

        Args:
            path: The folder, on a file system of this machine. ``:memory:`` keeps everything in this object.
            prefix: As in :class:`~gcp_adk_store.StoreSettings`.
            options: As docs/reference/options.md describes them.

        Raises:
            InvalidInputError: an option is unknown, or only a cloud store has it; or a setting is malformed.
        """
        _require(options, Store.local)
        place = StoreSettings(local=os.fspath(path), prefix=prefix)
        session_limits = options.get("session_limits") or SessionLimits()
        artifact_limits = options.get("artifact_limits") or ArtifactLimits()
        store = cls.from_backend(
            open_backend(os.fspath(path), session_limits, artifact_limits),
            open_keys=lambda _: open_keys(os.fspath(path), session_limits),
            prefix=place.prefix,
            **options,
        )
        store._beside = beside_a_folder(session_limits, artifact_limits)  # noqa: SLF001  # its own class
        return store

    @classmethod
    def from_backend(
        cls,
        backend: Backend,
        *,
        open_keys: Callable[[str], Documents],
        prefix: str = "adk",
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a store over any backend of documents and objects, such as a simulated one.

        Args:
            backend: What serves the ports.
            open_keys: Returns the database of the data keys, by its name; called only with ``encryption=``.
            prefix: As in :class:`~gcp_adk_store.StoreSettings`.
            options: As docs/reference/options.md describes them.

        Raises:
            InvalidInputError: an option is unknown or malformed.
        """
        _require(options, Store.from_backend)
        documents, objects = backend.documents, backend.objects
        storage = storage_over(documents, objects, prefix, options.get("encryption"), open_keys=open_keys)
        limits = options.get("artifact_limits") or ArtifactLimits()
        artifacts = ArtifactService(backend.objects, backend.uploads, backend.signer, limits)
        sessions = SessionService(storage, **of_sessions(options))
        return cls._made(sessions, artifacts, options, beside_a_backend(backend))

    @classmethod
    def from_env(
        cls,
        *,
        credentials: "StoreCredentials | Credentials | None" = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return the store that ``ADK_STORE_PROJECT``, ``_DATABASE``, ``_BUCKET`` and ``_PREFIX`` name.

        ``ADK_STORE_LOCAL`` names the folder of a local store instead of the first three. Without
        *credentials*, ``ADK_STORE_CREDENTIALS_FILE``, ``ADK_STORE_IMPERSONATE``, ``ADK_STORE_QUOTA_PROJECT``
        and ``GOOGLE_CLOUD_UNIVERSE_DOMAIN`` name the identity.

        Raises:
            InvalidInputError: an option is unknown, or a variable is malformed.
        """
        _require(options, Store.from_env)
        return cls.from_settings(StoreSettings.from_env(), credentials=credentials, **options)

    @classmethod
    def from_settings(
        cls,
        place: StoreSettings,
        *,
        credentials: "StoreCredentials | Credentials | None" = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return the store that *place* names, with its identity unless *credentials* are given.

        Raises:
            InvalidInputError: an option is unknown.
        """
        _require(options, Store.from_settings)
        options.setdefault("encryption", place.encryption)
        if place.local is not None:
            return cls.local(place.local, prefix=place.prefix, **options)
        from gcp_adk_store.store.project import open_in_project  # noqa: PLC0415  # with Google's clients

        return cls._made(*open_in_project(place, options, credentials=credentials))

    @classmethod
    def from_clients(
        cls,
        *,
        firestore: "FirestoreClient",
        storage: "StorageClient | None" = None,
        bucket: str | None = None,
        prefix: str = "adk",
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Return a store over clients that the caller owns and closes.

        Raises:
            InvalidInputError: an option is unknown, only one of *storage* and *bucket* is given, or a setting
                is malformed.
        """
        _require(options, Store.from_clients)
        if (storage is None) != (bucket is None):
            raise InvalidInputError("storage and bucket go together; give both or neither")
        from gcp_adk_store.store.project import open_in_project  # noqa: PLC0415  # as in connect

        place = StoreSettings(bucket=bucket, prefix=prefix)
        return cls._made(*open_in_project(place, options, firestore=firestore, storage=storage))

    @classmethod
    def _made(
        cls,
        sessions: SessionService,
        artifacts: ArtifactService | None,
        options: StoreOptions,
        beside: OtherPlaces | None = None,
    ) -> Self:
        store = cls(sessions=sessions, artifacts=artifacts, **of_services(options))
        store._session_options = of_sessions(options)
        store._beside = beside or store._beside
        return store

    def through(self, documents: Callable[[Documents], Documents]) -> Self:
        """Return this store with something between its services and the database: a proxy of the documents.

        A test, a meter or a simulation stands here: it sees each read and each commit, and may count, delay
        or refuse it. docs/concepts/architecture.md has the port.

        Args:
            documents: Makes the proxy of the documents that it gets; called once, and once more for the
                documents as they are stored if the store encrypts.

        Returns:
            A store over the same connections; closing either closes both.
        """
        storage = self._sessions.storage
        made = documents(storage.documents)
        as_stored = None if storage.as_stored is None else documents(storage.as_stored)
        payloads = storage.payloads.over(made)
        over = replace(storage, documents=made, payloads=payloads, as_stored=as_stored)
        sessions = SessionService(over, **self._session_options)
        store = type(self)(sessions=sessions, artifacts=self._artifacts, **self._options)
        store._session_options = self._session_options  # noqa: SLF001  # its own class
        store._beside = self._beside  # noqa: SLF001
        return store

    @property
    def turns(self) -> Turns:
        """The turns of the sessions: one at a time in each, in all processes."""
        return self._turns

    @cached_property
    def tasks(self) -> "TaskStore":
        """The store of A2A tasks, for ``DefaultRequestHandler(task_store=...)`` of ``a2a-sdk``.

        Raises:
            InvalidInputError: the extra ``a2a`` is not installed.
        """
        with needs_a2a():
            from gcp_adk_store.tasks.task_store import TaskStore  # noqa: PLC0415  # of an extra
        return TaskStore(self._sessions.storage.documents, **self._for_tasks)

    @cached_property
    def memory(self) -> "MemoryService":
        """The memory service, for ``Runner(memory_service=...)``; it shares the connections of the sessions.

        Raises:
            ModuleNotFoundError: an embedder is given, and the extra ``vectors`` is not installed; the message
                has the command.
            InvalidInputError: ``memory_ttl_seconds`` is invalid.
        """
        from gcp_adk_store.memory.service import MemoryService  # noqa: PLC0415  # where it is used

        return MemoryService(
            self._sessions.storage,
            limits=self._options.get("memory_limits"),
            default_ttl_seconds=self._options.get("memory_ttl_seconds"),
            embedder=self._options.get("embedder"),
        )

    @cached_property
    def push_notification_configs(self) -> "PushNotificationConfigStore":
        """The store of receivers of A2A tasks' news, for ``DefaultRequestHandler(push_config_store=...)``.

        Raises:
            InvalidInputError: the extra ``a2a`` is not installed.
        """
        with needs_a2a():
            from gcp_adk_store.tasks.push_configs import (  # noqa: PLC0415  # of an extra
                PushNotificationConfigStore,
            )
        return PushNotificationConfigStore(self._sessions.storage.documents, **self._for_tasks)

    @property
    def _for_tasks(self) -> dict[str, Any]:
        owner_of = self._options.get("task_owner_resolver")
        given = {"ttl_seconds": self._options.get("task_ttl_seconds"), "limits": self._sessions.limits}
        chosen = {} if owner_of is None else {"owner_resolver": owner_of}
        return {"prefix": self._sessions.storage.layout.prefix, **given, **chosen}

    async def rotate_keys(
        self, *, on_progress: "Callable[[RotationReport], None] | None" = None
    ) -> "RotationReport":
        """Wrap all data keys with the newest version of the key that wraps them; return a report.

        It is safe to retry after an interruption. Content stays as it is. Takes 1 read a data
        key, and 2 operations of the wrapping key and 1 write for each that is wrapped anew.

        Raises:
            InvalidInputError: the store has no encryption.
        """
        encryption = self._sessions.storage.encryption
        if encryption is None:
            raise InvalidInputError(
                "this store has no encryption, so it has no keys to rotate: pass encryption=, or set "
                "ADK_STORE_ENCRYPTION_KEY"
            )
        from gcp_adk_store.encryption.rotation import rotate  # noqa: PLC0415  # with its ciphers

        return await rotate(encryption.keys, on_progress)

    async def verify_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        known_events: int | None = None,
        known_head: str | None = None,
        anchors: str | None = None,
    ) -> HistoryProof:
        """Check a history as the session service's ``verify_session``, and against the bucket *anchors*.

        An anchor proves the events up to it, even against whoever can write the database. The proof's
        ``anchors`` is 0 if the bucket has none of this session: it is new, or another one than was anchored.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            known_events: Number of events of an earlier proof of the session.
            known_head: Head of the same proof.
            anchors: Name of the bucket; of a local store, the folder.

        Raises:
            SessionMissingError, InvalidInputError: as the session service's ``verify_session``.
            NotProvisionedError, AccessDeniedError, UnavailableError: the bucket cannot be read.
        """
        ids: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        verify = partial(
            self._sessions.verify_session, **ids, known_events=known_events, known_head=known_head
        )
        if anchors is None:
            return await verify()
        async with self._beside.bucket(anchors, to_read=True) as objects:
            return await verify(anchors_of=Anchors(self._sessions, objects).of)

    async def anchor(
        self,
        *,
        app_name: str,
        anchors: str,
        user_id: str | None = None,
        session_id: str | None = None,
        on_progress: OnAnchored | None = None,
    ) -> AnchorReport:
        """Keep the heads of sessions in the bucket *anchors*, one object for each head that is new.

        Give the bucket a locked retention policy, and let another identity than the store's write it: then
        nobody who can write the database can rewrite what was anchored unnoticed. An anchor has the random
        epoch of its session, ``rev`` and the head: it names nobody, so an erasure need not remove it.

        It keeps the head that the document has, and verifies nothing: verify sessions after it, not before.
        Takes 1 read for each session, and 1 write of an object for each that changed. Call it again after a
        failure.

        Args:
            app_name: The app.
            anchors: Name of the bucket; of a local store, a folder, which is made.
            user_id: Only sessions of this user; by default of all.
            session_id: Only this session of the user.
            on_progress: Called with the counts so far.

        Raises:
            SessionMissingError: *session_id* is given and missing.
            InvalidInputError: a session is given without its user, or the name is malformed.
            NotProvisionedError, AccessDeniedError, UnavailableError: the bucket cannot be written.
        """
        if session_id is not None and user_id is None:
            raise InvalidInputError("session_id needs user_id")
        async with self._beside.bucket(anchors) as objects:
            return await Anchors(self._sessions, objects).anchor(
                app_name=app_name, user_id=user_id, session_id=session_id, on_progress=on_progress
            )

    async def close(self) -> None:
        """Close the connections that the services opened; a later call opens them again."""
        await self._sessions.close()
        if self._artifacts is not None:
            await self._artifacts.close()


def _require(given: Iterable[str], way: Callable[..., object]) -> None:
    """Check that one way to make a store takes all options that are *given*.

    Raises:
        InvalidInputError: it does not take one; the message says which way does, or suggests a similar name.
    """
    ways = (Store.connect, Store.local, Store.from_env, Store.from_settings, Store.from_clients)
    if way is not Store or {*given} <= options_of(way):
        require_options(given, way, *ways)
        return
    from gcp_adk_store.sessions.firestore import FirestoreSessionService  # noqa: PLC0415  # see IMPORTED_LATER

    require_options(given, way, *ways, FirestoreSessionService)

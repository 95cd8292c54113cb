"""Own the services of one deployment and their connections."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from google.auth.credentials import Credentials

from gcp_adk_store.artifacts.gcs import GcsArtifactService
from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.storage.calls import StorageClient
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.doctor.recovery import recoverable
from gcp_adk_store.erasure.eraser import RecoveryOf
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.local.backend import open_backend, open_keys
from gcp_adk_store.model.expiry import Expiry
from gcp_adk_store.operations.closing import Closing
from gcp_adk_store.operations.kinds import checks_kinds
from gcp_adk_store.ports.backend import Backend
from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.sessions.firestore import FirestoreSessionService
from gcp_adk_store.sessions.payload_store import Payloads
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
from gcp_adk_store.settings.options import (
    ServiceOptions,
    SessionOptions,
    StoreOptions,
    of_services,
    of_sessions,
    require_options,
)
from gcp_adk_store.store.methods import StoreMethods
from gcp_adk_store.store.other_places import another_bucket, kept_nowhere, kept_where_unknown
from gcp_adk_store.store.proofs import OpenObjects, ProofMethods
from gcp_adk_store.tasks.sdk import needs_a2a
from gcp_adk_store.turns.running import Turns

if TYPE_CHECKING:
    from gcp_adk_store.memory.service import MemoryService
    from gcp_adk_store.tasks import PushNotificationConfigStore, TaskStore


@checks_kinds
class Store(StoreMethods, ProofMethods, Closing):
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
        self._sessions = sessions
        encryption = sessions.storage.encryption
        if artifacts is not None and encryption is not None and encryption.envelope.artifacts:
            artifacts = artifacts.encrypted(encryption)
        self._artifacts = artifacts
        self._turns = Turns(sessions)
        self._options = options
        self._session_options: SessionOptions = {}
        self._recovery: RecoveryOf = kept_where_unknown
        self._recovery_of_keys: RecoveryOf = kept_where_unknown
        self._open_objects: OpenObjects | None = None
        extract = options.get("extract")
        if options.get("index_on_append"):
            from gcp_adk_store.memory.remembering import Remembering  # noqa: PLC0415  # where it is used

            sessions._appender.follower = Remembering(self.memory, extract)  # noqa: SLF001  # of one store
        elif extract is not None:
            raise InvalidInputError(
                "extract= makes memories of appended events; pass index_on_append=True, too"
            )

    @classmethod
    def connect(
        cls,
        *,
        project: str | None = None,
        database: str = "(default)",
        bucket: str | None = None,
        prefix: str = "adk",
        credentials: StoreCredentials | Credentials | None = None,
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
        place = StoreSettings(project=project, database=database, bucket=bucket, prefix=prefix)
        if impersonate_service_account is not None:
            if isinstance(credentials, StoreCredentials):
                raise InvalidInputError("pass impersonate_service_account= to StoreCredentials alone")
            credentials = StoreCredentials(
                credentials, impersonate_service_account=impersonate_service_account
            )
        return cls._over_cloud(place, credentials=StoreCredentials.of(credentials), **options)

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
        store = cls.over(
            open_backend(os.fspath(path), session_limits, artifact_limits),
            open_keys=lambda _: open_keys(os.fspath(path), session_limits),
            prefix=place.prefix,
            **options,
        )
        store._recovery = store._recovery_of_keys = kept_nowhere  # noqa: SLF001  # its own class
        store._open_objects = lambda name: open_backend(name, session_limits, artifact_limits).objects  # noqa: SLF001
        return store

    @classmethod
    def over(
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
        _require(options, Store.over)
        layout = Layout(prefix)
        envelope = options.get("encryption")
        if envelope is None:
            payloads = Payloads(backend.documents, backend.objects, layout)
            storage = SessionStorage(backend.documents, payloads, layout)
        else:
            from gcp_adk_store.sessions.encrypting import encrypted_storage  # noqa: PLC0415  # with its ciphers

            storage = encrypted_storage(
                backend.documents, backend.objects, layout, envelope, open_keys=open_keys
            )
        limits = options.get("artifact_limits") or ArtifactLimits()
        session_options = of_sessions(options)
        artifacts = ArtifactService(backend.objects, backend.uploads, backend.signer, limits)
        sessions = SessionService(storage, **session_options)
        store = cls(sessions=sessions, artifacts=artifacts, **of_services(options))
        store._session_options = session_options
        return store

    @classmethod
    def from_env(
        cls,
        *,
        credentials: StoreCredentials | Credentials | None = None,
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
        credentials: StoreCredentials | Credentials | None = None,
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
        return cls.connect(
            project=place.project,
            database=place.database,
            bucket=place.bucket,
            prefix=place.prefix,
            credentials=StoreCredentials.from_settings(place) if credentials is None else credentials,
            **options,
        )

    @classmethod
    def from_clients(
        cls,
        *,
        firestore: FirestoreClient,
        storage: StorageClient | None = None,
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
        place = StoreSettings(bucket=bucket, prefix=prefix)
        return cls._over_cloud(place, firestore=firestore, storage=storage, **options)

    @classmethod
    def _over_cloud(
        cls,
        place: StoreSettings,
        *,
        credentials: StoreCredentials | None = None,
        firestore: FirestoreClient | None = None,
        storage: StorageClient | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        session_options = of_sessions(options)
        sessions = FirestoreSessionService(
            project=place.project,
            database=place.database,
            prefix=place.prefix,
            bucket=place.bucket,
            client=firestore,
            storage=storage,
            credentials=credentials,
            **session_options,
        )
        artifacts = place.bucket and GcsArtifactService(
            place.bucket,
            project=place.project,
            client=storage,
            credentials=credentials,
            limits=options.get("artifact_limits"),
        )
        store = cls(sessions=sessions, artifacts=artifacts or None, **of_services(options))
        store._session_options = session_options
        store._recovery = partial(recoverable, place, credentials)
        if (envelope := options.get("encryption")) is not None:
            of_keys = replace(place, database=envelope.keys_database, bucket=None)
            store._recovery_of_keys = partial(recoverable, of_keys, credentials)
        store._open_objects = partial(
            another_bucket, place, storage, credentials, options.get("artifact_limits") or ArtifactLimits()
        )
        return store

    def through(self, documents: Callable[[Documents], Documents]) -> Self:
        """Return this store with other documents between its services and the database.

        *documents* makes them, such as ones that wait or count. Closing either store closes both.
        """
        storage = self._sessions.storage
        made = documents(storage.documents)
        as_stored = None if storage.as_stored is None else documents(storage.as_stored)
        payloads = storage.payloads.over(made)
        over = replace(storage, documents=made, payloads=payloads, as_stored=as_stored)
        sessions = SessionService(over, **self._session_options)
        store = type(self)(sessions=sessions, artifacts=self._artifacts, **self._options)
        store._session_options = self._session_options  # noqa: SLF001  # its own class
        store._recovery = self._recovery  # noqa: SLF001
        store._recovery_of_keys = self._recovery_of_keys  # noqa: SLF001
        store._open_objects = self._open_objects  # noqa: SLF001
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
        chosen = {} if owner_of is None else {"owner_resolver": owner_of}
        return {
            "prefix": self._sessions.storage.layout.prefix,
            "ttl_seconds": self._options.get("task_ttl_seconds"),
            "limits": self._sessions.limits,
            **chosen,
        }

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
    require_options(given, way, *ways, *((FirestoreSessionService,) if way is Store else ()))

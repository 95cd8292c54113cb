"""Own the services of one deployment and their connections."""

import os
from collections.abc import AsyncIterator, Sequence
from typing import Literal, Self, Unpack

from google.adk.sessions import Session
from google.auth.credentials import Credentials

from gcp_adk_store.artifacts.copies import WHICH, Which
from gcp_adk_store.artifacts.service import GcsArtifactService
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient
from gcp_adk_store.cloud.storage.calls import StorageClient
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.restores import Restore
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.local.backend import open_backend
from gcp_adk_store.model.artifact_points import ArtifactsAt
from gcp_adk_store.model.garbage import DEFAULT_AGE_S, Garbage, GarbageKind
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.keys import ArtifactKey, SessionKey
from gcp_adk_store.operations.closing import Closing
from gcp_adk_store.operations.forks import OfOneProcess
from gcp_adk_store.sessions.checks import OnProgress
from gcp_adk_store.sessions.fork_methods import fork_key
from gcp_adk_store.sessions.payload_store import Payloads
from gcp_adk_store.sessions.restores import PutBack
from gcp_adk_store.sessions.service import FirestoreSessionService
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, SessionOptions, StoreOptions, StoreSettings


class Store(OfOneProcess, Closing):
    """Sessions and artifacts of one deployment; ``async with`` closes their connections.

    ::

        async with Store.from_env() as store:
            runner = Runner(..., session_service=store.sessions, artifact_service=store.artifacts)
    """

    def __init__(self, *, sessions: FirestoreSessionService, artifacts: GcsArtifactService | None) -> None:
        self._sessions = sessions
        self._artifacts = artifacts

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

        The arguments are those of :class:`~gcp_adk_store.StoreSettings` and
        :class:`~gcp_adk_store.settings.StoreOptions`. The clients of both services share one token.
        *impersonate_service_account* is short for the *credentials*
        ``StoreCredentials(impersonate_service_account=...)``.

        Raises:
            InvalidInputError: a setting is malformed, or *impersonate_service_account* comes with a
                :class:`~gcp_adk_store.StoreCredentials`, which has that argument itself.
        """
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
            options: As :class:`~gcp_adk_store.settings.StoreOptions` describes them.

        Raises:
            InvalidInputError: a setting is malformed.
        """
        place = StoreSettings(local=os.fspath(path), prefix=prefix)
        session_limits = options.get("session_limits") or SessionLimits()
        artifact_limits = options.get("artifact_limits") or ArtifactLimits()
        backend = open_backend(os.fspath(path), session_limits, artifact_limits)
        layout = Layout(place.prefix)
        storage = SessionStorage(
            backend.documents, Payloads(backend.documents, backend.objects, layout), layout
        )
        return cls(
            sessions=FirestoreSessionService.over(storage, **_of_sessions(**options)),
            artifacts=GcsArtifactService.over(
                backend.objects, backend.uploads, backend.signer, artifact_limits
            ),
        )

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
            InvalidInputError: a variable is malformed.
        """
        place = StoreSettings.from_env()
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
            InvalidInputError: only one of *storage* and *bucket* is given, or a setting is malformed.
        """
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
        sessions = FirestoreSessionService(
            project=place.project,
            database=place.database,
            prefix=place.prefix,
            bucket=place.bucket,
            client=firestore,
            storage=storage,
            credentials=credentials,
            **_of_sessions(**options),
        )
        artifacts = place.bucket and GcsArtifactService(
            place.bucket,
            project=place.project,
            client=storage,
            credentials=credentials,
            limits=options.get("artifact_limits"),
        )
        return cls(sessions=sessions, artifacts=artifacts or None)

    @property
    def sessions(self) -> FirestoreSessionService:
        """The session service, for ``Runner(session_service=...)``."""
        return self._sessions

    @property
    def has_artifacts(self) -> bool:
        """Whether the store has a bucket."""
        return self._artifacts is not None

    @property
    def artifacts(self) -> GcsArtifactService:
        """The artifact service, for ``Runner(artifact_service=...)``.

        Raises:
            InvalidInputError: the store has no bucket.
        """
        if self._artifacts is None:
            raise InvalidInputError("this store has no bucket; pass bucket= or set ADK_STORE_BUCKET")
        return self._artifacts

    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: Point | None = None,
        to_session_id: str | None = None,
        to_user_id: str | None = None,
        artifacts: Which = "at_point",
        unknown_initial: Literal["raise", "omit"] = "raise",
    ) -> Session:
        """Make a session with the events, the state and the artifacts of another one, as it was at a point.

        The new session shares nothing with its source, so either may be deleted. It is complete when it
        becomes visible, and goes on by itself: appends to the source since its read are not in it. Its events
        have the same ids and times. It lives as a new session of this store does, and remembers its origin.

        State with the prefix ``user:`` or ``app:``, and artifacts with the prefix ``user:``, belong to the
        user or the app: they are not copied, and a session of another user has those of that user. An
        artifact that refers to another one of its session refers to the copy in the fork.

        Takes 1 read of the session document and 1 for each segment that this process does not know, 2 reads
        of shared state, and 1 write for each segment and the session document. With payloads or artifacts it
        takes more: docs/costs.md. Payloads in the bucket and artifacts are copied within Cloud Storage.

        Args:
            app_name: The app, of both.
            user_id: The user of the source.
            session_id: The source.
            at: The point, such as ``Point.before_invocation("e-1")``; by default now.
            to_session_id: The id of the new session; blank or ``None`` takes a random one.
            to_user_id: The user of the new session; by default *user_id*.
            artifacts: ``"at_point"`` copies the versions that the source had at the point: up to the one that
                :meth:`restore_session` would make the latest again. ``"all"`` copies all that exist,
                ``"none"`` none. Version numbers stay the same.
            unknown_initial: As :meth:`FirestoreSessionService.get_session_at` takes it.

        Returns:
            The new session, equal to what ``get_session`` returns.

        Raises:
            SessionMissingError: the source does not exist, or was deleted before all of it was copied.
            SessionExistsError: the new id is taken, by a session or by artifacts of an earlier one; no
                session was made. An expired session does not count.
            PointMissingError, InitialStateUnknownError: as
                :meth:`FirestoreSessionService.get_session_at`.
            InvalidInputError: an id or an option is invalid.
            PayloadMissingError: a payload of the source is gone.
            OutcomeUnknownError: not answered; the new session may exist. :meth:`find_garbage` finds what an
                interrupted fork leaves.
        """
        if artifacts not in WHICH:
            raise InvalidInputError(f"artifacts is {artifacts!r:.40}, it must be one of {', '.join(WHICH)}")
        source = SessionKey(app=app_name, user=user_id, session=session_id)
        target = fork_key(source, to_user_id=to_user_id, to_session_id=to_session_id)
        copies = None
        if artifacts != "none" and self._artifacts is not None:
            copies = self._artifacts.copies_of(source, target, artifacts)
        return await self._sessions.fork_session(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            at=at,
            to_session_id=target.session,
            to_user_id=target.user,
            unknown_initial=unknown_initial,
            artifacts=copies,
        )

    async def find_garbage(self, *, older_than_s: float = DEFAULT_AGE_S) -> AsyncIterator[Garbage]:
        """Yield unreferenced data of sessions and artifacts; see their ``find_garbage``.

        Raises:
            InvalidInputError: *older_than_s* is below an hour.
        """
        async for garbage in self._sessions.find_garbage(older_than_s=older_than_s):
            yield garbage
        if self._artifacts is not None:
            async for garbage in self._artifacts.find_garbage(older_than_s=older_than_s):
                yield garbage

    async def remove_garbage(self, garbage: Garbage) -> bool:
        """Remove what :meth:`find_garbage` found unless it is in use again; return whether it is gone."""
        if garbage.kind is GarbageKind.UPLOAD:
            return await self.artifacts.remove_garbage(garbage)
        copies = None if self._artifacts is None else self._artifacts.remove_copies
        return await self._sessions.remove_garbage(garbage, put_back=self._putting_back, remove_copies=copies)

    async def restore_session(self, *, app_name: str, user_id: str, session_id: str, at: Point) -> Session:
        """Take a session back to a point, with its artifacts, and return it.

        One atomic step takes back its events and its own state, as the session service's
        :meth:`~FirestoreSessionService.restore_session` describes. Then each of its files whose latest
        version was saved after the point gets a new version as it was at the point, or a tombstone if it did
        not exist, as after ADK's rewind: docs/data-model.md says which versions these are. If the call fails
        between the two, the next restore of the session, or the collector, does the rest. Files whose names
        start with ``user:`` stay as they are.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            at: The point, such as ``Point.before_invocation("e-1")``.

        Raises:
            SessionMissingError, PointMissingError, InitialStateUnknownError, InvalidInputError: nothing was
                written.
            OutcomeUnknownError: not answered, or restored but not finished. Read the session before repeating
                the call.
        """
        return await self._sessions.restore_session(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            at=at,
            put_back=self._putting_back,
        )

    @property
    def _putting_back(self) -> PutBack | None:
        return None if self._artifacts is None else self._put_back

    async def _put_back(self, key: SessionKey, restore: Restore, at: ArtifactsAt) -> None:
        try:
            ArtifactKey.of(app=key.app, user=key.user, session=key.session, filename="any").require_savable()
        except InvalidInputError:
            return  # no artifact can be saved in such a session
        await self.artifacts.restore_session_artifacts(
            app_name=key.app,
            user_id=key.user,
            session_id=key.session,
            at=at,
            restored_at=restore.restored_at,
            restore_id=restore.restore_id,
        )

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
        """Yield what contradicts the invariants of docs/data-model.md; see the session service's ``check``.

        Raises:
            InvalidInputError: *older_than_s* is below an hour, or an id comes without the one above it.
        """
        async for fault in self._sessions.check(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            full=full,
            older_than_s=older_than_s,
            on_progress=on_progress,
        ):
            yield fault

    async def repair(self, faults: Sequence[Fault]) -> list[Fault]:
        """Mend *faults* of :meth:`check` that have a ``repair``; return those that were mended.

        Each document changes in one commit, and only if no one has written it since it was looked at.
        """
        return await self._sessions.repair(faults)

    async def close(self) -> None:
        """Close the connections that the services opened; a later call opens them again."""
        await self._sessions.close()
        if self._artifacts is not None:
            await self._artifacts.close()


def _of_sessions(
    *,
    session_limits: SessionLimits | None = None,
    artifact_limits: ArtifactLimits | None = None,  # noqa: ARG001  # of the other service
    **options: Unpack[SessionOptions],
) -> SessionOptions:
    """Return a store's options as the session service names them."""
    return {**options, "limits": session_limits}

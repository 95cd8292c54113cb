"""Do what concerns several services of a store together."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.artifacts.owners import SessionArtifacts, Which, scope_of
from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.erasure.pruning import OnPruned, Pruner, PruneReport, Retention
from gcp_adk_store.erasure.run import UserErasure
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, StoreError
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.kernel.process import Closing
from gcp_adk_store.model.erasures import Erasure
from gcp_adk_store.model.history import Point, Redaction
from gcp_adk_store.model.keys import SessionKey, is_unicode
from gcp_adk_store.model.payloads import DEFAULT_AGE_S, Garbage, GarbageKind
from gcp_adk_store.sessions.fork.run import fork_key
from gcp_adk_store.sessions.fsck.faults import Fault
from gcp_adk_store.sessions.fsck.run import OnProgress
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.store.opening import OtherPlaces, kept_where_unknown

if TYPE_CHECKING:
    from gcp_adk_store.memory.service import MemoryService


@checks_kinds
class StoreOperations(Closing):
    """The methods of a store that concern its sessions together with their artifacts and memories."""

    def __init__(self, sessions: SessionService, artifacts: ArtifactService | None) -> None:
        """Prepare the operations on these services."""
        self._sessions = sessions
        self._artifacts = artifacts
        self._beside = OtherPlaces(recovery=kept_where_unknown, recovery_of_keys=kept_where_unknown)

    @property
    @abstractmethod
    def memory(self) -> "MemoryService":
        """The memory service of the store."""

    @property
    def sessions(self) -> SessionService:
        """The session service, for ``Runner(session_service=...)``."""
        return self._sessions

    @property
    def has_artifacts(self) -> bool:
        """Whether the store has a bucket."""
        return self._artifacts is not None

    @property
    def artifacts(self) -> ArtifactService:
        """The artifact service, for ``Runner(artifact_service=...)``.

        Raises:
            InvalidInputError: the store has no bucket.
        """
        if self._artifacts is None:
            ways = "pass bucket= or set ADK_STORE_BUCKET, or ADK_STORE_LOCAL for a folder"
            raise InvalidInputError(f"this store has no bucket; {ways}")
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
    ) -> Session:
        """Make a session with the events, the state and the artifacts of another one, as it was at a point.

        The new session shares nothing with its source, so either may be deleted. It is complete when it
        becomes visible, and goes on by itself: appends to the source since its read are not in it. Its events
        have the same ids and times. It lives as a new session of this store does, and remembers its origin.
        Tool calls that ADK's ``ToolCallIntegrityPlugin`` stamped never run there: docs/points.md.

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

        Returns:
            The new session, equal to what ``get_session`` returns.

        Raises:
            SessionMissingError: the source does not exist, or was deleted before all of it was copied.
            SessionExistsError: the new id is taken, by a session or by artifacts of an earlier one; no
                session was made. An expired session does not count.
            PointMissingError: the source does not have the point.
            InvalidInputError: an id or an option is invalid.
            PayloadMissingError: a payload of the source is gone.
            OutcomeUnknownError: not answered; the new session may exist. :meth:`find_garbage` finds what an
                interrupted fork leaves.
        """
        source = SessionKey(app=app_name, user=user_id, session=session_id)
        target = fork_key(source, to_user_id=to_user_id, to_session_id=to_session_id)
        return await self._sessions.fork_session(
            **source.ids,
            at=at,
            to_session_id=target.session,
            to_user_id=target.user,
            artifacts=None if artifacts == "none" else self._session_artifacts(artifacts),
        )

    async def restore_session(
        self, *, app_name: str, user_id: str, session_id: str, at: Point, keep_as: str | None = None
    ) -> Session:
        """Take a session back to a point, with its artifacts, and return it.

        One atomic step takes back its events and its own state, as the session service's
        :meth:`~SessionService.restore_session` describes. Then each of its files whose latest
        version was saved after the point gets a new version as it was at the point, or a tombstone if it did
        not exist, as after ADK's rewind: docs/data-model.md says which versions these are. If the call fails
        between the two, the next restore of the session, or the collector, does the rest. Files whose names
        start with ``user:`` stay as they are.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            at: The point, such as ``Point.before_invocation("e-1")``.
            keep_as: The id of a fork of the session as it is now, which is made first, with all artifacts; by
                default what is cut off is lost.

        Raises:
            SessionMissingError, PointMissingError, InvalidInputError: nothing was restored.
            SessionExistsError: *keep_as* is taken; nothing was written.
            SessionConflictError: the session has other events than when the fork was made; nothing was
                restored. The fork stays: delete it, or choose another id, before calling again.
            OutcomeUnknownError: not answered, or restored but not finished. Read the session before repeating
                the call.
        """
        events = None
        ids: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        if keep_as is not None:
            if not keep_as.strip():  # a fork would take a random id, which nobody learns
                raise InvalidInputError("keep_as is blank; pass an id, or None to keep nothing")
            # Refuses a point that the session does not have, before anything is written.
            await self._sessions.get_session_at(**ids, at=at)
            kept = await self.fork_session(**ids, to_session_id=keep_as, artifacts="all")
            events = [event.id for event in kept.events]
        return await self._sessions.restore_session(
            **ids, at=at, artifacts=self._session_artifacts(), only_of_events=events
        )

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str, artifacts: bool = True
    ) -> None:
        """Remove a session with its artifacts; a missing session is accepted.

        Without *artifacts* they stay, as they do with ``sessions.delete_session``: a new session with this id
        then has them. Artifacts whose names start with ``user:`` always stay. The session goes first: a
        repetition removes what an interrupted call left.

        Raises:
            OutcomeUnknownError: not answered, or something may be left. Calling again is safe.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        await self._sessions.delete_session(**key.ids)
        if not artifacts or self._artifacts is None or scope_of(key) is None:
            return
        try:
            await self._artifacts.delete_session_artifacts(**key.ids)
        except StoreError as exc:
            raise OutcomeUnknownError.since(
                exc, f"the session is gone, but perhaps not all of its artifacts; delete it again: {exc}"
            ) from exc

    async def redact_event(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        event_id: str,
        reason: str,
        state: bool = False,
        memories: bool = False,
        dry_run: bool = False,
    ) -> Redaction:
        """Replace an event's content by a marker, as the session service's ``redact_event`` describes.

        A memory that was made of the event has its id: the result names it, and *memories* removes it. With
        *memories*, a process that has the event as it was adds no memory of it later. What a function of
        ``extract=`` made of the event before, and memories that an app wrote itself, have other ids; find
        them by a search.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            event_id: The event's id.
            reason: Why, in one line of at most 500 characters; it is stored.
            state: As the session service takes it.
            memories: Also remove the memory, and let none be made of the event.
            dry_run: Only say what would be replaced and removed.

        Raises:
            SessionMissingError, PointMissingError, InvalidInputError, PayloadMissingError: as the session
                service's ``redact_event``; nothing was written.
            OutcomeUnknownError: not answered, or redacted and something may be left. Call again.
        """
        user = {"app_name": app_name, "user_id": user_id}
        redaction = await self._sessions.redact_event(
            **user, session_id=session_id, event_id=event_id, reason=reason, state=state, dry_run=dry_run
        )
        if not is_unicode(event_id):
            return redaction  # no memory has such an id
        removes = memories and not dry_run
        try:
            memory = self.memory
        except ModuleNotFoundError:  # without the extra, this process cannot look
            if not memories:
                return redaction
            raise
        try:
            if removes:
                # Before the look: another process may hold the event as it was, and add its memory later.
                taken_in = [Event(id=event_id, author="user")]
                await memory.add_extracted(**user, session_id=session_id, events=taken_in, memories=())
            if not await memory.has_memory(**user, memory_id=event_id):
                return redaction
            if removes:
                await memory.delete_memory(**user, memory_id=event_id)
                await self._sessions.storage.documents.scrub()
        except StoreError as exc:
            if dry_run:
                raise
            raise OutcomeUnknownError.since(
                exc, f"the event is redacted, but perhaps its memory is left; call again: {exc}"
            ) from exc
        return replace(redaction, memories=(event_id,), memories_removed=removes)

    def erase_user(
        self,
        *,
        app_name: str,
        user_id: str,
        dry_run: bool = False,
        task_owner: str | None = None,
        quiet_s: float = 0.0,
    ) -> Erasure:
        """Erase all that the store holds of a user of an app.

        Await what it returns for the receipt, or iterate over it with ``async for`` for the progress, and the
        receipt at the end. Nothing happens before.

        It erases sessions with their events, state, segments and payloads, also leftovers of deleted
        sessions, the user's state, memories, artifacts of all sessions and of the user, uploads of browsers.
        It removes documents of the user's tree as they are, damaged ones and those of newer releases too.

        An iteration that ends early, or a process that is killed, leaves a note; call it again, and it goes
        on, and its receipt counts what was removed before. Writers may run at the same time: passes repeat
        until one finds nothing, so all that was acknowledged before ``receipt.empty_at`` is gone. What they
        write later stays, so end the user's access first. docs/erasure.md has the guarantees and the costs.

        Args:
            app_name: The app.
            user_id: The user.
            dry_run: Only count; the receipt has no subject.
            task_owner: Also erase the A2A tasks and push notification configs of this owner, as the owner
                resolver names them.
            quiet_s: Seconds to wait after each pass, an hour at most. With the longest deadline of the
                writers, the last pass finds what they stored that were under way; with less, a session that
                is created meanwhile may stay, and lack its large content.

        Returns:
            What gives the :class:`~gcp_adk_store.ErasureReceipt` if awaited, or if iterated over
            :class:`~gcp_adk_store.ErasureProgress` and the receipt at last.

        Raises:
            OutcomeUnknownError: not all is removed, or others write or read all the time; call it again.
            UnavailableError: the service refuses; nothing was removed.
            StoredDataError: the user has payloads in a bucket, and the store was opened without it.
            InvalidInputError: an id or *quiet_s* is invalid; nothing was erased. Or the user's data is
                encrypted and the store has no *encryption*; nothing that is encrypted was erased.
        """
        erasure = UserErasure(
            self._sessions, self._artifacts, self._beside.recovery, self._beside.recovery_of_keys
        )
        return Erasure(
            erasure.erase_user(
                app_name=app_name, user_id=user_id, dry_run=dry_run, task_owner=task_owner, quiet_s=quiet_s
            )
        )

    async def prune(
        self,
        *,
        app_name: str,
        idle_days: float | None = None,
        keep_latest: int | None = None,
        older_than_days: float | None = None,
        labels: Mapping[str, str] | None = None,
        user_data_idle_days: float | None = None,
        keep_events: int | None = None,
        dry_run: bool = False,
        on_progress: OnPruned | None = None,
    ) -> PruneReport:
        """Delete the sessions of an app that were kept long enough, with their artifacts; return a report.

        A session goes if it meets all conditions that are given. It stays if it has a turn now, or changes
        between the look and its deletion. Interrupted calls are safe to retry. Only
        artifacts of one session at a time may be left without it. Takes 1 read for each session of the app.

        Args:
            app_name: The app.
            idle_days: Days since the last event, at least.
            keep_latest: So many sessions of each user with the latest events stay.
            older_than_days: Days since the creation, at least.
            labels: Only sessions with all of these labels go, and count for *keep_latest*.
            user_data_idle_days: The state of a user without sessions goes if nobody changed it for so many
                days, and so do their memories; by default both stay. Artifacts of the user stay. The
                collector removes what the bucket still has of both.
            keep_events: Of the sessions that stay and have the labels, archive all events but so many of the
                newest, as ``sessions.archive_session`` does: turns stay whole.
            dry_run: Only count; of users, those who have no session now.
            on_progress: Called with the counts so far.

        Raises:
            InvalidInputError: nothing says which sessions go or are archived, an argument is invalid, or the
                store has no bucket for *keep_events*.
            OutcomeUnknownError, UnavailableError: some may be gone; call it again.
        """
        retention = Retention(
            idle_days=idle_days,
            keep_latest=keep_latest,
            older_than_days=older_than_days,
            labels=labels or {},
            user_data_idle_days=user_data_idle_days,
            keep_events=keep_events,
        )
        pruner = Pruner(self._sessions, self._artifacts, retention, dry_run=dry_run, on_progress=on_progress)
        return await pruner.prune(app_name=app_name)

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
        if garbage.kind in (GarbageKind.UPLOAD, GarbageKind.FILE):
            return await self.artifacts.remove_garbage(garbage)
        return await self._sessions.remove_garbage(garbage, artifacts=self._session_artifacts())

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
        """Repair *faults* of :meth:`check` that have a ``repair``; return those that were repaired.

        Each document changes in one commit, and only if no one has written it since it was looked at.
        """
        return await self._sessions.repair(faults)

    def _session_artifacts(self, which: Which = "at_point") -> SessionArtifacts | None:
        return None if self._artifacts is None else SessionArtifacts(self._artifacts.storage, which)

"""Redact events with their memories, and prove histories by anchors in another bucket."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gcp_adk_store.erasure.anchoring import Anchors, OnAnchored
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, StoreError
from gcp_adk_store.model.proofs import AnchorReport, HistoryProof
from gcp_adk_store.model.redactions import Redaction
from gcp_adk_store.operations.kinds import checks_kinds
from gcp_adk_store.ports.objects import Objects
from gcp_adk_store.sessions.service import SessionService

if TYPE_CHECKING:
    from gcp_adk_store.memory.service import MemoryService

OpenObjects = Callable[[str], Objects]
"""Opens another bucket than the store's."""


@checks_kinds
class ProofMethods:
    """The methods of a store that redact events and prove histories.

    The store's constructor sets the attributes.
    """

    _sessions: SessionService
    _open_objects: OpenObjects | None

    @property
    def memory(self) -> "MemoryService":
        """The memory service of the store."""
        raise NotImplementedError

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

        A memory that was made of the event has its id: the result names it, and *memories* removes it. What
        a function of ``extract=`` made of the event, and memories that an app wrote itself, have other ids;
        find them by a search.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            event_id: The event's id.
            reason: Why, in one line of at most 500 characters; it is stored.
            state: As the session service takes it.
            memories: Also remove the memory.
            dry_run: Only say what would be replaced and removed.

        Raises:
            SessionMissingError, PointMissingError, InvalidInputError, PayloadMissingError: as the session
                service's ``redact_event``; nothing was written.
            OutcomeUnknownError: not answered, or redacted and something may be left. Call again.
        """
        redaction = await self._sessions.redact_event(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            event_id=event_id,
            reason=reason,
            state=state,
            dry_run=dry_run,
        )
        user = {"app_name": app_name, "user_id": user_id}
        try:
            memory = self.memory
        except ModuleNotFoundError:  # without the extra, this process cannot look
            if not memories:
                return redaction
            raise
        try:
            if not await memory.has_memory(**user, memory_id=event_id):
                return redaction
            if memories and not dry_run:
                await memory.delete_memory(**user, memory_id=event_id)
                await self._sessions.storage.documents.scrub()
        except StoreError as exc:
            if dry_run:
                raise
            raise OutcomeUnknownError.since(
                exc, f"the event is redacted, but perhaps its memory is left; call again: {exc}"
            ) from exc
        return replace(redaction, memories=(event_id,), memories_removed=memories and not dry_run)

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
        if anchors is None:
            return await self._sessions.verify_session(
                **ids, known_events=known_events, known_head=known_head
            )
        async with self._anchors_in(anchors) as kept:
            return await self._sessions.verify_session(
                **ids, known_events=known_events, known_head=known_head, anchors_of=kept.of
            )

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
        async with self._anchors_in(anchors) as kept:
            return await kept.anchor(
                app_name=app_name, user_id=user_id, session_id=session_id, on_progress=on_progress
            )

    @asynccontextmanager
    async def _anchors_in(self, name: str) -> AsyncIterator[Anchors]:
        if self._open_objects is None:
            raise InvalidInputError(
                "a store that was made of services opens no other bucket: use Store.connect"
            )
        objects = self._open_objects(name)
        try:
            yield Anchors(self._sessions, objects)
        finally:
            await objects.close()

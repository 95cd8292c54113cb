"""Make a session that has a history: its parts in as many commits as they take, its document last."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.writes import Delete, Must, Write
from gcp_adk_store.errors import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.lifecycle.format import note_write, read_deletions
from gcp_adk_store.sessions.lifecycle.run import SessionArtifacts, SessionLifecycle

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SessionBuilder:
    """One session that is being made; ``async with`` removes its parts if the block fails.

    The session becomes visible with its document. If one commit does not take all its segments, or artifacts
    are copied, then a note below its id comes first: the collector removes what it names unless the session
    is complete. Each commit requires the note as the one before left it.
    """

    _lifecycle: SessionLifecycle
    _key: SessionKey
    _epoch: str
    what: str
    """What is made, for errors."""
    artifacts: SessionArtifacts | None = None
    """Removes artifacts, if any are copied."""
    replaces: bool = False
    """Whether the session replaces the one that has its id, in the commit that completes it."""
    spilled: frozenset[PayloadPlace] = frozenset()
    """Places of the payloads that are written so far."""
    _note: Deletion | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._note is None or not isinstance(failure, StoreError):
            return  # a collector removes the parts that a cancelled call leaves
        if isinstance(failure, (UnavailableError, OutcomeUnknownError)):
            return  # removing its parts would fail, or remove those of a session that is complete
        try:
            await self._lifecycle.abandon(self._key, self._note, self.artifacts)
        except StoreError as exc:
            # The note names the parts that are left, for the collector.
            telemetry.warn(logger, "parts of a session that was not completed are left", exc)

    async def advance(self, segments: Sequence[Write], *, sealed: int | None = None) -> None:
        """Write some segments, and the note that names them.

        Args:
            segments: The writes.
            sealed: All numbers of segments so far are below it; by default as many as were written.

        Raises:
            SessionExistsError: another session has the id.
            UnavailableError: a collector removed the parts of this session.
        """
        if self._note is None and not self.replaces:
            await self._lifecycle.require_free(self._key)
        note = self._note
        if sealed is None:
            sealed = len(segments) + (note.sealed if note else 0)
        documents, layout = self._lifecycle.storage.documents, self._lifecycle.storage.layout
        now = Deletion(
            epoch=self._epoch,
            sealed=sealed,
            spilled=self.spilled,
            making=True,
            artifacts=self.artifacts is not None,
            update_time=note.update_time if note else "",
        )
        write = note_write(layout, self._key, now)

        async def look() -> Deletion | None:
            (found,) = await documents.get([write.path])
            return read_deletions([found])[0] if found else None

        def decide(there: Deletion | None, attempts: Attempts) -> Decision[str]:
            if not attempts.refused:
                return Commit([write, *segments], lambda written: written[0].update_time)
            if there is not None and there == replace(now, update_time=there.update_time):
                return Done(there.update_time)  # only the answer to an earlier attempt was lost
            raise self._removed()

        update_time = await transact(documents, look, decide, known=(None,), advice="begin it again")
        self._note = replace(now, update_time=update_time)

    async def complete(self, writes: Sequence[Write], *, revision: int) -> str:
        """Commit the session document, the first of *writes*, and its last parts; remove the note.

        Return the update time of the session document; an empty text if others have appended since. The
        session begins with *revision*.

        Raises:
            SessionExistsError, OutcomeUnknownError: as the service's ``create_session``.
        """
        layout, note = self._lifecycle.storage.layout, self._note
        removal = [Delete(path=layout.note(self._key, self._epoch), must=note.update_time)] if note else []
        if self.replaces:
            return await self._replace(writes[0], [*writes[1:], *removal])
        return await self._lifecycle.commit_new(
            self._key, [*writes, *removal], epoch=self._epoch, revision=revision, refused=self._removed
        )

    async def _replace(self, header: Write, others: Sequence[Write | Delete]) -> str:
        """Commit the session document *header* in the place of the one that is there, with *others*.

        The commit notes which parts of the old session remain, and they go after it.
        """
        before: StoredSession | None = None
        was_refused = False

        async def look() -> tuple[StoredSession | None, bool]:
            now = await self._lifecycle.reader.stored(self._key)
            return now, not was_refused or await self._has_note()

        def decide(seen: tuple[StoredSession | None, bool], attempts: Attempts) -> Decision[str]:
            nonlocal before, was_refused
            now, has_note = seen
            if now is not None and now.epoch == self._epoch:
                return Done(now.update_time)  # the answer to the commit was lost
            if attempts.maybe_applied and (now and now.epoch) != (before and before.epoch):
                raise OutcomeUnknownError(
                    "sent and not answered, and then another call deleted or replaced the session; read it "
                    "before repeating this"
                )
            if not has_note:
                raise self._removed()
            before, was_refused = now, True
            must = Must.BE_ABSENT if now is None else now.update_time
            note = [] if now is None else self._lifecycle.storage.layout.delete(now)[1:]
            return Commit(
                [replace(header, must=must), *note, *others], lambda written: written[0].update_time
            )

        update_time = await transact(self._lifecycle.storage.documents, look, decide)
        if before is not None:
            ended = Deletion(epoch=before.epoch, sealed=before.sealed, spilled=before.spilled)
            try:
                await self._lifecycle.finish_deletions(self._key, [ended])
            except StoreError as exc:
                # The new session is whole. The note names the parts that are left, for the collector.
                telemetry.warn(logger, "parts of a session that was replaced are left", exc)
        return update_time

    async def _has_note(self) -> bool:
        """Return whether no collector took the parts."""
        if self._note is None:
            return True
        path = self._lifecycle.storage.layout.note(self._key, self._epoch)
        (found,) = await self._lifecycle.storage.documents.get([path])
        return found is not None and found.update_time == self._note.update_time

    def _removed(self) -> UnavailableError:
        return UnavailableError(
            f"a collector removed this {self.what}, which had not gone on for longer than an hour; begin it "
            "again"
        )

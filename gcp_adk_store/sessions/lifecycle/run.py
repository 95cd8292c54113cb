"""Create sessions, keep them alive, delete them, and finish deletions that were interrupted."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.encode import Spilled
from gcp_adk_store.codec.objects import StoredObject
from gcp_adk_store.codec.segments import pack_initial
from gcp_adk_store.codec.writes import Delete, Document, Write, update
from gcp_adk_store.errors import (
    AccessDeniedError,
    NotProvisionedError,
    OutcomeUnknownError,
    SessionExistsError,
    SessionMissingError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import both, offload
from gcp_adk_store.kernel.transact import READ_FIRST, Attempts, Commit, Decision, Done, commit_all, transact
from gcp_adk_store.model.appends import Marker, Turns, genesis
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState, overlay
from gcp_adk_store.sessions.lifecycle.format import read_deletions
from gcp_adk_store.sessions.read.payloads import renew
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage

logger = logging.getLogger(__name__)

Condition = Callable[[StoredSession], bool]
"""Returns whether a session, as it is now, is to be deleted."""


@runtime_checkable
class SessionArtifacts(Protocol):
    """Takes the artifacts of sessions along. Each of its steps is harmless when repeated."""

    async def choose(
        self, source: SessionKey, target: SessionKey, past: ArtifactsAt
    ) -> Sequence[StoredObject]:
        """Look up what a fork of *source* to *target* copies.

        Raises:
            SessionExistsError: the id of the fork has artifacts already.
        """
        ...

    async def copy(
        self, chosen: Sequence[StoredObject], source: SessionKey, target: SessionKey, epoch: str
    ) -> None:
        """Copy what was chosen, marked with the *epoch* of the fork.

        Raises:
            SessionExistsError: another call saves artifacts under the id of the fork.
        """
        ...

    async def remove_copies(self, target: SessionKey, epoch: str) -> None:
        """Remove the copies that are marked with *epoch*."""
        ...

    async def put_back(
        self, key: SessionKey, *, at: ArtifactsAt, restored_at: float, restore_id: str
    ) -> object:
        """Make the versions that were the latest at a point the latest again, once a restore."""
        ...


_Seen = tuple[StoredSession | None, list[Document]]
"""A session, and the notes below its id."""


class SessionLifecycle:
    """Creates the sessions below one prefix of a database, extends their lives, and deletes them."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self.storage = storage
        self.reader = reader

    async def require_free(self, key: SessionKey) -> None:
        """Refuse the id of a session that exists, in 1 read; an expired session does not count.

        Raises:
            SessionExistsError: another session has the id.
        """
        now = await self.reader.header(key)
        if now is not None and not now.has_expired:
            raise SessionExistsError("another session has this id")

    async def delete(self, key: SessionKey) -> None:
        """Remove a session, and the remains of interrupted deletions of its id; harmless when repeated.

        Raises:
            OutcomeUnknownError: not answered, or some parts may be left.
        """
        await self.delete_if(key, lambda _: True)

    async def delete_if(self, key: SessionKey, condition: Condition) -> bool:
        """Remove a session as :meth:`delete` does if it meets *condition*; return whether it did.

        Raises:
            OutcomeUnknownError: as :meth:`delete`.
        """
        has_met = False

        def met(stored: StoredSession) -> bool:
            nonlocal has_met
            has_met = condition(stored)
            return has_met

        await self.finish_deletions(key, await self._end(key, met, advice="delete it again"))
        return has_met

    async def _make_way(self, key: SessionKey) -> None:
        """Remove an expired session, so that its id is free; log it if some of its parts stay."""
        ended = await self._end(key, lambda stored: stored.has_expired)
        try:
            await self.finish_deletions(key, ended)
        except StoreError as exc:
            # The id is free. A note names the parts that are left, for the next deletion of the id.
            telemetry.warn(logger, "parts of an expired session are left", exc)

    async def finish_deletions(self, key: SessionKey, ended: Sequence[Deletion]) -> None:
        """Remove the parts of sessions that ended; harmless when repeated.

        Raises:
            OutcomeUnknownError: some of them may be left; their notes stay then, too.
        """
        layout = self.storage.layout
        try:
            for deletion in ended:
                owner = layout.session_payloads(key, deletion.epoch)
                for place in deletion.spilled:
                    await self.storage.payloads.at(place).remove_all(owner)
                await commit_all(self.storage.documents, layout.finish_deletion(key, deletion))
            await self.storage.payloads.remove_interrupted()
        except (UnavailableError, AccessDeniedError, NotProvisionedError, OutcomeUnknownError) as exc:
            raise OutcomeUnknownError.since(
                exc, f"the session is gone, but not all of its parts; delete it again: {exc}"
            ) from exc

    async def abandon(
        self, key: SessionKey, ended: Deletion, artifacts: SessionArtifacts | None = None
    ) -> bool:
        """Remove the parts of a session that ended, or of a fork that is not completed.

        A fork that is completed or goes on meanwhile stays. Return whether nothing is left to remove.

        Raises:
            OutcomeUnknownError: as :meth:`finish_deletions`.
        """
        if ended.making:
            now = await self._claimed(key, ended)
            if now is None or now.making:
                return now is None
            ended = now
        if ended.making is not None and await self._is_complete(key, ended.epoch):
            removal = Delete(path=self.storage.layout.note(key, ended.epoch))
            await self.storage.documents.commit([removal])
            return True
        if ended.artifacts and artifacts is not None:
            await artifacts.remove_copies(key, ended.epoch)
        await self.finish_deletions(key, [ended])
        return True

    async def _claimed(self, key: SessionKey, ended: Deletion) -> Deletion | None:
        """Take over the parts of a fork that is not completed, unless it goes on.

        Return its note as it is then, ``None`` if it is gone: it still says ``making`` if its maker goes on.
        """
        layout = self.storage.layout
        path = layout.note(key, ended.epoch)
        # After it, the fork can no longer be completed.
        write = update(path, {"making": False}, must=ended.update_time)

        async def look() -> Deletion | None:
            (note,) = await self.storage.documents.get([path])
            return None if note is None else read_deletions([note])[0]

        def decide(now: Deletion | None, attempts: Attempts) -> Decision[Deletion | None]:
            if not attempts.refused:
                return Commit([write], lambda _: replace(ended, making=False))
            return Done(now)

        known: tuple[Deletion | None] = (ended,)
        return await transact(self.storage.documents, look, decide, known=known, advice="call it again")

    async def _is_complete(self, key: SessionKey, epoch: str) -> bool:
        """Return whether the fork of an epoch was completed, although it has a note.

        A commit that writes the note may arrive again after the one that removes it.
        """
        stored = await self.reader.stored(key)
        return stored is not None and stored.epoch == epoch

    async def _end(
        self, key: SessionKey, condition: Condition, *, advice: str = READ_FIRST
    ) -> list[Deletion]:
        """Delete the document of a session that meets *condition*; return the id's deletions to finish."""
        documents, layout = self.storage.documents, self.storage.layout
        path = layout.session(key)

        async def look() -> _Seen:
            return await both(self.reader.stored(key), documents.query(path, layout.deletions_collection))

        def decide(seen: _Seen, _: Attempts) -> Decision[list[Deletion]]:
            stored, notes = seen
            # A fork may be under way: only the collector, and the fork itself, remove its parts.
            unfinished = [note for note in read_deletions(notes) if note.making is None]
            if stored is None or not condition(stored):
                return Done(unfinished)
            mine = Deletion(epoch=stored.epoch, sealed=stored.sealed, spilled=stored.spilled)
            ended = [*unfinished, mine] if stored.sealed or stored.spilled else unfinished
            return Commit(layout.delete(stored), lambda _: ended)

        return await transact(documents, look, decide, advice=advice)

    async def create(
        self, key: SessionKey, *, epoch: str, time: float, initial: Spilled, ttl_seconds: float | None
    ) -> tuple[Marker, ScopedState]:
        """Make a session; return its marker and its state with the app's and the user's merged in.

        Raises:
            SessionExistsError, InvalidInputError, OutcomeUnknownError: as the service's ``create_session``.
            NotProvisionedError: the database takes no documents.
        """
        clock, layout = self.storage.documents.clock, self.storage.layout
        reading: asyncio.Task[ScopedState] | None = None
        if ttl_seconds is not None and not clock.is_set:
            # The first answer brings Firestore's time: once in a process, the read comes before the commit.
            reading = asyncio.create_task(self.reader.shared_state(key.owner))
            await reading
        packed = await offload(
            lambda: pack_initial(
                initial.state.session, place=self.storage.payloads.place, light=initial.state.has_light_values
            ),
            light=initial.state.has_light_values,
        )
        if packed is not None:
            initial = replace(initial, session=[*initial.session, packed])
        spilled = frozenset(payload.ref.place for payload in initial.session)
        expiry, parts_at = self.storage.begun(ttl_seconds)
        if expiry is not None:
            expiry = expiry.with_part_until(parts_at if spilled else None)
        writes = await offload(
            lambda: layout.create(
                key,
                epoch=epoch,
                time=time,
                state=initial.state,
                initial=None if packed is None else packed.ref,
                spilled=spilled,
                expiry=expiry,
            ),
            light=initial.state.has_light_values,
        )
        await self.storage.put(key, epoch, initial, parts_at=parts_at)
        reading = reading or asyncio.create_task(self.reader.shared_state(key.owner))
        try:
            update_time = await self.commit_new(
                key, writes, epoch=epoch, refused=NotProvisionedError.of_database
            )
        except BaseException:
            reading.cancel()
            await asyncio.wait([reading])
            raise
        try:
            shared = await reading
        except StoreError as exc:
            raise OutcomeUnknownError.since(
                exc, "the session was made, but its app and user state could not be read; get it again"
            ) from exc
        marker = Marker(
            epoch=epoch,
            revision=0,
            update_time=update_time,
            expiry=expiry,
            chain=genesis(epoch),
            turns=Turns(),
        )
        return marker, overlay(shared, initial.whole)

    async def commit_new(
        self,
        key: SessionKey,
        writes: Sequence[Write | Delete],
        *,
        epoch: str,
        revision: int = 0,
        refused: Callable[[], StoreError],
    ) -> str:
        """Commit *writes* that make a session, after the removal of an expired one of the id.

        Return the update time of the first write; an empty text if others have appended since. *refused*
        makes the error for another requirement of *writes* that does not hold.

        Raises:
            SessionExistsError, OutcomeUnknownError: as the service's ``create_session``.
        """

        async def look() -> tuple[StoredSession | None, bool]:
            stored = await self.reader.stored(key)
            has_expired = stored is not None and stored.has_expired
            if has_expired:
                await self._make_way(key)
            return stored, has_expired

        def decide(seen: tuple[StoredSession | None, bool], attempts: Attempts) -> Decision[str]:
            stored, is_free = seen
            if is_free:
                return Commit(writes, lambda written: written[0].update_time)
            if stored is None and not attempts.found_existing and not attempts.maybe_applied:
                raise refused()
            return Done(_made_before(stored, attempts, epoch=epoch, revision=revision))

        unread: tuple[StoredSession | None, bool] = (None, True)
        return await transact(self.storage.documents, look, decide, known=(unread,))

    async def new_part(self, key: SessionKey, base: Marker) -> int | None:
        """Return when a part that is written now expires, in Unix seconds; ``None`` without an expiry.

        Raises:
            SessionMissingError: the session has expired.
        """
        if base.expiry is None:
            return None
        await self._require_alive(key, base)
        return base.expiry.of_new_part(self.storage.documents.clock.now())

    async def extend(
        self, key: SessionKey, base: Marker, *, spilled: frozenset[PayloadPlace], new_part: int | None
    ) -> Expiry | None:
        """Return the expiry that a write gives the session; first renew parts that would expire before it.

        *new_part* is the expiry of a part that the write adds, in Unix seconds; *spilled* says where the
        payloads are that it refers to.

        Raises:
            SessionMissingError: the session has expired, and no append of others has extended it.
            StoredDataError: a segment is missing.
        """
        if base.expiry is None:
            return None
        await self._require_alive(key, base)
        now = self.storage.documents.clock.now()
        expiry = base.expiry.refreshed(now).with_part_until(new_part)
        if not expiry.outlives_its_parts:
            return expiry
        parts_at = expiry.of_new_part(now)
        await self._renew(key, base, spilled, parts_at=parts_at)
        await self._require_alive(key, base)  # a renewal of many parts may take as long as they live
        return expiry.renewed_until(parts_at)

    async def _require_alive(self, key: SessionKey, base: Marker) -> None:
        if base.has_expired(self.storage.documents.clock.now()):
            seen = await self.reader.header(key)
            if seen is None or seen.has_expired:
                raise SessionMissingError

    async def _renew(
        self, key: SessionKey, base: Marker, spilled: frozenset[PayloadPlace], *, parts_at: int
    ) -> None:
        stored = await self.reader.header(key)
        if stored is None or stored.update_time != base.update_time:
            return  # the commit that follows is refused
        documents, payloads, layout = self.storage.documents, self.storage.payloads, self.storage.layout
        paths = layout.segments(key, stored.epoch, stored.live)

        async def segments() -> list[Document]:
            found = await documents.get(paths, fields=("expire_at",)) if paths else []
            there = [document for document in found if document is not None]
            if len(there) < len(paths):
                now = await self.reader.header(key)
                if now is not None and now.update_time == stored.update_time:
                    raise segment_missing(stored)
            return there

        await renew(documents, layout, segments, parts_at=parts_at)
        owner = layout.session_payloads(key, stored.epoch)
        for place in stored.spilled | spilled:
            await payloads.at(place).renew_all(owner, parts_at=parts_at)


def _made_before(stored: StoredSession | None, attempts: Attempts, *, epoch: str, revision: int) -> str:
    """Return the update time of the session that an earlier attempt made, which *epoch* identifies.

    Raises:
        SessionExistsError: the id is taken by another session; nothing was written.
        OutcomeUnknownError: an earlier attempt may have been stored and deleted again.
    """
    if stored is None or stored.epoch != epoch:
        if attempts.maybe_applied:
            # It may have been made and deleted, or may still arrive and find the id free again.
            raise OutcomeUnknownError(
                "sent and not answered, and now the id is free, or that of another session; read before "
                "repeating it"
            )
        raise SessionExistsError("another session has this id")
    # This handle has not seen the events that others appended since: no update time fits it.
    return stored.update_time if (stored.revision, stored.restores) == (revision, 0) else ""

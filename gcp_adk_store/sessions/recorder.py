"""Record sessions: each method is one step of a session's life, atomic in storage."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.errors import RefusedError, TargetExistsError
from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.events import event_timestamp
from gcp_adk_store.codec.spilling import Spilled
from gcp_adk_store.codec.stored import read_deletions
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.errors import (
    AccessDeniedError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.model.expiry import Expiry
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import (
    Append,
    Marker,
    Segment,
    Settlement,
    StoredSession,
    events_to_settle,
    settle,
)
from gcp_adk_store.model.state import ScopedState, overlay
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.fan_out import beside
from gcp_adk_store.operations.operation import label
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.sessions.reader import SessionReader
from gcp_adk_store.sessions.renewals import renew
from gcp_adk_store.sessions.storage import SessionStorage

logger = logging.getLogger(__name__)


_LONGEST_RACE_S: Final = 0.02
"""Writers that merge lose the more often the longer they wait: of 10, the last waited 5 s with a quarter of a
second, 0.7 s with this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 where it is not known."""
    merged: bool
    """Whether others appended before it that the handle has not seen."""


class SessionRecorder:
    """Writes the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader, *, deadline_s: float) -> None:
        """Prepare the recorder; *deadline_s* bounds how long an append waits for others to let it merge."""
        self._deadline_s = deadline_s
        self._storage = storage
        self._reader = reader

    async def create(
        self, key: SessionKey, *, epoch: str, time: float, initial: Spilled, ttl_seconds: float | None
    ) -> tuple[Marker, ScopedState]:
        """Make a session; return its marker and its state with the app's and the user's merged in.

        Raises:
            SessionExistsError: the id is taken; nothing was written.
            InvalidInputError: *ttl_seconds* is no time to live.
            OutcomeUnknownError: not answered, or made but not read back.
            NotProvisionedError: the database takes no documents.
        """
        reading: asyncio.Task[ScopedState] | None = None
        if ttl_seconds is not None and not self._storage.documents.clock.is_set:
            # The first answer tells Firestore's time: once in a process the read comes first, not beside.
            reading = asyncio.create_task(self._reader.shared_state(key.owner))
            await reading
        spilled = frozenset(payload.ref.place for payload in initial.session)
        expiry, parts_at = None, None
        if ttl_seconds is not None:
            now = self._storage.documents.clock.now()
            expiry = Expiry.begin(ttl_seconds, now=now)
            parts_at = expiry.of_new_part(now)
            expiry = expiry.with_part_until(parts_at if spilled else None)
        writes = await apart(
            lambda: self._storage.layout.create(
                key, epoch=epoch, time=time, state=initial.state, spilled=spilled, expiry=expiry
            ),
            light=initial.state.is_light,
        )
        await self._put(key, epoch, initial, parts_at=parts_at)
        reading = reading or asyncio.create_task(self._reader.shared_state(key.owner))
        try:
            update_time = await self._create(key, writes, epoch=epoch)
        except BaseException:
            reading.cancel()
            await asyncio.wait([reading])
            raise
        try:
            shared = await reading
        except StoreError as exc:
            raise OutcomeUnknownError.since(
                exc,
                "the session was made, but its app and user state could not be read; get it again",
            ) from exc
        marker = Marker(epoch=epoch, revision=0, update_time=update_time, expiry=expiry)
        return marker, overlay(shared, initial.whole)

    async def append(
        self, key: SessionKey, append: Append, marker: Marker | None, change: Spilled, *, merging: bool
    ) -> Appended:
        """Store one event and its change of state, exactly once.

        Without a *marker*, or when *merging*, it is stored after whatever others appended.

        Raises:
            SessionMissingError: there is no such session; nothing was written.
            SessionConflictError: another writer was first; nothing was written.
            InvalidInputError: the document would exceed Firestore's limits even with its tail sealed.
            OutcomeUnknownError: not answered.
            UnavailableError: refused for now; nothing was written.
        """
        base = marker
        if base is None:
            base, merging = await self._look(key), True
        parts_at = None
        if change.app or change.user or change.session:
            # Spelled before anything is written: what cannot be stored is refused here.
            await self._spell(key, append, base)
            if base.expiry is not None:
                await self._require_alive(key, base)
                parts_at = base.expiry.of_new_part(self._storage.documents.clock.now())
            await self._put(key, base.epoch, change, parts_at=parts_at)
        new_part = parts_at if change.session else None
        try:
            appended = await self._append(key, append, base, merging=merging, new_part=new_part)
        except InvalidInputError:
            # A document that is full may have events to move out; if not, the same error comes again.
            base = await self.seal(key, base) or base
            appended = await self._append(key, append, base, merging=merging, new_part=new_part)
        return appended if marker is not None else replace(appended, marker=None)

    async def _append(
        self, key: SessionKey, append: Append, base: Marker, *, merging: bool, new_part: int | None
    ) -> Appended:
        now = asyncio.get_running_loop().time
        ends_at = now() + self._deadline_s
        merged = False
        attempts = 0
        while True:
            expiry = None
            if base.expiry is not None:
                expiry = await self._outlasted(key, append, base, base.expiry, new_part=new_part)
            try:
                # The update time moves with the write, so a second run is refused and settled.
                written, *_ = await self._storage.documents.commit(
                    await self._spell(key, append, base, expiry), repeatable_when_unanswered=True
                )
            except RefusedError as exc:
                refused = exc
            else:
                return Appended(
                    marker=base.advanced(written.update_time, expiry),
                    tail_bytes=written.incremented["tail_bytes"],
                    merged=merged,
                )
            with _settling(refused):
                stored = await self._reader.stored(key)
                settlement = await self._settle(append, base, stored)
            if stored is not None and settlement in (Settlement.LANDED, Settlement.OVERTAKEN):
                return Appended(marker=_after(settlement, base, stored), tail_bytes=0, merged=merged)
            gone = stored is None or settlement is Settlement.MISSING
            if gone and refused.perhaps_own and (append.delta.app or append.delta.user):
                # It may have been stored before the session went, and then its change of shared state stays.
                raise OutcomeUnknownError(
                    "sent and not answered, and then the session was gone; read before repeating it"
                ) from refused
            stale = settlement is Settlement.STALE
            if stored is None or settlement is Settlement.MISSING or (stale and not merging):
                raise _refused(settlement, key) from refused
            merged = merged or stale
            # As it was read, so that no other session is meant, and a request that arrives late is refused.
            base = stored.marker
            # Others' appends and seals are progress: only time bounds how often they come first.
            if now() >= ends_at:
                late = UnavailableError("others came first, time after time; try again later")
                late.attempts = attempts + 1
                raise late from refused
            if attempts:
                await asyncio.sleep(retry.jitter(attempts, longest_s=_LONGEST_RACE_S))
            attempts += 1

    async def _spell(
        self, key: SessionKey, append: Append, base: Marker, expiry: Expiry | None = None
    ) -> list[Write]:
        light = append.delta.is_light
        return await apart(lambda: self._storage.layout.append(key, append, base, expiry), light=light)

    async def _settle(self, append: Append, base: Marker, stored: StoredSession | None) -> Settlement:
        looked_at = None if stored is None else events_to_settle(base, stored)
        newest = await self._reader.newest(stored, at_least=looked_at)
        settlement = settle(append, marker=base, stored=stored, newest=newest)
        if settlement is Settlement.STALE:
            telemetry.count_conflict()
        return settlement

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Tell whether exactly this event is stored already, however long ago."""
        stored = await self._reader.stored(key)
        if stored is None or stored.has_expired:
            return False
        return append.text in await self._reader.newest(stored, at_least=None)

    async def seal(self, key: SessionKey, marker: Marker | None) -> Marker | None:
        """Move the tail into a segment; return what *marker* becomes.

        A tail that cannot be moved now is moved after a later append: sealing never fails.
        """
        now = self._storage.documents.clock.now()
        try:
            stored = await self._reader.stored(key)
            if stored is None or not stored.tail:
                return marker
            written = await self._storage.documents.commit(
                self._storage.layout.seal(stored, _sealed_tail(stored), now=now),
                repeatable_when_unanswered=True,
            )
        except RefusedError:
            # Another writer came first, or this commit's own first answer was lost: either way the
            # handle's next append learns the new update time.
            return marker
        except StoreError as exc:
            # The append that led here is stored; that must not look like a failure of it.
            logger.warning(
                "%ssealing is put off: %s", label(), type(exc).__name__, extra=telemetry.log_fields(exc)
            )
            return marker
        if marker != stored.marker:
            return marker
        expiry = stored.expiry and stored.expiry.with_part_until(stored.expiry.of_new_part(now))
        return replace(stored.marker, update_time=written[0].update_time, expiry=expiry)

    async def delete(self, key: SessionKey) -> None:
        """Remove a session, and what interrupted deletions of its id left."""
        await self.finish_deletions(key, await self._end(key, if_expired=False))

    async def _create(
        self, key: SessionKey, writes: Sequence[Write], *, epoch: str, before: RefusedError | None = None
    ) -> str:
        """Commit *writes*; *before* is what an earlier commit of them met, which may arrive yet."""
        unanswered = before is not None and before.perhaps_own
        try:
            with _settling(before or RefusedError()):
                written = await self._storage.documents.commit(writes, repeatable_when_unanswered=True)
        except TargetExistsError as exc:
            exc.perhaps_own = exc.perhaps_own or unanswered
            with _settling(exc):
                stored = await self._reader.stored(key)
            if stored is not None and stored.has_expired:
                with _settling(exc):
                    await self._make_way(key)
                return await self._create(key, writes, epoch=epoch, before=exc)
            if stored is None or stored.epoch != epoch:
                if exc.perhaps_own:
                    # It may have been made and deleted, or arrive yet and find the id free again.
                    raise OutcomeUnknownError(
                        "sent and not answered, and then the id was taken; read before repeating it"
                    ) from exc
                raise SessionExistsError(f"Session with id {key.session} already exists") from exc
            # Our own, whose answer was lost. Where others appended since, no update time is right for this
            # handle: it knows nothing of their events.
            return stored.update_time if stored.revision == 0 else ""
        except RefusedError as exc:
            raise NotProvisionedError(
                "the Firestore database does not exist or is not in native mode; create it, or "
                "correct project and database"
            ) from exc
        return written[0].update_time

    async def _make_way(self, key: SessionKey) -> None:
        """Remove a session that has expired."""
        ended = await self._end(key, if_expired=True)
        try:
            await self.finish_deletions(key, ended)
        except StoreError as exc:
            # The id is free; a note says what is left, for the next deletion of it.
            logger.warning(
                "%san expired session is not removed whole: %s",
                label(),
                type(exc).__name__,
                extra=telemetry.log_fields(exc),
            )

    async def finish_deletions(self, key: SessionKey, ended: Sequence[Deletion]) -> None:
        """Remove what is left of sessions that ended; harmless when repeated.

        Raises:
            OutcomeUnknownError: some of it may be left; what was noted of it is.
        """
        try:
            for deletion in ended:
                owner = self._storage.layout.session_payloads(key, deletion.epoch)
                for place in deletion.spilled:
                    await self._storage.payloads.remove_all(owner, place)
                await self._storage.documents.commit_all(self._storage.layout.finish_deletion(key, deletion))
        except (UnavailableError, AccessDeniedError, NotProvisionedError) as exc:
            raise OutcomeUnknownError.since(
                exc, f"the session is gone, but not all of its parts; delete it again: {exc}"
            ) from exc

    async def _look(self, key: SessionKey) -> Marker:
        """Return the marker of a handle that sees the session now."""
        seen = await self._reader.header(key)
        if seen is None:
            raise _refused(Settlement.MISSING, key)
        return seen.marker

    async def _put(self, key: SessionKey, epoch: str, spilled: Spilled, *, parts_at: int | None) -> None:
        """Write payloads before what refers to them; those of shared state stay."""
        for owner, payloads, kept_until in (
            (self._storage.layout.session_payloads(key, epoch), spilled.session, parts_at),
            (self._storage.layout.app_payloads(key.app), spilled.app, None),
            (self._storage.layout.user_payloads(key.owner), spilled.user, None),
        ):
            await self._storage.payloads.put(owner, payloads, parts_at=kept_until)

    async def _outlasted(
        self, key: SessionKey, append: Append, base: Marker, expiry: Expiry, *, new_part: int | None
    ) -> Expiry:
        """Return the expiry that *append* leaves a session with, after its parts were made to outlast it.

        Raises:
            SessionMissingError: it has passed, and nobody else's append has moved it.
            StoredDataError: a segment is missing.
        """
        await self._require_alive(key, base)
        now = self._storage.documents.clock.now()
        expiry = expiry.refreshed(now).with_part_until(new_part)
        if not expiry.outlives_its_parts:
            return expiry
        parts_at = expiry.of_new_part(now)
        await self._renew(key, append, base, parts_at=parts_at)
        return expiry.renewed_until(parts_at)

    async def _require_alive(self, key: SessionKey, base: Marker) -> None:
        if base.has_expired(self._storage.documents.clock.now()):
            seen = await self._reader.header(key)
            if seen is None or seen.has_expired:
                raise _refused(Settlement.MISSING, key)

    async def _renew(self, key: SessionKey, append: Append, base: Marker, *, parts_at: int) -> None:
        stored = await self._reader.header(key)
        if stored is None or stored.update_time != base.update_time:
            return  # the commit that follows finds that out
        paths = self._storage.layout.segments(key, stored.epoch, range(stored.sealed))

        async def segments() -> list[Document]:
            found = await self._storage.documents.get(paths, fields=("expire_at",)) if paths else []
            there = [document for document in found if document is not None]
            if len(there) < len(paths) and not await self._has_changed(stored):
                raise StoredDataError(f"one of the {stored.sealed} segments is missing")
            return there

        await renew(self._storage.documents, self._storage.layout, segments, parts_at=parts_at)
        owner = self._storage.layout.session_payloads(key, stored.epoch)
        for place in stored.spilled | append.spilled:
            await self._storage.payloads.renew_all(owner, place, parts_at=parts_at)

    async def _has_changed(self, stored: StoredSession) -> bool:
        now = await self._reader.header(stored.key)
        return now is None or now.update_time != stored.update_time

    async def _end(self, key: SessionKey, *, if_expired: bool) -> list[Deletion]:
        """End the session; return what of it, and of earlier ones with its id, is to be removed."""
        refused = RefusedError()
        while True:
            with _settling(refused):
                stored, notes = await beside(
                    self._reader.stored(key),
                    self._storage.documents.query(
                        self._storage.layout.session(key), self._storage.layout.deletions_collection
                    ),
                )
            unfinished = read_deletions(notes)
            if stored is None or (if_expired and not stored.has_expired):
                return unfinished
            try:
                await self._storage.documents.commit(
                    self._storage.layout.delete(stored), repeatable_when_unanswered=True
                )
            except RefusedError as exc:
                refused = exc
                continue  # an append came between, or our own first answer was lost
            mine = Deletion(epoch=stored.epoch, sealed=stored.sealed, spilled=stored.spilled)
            return [*unfinished, mine] if stored.sealed or stored.spilled else unfinished


@contextmanager
def _settling(refused: RefusedError) -> Iterator[None]:
    """Let no failure of the reads that settle a write say that nothing was written, where that is open."""
    try:
        yield
    except StoreError as exc:
        if not refused.perhaps_own:
            raise
        raise OutcomeUnknownError.since(
            exc,
            "sent and not answered, and what became of it could not be read; read before repeating it",
        ) from exc


def _after(settlement: Settlement, marker: Marker, stored: StoredSession) -> Marker:
    # Overtaken: no update time is right for this handle, so that its next append finds the others'.
    return stored.marker if settlement is Settlement.LANDED else marker.advanced("", stored.expiry)


def _refused(settlement: Settlement, key: SessionKey) -> StoreError:
    if settlement is Settlement.MISSING:
        return SessionMissingError(f"Session {key.session} not found")
    return SessionConflictError(
        "The session has been modified in storage since it was loaded. "
        "Reload the session before appending again."
    )


def _sealed_tail(stored: StoredSession) -> Segment:
    timestamps = [event_timestamp(text) for text in stored.tail]
    if stored.sealed_max is not None:
        timestamps.append(stored.sealed_max)
    return Segment(texts=stored.tail, running_max=max(timestamps))

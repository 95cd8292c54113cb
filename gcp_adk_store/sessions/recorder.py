"""Append events to sessions, each exactly once, and move old ones into segments."""

import logging
from dataclasses import dataclass, replace

from gcp_adk_store.codec.events import event_timestamp
from gcp_adk_store.codec.spilling import Spilled
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionMissingError,
    StoreError,
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
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.operation import label
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.refusals import RefusedError, settling
from gcp_adk_store.sessions.lifetimes import Lifetimes
from gcp_adk_store.sessions.reader import NOT_FOUND, Found, SessionReader
from gcp_adk_store.sessions.storage import SessionStorage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 if unknown."""
    merged: bool = False
    """Whether others appended before it that the handle has not seen."""


class SessionRecorder:
    """Appends to the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader
        self._lifetimes = Lifetimes(storage, reader)

    async def append(
        self, key: SessionKey, append: Append, marker: Marker | None, change: Spilled, *, merging: bool
    ) -> Appended:
        """Store one event and its change of state, exactly once.

        Without a *marker*, or when *merging*, it is stored after all that others appended.

        Raises:
            SessionMissingError: there is no such session; nothing was written.
            SessionConflictError: another writer was first; nothing was written.
            InvalidInputError: the document would exceed Firestore's limits even with its tail sealed.
            OutcomeUnknownError: not answered.
            UnavailableError: refused for now; nothing was written.
        """
        base = marker
        if base is None:
            seen = await self._reader.header(key)
            if seen is None:
                raise SessionMissingError(NOT_FOUND)
            base, merging = seen.marker, True
        parts_at = None
        if change.app or change.user or change.session:
            # Spelled before anything is written: what cannot be stored is refused here.
            await self._spell(key, append, base)
            parts_at = await self._lifetimes.new_part(key, base)
            await self._storage.put(key, base.epoch, change, parts_at=parts_at)
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
        """Commit until the append is stored, or until another write stands against it."""
        rereads = Rereads(self._storage.documents.deadline_s)
        merged = False
        while True:
            expiry = await self._lifetimes.extend(key, append, base, new_part=new_part)
            writes = await self._spell(key, append, base, expiry)
            try:
                # The update time moves with the write, so a second run is refused and settled.
                written, *_ = await self._storage.documents.commit(writes, repeatable_when_unanswered=True)
            except RefusedError as exc:  # the document is not as *base* says, perhaps by this commit itself
                refused = exc
            else:
                return Appended(
                    marker=base.advanced(written.update_time, expiry),
                    tail_bytes=written.incremented["tail_bytes"],
                    merged=merged,
                )
            with settling(refused):
                stored, settlement = await self._settle(key, append, base)
            resolved = resolve(stored, settlement, refused, append=append, base=base, merging=merging)
            if isinstance(resolved, Appended):
                return replace(resolved, merged=merged)
            merged = merged or settlement is Settlement.STALE
            base = resolved
            await rereads.again(refused)

    async def _settle(
        self, key: SessionKey, append: Append, base: Marker
    ) -> tuple[StoredSession | None, Settlement]:
        """Read the session after a refusal; return it, and what became of the append."""
        stored = await self._reader.stored(key)
        looked_at = None if stored is None else events_to_settle(base, stored)
        newest = await self._reader.newest(stored, at_least=looked_at)
        settlement = settle(append, marker=base, stored=stored, newest=newest)
        if settlement is Settlement.STALE:
            telemetry.count_conflict()
        return stored, settlement

    async def _spell(
        self, key: SessionKey, append: Append, base: Marker, expiry: Expiry | None = None
    ) -> list[Write]:
        light = append.delta.is_light
        return await apart(lambda: self._storage.layout.append(key, append, base, expiry), light=light)

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Tell whether exactly this event is stored already, however long ago."""
        stored = await self._reader.stored(key)
        if stored is None or stored.has_expired:
            return False
        return append.text in await self._reader.newest(stored, at_least=None)

    async def missed(self, key: SessionKey, marker: Marker) -> Found | None:
        """Return what others wrote since *marker*; ``None`` if it cannot be read."""
        try:
            return await self._reader.since(key, marker)
        except StoreError as exc:
            # The event is stored, so the append succeeds. The next append conflicts and learns.
            logger.warning(
                "%smerged, but what others wrote is not read yet: %s",
                label(),
                type(exc).__name__,
                extra=telemetry.log_fields(exc),
            )
            return None

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


def resolve(
    stored: StoredSession | None,
    settlement: Settlement,
    refused: RefusedError,
    *,
    append: Append,
    base: Marker,
    merging: bool,
) -> Appended | Marker:
    """Return the append if it is stored, or else the marker that its next commit must stand on.

    Args:
        stored: The session, read after the refusal; ``None`` if it is gone.
        settlement: What became of the append.
        refused: The refusal.
        append: What was sent.
        base: The marker that it stood on.
        merging: Whether the append may follow others that its handle has not seen.

    Raises:
        SessionMissingError: the session is gone; nothing was written.
        SessionConflictError: another writer was first, and *merging* is false; nothing was written.
        OutcomeUnknownError: the session is gone, and the append may have changed shared state before that.
    """
    if stored is None or settlement is Settlement.MISSING:
        if refused.perhaps_own and (append.delta.app or append.delta.user):
            # The shared state outlives the session.
            raise OutcomeUnknownError(
                "sent and not answered, and then the session was gone; read before repeating it"
            ) from refused
        raise SessionMissingError(NOT_FOUND) from refused
    if settlement is Settlement.LANDED:
        return Appended(marker=stored.marker, tail_bytes=0)
    if settlement is Settlement.OVERTAKEN:
        # Without an update time, the handle's next append finds what others appended.
        return Appended(marker=base.advanced("", stored.expiry), tail_bytes=0)
    if settlement is Settlement.STALE and not merging:
        raise SessionConflictError(
            "The session has been modified in storage since it was loaded. "
            "Reload the session before appending again."
        ) from refused
    # This document exactly: the next commit meets no other session, and storage refuses an earlier commit
    # that arrives late.
    return stored.marker


def _sealed_tail(stored: StoredSession) -> Segment:
    timestamps = [event_timestamp(text) for text in stored.tail]
    if stored.sealed_max is not None:
        timestamps.append(stored.sealed_max)
    return Segment(texts=stored.tail, running_max=max(timestamps))

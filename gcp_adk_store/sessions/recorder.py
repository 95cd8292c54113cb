"""Append events to sessions, each exactly once, and move old ones into segments."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gcp_adk_store.codec.segments import sealed_tail
from gcp_adk_store.codec.spilling import Spilled
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionMissingError,
    StoreError,
)
from gcp_adk_store.model.expiry import Expiry
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.redactions import holds
from gcp_adk_store.model.sessions import (
    Append,
    Marker,
    Settlement,
    StoredSession,
    events_to_settle,
    settle,
)
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.refusals import ConditionFailedError, RefusedError, settling
from gcp_adk_store.sessions.completion import Found
from gcp_adk_store.sessions.parts import renew
from gcp_adk_store.sessions.reader import NOT_FOUND, SessionReader, segment_missing
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.sessions.turn import Hold

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 if unknown."""
    merged: bool = False
    """Whether others appended before it that the handle has not seen."""
    was_held: bool = False
    """Whether the tail held it before, so that nothing was written."""


class PartlyHeldError(Exception):
    """Some events of an append are stored already: nothing was written, and each has to go alone."""


class SessionRecorder:
    """Appends to the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader
        self._lifetimes = Lifetimes(storage, reader)

    async def append(
        self,
        key: SessionKey,
        append: Append,
        marker: Marker | None,
        change: Spilled,
        *,
        merging: bool,
        hold: Hold | None = None,
    ) -> Appended:
        """Store events and their change of state in one commit, exactly once.

        Without a *marker*, or when *merging*, it follows all events that others appended. It is a part of the
        turn *hold*, if any.

        Raises:
            SessionMissingError, SessionConflictError, OutcomeUnknownError: as the service's ``append_event``.
            TurnLostError: the turn has ended; nothing was written.
            InvalidInputError: the document would exceed Firestore's limits even with its tail sealed.
            PartlyHeldError: the tail holds some of the events.
            UnavailableError: Firestore refused until the deadline; nothing was written.
        """
        base = marker
        if base is None:
            seen = await self._reader.stored(key)
            if seen is None:
                raise SessionMissingError(NOT_FOUND)
            base, merging = seen.marker, True
        parts_at = None
        if change.has_payloads:
            # This refuses an append that cannot be stored, before anything is written.
            await self._spell(key, append, base)
            parts_at = await self._lifetimes.new_part(key, base)
            await self._storage.put(key, base.epoch, change, parts_at=parts_at)
        new_part = parts_at if change.session else None

        put_again = partial(self._storage.put, key, base.epoch, change, parts_at=parts_at)

        commit = partial(
            self._append, key, append, merging=merging, new_part=new_part, hold=hold, put_again=put_again
        )
        try:
            appended = await commit(base)
        except InvalidInputError:
            # A full document may have events to seal; otherwise the same error comes again.
            base = await self.seal(key, base) or base
            appended = await commit(base)
        return appended if marker is not None else replace(appended, marker=None)

    async def _append(
        self,
        key: SessionKey,
        append: Append,
        base: Marker,
        *,
        merging: bool,
        new_part: int | None,
        hold: Hold | None,
        put_again: Callable[[], Awaitable[None]],
    ) -> Appended:
        """Commit until the append is stored, or another write conflicts with it."""
        rereads = Rereads(self._storage.documents.deadline_s)
        merged = False
        looked_at: Marker | None = None
        base = base if hold is None else hold.newest(base)
        while True:
            expiry = await self._lifetimes.extend(key, base, spilled=append.spilled, new_part=new_part)
            writes = await self._spell(key, append, base, expiry, hold)
            try:
                self._require_known(base, append, hold, is_read=base == looked_at)
                # The update time moves with the write, so a second run is refused and settled.
                written, *_ = await self._storage.documents.commit(writes, repeatable_when_unanswered=True)
            except RefusedError as exc:  # the document is not as *base* says, perhaps by this commit itself
                refused = exc
            else:
                self._reader.tails.appended(base, append)
                marker = base.advanced(append, written.update_time, expiry)
                if hold is not None:
                    hold.appended(marker)
                return Appended(marker=marker, tail_bytes=written.incremented["tail_bytes"], merged=merged)
            with settling(refused):
                stored, settlement = await self._settle(key, append, base, hold)
            if settlement is Settlement.LOST and hold is not None:
                raise hold.lose() from refused
            resolved = resolve(stored, settlement, refused, append=append, base=base, merging=merging)
            if isinstance(resolved, Appended):
                if hold is not None:
                    hold.appended(resolved.marker)
                return replace(resolved, merged=merged)
            merged = merged or settlement is Settlement.STALE
            with settling(refused):
                await _after_redactions(base, resolved, put_again)
            base = looked_at = resolved
            await rereads.again(refused)

    def _require_known(self, base: Marker, append: Append, hold: Hold | None, *, is_read: bool) -> None:
        """Require that a commit which stands on *base* needs no look at the session, unless it *is_read*.

        Raises:
            ConditionFailedError: it does.
        """
        if not base.update_time:  # a server may take time 0 for that of a missing document
            raise ConditionFailedError("the handle does not know the session's update time")
        if hold is not None:
            hold.require(base)
        if not is_read and self._reader.tails.may_hold(base, append):
            # Firestore adds an equal event to the tail once, and the commit would count it twice.
            raise ConditionFailedError("the tail is unknown, or holds an event of the append")

    async def _settle(
        self, key: SessionKey, append: Append, base: Marker, hold: Hold | None
    ) -> tuple[StoredSession | None, Settlement]:
        """Read the session after a refusal; return it, and what became of the append."""
        stored, newest = await self._newest(key, lambda stored: events_to_settle(base, stored))
        if hold is not None and stored is not None:
            hold.learn(stored)
        turn = None if hold is None else (hold.epoch, hold.fence)
        settlement = settle(append, marker=base, stored=stored, newest=newest, turn=turn)
        if settlement is Settlement.STALE:
            telemetry.count_conflict()
        return stored, settlement

    async def _spell(
        self,
        key: SessionKey,
        append: Append,
        base: Marker,
        expiry: Expiry | None = None,
        hold: Hold | None = None,
    ) -> list[Write]:
        light = append.delta.is_light
        until = None if hold is None else hold.renewed(self._storage.documents.clock.now())
        inbox = None if hold is None else hold.inbox_after
        spell = self._storage.layout.append
        return await apart(
            lambda: spell(key, append, base, expiry, turn_until=until, inbox=inbox), light=light
        )

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Return whether exactly these events are stored, since any time before."""
        stored, newest = await self._newest(key, lambda _: None)
        return stored is not None and all(holds({*newest}, text) for text in append.texts)

    async def _newest(
        self, key: SessionKey, at_least: Callable[[StoredSession], int | None]
    ) -> tuple[StoredSession | None, Sequence[str]]:
        """Return the session as it is now, ``None`` if it is gone, and its newest events as texts.

        Raises:
            StoredDataError: a segment is missing.
        """
        rereads = Rereads(self._storage.documents.deadline_s)
        while True:
            stored = await self._reader.stored(key)
            if stored is None or stored.has_expired:
                return None, ()
            newest = await self._reader.newest(stored, at_least=at_least(stored))
            if newest is not None:
                return stored, newest
            # Without these events, nobody can say that one is not stored.
            if await self._reader.lost(stored) is None:
                raise segment_missing(stored)
            await rereads.again()

    async def missed(self, key: SessionKey, marker: Marker) -> Found | None:
        """Return what others wrote since *marker*; ``None`` if it cannot be read."""
        try:
            return await self._reader.since(key, marker)
        except StoreError as exc:
            # The event is stored, so the append succeeds. The next append conflicts and learns.
            telemetry.warn(logger, "merged, but what others wrote is not read yet", exc)
            return None

    async def seal(self, key: SessionKey, marker: Marker | None) -> Marker | None:
        """Move the tail into a segment, and return the new *marker*.

        Sealing never fails: a later append moves a tail that cannot be moved now.
        """
        now = self._storage.documents.clock.now()
        try:
            stored = await self._reader.stored(key)
            if stored is None or not stored.tail:
                return marker
            written = await self._storage.documents.commit(
                self._storage.layout.seal(stored, sealed_tail(stored), now=now),
                repeatable_when_unanswered=True,
            )
        except RefusedError:
            # Another writer was first, or the answer to an earlier attempt was lost: the handle's next append
            # learns the new update time.
            return marker
        except StoreError as exc:
            # The append before it is stored, so it must not fail.
            telemetry.warn(logger, "sealing is put off", exc)
            return marker
        self._reader.tails.sealed(stored.marker)
        if marker != stored.marker:
            return marker
        expiry = stored.expiry and stored.expiry.with_part_until(stored.expiry.of_new_part(now))
        return replace(
            stored.marker, update_time=written[0].update_time, expiry=expiry, chain=stored.marker.head
        )


class Lifetimes:
    """Extends the lives of the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader

    async def new_part(self, key: SessionKey, base: Marker) -> int | None:
        """Return when a part that is written now expires, in Unix seconds; ``None`` without an expiry.

        Raises:
            SessionMissingError: the session has expired.
        """
        if base.expiry is None:
            return None
        await self._require_alive(key, base)
        return base.expiry.of_new_part(self._storage.documents.clock.now())

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
        now = self._storage.documents.clock.now()
        expiry = base.expiry.refreshed(now).with_part_until(new_part)
        if not expiry.outlives_its_parts:
            return expiry
        parts_at = expiry.of_new_part(now)
        await self._renew(key, base, spilled, parts_at=parts_at)
        await self._require_alive(key, base)  # a renewal of many parts may take as long as they live
        return expiry.renewed_until(parts_at)

    async def _require_alive(self, key: SessionKey, base: Marker) -> None:
        if base.has_expired(self._storage.documents.clock.now()):
            seen = await self._reader.header(key)
            if seen is None or seen.has_expired:
                raise SessionMissingError(NOT_FOUND)

    async def _renew(
        self, key: SessionKey, base: Marker, spilled: frozenset[PayloadPlace], *, parts_at: int
    ) -> None:
        stored = await self._reader.header(key)
        if stored is None or stored.update_time != base.update_time:
            return  # the commit that follows is refused
        documents, payloads, layout = self._storage.documents, self._storage.payloads, self._storage.layout
        paths = layout.segments(key, stored.epoch, stored.live)

        async def segments() -> list[Document]:
            found = await documents.get(paths, fields=("expire_at",)) if paths else []
            there = [document for document in found if document is not None]
            if len(there) < len(paths) and not await self._has_changed(stored):
                raise segment_missing(stored)
            return there

        await renew(documents, layout, segments, parts_at=parts_at)
        owner = layout.session_payloads(key, stored.epoch)
        for place in stored.spilled | spilled:
            await payloads.at(place).renew_all(owner, parts_at=parts_at)

    async def _has_changed(self, stored: StoredSession) -> bool:
        now = await self._reader.header(stored.key)
        return now is None or now.update_time != stored.update_time


async def _after_redactions(base: Marker, now: Marker, put_again: Callable[[], Awaitable[None]]) -> None:
    """Write the payloads of an append again if a redaction came between: it may have removed equal ones."""
    if now.redactions != base.redactions:
        await put_again()


def resolve(
    stored: StoredSession | None,
    settlement: Settlement,
    refused: RefusedError,
    *,
    append: Append,
    base: Marker,
    merging: bool,
) -> Appended | Marker:
    """Return the *append* if it is stored, or else the marker that its next commit requires.

    *stored* is the session after the refusal, and *base* the marker that the refused commit required. When
    *merging*, the append may follow others that its handle has not seen.

    Raises:
        SessionMissingError: the session is gone; nothing was written.
        SessionConflictError: another writer was first, and *merging* is false, or the session was restored;
            the session does not have the event.
        PartlyHeldError: it has some of the events.
        OutcomeUnknownError: the session is gone or was restored, and the append may have changed shared state
            before that.
    """
    if stored is None or settlement is Settlement.MISSING:
        if refused.perhaps_own and (append.delta.app or append.delta.user):
            # The shared state outlives the session.
            raise OutcomeUnknownError(
                "sent and not answered, and then the session was gone; read before repeating it"
            ) from refused
        raise SessionMissingError(NOT_FOUND) from refused
    if settlement in (Settlement.LANDED, Settlement.HELD):
        return Appended(marker=stored.marker, tail_bytes=0, was_held=settlement is Settlement.HELD)
    if settlement is Settlement.PARTLY:
        raise PartlyHeldError
    if settlement is Settlement.OVERTAKEN:
        # Without an update time, the handle's next append finds what others appended.
        return Appended(marker=base.advanced(append, "", stored.expiry), tail_bytes=0)
    if settlement is Settlement.RESTORED:
        if refused.perhaps_own and (append.delta.app or append.delta.user):
            raise OutcomeUnknownError(
                "sent and not answered, and then the session was restored to an earlier point; read before "
                "repeating it"
            ) from refused
        raise SessionConflictError(
            "The session was restored to an earlier point since it was loaded: it lost the events after the "
            "point. Read the session again, and decide again whether to append."
        ) from refused
    if settlement is Settlement.STALE and not merging:
        raise SessionConflictError(
            "The session has been modified in storage since it was loaded. "
            "Reload the session before appending again."
        ) from refused
    # The next commit requires exactly this document: it meets no other session, and storage refuses an
    # earlier commit that arrives late.
    return stored.marker

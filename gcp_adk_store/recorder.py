"""Record sessions: each method is one step of a session's life, atomic in storage."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.backends.firestore import Documents
from gcp_adk_store.backends.payloads import Payloads
from gcp_adk_store.backends.translate import RefusedError, TargetExistsError
from gcp_adk_store.codec.documents import Deletion, Layout, read_deletions
from gcp_adk_store.codec.events import event_timestamp
from gcp_adk_store.codec.payloads import Spilled
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.errors import (
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.fan_out import beside
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
from gcp_adk_store.reader import SessionReader

logger = logging.getLogger(__name__)

_SENDS: Final = 8
"""How often one append is sent while its session is sealed, or answers are lost, under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 where it is not known."""


class SessionRecorder:
    """Writes the sessions below one prefix of a database."""

    def __init__(
        self, documents: Documents, payloads: Payloads, layout: Layout, reader: SessionReader
    ) -> None:
        self._documents = documents
        self._payloads = payloads
        self._layout = layout
        self._reader = reader

    async def create(
        self, key: SessionKey, *, epoch: str, time: float, initial: Spilled
    ) -> tuple[Marker, ScopedState]:
        """Make a session; return its marker and its state with the app's and the user's merged in.

        Raises:
            SessionExistsError: the id is taken; nothing was written.
            OutcomeUnknownError: not answered, or made but not read back.
            NotProvisionedError: the database takes no documents.
        """
        what = f"create_session {key}"
        spilled = frozenset(payload.ref.place for payload in initial.session)
        writes = self._layout.create(key, epoch=epoch, time=time, state=initial.state, spilled=spilled)
        await self._put(key, epoch, initial, what=what)
        reading = asyncio.create_task(self._reader.shared_state(key.owner, what=what))
        try:
            update_time = await self._create(key, writes, epoch=epoch, what=what)
        except BaseException:
            reading.cancel()
            await asyncio.wait([reading])
            raise
        try:
            shared = await reading
        except StoreError as exc:
            raise OutcomeUnknownError(
                f"{what}: the session was made, but its app and user state could not be read; get it again"
            ) from exc
        marker = Marker(epoch=epoch, revision=0, update_time=update_time)
        return marker, overlay(shared, initial.whole)

    async def append(
        self, key: SessionKey, append: Append, marker: Marker | None, change: Spilled
    ) -> Appended:
        """Store one event and its change of state, exactly once.

        Raises:
            SessionMissingError: there is no such session; nothing was written.
            SessionConflictError: another writer was first; nothing was written.
            InvalidInputError: the document would exceed Firestore's limits even with its tail sealed.
            OutcomeUnknownError: not answered.
            UnavailableError: refused for now; nothing was written.
        """
        what = f"append_event {key}"
        # Spelled before anything is written: what cannot be stored is refused here.
        writes = self._layout.append(key, append, marker)
        if change.app or change.user or change.session:
            await self._put(key, await self._epoch(key, marker, what=what), change, what=what)
        try:
            return await self._append(key, append, marker, writes, what=what)
        except InvalidInputError:
            # A document that is full may have events to move out; if not, the same error comes again.
            marker = await self.seal(key, marker)
            return await self._append(
                key, append, marker, self._layout.append(key, append, marker), what=what
            )

    async def _append(
        self,
        key: SessionKey,
        append: Append,
        marker: Marker | None,
        writes: Sequence[Write],
        *,
        what: str,
    ) -> Appended:
        refusal: Exception | None = None
        for _ in range(_SENDS):
            try:
                written = await self._documents.commit(
                    writes,
                    what=what,
                    # The update time moves with the write, so a second run is refused and settled below.
                    repeatable_when_unanswered=marker is not None,
                )
            except RefusedError as exc:
                refusal = exc
            except OutcomeUnknownError as exc:
                if marker is not None:
                    raise
                refusal = exc
            else:
                first = written[0]
                return Appended(
                    marker=marker and marker.advanced(first.update_time),
                    tail_bytes=first.incremented["tail_bytes"],
                )
            stored = await self._reader.stored(key, what=what)
            looked_at = None if stored is None else events_to_settle(marker, stored)
            newest = await self._reader.newest(stored, at_least=looked_at, what=what)
            settlement = settle(append, marker=marker, stored=stored, newest=newest)
            if settlement in (Settlement.LANDED, Settlement.OVERTAKEN):
                return Appended(marker=_after(settlement, marker, stored), tail_bytes=0)
            if settlement is not Settlement.RETRY:
                raise _refused(settlement, key) from refusal
            if marker is not None and stored is not None:
                marker = stored.marker
                writes = self._layout.append(key, append, marker)
        raise UnavailableError(f"{what}: not stored after {_SENDS} tries; try again later") from refusal

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Tell whether exactly this event is stored already, however long ago."""
        what = f"append_event {key}"
        stored = await self._reader.stored(key, what=what)
        return append.text in await self._reader.newest(stored, at_least=None, what=what)

    async def seal(self, key: SessionKey, marker: Marker | None) -> Marker | None:
        """Move the tail into a segment; return what *marker* becomes.

        A tail that cannot be moved now is moved after a later append: sealing never fails.
        """
        what = f"seal {key}"
        try:
            stored = await self._reader.stored(key, what=what)
            if stored is None or not stored.tail:
                return marker
            written = await self._documents.commit(
                self._layout.seal(stored, _sealed_tail(stored)), what=what, repeatable_when_unanswered=True
            )
        except RefusedError:
            # Another writer came first, or this commit's own first answer was lost: either way the
            # handle's next append learns the new update time.
            return marker
        except StoreError as exc:
            # The append that led here is stored; that must not look like a failure of it.
            logger.warning("%s is put off: %s", what, type(exc).__name__)
            return marker
        if marker != stored.marker:
            return marker
        return stored.marker.at(written[0].update_time)

    async def delete(self, key: SessionKey) -> None:
        """Remove a session, and what interrupted deletions of its id left."""
        what = f"delete_session {key}"
        for deletion in await self._end(key, what=what):
            owner = self._layout.session_payloads(key, deletion.epoch)
            for place in deletion.spilled:
                await self._payloads.remove_all(owner, place, what=what)
            await self._documents.delete_all(self._layout.finish_deletion(key, deletion), what=what)

    async def _create(self, key: SessionKey, writes: Sequence[Write], *, epoch: str, what: str) -> str:
        try:
            written = await self._documents.commit(writes, what=what, repeatable_when_unanswered=True)
        except TargetExistsError as exc:
            stored = await self._reader.stored(key, what=what)
            if stored is None or stored.epoch != epoch:
                raise SessionExistsError(f"Session with id {key.session} already exists: {key}") from exc
            # Our own, whose answer was lost. Where others appended since, no update time is right for this
            # handle: it knows nothing of their events.
            return stored.update_time if stored.revision == 0 else ""
        except RefusedError as exc:
            raise NotProvisionedError(
                f"{what}: the Firestore database does not exist or is not in native mode; create it, or "
                "correct project and database"
            ) from exc
        return written[0].update_time

    async def _epoch(self, key: SessionKey, marker: Marker | None, *, what: str) -> str:
        if marker is not None:
            return marker.epoch
        stored = await self._reader.stored(key, what=what)
        if stored is None:
            raise _refused(Settlement.MISSING, key)
        return stored.epoch

    async def _put(self, key: SessionKey, epoch: str, spilled: Spilled, *, what: str) -> None:
        """Write payloads before what refers to them."""
        for owner, payloads in (
            (self._layout.session_payloads(key, epoch), spilled.session),
            (self._layout.app_payloads(key.app), spilled.app),
            (self._layout.user_payloads(key.owner), spilled.user),
        ):
            await self._payloads.put(owner, payloads, what=what)

    async def _end(self, key: SessionKey, *, what: str) -> list[Deletion]:
        """End the session; return what of it, and of earlier ones with its id, is to be removed."""
        while True:
            stored, notes = await beside(
                self._reader.stored(key, what=what),
                self._documents.query(
                    self._layout.session(key), self._layout.deletions_collection, what=what
                ),
            )
            unfinished = read_deletions(notes)
            if stored is None:
                return unfinished
            try:
                await self._documents.commit(
                    self._layout.delete(stored), what=what, repeatable_when_unanswered=True
                )
            except RefusedError:
                continue  # an append came between, or our own first answer was lost
            mine = Deletion(epoch=stored.epoch, sealed=stored.sealed, spilled=stored.spilled)
            return [*unfinished, mine] if stored.sealed or stored.spilled else unfinished


def _after(settlement: Settlement, marker: Marker | None, stored: StoredSession | None) -> Marker | None:
    if marker is None or stored is None:
        return None
    # Overtaken: no update time is right for this handle, so that its next append finds the others'.
    return stored.marker if settlement is Settlement.LANDED else marker.advanced("")


def _refused(settlement: Settlement, key: SessionKey) -> StoreError:
    if settlement is Settlement.MISSING:
        return SessionMissingError(f"Session {key.session} not found: {key}")
    return SessionConflictError(
        "The session has been modified in storage since it was loaded. "
        f"Reload the session before appending again: {key}"
    )


def _sealed_tail(stored: StoredSession) -> Segment:
    timestamps = [event_timestamp(text) for text in stored.tail]
    if stored.sealed_max is not None:
        timestamps.append(stored.sealed_max)
    return Segment(texts=stored.tail, running_max=max(timestamps))

"""Record sessions: each method is one step of a session's life, atomic in storage."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from google.adk.platform import time as platform_time

from gcp_adk_store.backends import retry
from gcp_adk_store.backends.firestore import Documents
from gcp_adk_store.backends.payloads import Payloads
from gcp_adk_store.backends.translate import RefusedError, TargetExistsError, TargetMissingError
from gcp_adk_store.codec.documents import Deletion, Layout, read_deletions
from gcp_adk_store.codec.events import event_timestamp
from gcp_adk_store.codec.payloads import Spilled
from gcp_adk_store.codec.writes import Write, Written
from gcp_adk_store.errors import (
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
from gcp_adk_store.fan_out import beside
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
from gcp_adk_store.reader import SessionReader

logger = logging.getLogger(__name__)


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

    def __init__(
        self,
        documents: Documents,
        payloads: Payloads,
        layout: Layout,
        reader: SessionReader,
        *,
        deadline_s: float,
    ) -> None:
        """Prepare the recorder; *deadline_s* bounds how long an append waits for others to let it merge."""
        self._deadline_s = deadline_s
        self._documents = documents
        self._payloads = payloads
        self._layout = layout
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
        what = f"create_session {key}"
        spilled = frozenset(payload.ref.place for payload in initial.session)
        expiry = None if ttl_seconds is None else Expiry.begin(ttl_seconds, now=time)
        if expiry is not None and spilled:
            expiry = expiry.with_new_part(time)
        writes = self._layout.create(
            key, epoch=epoch, time=time, state=initial.state, spilled=spilled, expiry=expiry
        )
        expire_at = None if expiry is None else expiry.of_new_part(time)
        await self._put(key, epoch, initial, expire_at=expire_at, what=what)
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
        what = f"append_event {key}"
        base = marker
        if marker is None:
            seen = await self._reader.header(key, what=what)
            if seen is None:
                raise _refused(Settlement.MISSING, key)
            base, epoch, merging = _blind_ground(seen), seen.epoch, True
        else:
            epoch = marker.epoch
        parts = bool(change.session)
        if parts or change.app or change.user:
            # Spelled before anything is written: what cannot be stored is refused here.
            self._layout.append(key, append, base)
            expiry = await self._kept(key, base, parts=parts, what=what)
            expire_at = None if expiry is None else expiry.of_new_part(platform_time.get_time())
            await self._put(key, epoch, change, expire_at=expire_at, what=what)
        try:
            appended = await self._append(key, append, base, merging=merging, parts=parts, what=what)
        except InvalidInputError:
            # A document that is full may have events to move out; if not, the same error comes again.
            base = await self.seal(key, base)
            appended = await self._append(key, append, base, merging=merging, parts=parts, what=what)
        return appended if marker is not None else replace(appended, marker=None)

    async def _append(
        self, key: SessionKey, append: Append, base: Marker | None, *, merging: bool, parts: bool, what: str
    ) -> Appended:
        now = asyncio.get_running_loop().time
        ends_at = now() + self._deadline_s
        merged = False
        attempts = 0
        while True:
            expiry = await self._kept(key, base, parts=parts, what=what)
            sent = await self._send(key, append, base, expiry, what=what)
            if isinstance(sent, Written):
                return Appended(
                    marker=base and base.advanced(sent.update_time, expiry),
                    tail_bytes=sent.incremented["tail_bytes"],
                    merged=merged,
                )
            stored = await self._reader.stored(key, what=what)
            settlement = await self._settle(append, base, stored, what=what)
            if settlement in (Settlement.LANDED, Settlement.OVERTAKEN):
                return Appended(marker=_after(settlement, base, stored), tail_bytes=0, merged=merged)
            if stored is not None and settlement is Settlement.STALE and merging:
                base, merged = _blind_ground(stored), True
            elif stored is None or settlement is not Settlement.RETRY:
                raise _refused(settlement, key) from sent
            else:
                base = base and stored.marker
            # Others' appends and seals are progress: only time bounds how often they come first.
            if now() >= ends_at:
                raise UnavailableError(
                    f"{what}: others came first, time after time; try again later"
                ) from sent
            if attempts:
                await asyncio.sleep(retry.jitter(attempts))
            attempts += 1

    async def _send(
        self, key: SessionKey, append: Append, base: Marker | None, expiry: Expiry | None, *, what: str
    ) -> Written | Exception:
        """Commit an append once; return what was written, or why that has to be settled."""
        try:
            written = await self._documents.commit(
                self._layout.append(key, append, base, expiry),
                what=what,
                # The update time moves with the write, so a second run is refused and settled.
                repeatable_when_unanswered=base is not None,
            )
        except RefusedError as exc:
            return exc
        except OutcomeUnknownError as exc:
            if base is not None:
                raise
            return exc
        return written[0]

    async def _settle(
        self, append: Append, base: Marker | None, stored: StoredSession | None, *, what: str
    ) -> Settlement:
        looked_at = None if stored is None else events_to_settle(base, stored)
        newest = await self._reader.newest(stored, at_least=looked_at, what=what)
        return settle(append, marker=base, stored=stored, newest=newest)

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Tell whether exactly this event is stored already, however long ago."""
        what = f"append_event {key}"
        stored = await self._reader.stored(key, what=what)
        if stored is None or stored.has_expired(platform_time.get_time()):
            return False
        return append.text in await self._reader.newest(stored, at_least=None, what=what)

    async def seal(self, key: SessionKey, marker: Marker | None) -> Marker | None:
        """Move the tail into a segment; return what *marker* becomes.

        A tail that cannot be moved now is moved after a later append: sealing never fails.
        """
        what = f"seal {key}"
        now = platform_time.get_time()
        try:
            stored = await self._reader.stored(key, what=what)
            if stored is None or not stored.tail:
                return marker
            written = await self._documents.commit(
                self._layout.seal(stored, _sealed_tail(stored), now=now),
                what=what,
                repeatable_when_unanswered=True,
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
        expiry = stored.expiry and stored.expiry.with_new_part(now)
        return replace(stored.marker, update_time=written[0].update_time, expiry=expiry)

    async def delete(self, key: SessionKey, *, if_expired: bool = False) -> None:
        """Remove a session, perhaps only *if_expired*, and what interrupted deletions of its id left."""
        what = f"delete_session {key}"
        for deletion in await self._end(key, if_expired=if_expired, what=what):
            owner = self._layout.session_payloads(key, deletion.epoch)
            for place in deletion.spilled:
                await self._payloads.remove_all(owner, place, what=what)
            await self._documents.commit_all(self._layout.finish_deletion(key, deletion), what=what)

    async def _create(self, key: SessionKey, writes: Sequence[Write], *, epoch: str, what: str) -> str:
        try:
            written = await self._documents.commit(writes, what=what, repeatable_when_unanswered=True)
        except TargetExistsError as exc:
            stored = await self._reader.stored(key, what=what)
            if stored is not None and stored.has_expired(platform_time.get_time()):
                await self.delete(key, if_expired=True)
                return await self._create(key, writes, epoch=epoch, what=what)
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

    async def _put(
        self, key: SessionKey, epoch: str, spilled: Spilled, *, expire_at: int | None, what: str
    ) -> None:
        """Write payloads before what refers to them; those of shared state stay."""
        for owner, payloads, kept_until in (
            (self._layout.session_payloads(key, epoch), spilled.session, expire_at),
            (self._layout.app_payloads(key.app), spilled.app, None),
            (self._layout.user_payloads(key.owner), spilled.user, None),
        ):
            await self._payloads.put(owner, payloads, expire_at=kept_until, what=what)

    async def _kept(self, key: SessionKey, base: Marker | None, *, parts: bool, what: str) -> Expiry | None:
        """Return the expiry that an append leaves a session with, whose parts are made to outlast it.

        Raises:
            SessionMissingError: it has passed, and nobody else's append has moved it.
        """
        if base is None or base.expiry is None:
            return None
        now = platform_time.get_time()
        if base.expiry.has_passed(now):
            seen = await self._reader.header(key, what=what)
            if seen is None or seen.has_expired(now):
                raise _refused(Settlement.MISSING, key)
        expiry = base.expiry.refreshed(now)
        if parts:
            expiry = expiry.with_new_part(now)
        if expiry.outlives_its_parts:
            await self._renew(key, base.epoch, expire_at=expiry.of_new_part(now), what=what)
            return expiry.renewed(now)
        return expiry

    async def _renew(self, key: SessionKey, epoch: str, *, expire_at: int, what: str) -> None:
        stored = await self._reader.header(key, what=what)
        if stored is None or stored.epoch != epoch:
            return  # the commit that follows finds that out
        paths = self._layout.segments(key, epoch, range(stored.sealed))
        owner = self._layout.session_payloads(key, epoch)
        try:
            renewals = [self._layout.renew(path, expire_at=expire_at) for path in paths]
            await self._documents.commit_all(renewals, what=what)
            for place in stored.spilled:
                await self._payloads.renew_all(owner, place, expire_at=expire_at, what=what)
        except TargetMissingError as exc:
            if await self._reader.header(key, what=what) == stored:
                raise StoredDataError(f"{what}: a segment or a payload is missing") from exc

    async def _end(self, key: SessionKey, *, if_expired: bool, what: str) -> list[Deletion]:
        """End the session; return what of it, and of earlier ones with its id, is to be removed."""
        while True:
            stored, notes = await beside(
                self._reader.stored(key, what=what),
                self._documents.query(
                    self._layout.session(key), self._layout.deletions_collection, what=what
                ),
            )
            unfinished = read_deletions(notes)
            if stored is None or (if_expired and not stored.has_expired(platform_time.get_time())):
                return unfinished
            try:
                await self._documents.commit(
                    self._layout.delete(stored), what=what, repeatable_when_unanswered=True
                )
            except RefusedError:
                continue  # an append came between, or our own first answer was lost
            mine = Deletion(epoch=stored.epoch, sealed=stored.sealed, spilled=stored.spilled)
            return [*unfinished, mine] if stored.sealed or stored.spilled else unfinished


def _blind_ground(stored: StoredSession) -> Marker | None:
    """Return what an append without a marker of its own stands on.

    A session that never ends by itself takes it as it is. One that does moves its end with every append, and
    that must not happen to a later session of the same id.
    """
    return None if stored.expiry is None else stored.marker


def _after(settlement: Settlement, marker: Marker | None, stored: StoredSession | None) -> Marker | None:
    if marker is None or stored is None:
        return None
    # Overtaken: no update time is right for this handle, so that its next append finds the others'.
    return stored.marker if settlement is Settlement.LANDED else marker.advanced("", stored.expiry)


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

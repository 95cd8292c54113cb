"""Take sessions back to points of their past, and finish restores that were interrupted."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gcp_adk_store import machine
from gcp_adk_store.codec.redactions import audit_in, audits_again, lost_audits
from gcp_adk_store.codec.segments import ARCHIVE_FIELDS, archives_named
from gcp_adk_store.codec.writes import Write, Written
from gcp_adk_store.errors import OutcomeUnknownError, SessionConflictError, SessionMissingError, StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import both, offload
from gcp_adk_store.kernel.transact import CHANGED, Attempts, Commit, Decision, Done, commit_all, transact
from gcp_adk_store.model.appends import Summary
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef, StoredPayload
from gcp_adk_store.model.session_fields import Expiry, runs_of
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.append.commit import EventEncoder
from gcp_adk_store.sessions.lifecycle.run import SessionArtifacts, SessionLifecycle
from gcp_adk_store.sessions.read.completion import Past, refs_in
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.restore.decide import followed_by, rewound
from gcp_adk_store.sessions.restore.format import (
    Restore,
    finish_restore,
    read_restores,
    restore,
    restores_collection,
)
from gcp_adk_store.settings import SessionLimits

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A restore before its commit."""

    writes: Sequence[Write]
    restore: Restore
    """What remains to do after it."""
    payloads: Sequence[StoredPayload]
    """Payloads that nothing refers to after it."""
    knows_archives: bool
    """Whether the archives of what it cuts off are among these for certain."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A session before its restore."""

    stored: StoredSession | None
    unfinished: Sequence[Restore]
    planned: _Planned | None = None
    events: Sequence[str] | None = None
    """Without a plan, the ids of its events; ``None`` if others changed the session meanwhile."""
    has_landed: bool = False
    """Whether this restore made the session so."""


def _decided(
    seen: _Look,
    base: StoredSession | None,
    attempts: Attempts,
    only_of_events: Sequence[str] | None,
) -> Decision[Sequence[Restore] | None]:
    """Decide what a restore writes; its value is what is left to finish, ``None`` if there is no change.

    *base* is the session that the commit before required.

    Raises:
        SessionMissingError, SessionConflictError, OutcomeUnknownError: as :meth:`Restorer.restore`.
    """
    stored = seen.stored
    if seen.has_landed:
        return Done(seen.unfinished)
    require_not_restored(stored, base, attempts)
    if stored is None or stored.has_expired:
        raise SessionMissingError
    if only_of_events is not None and seen.events not in (None, only_of_events):
        raise SessionConflictError(
            f"the session has other events than the {len(only_of_events)} that were kept: another call "
            "changed it; delete what was kept, or choose another id, and call again"
        )
    if seen.planned is None:
        return CHANGED if seen.events is None else Done(None)
    left = seen.planned.restore

    def restored(written: Sequence[Written]) -> Sequence[Restore]:
        now = replace(left, restored_at=float(written[0].update_time))
        return [] if now.is_done else [now]

    # A second run is refused, because the update time moves, and recognised by the id.
    return Commit(seen.planned.writes, restored)


@dataclass(slots=True)
class Restorer:
    """Restores the sessions below one prefix of a database."""

    _storage: SessionStorage
    _reader: SessionReader
    _lifecycle: SessionLifecycle
    _encoder: EventEncoder
    _limits: SessionLimits

    async def restore(
        self,
        key: SessionKey,
        point: Point,
        artifacts: SessionArtifacts | None,
        *,
        only_of_events: Sequence[str] | None = None,
    ) -> None:
        """Take a session back to *point*, exactly once; first finish restores that were interrupted.

        Raises:
            SessionMissingError, PointMissingError, OutcomeUnknownError: as the
                service's ``restore_session``.
        """
        restore_id = machine.random_bytes(16).hex()
        planned: _Planned | None = None
        base: StoredSession | None = None

        async def look() -> _Look:
            nonlocal planned
            stored, unfinished = await both(self._reader.stored(key), unfinished_restores(self._storage, key))
            last = None if stored is None else stored.restore_id
            if last is not None and all(one.restore_id != last for one in unfinished):
                # The session may have been read after another process restored it, and the notes before.
                unfinished = await unfinished_restores(self._storage, key)
            if stored is None or stored.has_expired:
                return _Look(stored, unfinished)
            if stored.restore_id == restore_id:
                return _Look(stored, unfinished, has_landed=True)  # the answer to the commit was lost
            if has_other_restores(stored, base):
                return _Look(stored, unfinished)  # the decision comes before the point, which may be gone
            able = [one for one in unfinished if one.artifacts is None or artifacts is not None]
            await self.finish(key, able, artifacts)
            past = await self._reader.past_unless_changed(stored, point=point)
            if past is None:
                return _Look(stored, unfinished)
            events = [one.event.id for one in past.events]
            if only_of_events not in (None, events) or _is_at_point(past):
                return _Look(stored, unfinished, events=events)
            planned = await self._plan(stored, past, restore_id, with_artifacts=artifacts is not None)
            return _Look(stored, unfinished, planned)

        def decide(seen: _Look, attempts: Attempts) -> Decision[Sequence[Restore] | None]:
            nonlocal base
            required, base = base, seen.stored
            return _decided(seen, required, attempts, only_of_events)

        unfinished = await transact(self._storage.documents, look, decide)
        if unfinished is not None:
            mine = [one for one in unfinished if one.restore_id == restore_id]
            await self._clean_up(key, mine, planned, artifacts)

    async def finish(
        self,
        key: SessionKey,
        restores: Sequence[Restore],
        artifacts: SessionArtifacts | None,
        *,
        knows_archives: bool = False,
    ) -> None:
        """Remove what *restores* cut off, and put back artifacts; harmless when repeated.

        If the caller *knows_archives* of it, they are gone.
        """
        for one in restores:
            if one.artifacts is not None and artifacts is not None:
                now = await self._reader.header(key)
                if now is not None and now.epoch == one.epoch and await self._is_left(key, one, now):
                    await artifacts.put_back(
                        key, at=one.artifacts, restored_at=one.restored_at, restore_id=one.restore_id
                    )
            if not knows_archives:
                await _remove_archives(self._storage, key, one)
            await commit_all(self._storage.documents, finish_restore(self._storage.layout, key, one))

    async def _is_left(self, key: SessionKey, one: Restore, now: StoredSession) -> bool:
        """Return whether nobody has finished a restore; a later one does so before its own commit."""
        return now.restore_id == one.restore_id or any(
            each.restore_id == one.restore_id for each in await unfinished_restores(self._storage, key)
        )

    async def _plan(
        self, stored: StoredSession, past: Past, restore_id: str, *, with_artifacts: bool
    ) -> _Planned:
        """Return what the commit writes, and write the payloads of the state at the point."""
        layout, at_point = self._storage.layout, past.stored
        change = await self._encoder.of_state(
            {name: value for name, value in at_point.state.items() if not isinstance(value, PayloadRef)}
        )
        state = {name: value for name, value in at_point.state.items() if isinstance(value, PayloadRef)}
        state.update(change.state.session)
        audits = audits_again(
            lost_audits(past.texts, past.count), time=self._storage.documents.clock.now(), limits=self._limits
        )
        back = await offload(
            lambda: followed_by(rewound(stored, past.segments, past.count), [audit.text for audit in audits]),
            light=False,
        )
        back = replace(
            back,
            state=state,
            spilled=stored.spilled | {payload.ref.place for payload in change.session},
            last_update_time=audits[-1].event.timestamp if audits else at_point.last_update_time,
        )
        kept = [*(one.event for one in past.events[: past.count]), *(audit.event for audit in audits)]
        summary = await offload(lambda: Summary.of(kept), light=False)
        cut = {*stored.live} - {*back.live}
        left = Restore(
            epoch=stored.epoch,
            restore_id=restore_id,
            segments=runs_of(sorted(cut)),
            artifacts=past.artifacts if with_artifacts else None,
            restored_at=0.0,
        )

        def encode(expiry: Expiry | None) -> list[Write]:
            return restore(layout, replace(back, expiry=expiry), left, summary)

        parts_at = None
        if change.session:
            await offload(lambda: encode(stored.expiry), light=False)  # refuses what cannot be stored
            parts_at = await self._lifecycle.new_part(stored.key, stored.marker)
            await self._storage.put(stored.key, stored.epoch, change, parts_at=parts_at)
        named = past.references
        kept_refs = refs_in(state).union(*named[: past.count])
        unused = refs_in(stored.state).union(*named[past.count :]) - kept_refs
        removed = zip(stored.live, past.segments, strict=True)
        archives = {ref for number, one in removed if number in cut for ref in (one.archive, one.old_archive)}
        unused |= {ref for ref in archives if ref is not None}
        payloads = await self._reader.unused(stored, past, unused)
        expiry = await self._lifecycle.extend(
            stored.key, stored.marker, spilled=stored.spilled, new_part=parts_at
        )
        return _Planned(
            writes=await offload(lambda: encode(expiry), light=False),
            restore=left,
            payloads=payloads,
            # After a restore, a segment from memory may lack its archive.
            knows_archives=not stored.restores or PayloadPlace.BUCKET not in stored.spilled,
        )

    async def _clean_up(
        self,
        key: SessionKey,
        restores: Sequence[Restore],
        planned: _Planned | None,
        artifacts: SessionArtifacts | None,
    ) -> None:
        """Do what remains after the commit.

        Raises:
            OutcomeUnknownError: artifacts may not be put back.
        """
        try:
            # A segment that is there names its archive: to a redaction, if this is interrupted.
            for payload in planned.payloads if planned else ():
                await self._storage.payloads.at(payload.place).remove_unchanged(payload.versions)
            knows_archives = planned is not None and planned.knows_archives
            await self.finish(key, restores, artifacts, knows_archives=knows_archives)
        except StoreError as exc:
            if artifacts is not None:
                raise OutcomeUnknownError.since(
                    exc,
                    "the session is restored, but perhaps not all of its artifacts are; call again, with any "
                    f"point that the session has: {exc}",
                ) from exc
            # A note names the segments, and the collector finds the payloads.
            telemetry.warn(logger, "parts that a restore cut off are left", exc)


async def unfinished_restores(storage: SessionStorage, key: SessionKey) -> list[Restore]:
    """Return the restores of a session that were interrupted, or that go on; 1 query."""
    layout = storage.layout
    notes = await storage.documents.query(layout.session(key), restores_collection(layout))
    return read_restores(notes)


async def _remove_archives(storage: SessionStorage, key: SessionKey, cut: Restore) -> None:
    """Remove the archives of the segments that a restore cut off, before their documents go.

    One that was put again since stays: a later segment may have the same events.
    """
    paths = storage.layout.segments(key, cut.epoch, cut.numbers)
    found = await storage.documents.get(paths, fields=ARCHIVE_FIELDS) if paths else []
    refs = archives_named(found)
    for payload in await storage.payloads.found(storage.layout.session_payloads(key, cut.epoch), refs):
        if payload.put_at < cut.restored_at:
            await storage.payloads.at(payload.place).remove_unchanged(payload.versions)


def require_not_restored(
    stored: StoredSession | None, base: StoredSession | None, attempts: Attempts
) -> None:
    """Require that a commit that was refused has certainly not changed the session.

    *base* is the session that it required, and *stored* the session now, which another call made so.

    Raises:
        OutcomeUnknownError: it may have, before another call restored or deleted the session.
    """
    if base is None or not attempts.maybe_applied:
        return
    if stored is None or has_other_restores(stored, base):
        raise OutcomeUnknownError(
            "sent and not answered, and then another call restored or deleted the session; read it before "
            "repeating this"
        )


def has_other_restores(stored: StoredSession, base: StoredSession | None) -> bool:
    """Return whether another call restored the session, or made it anew, after *base* was read."""
    return base is not None and (stored.epoch, stored.restores) != (base.epoch, base.restores)


def _is_at_point(past: Past) -> bool:
    """Return whether nothing is after the point but events that report redactions before it again."""
    later = [audit_in(text) for text in past.texts[past.count :]]
    if any(audit is None or audit.state_keys for audit in later):
        return False
    events = [one for audit in later if audit is not None for one in audit.events]
    return all(one.position < past.count for one in events) and len(events) == sum(
        len(audit.events) for audit in lost_audits(past.texts, past.count)
    )

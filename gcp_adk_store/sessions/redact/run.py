"""Redact events: put markers in their places, report it, and remove what only they referred to."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.codec.decode import decode_event
from gcp_adk_store.codec.markers import hash_of_marker
from gcp_adk_store.codec.redactions import Replaced, audit_in, audit_of, removed_refs
from gcp_adk_store.codec.segments import ARCHIVE_FIELDS, archive_named, rewritten, without_window
from gcp_adk_store.codec.stored import read_session, read_state
from gcp_adk_store.codec.writes import Delete, Document, Write
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    PointMissingError,
    SessionMissingError,
    StoredDataError,
    StoreError,
)
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.transact import CHANGED, Attempts, Commit, Decision, Done, commit_all, transact
from gcp_adk_store.model.appends import Summary, hash_of, replaced_by
from gcp_adk_store.model.history import Redaction, repeats
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef, StoredPayload
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState, merge_scopes, split_scopes
from gcp_adk_store.sessions.append.commit import EventEncoder
from gcp_adk_store.sessions.append.recorder import SessionRecorder
from gcp_adk_store.sessions.read.completion import Past, decoded, refs_in, segment_in
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.redact.format import (
    marker_of,
    redaction_count_write,
    redaction_write,
    shared_writes,
    summaries_of,
    texts_in,
)
from gcp_adk_store.sessions.restore.run import has_other_restores, require_not_restored, unfinished_restores
from gcp_adk_store.settings import SessionLimits

_WINDOWS_AT_ONCE: Final = 200
"""Windows that are read at once: 13 MiB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A redaction before its commit."""

    redaction: Redaction
    writes: Sequence[Write]
    payloads: Sequence[StoredPayload]
    """Payloads that nothing refers to after it, as they are now."""
    windows: Sequence[str] = ()
    """Paths of segments whose windows go before the event does."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A session before its redaction, ``None`` if it is gone."""

    stored: StoredSession | None = None
    planned: _Planned | None = None
    """``None`` if others changed the session meanwhile."""
    has_landed: bool = False
    """Whether the session has this redaction already."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts events of the sessions below one prefix of a database."""

    _storage: SessionStorage
    _reader: SessionReader
    _encoder: EventEncoder
    _limits: SessionLimits

    async def redact(
        self, key: SessionKey, event_id: str, *, reason: str, state: bool, dry_run: bool
    ) -> Redaction:
        """Put a marker in the place of an event, exactly once; then remove what only it referred to."""
        audit_id = platform_uuid.new_uuid()
        planned: _Planned | None = None
        base: StoredSession | None = None

        async def look() -> _Look:
            nonlocal planned
            stored, title, shared = await self._read(key)
            if stored is None or stored.has_expired:
                return _Look()
            # After another restore the decision comes first: the event may be gone.
            is_other = has_other_restores(stored, base)
            past = None if is_other else await self._reader.past_unless_changed(stored, point=None)
            if past is None:
                return _Look(stored)
            if planned is not None and any(one.event.id == audit_id for one in past.events):
                return _Look(stored, planned, has_landed=True)  # the answer to the commit was lost
            found = await self._plan_unless_changed(
                past, title, shared, event_id=event_id, audit_id=audit_id, reason=reason, state=state
            )
            planned = found or planned
            return _Look(stored, found)

        def decide(seen: _Look, attempts: Attempts) -> Decision[_Planned]:
            nonlocal base
            require_not_restored(seen.stored, base, attempts)
            if seen.stored is None:
                raise SessionMissingError
            base, done = seen.stored, seen.planned
            if done is None:
                return CHANGED
            if dry_run or seen.has_landed or not done.writes:
                return Done(done)
            # A second run is refused, because the update time moves, and recognised by the audit.
            return Commit(partial(self._writes, done), lambda _: done)

        commit = partial(transact, self._storage.documents, look, decide)
        done = await self._committed(key, commit, is_decided=lambda: base is not None)
        if dry_run:
            return replace(done.redaction, is_dry_run=True, audit_id="")
        await self._clean_up(key, done)
        return done.redaction

    async def _committed(
        self, key: SessionKey, commit: Callable[[], Awaitable[_Planned]], *, is_decided: Callable[[], bool]
    ) -> _Planned:
        """Commit a redaction; without a decision, an error is about the event, and not about the document."""
        try:
            return await commit()
        except InvalidInputError:
            if not is_decided():
                raise
        # As for an append: a full document may have events to seal; otherwise the same error comes again.
        await SessionRecorder(self._storage, self._reader).seal(key, None)
        return await commit()

    async def _writes(self, planned: _Planned) -> Sequence[Write]:
        """Return the writes of a redaction, after the windows of later segments are removed.

        A seal that keeps another one meanwhile changes the session, so that the redaction is decided again.
        """
        documents = self._storage.documents
        for start in range(0, len(planned.windows), _WINDOWS_AT_ONCE):
            some = planned.windows[start : start + _WINDOWS_AT_ONCE]
            found = await documents.get(some, fields=["window"])
            there = [one for one in found if one is not None and "window" in one.fields]
            await commit_all(documents, [without_window(one.path, must=one.update_time) for one in there])
        return planned.writes

    async def _read(self, key: SessionKey) -> tuple[StoredSession | None, str | None, list[Document]]:
        """Return a session, its title, and the documents of its app and its user, if they are there."""
        layout = self._storage.layout
        paths = [layout.session(key), layout.app(key.app), layout.user(key.owner)]
        document, *shared = await self._storage.documents.get(paths)
        if document is None:
            return None, None, []
        title = document.fields.get("title")
        return (
            await decoded(read_session, document),
            title if isinstance(title, str) else None,
            [one for one in shared if one is not None],
        )

    async def _plan_unless_changed(self, past: Past, *seen: Any, **given: Any) -> _Planned | None:
        """Return what :meth:`_plan` does; ``None`` if another call cut off a segment since."""
        try:
            return await self._plan(past, *seen, **given)
        except StoredDataError:
            if await self._reader.lost(past.stored) is None:
                raise
            return None

    async def _plan(
        self,
        past: Past,
        title: str | None,
        shared: Sequence[Document],
        *,
        event_id: str,
        audit_id: str,
        reason: str,
        state: bool,
    ) -> _Planned:
        """Return what the commit writes; nothing if the event was redacted before.

        Raises:
            PointMissingError: none of the events has the id.
            InvalidInputError: one of them reports a redaction.
        """
        stored, before = past.stored, past.texts
        events = [one.event for one in past.events]
        meant = [number for number, event in enumerate(events) if event.id == event_id]
        if not meant:
            raise PointMissingError(
                f"none of the session's {len(events)} events has the id of the event to redact"
            )
        new = [number for number in meant if replaced_by(before[number]) is None]
        if any(_reports(before[number], before) for number in new):
            raise InvalidInputError(
                "the event reports a redaction, and has its ids, hashes and reason alone; without it, nobody "
                "could prove the redaction. Delete the session to remove it"
            )
        time = self._storage.documents.clock.now()
        named = past.references
        given = {
            number: (await self._encoder.of_state(events[number].actions.state_delta)).state for number in new
        }
        for number, delta in given.items():  # a later value may stand in the place of a large one
            named[number] |= refs_in(delta.session)
        markers = {
            number: await offload(
                partial(
                    marker_of,
                    before[number],
                    events[number],
                    sorted(named[number], key=str),
                    reason=reason,
                    time=time,
                    limits=self._limits,
                ),
                light=True,
            )
            for number in new
        }
        kept = self._kept_state(stored, shared, [*given.values()])
        cleared = dict.fromkeys(kept) if state else {}
        repeats_title = repeats(title, [text for number in new for text in texts_in(events[number])])
        unused = set().union(*(named[number] for number in new))
        for number in meant:
            if number not in markers:
                unused |= {*removed_refs(before[number])}
        unused |= {
            value for key, value in stored.state.items() if key in cleared and isinstance(value, PayloadRef)
        }
        used = refs_in({key: value for key, value in stored.state.items() if key not in cleared})
        used = used.union(*(refs for number, refs in enumerate(named) if number not in markers))
        unused -= used
        segments, archives = await self._segments(past, markers)
        unused |= past.archives(new) | archives
        scopes = split_scopes(cleared)
        payloads = await self._unused(past, unused, used)
        payloads += await self._unused_shared(stored.key, shared, scopes, [*given.values()])
        redaction = Redaction(
            app_name=stored.key.app,
            user_id=stored.key.user,
            session_id=stored.key.session,
            event_id=event_id,
            is_dry_run=False,
            is_new=bool(new),
            positions=tuple(meant),
            sha256=tuple(hash_of(before[number]).hex() for number in meant),
            audit_id=audit_id if new else "",
            payloads=len(payloads),
            state_keys=tuple(
                dict.fromkeys(key for number in new for key in events[number].actions.state_delta)
            ),
            state_kept=() if state else tuple(kept),
            state_removed=tuple(cleared),
            title_removed=repeats_title,
            compactions=summaries_of(events, meant),
        )
        if not new:
            # An append that found one of these payloads stored is refused then, and stores it again.
            counted = [redaction_count_write(self._storage.layout, stored)] if payloads else []
            return _Planned(redaction=redaction, writes=counted, payloads=payloads)
        audit = audit_of(
            event_id,
            [
                Replaced(number, hash_of(before[number]).hex(), hash_of_marker(markers[number]))
                for number in new
            ],
            audit_id=audit_id,
            reason=reason,
            time=time,
            state=cleared,
            limits=self._limits,
        )
        now = [
            decode_event(markers[number]).event if number in markers else one
            for number, one in enumerate(events)
        ]
        summary = await offload(lambda: Summary.of([*now, audit.event]), light=False)
        texts = [markers.get(number, text) for number, text in enumerate(before)]
        header = redaction_write(
            self._storage.layout,
            stored,
            texts[len(texts) - len(stored.tail) :],
            audit,
            last_text=summary.last_text,
            state=scopes,
            without_title=repeats_title,
        )
        of_shared = shared_writes(self._storage.layout, stored.key, scopes, shared)
        return _Planned(
            redaction=redaction,
            writes=[header, *segments, *of_shared],
            payloads=payloads,
            windows=self._windows(past, min(new)),
        )

    async def _unused(
        self, past: Past, unused: AbstractSet[PayloadRef], used: AbstractSet[PayloadRef]
    ) -> list[StoredPayload]:
        """Return those of *unused* that its initial state does not refer to, and what no document names.

        An archive that was interrupted left an object with events as they were then, perhaps before another
        redaction or a restore. *used* are the payloads of events and of the state.
        """
        stored, payloads = past.stored, self._storage.payloads
        in_bucket = {ref for ref in unused if ref.place is PayloadPlace.BUCKET}
        found = await self._reader.unused(stored, past, unused - in_bucket)
        if not in_bucket and (payloads.in_bucket is None or not (stored.live or stored.restores)):
            return found
        there = await payloads.at(PayloadPlace.BUCKET).of(
            self._storage.layout.session_payloads(stored.key, stored.epoch)
        )
        names = {ref.sha256 for ref in used}
        if any(one.sha256 not in names for one in there):
            archives = await self._archives(stored) - unused
            names |= {ref.sha256 for ref in archives | await self._reader.in_initial(stored, past)}
        return found + [one for one in there if one.sha256 not in names]

    async def _unused_shared(
        self,
        key: SessionKey,
        documents: Sequence[Document],
        cleared: ScopedState,
        given: Sequence[ScopedState],
    ) -> list[StoredPayload]:
        """Return the payloads of app and user that only *cleared* keys of state, or *given* values, have."""
        layout, found = self._storage.layout, list[StoredPayload]()
        names = {
            layout.app(key.app): (cleared.app, [each.app for each in given]),
            layout.user(key.owner): (cleared.user, [each.user for each in given]),
        }
        for document in documents:
            state, (gone, values) = read_state(document), names[document.path]
            refs = refs_in({name: state.get(name) for name in gone}).union(*map(refs_in, values))
            refs -= refs_in({name: value for name, value in state.items() if name not in gone})
            found += await self._storage.payloads.found(layout.shared_payloads(document.path), refs)
        return found

    async def _archives(self, stored: StoredSession) -> set[PayloadRef]:
        """Return the archives that the segments name now; a process may know one since before its archive.

        Raises:
            StoredDataError: a segment is missing or damaged.
        """
        paths = self._storage.layout.segments(stored.key, stored.epoch, stored.live)
        found: set[PayloadRef | None] = set()
        for document in await self._storage.documents.get(paths, fields=ARCHIVE_FIELDS) if paths else ():
            if document is None:
                raise segment_missing(stored)
            found.add(archive_named(document))
        return {ref for ref in found if ref is not None}

    def _windows(self, past: Past, first: int) -> list[str]:
        """Return the paths of the segments with windows that end after the event number *first*.

        They may have the event, or lack others that a read needs without it: what it summarised, or a call
        that it answered. That of its own segment, too, was made when the event was there.
        """
        stored = past.stored
        paths = self._storage.layout.segments(stored.key, stored.epoch, stored.live)
        pairs = zip(paths, past.spans, strict=True)
        return [path for path, (segment, span) in pairs if segment.window and span.stop > first]

    async def _segments(self, past: Past, markers: Mapping[int, str]) -> tuple[list[Write], set[PayloadRef]]:
        """Return the writes of the segments that hold some of the events of *markers*, and their archives."""
        starts = {
            number: span.start
            for number, (_, span) in zip(past.stored.live, past.spans, strict=True)
            if any(one in span for one in markers)
        }
        paths = self._storage.layout.segments(past.stored.key, past.stored.epoch, starts)
        found = await self._storage.documents.get(paths) if paths else []
        owner = self._storage.layout.session_payloads(past.stored.key, past.stored.epoch)
        writes: list[Write] = []
        archives: set[PayloadRef] = set()
        for first, document in zip(starts.values(), found, strict=True):
            if document is None:
                raise segment_missing(past.stored)
            segment = await segment_in(document, owner, self._storage.payloads)
            archives |= {one for one in (segment.archive, segment.old_archive) if one is not None}
            texts = [markers.get(first + place, text) for place, text in enumerate(segment.texts)]
            write = partial(
                rewritten, document.path, replace(segment, texts=texts), must=document.update_time
            )
            writes.append(await offload(write, light=False))
        return writes, archives

    def _kept_state(
        self, stored: StoredSession, documents: Sequence[Document], given: Sequence[ScopedState]
    ) -> list[str]:
        """Return the keys that still have one of the values that were *given* to them."""
        layout, key = self._storage.layout, stored.key
        shared = {document.path: read_state(document) for document in documents}
        now = merge_scopes(
            ScopedState(
                app=shared.get(layout.app(key.app), {}),
                user=shared.get(layout.user(key.owner), {}),
                session=stored.state,
            )
        )
        kept: dict[str, None] = {}
        for delta in given:
            kept |= {
                name: None
                for name, value in merge_scopes(delta).items()
                if value is not None and name in now and (type(now[name]), now[name]) == (type(value), value)
            }
        return [*kept]

    async def _clean_up(self, key: SessionKey, planned: _Planned) -> None:
        """Remove payloads that nothing refers to, and copies of the event that an unfinished restore left.

        Raises:
            OutcomeUnknownError: something may be left.
        """
        documents, layout = self._storage.documents, self._storage.layout
        try:
            for payload in planned.payloads:
                await self._storage.payloads.at(payload.place).remove_unchanged(payload.versions)
            for left in await unfinished_restores(self._storage, key):
                paths = layout.segments(key, left.epoch, left.numbers)
                await commit_all(documents, [Delete(path=path) for path in paths])
            await self._storage.payloads.scrub()
            await documents.scrub()
        except StoreError as exc:
            raise OutcomeUnknownError.since(
                exc,
                "the event is redacted, but perhaps not all of its large content is removed; call again with "
                f"the same event: {exc}",
            ) from exc


def _reports(text: str, texts: Sequence[str]) -> bool:
    """Return whether *text* reports the redaction of one of *texts*."""
    audit = audit_in(text)
    return audit is not None and any(
        0 <= one.position < len(texts) and (replaced_by(texts[one.position]) or b"").hex() == one.sha256
        for one in audit.events
    )

"""Archive the oldest events of sessions: write them to the bucket, then leave them out of reads."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gcp_adk_store.codec.documents import places, times
from gcp_adk_store.codec.segments import (
    ARCHIVE_FIELDS,
    archive_payload,
    archived,
    archived_fields,
    archives_named,
)
from gcp_adk_store.codec.writes import Write, update
from gcp_adk_store.errors import InvalidInputError, OutcomeUnknownError, PayloadMissingError, StoreError
from gcp_adk_store.kernel.concurrency import Pauses, offload
from gcp_adk_store.kernel.transact import CHANGED, Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import Archived
from gcp_adk_store.model.sessions import Segment, StoredSession, whole_segments
from gcp_adk_store.sessions.archive.decide import (
    EventFacts,
    SessionArchive,
    archived_with,
    before_whole_turns,
)
from gcp_adk_store.sessions.read.completion import decode_events
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage

_SEGMENTS_AT_ONCE: Final = 50
"""Segments of one commit: some 3 MiB of events are in memory."""


class _ChangedError(Exception):
    """Others changed the session while its events were read or written."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A session before its next segments are archived."""

    stored: StoredSession
    now: Archived | None = None
    """What is archived then; ``None`` if others changed the session meanwhile."""
    writes: Sequence[Write] = ()
    is_last: bool = True

    @property
    def life(self) -> tuple[str, int]:
        """Epoch and restores of the session."""
        return self.stored.epoch, self.stored.restores


async def archive(
    storage: SessionStorage, reader: SessionReader, key: SessionKey, before: Point, *, dry_run: bool
) -> SessionArchive:
    """Archive the events of a session *before* a point, as the service's ``archive_session``."""
    if storage.payloads.in_bucket is None:
        raise InvalidInputError("archived events go to a bucket; open the store with bucket=")
    run = _Run(storage, reader, key, before, dry_run)

    def decide(seen: _Look, attempts: Attempts) -> Decision[_Look]:
        if run.sent_in not in (None, seen.life) and (attempts.maybe_applied or run.has_committed):
            # What it archived may be gone, and the point be among other events.
            raise OutcomeUnknownError(
                "the session was restored or made anew while its events were archived; "
                "look at it before you call again"
            )
        if seen.now is None:
            return CHANGED
        if dry_run or seen.now == seen.stored.archived:
            return Done(seen)
        run.sent_in = seen.life
        # A second run finds these segments archived.
        return Commit(seen.writes, lambda _: run.committed(seen))

    done = await transact(storage.documents, run.look, decide)
    try:
        while not done.is_last:
            done = await transact(storage.documents, run.look, decide)
    except StoreError as exc:
        raise OutcomeUnknownError.since(
            exc, f"the events are archived, but not all of them are in the bucket; call again: {exc}"
        ) from exc
    owner = storage.layout.session_payloads(key, done.stored.epoch)
    return SessionArchive(
        app_name=key.app,
        user_id=key.user,
        session_id=key.session,
        is_dry_run=dry_run,
        events=(done.now or done.stored.archived).events,
        segments=len(run.moved),
        bytes=sum(ref.size for ref in run.moved.values()),
        folder=storage.payloads.in_bucket.folder(owner),
    )


@dataclass(slots=True)
class _Run:
    """One call: several commits, if there are many segments."""

    _storage: SessionStorage
    _reader: SessionReader
    _key: SessionKey
    _before: Point
    _dry_run: bool
    moved: dict[int, PayloadRef] = field(default_factory=dict)
    """What holds the events of segments by their numbers, also of those whose commit was not answered."""
    sent_in: tuple[str, int] | None = None
    """Epoch and restores of the session at the last commit."""
    has_committed: bool = False
    """Whether a commit was answered."""
    _life: tuple[str, int] | None = None
    """Epoch and restores of the session for which the next two are right."""
    _begins: dict[int, int] = field(default_factory=dict)
    """By the number below which all segments are archived, the number of the events in them."""
    _kept: int = 0
    """Number of the events before the point."""

    _put: dict[int, PayloadRef] = field(default_factory=dict)
    """What was written of segments by their numbers, without an answer that a commit took it."""

    async def look(self) -> _Look:
        """Read the next segments, and write their events to the bucket; a dry run reads all of them."""
        stored = await self._reader.living(self._key)
        if self._life != (stored.epoch, stored.restores):  # others may restore it, or make it anew
            self.moved.clear()
            self._begins.clear()
            self._put.clear()
            self._life = stored.epoch, stored.restores
        try:
            return await self._looked(stored)
        except _ChangedError:
            return _Look(stored)

    async def _looked(self, stored: StoredSession) -> _Look:
        await self._remove_overtaken(stored)
        if stored.archived.segments not in self._begins:
            await self._find_point(stored)
        before = stored.archived
        while True:
            numbers = [each for each in stored.unarchived if each >= before.segments][:_SEGMENTS_AT_ONCE]
            payloads = await self._payloads(stored, numbers, begin=self._begins[before.segments])
            going = numbers[: len(payloads)]
            now = archived_with(before, going, self._kept)
            if not self._dry_run or not going:
                break
            before = now
        if self._dry_run or now == stored.archived:
            return _Look(stored, now)
        writes = await self._writes(stored, going, payloads, now)
        return _Look(stored, now, writes, is_last=len(going) < _SEGMENTS_AT_ONCE)

    def committed(self, seen: _Look) -> _Look:
        """Return *seen*, whose writes are done."""
        self._put.clear()
        self.has_committed = True
        return seen

    async def _remove_overtaken(self, stored: StoredSession) -> None:
        """Remove what was written of segments that another call archived, after a redaction."""
        numbers = [number for number in self._put if number < stored.archived.segments]
        if not numbers:
            return
        paths = self._storage.layout.segments(stored.key, stored.epoch, numbers)
        found = await self._storage.documents.get(paths, fields=ARCHIVE_FIELDS)
        put = {self._put.pop(number) for number in numbers}
        await self._remove(stored, put - archives_named(found))

    async def _payloads(self, stored: StoredSession, numbers: Sequence[int], *, begin: int) -> list[Payload]:
        """Return the events of those of the segments *numbers* that go to the bucket, from the first one on.

        *begin* is the number of events before them.
        """
        segments = await self._segments(stored, numbers)
        going, _ = whole_segments(segments, self._kept - begin)
        payloads = [await offload(partial(archive_payload, one), light=False) for one in segments[:going]]
        outdated: set[PayloadRef] = set()
        for number, segment, payload in zip(numbers, segments, payloads, strict=False):
            begin += len(segment.texts)
            self._begins[number + 1] = begin
            outdated |= {self._put.get(number, payload.ref)} - {payload.ref}
            self.moved[number] = payload.ref
        await self._remove(stored, outdated)
        return payloads

    async def _remove(self, stored: StoredSession, outdated: AbstractSet[PayloadRef]) -> None:
        """Remove what was written of segments that a redaction has changed since, and did not find."""
        payloads = self._storage.payloads
        owner = self._storage.layout.session_payloads(stored.key, stored.epoch)
        for one in await payloads.found(owner, outdated):
            await payloads.at(one.place).remove_unchanged(one.versions)

    async def _find_point(self, stored: StoredSession) -> None:
        """Count the events before the point.

        Raises:
            PointMissingError: the session does not have the point, or it is among the archived events.
            StoredDataError: the session lacks a segment, or an event that is a payload as a whole.
        """
        try:
            facts = await self._facts(stored)
        except PayloadMissingError as exc:
            if changed := await self._changed(stored):
                raise changed from exc
            raise
        begin = stored.revision - len(facts)
        self._kept = begin + before_whole_turns(facts, self._before.kept(facts, skipped=begin))
        self._begins[stored.archived.segments] = begin

    async def _facts(self, stored: StoredSession) -> list[EventFacts]:
        """Return the facts of all events but those of archived segments."""
        unread = stored.unarchived
        facts: list[EventFacts] = []
        pauses = Pauses()

        async def add(number: int, texts: Sequence[str]) -> None:
            where = self._reader.place_of(stored, number)
            events = await decode_events(texts, where=where, pauses=pauses)
            facts.extend(EventFacts.of(one.event) for one in await self._reader.unpacked(stored, events))

        for start in range(0, len(unread), _SEGMENTS_AT_ONCE):
            numbers = unread[start : start + _SEGMENTS_AT_ONCE]
            segments = await self._segments(stored, numbers)
            for number, segment in zip(numbers, segments, strict=True):
                await add(number, segment.texts)
        await add(stored.sealed, stored.tail)
        return facts

    async def _segments(self, stored: StoredSession, numbers: Sequence[int]) -> Sequence[Segment]:
        segments = await self._reader.segments(stored, numbers)
        if segments is None:
            raise await self._changed(stored) or segment_missing(stored)
        return segments

    async def _changed(self, stored: StoredSession) -> _ChangedError | None:
        """Return the error of a look if others deleted or restored the session, and it lacks a part."""
        return None if await self._reader.lost(stored) is None else _ChangedError()

    async def _writes(
        self, stored: StoredSession, numbers: Sequence[int], payloads: Sequence[Payload], now: Archived
    ) -> list[Write]:
        """Return what one commit writes, after the events of the segments *numbers* are in the bucket."""
        documents, layout = self._storage.documents, self._storage.layout
        header = archived_fields(now)
        writes = []
        if numbers:
            parts_at = None
            if stored.expiry is not None:
                parts_at = stored.expiry.of_new_part(documents.clock.now())
                header |= times(stored.expiry.with_part_until(parts_at))
            header |= places(stored.spilled | {PayloadPlace.BUCKET})
            owner = layout.session_payloads(stored.key, stored.epoch)
            self._put = {number: payload.ref for number, payload in zip(numbers, payloads, strict=True)}
            # What no commit takes, the next look removes, or else the collector: an answer may be lost.
            await self._storage.payloads.put(owner, payloads, parts_at=parts_at)
            paths = layout.segments(stored.key, stored.epoch, numbers)
            found = await documents.get(paths, fields=["format"])
            for document, payload in zip(found, payloads, strict=True):
                if document is None:
                    raise await self._changed(stored) or segment_missing(stored)
                writes.append(archived(document.path, payload.ref, must=document.update_time))
        path = layout.session(stored.key)
        return [update(path, header, must=stored.update_time, life=stored.epoch), *writes]

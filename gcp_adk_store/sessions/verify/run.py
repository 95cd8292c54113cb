"""Verify that the events of a session are those that were appended, by its hash chain."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from gcp_adk_store.codec.decode import decode_event
from gcp_adk_store.codec.packing import unpack_segment
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.errors import InvalidInputError, SessionMissingError, StoredDataError
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.appends import genesis, step
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.fsck.history import History, Run
from gcp_adk_store.sessions.read.completion import segment_in
from gcp_adk_store.sessions.read.known import left_out
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.verify.decide import (
    Anchor,
    HistoryBreak,
    HistoryChange,
    HistoryProof,
    RedactedEvent,
    binding_of,
    first_difference,
    unfit_anchor,
)

AnchorsOf = Callable[[str], Awaitable[Sequence[Anchor]]]
"""Returns the anchors of the session that an epoch identifies."""

_SAYS: Final = {
    HistoryChange.CHANGED: "the event is not the one that was appended here",
    HistoryChange.DROPPED: "the event that was appended here is gone; {id} stands here now",
    HistoryChange.SWAPPED: "another event than the one that was appended here; that one comes later now",
    HistoryChange.CUT: "the events that were appended here are gone",
    HistoryChange.ADDED: "the event was never appended",
}

_SEGMENTS_AT_ONCE = 8


async def verify(
    storage: SessionStorage,
    key: SessionKey,
    *,
    known_events: int | None,
    known_head: str | None,
    anchors_of: AnchorsOf | None,
) -> HistoryProof:
    """Prove the history of a session, as the service's ``verify_session``, which has the errors."""
    known = _known(known_events, known_head)

    async def look() -> HistoryProof | Changed:
        stored = await _now(storage, key)
        anchors = None if anchors_of is None else await anchors_of(stored.epoch)
        proof = await _Verification(storage, stored, known, anchors, History(stored.epoch)).proof()
        if proof.broken is None or (await _now(storage, key)).update_time == stored.update_time:
            return proof
        return CHANGED  # a writer moved events during the read

    return await read_whole(storage.documents.deadline_s, look)


async def _now(storage: SessionStorage, key: SessionKey) -> StoredSession:
    (document,) = await storage.documents.get([storage.layout.session(key)])
    if document is None or (stored := read_session(document)).has_expired:
        raise SessionMissingError
    return stored


@dataclass(slots=True)
class _Verification:
    """One look at a session."""

    _storage: SessionStorage
    _stored: StoredSession
    _known: tuple[int, bytes] | None
    _anchors: Sequence[Anchor] | None
    _history: History
    _runs: list[tuple[Run, int]] = field(default_factory=list)
    """Runs, each with the number of its first event."""
    _newest_window: tuple[int, bytes] = (0, b"")
    """The number of the newest segment's run, and its window, packed."""

    @property
    def _path(self) -> str:
        return self._storage.layout.session(self._stored.key)

    async def proof(self) -> HistoryProof:
        broken = await self._segments()
        is_whole = broken is None
        if is_whole:
            stored = self._stored
            begin, end = stored.chain_sealed, stored.chain
            tail = Run(self._path, stored.tail, [], begin, end, "tail", digests=stored.digests)
            await self._add(tail)
        heads = await offload(self._heads, light=False)
        unfit, anchored = unfit_anchor(self._anchors or (), heads)
        if is_whole:
            broken = (
                self._judged()
                or self._unexplained()
                or await offload(self._wrong_window, light=False)
                or self._differs_from_known(heads)
                or self._moved()
                or self._unfit(unfit, anchored)
            )
        history, key, anchors = self._history, self._stored.key, self._anchors
        return HistoryProof(
            app_name=key.app,
            user_id=key.user,
            session_id=key.session,
            events=history.events,
            head=self._stored.chain.hex(),
            broken=broken,
            redacted=tuple(self._redacted(None if anchors is None else anchored)),
            anchors=None if anchors is None else len(anchors),
            anchored=None if anchors is None else anchored,
            unbound=None if anchors is None else sum(anchor.binding is None for anchor in anchors),
        )

    async def _segments(self) -> HistoryBreak | None:
        """Follow the segments; return the first that cannot be read."""
        stored, numbers = self._stored, self._stored.live
        owner = self._storage.layout.session_payloads(stored.key, stored.epoch)
        for start in range(0, len(numbers), _SEGMENTS_AT_ONCE):
            some = numbers[start : start + _SEGMENTS_AT_ONCE]
            paths = self._storage.layout.segments(stored.key, stored.epoch, some)
            found = await self._storage.documents.get(paths)
            for path, document in zip(paths, found, strict=True):
                if document is None:
                    return self._unreadable(path, "the segment is missing")
                try:
                    segment = await segment_in(document, owner, self._storage.payloads)
                except StoredDataError as exc:
                    return self._unreadable(path, str(exc))
                self._newest_window = len(self._runs), segment.window
                begin, end = segment.chain_begin, segment.chain_end
                run = Run(path, segment.texts, [], begin, end, "segment", digests=segment.digests)
                await self._add(run)
        return None

    async def _add(self, run: Run) -> None:
        self._runs.append((run, self._history.events))
        await offload(partial(self._history.add, run), light=False)

    def _judged(self) -> HistoryBreak | None:
        """Return the first run that the chain does not prove."""
        stored = self._stored
        faults, revision = self._history.ended(stored.revision)
        if faults:
            broken = {fault.path: fault for fault in faults}
            run, first = next(each for each in self._runs if each[0].path in broken)
            return _break(run, first, broken[run.path].says)
        if revision is not None:
            run, first = self._runs[-1]
            says = f"{stored.revision} events were appended, and {self._history.events} are there"
            return _break(run, first, says)
        return None

    def _wrong_window(self) -> HistoryBreak | None:
        """Return a break if what the newest segment keeps for reads has other events, or lacks some."""
        newest, packed = self._newest_window
        if not packed:
            return None
        path = self._runs[newest][0].path
        before = [text for run, _ in self._runs[:newest] for text in run.texts]
        later = [text for run, _ in self._runs[newest:] for text in run.texts]
        try:
            kept = unpack_segment(packed)
        except StoredDataError as exc:
            return self._unreadable(path, f"window: {exc}")
        if foreign := len({*kept}.difference(before)):
            says = f"its window has {foreign} events that no segment before it has"
            return replace(self._unreadable(path, says), change=HistoryChange.ADDED)
        try:
            count = left_out(kept, before, later)
        except StoredDataError:
            return None  # an event is damaged, which every read reports
        if not count:
            return None
        says = f"its window lacks {count} events that a read since the newest summary returns"
        return replace(self._unreadable(path, says), change=HistoryChange.DROPPED)

    def _unexplained(self) -> HistoryBreak | None:
        """Return the first marker that is not that of a redaction in the chain."""
        for marker in self._history.redactions.judged():
            if marker.says:
                at, change = marker.position, HistoryChange.REDACTED
                return _at(at, at, marker.path, change, marker.says, event_id=marker.event_id)
        return None

    def _redacted(self, anchored: int | None) -> Iterator[RedactedEvent]:
        for marker in self._history.redactions.judged():
            yield RedactedEvent(
                position=marker.position,
                event_id=marker.event_id,
                sha256=marker.sha256,
                is_audited=not marker.says,
                is_bound=marker.is_bound and not marker.says,
                is_anchored=None if anchored is None else any(audit < anchored for audit in marker.audits),
            )

    def _heads(self) -> dict[str, int]:
        """Return all heads of the chain, as the texts alone say, each with the number of events before it."""
        head = genesis(self._stored.epoch)
        heads = {head.hex(): 0}
        for run, first in self._runs:
            for number, text in enumerate(run.texts, start=first + 1):
                head = step(head, text)
                heads[head.hex()] = number
        return heads

    def _differs_from_known(self, heads: Mapping[str, int]) -> HistoryBreak | None:
        """Compare the first events with an earlier proof."""
        if self._known is None or heads.get(self._known[1].hex()) == self._known[0]:
            return None
        events, there = self._known[0], self._history.events
        if events > there:
            return self._rewritten(0, f"the proof has {events} events, and {there} are there")
        found = self._rewritten(0, f"the first {events} events are not those of the proof")
        return replace(found, last=max(events - 1, 0))

    def _moved(self) -> HistoryBreak | None:
        """Return a break if an anchor is of a session with other ids."""
        binding = binding_of(self._stored.key, self._stored.epoch)
        if all(anchor.binding in (binding, None) for anchor in self._anchors or ()):
            return None
        says = "its anchors were made of a session of another app, user or id"
        return replace(self._rewritten(0, says), change=HistoryChange.MOVED)

    def _unfit(self, unfit: Anchor | None, anchored: int) -> HistoryBreak | None:
        """Return a break if no event leads to the head of an anchor."""
        if unfit is None:
            return None
        restored = f"; it was restored {self._stored.restores} times" if self._stored.restores else ""
        says = f"no event leads to the head that was anchored at revision {unfit.revision}{restored}"
        return self._rewritten(anchored, says)

    def _rewritten(self, position: int, says: str) -> HistoryBreak:
        """Return the break of a history whose events from *position* on are not those kept elsewhere."""
        return _at(position, self._history.events - 1, self._path, HistoryChange.REWRITTEN, says)

    def _unreadable(self, path: str, says: str) -> HistoryBreak:
        events = self._history.events
        return _at(events, events - 1, path, HistoryChange.MISSING, says)


def _at(
    position: int, last: int, path: str, change: HistoryChange, says: str, *, event_id: str = ""
) -> HistoryBreak:
    return HistoryBreak(position=position, last=last, event_id=event_id, path=path, change=change, says=says)


def _break(run: Run, first: int, says: str) -> HistoryBreak:
    """Return where *run* breaks, whose first event has the number *first*: the very event if it is known."""
    found = first_difference(run.texts, run.digests or ())
    if found is None:
        there = _id_of(run.texts[0]) if run.texts else ""
        last, unknown = first + len(run.texts) - 1, HistoryChange.UNKNOWN
        return _at(first, last, run.path, unknown, says, event_id=there)
    number, change = found
    there = _id_of(run.texts[number]) if number < len(run.texts) else ""
    at, event_id = first + number, "" if change is HistoryChange.DROPPED else there
    return _at(at, at, run.path, change, _SAYS[change].format(id=repr(there)[:80]), event_id=event_id)


def _id_of(text: str) -> str:
    try:
        return decode_event(text).event.id
    except StoredDataError:
        return ""


def _known(events: int | None, head: str | None) -> tuple[int, bytes] | None:
    if (events is None) != (head is None):
        raise InvalidInputError("known_events and known_head go together; give both or neither")
    if events is None or head is None:
        return None
    try:
        decoded = bytes.fromhex(head)
    except ValueError:
        decoded = b""
    if len(decoded) != 32 or events < 0:  # noqa: PLR2004  # bytes of a SHA-256
        raise InvalidInputError("known_events and known_head are those of an earlier proof")
    return events, decoded

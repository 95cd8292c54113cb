"""Verify that the events of a session are those that were appended, by its hash chain."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gcp_adk_store.codec.events import decode_event
from gcp_adk_store.codec.redactions import audited
from gcp_adk_store.codec.stored import read_segment, read_session
from gcp_adk_store.errors import InvalidInputError, SessionMissingError, StoredDataError
from gcp_adk_store.fsck.history import History, Run
from gcp_adk_store.model.history import fold, step
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.proofs import (
    Anchor,
    HistoryBreak,
    HistoryChange,
    HistoryProof,
    RedactedEvent,
    first_difference,
    unfit_anchor,
)
from gcp_adk_store.model.redactions import replaced_by
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.storage import SessionStorage

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


class VerifyMethods:
    """The method that proves a history."""

    _storage: SessionStorage

    @operation
    async def verify_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        known_events: int | None = None,
        known_head: str | None = None,
        anchors_of: AnchorsOf | None = None,
    ) -> HistoryProof:
        """Check that the events of a session were neither changed, dropped, swapped nor cut off.

        A break names the first event that is not the one that was appended in its place; all events before it
        are proven. If the digests of its document were changed, too, it names the events of that document.
        A redacted event is proven by the hash in its marker, if a later event tells of the redaction.

        Whoever can write the database can write a whole new chain, too: against that, keep ``events`` and
        ``head`` of an earlier proof elsewhere, and pass them, or let ``Store.anchor`` keep heads. Reads the
        session document and its segments, past all caches.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            known_events: Number of events of an earlier proof of the session.
            known_head: Head of the same proof.
            anchors_of: Returns anchors to compare the history with; ``Store.verify_session`` passes it.

        Raises:
            SessionMissingError: the session does not exist.
            InvalidInputError: only one of *known_events* and *known_head* is given, or it is malformed.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        known = _known(known_events, known_head)
        rereads = Rereads(self._storage.documents.deadline_s)
        while True:
            stored = await self._now(key)
            anchors = None if anchors_of is None else await anchors_of(stored.epoch)
            proof = await _Verification(self._storage, stored, known, anchors).proof()
            if proof.broken is None or (await self._now(key)).update_time == stored.update_time:
                return proof
            await rereads.again()  # a writer moved events during the read

    async def _now(self, key: SessionKey) -> StoredSession:
        (document,) = await self._storage.documents.get([self._storage.layout.session(key)])
        if document is None or (stored := read_session(document)).has_expired:
            raise SessionMissingError("Session not found.")
        return stored


class _Verification:
    """One look at a session."""

    def __init__(
        self,
        storage: SessionStorage,
        stored: StoredSession,
        known: tuple[int, bytes] | None,
        anchors: Sequence[Anchor] | None,
    ) -> None:
        self._anchors = anchors
        self._anchored: int | None = None
        self._markers: list[RedactedEvent] = []
        self._audited: set[tuple[int, str]] = set()
        self._storage = storage
        self._stored = stored
        self._known = known
        self._path = storage.layout.session(stored.key)
        self._history = History(epoch=stored.epoch, chain_from=stored.chain_from)
        self._runs: list[tuple[Run, int]] = []
        """Runs, each with the number of its first event."""

    async def proof(self) -> HistoryProof:
        broken = await self._segments()
        if broken is None:
            stored = self._stored
            begin = stored.chain_sealed if stored.chain is not None else None
            tail = Run(self._path, stored.tail, [], begin, stored.chain, "tail", digests=stored.digests)
            await self._add(tail)
            broken = self._judged() or self._unaudited() or self._unfit()
        history, key = self._history, self._stored.key
        return HistoryProof(
            app_name=key.app,
            user_id=key.user,
            session_id=key.session,
            events=history.events,
            unchained=history.events - history.chained if self._stored.chain else history.events,
            head=self._stored.chain.hex() if self._stored.chain else "",
            broken=broken,
            redacted=tuple(self._with_audits()),
            anchors=None if self._anchors is None else len(self._anchors),
            anchored=self._anchored,
        )

    async def _segments(self) -> HistoryBreak | None:
        """Follow the segments; return the first that cannot be read."""
        stored, numbers = self._stored, self._stored.live
        for start in range(0, len(numbers), _SEGMENTS_AT_ONCE):
            some = numbers[start : start + _SEGMENTS_AT_ONCE]
            paths = self._storage.layout.segments(stored.key, stored.epoch, some)
            found = await self._storage.documents.get(paths)
            for path, document in zip(paths, found, strict=True):
                if document is None:
                    return self._unreadable(path, "the segment is missing")
                try:
                    segment: Segment = await apart(partial(read_segment, document), light=False)
                except StoredDataError as exc:
                    return self._unreadable(path, str(exc))
                begin, end = segment.chain_begin, segment.chain_end
                run = Run(path, segment.texts, [], begin, end, "segment", digests=segment.digests)
                await self._add(run)
        return None

    async def _add(self, run: Run) -> None:
        self._runs.append((run, self._history.events))
        await apart(partial(self._look, run, self._history.events), light=False)
        await apart(partial(self._history.add, run), light=False)

    def _look(self, run: Run, first: int) -> None:
        """Note the markers of *run*, and of which redactions its events tell."""
        for number, text in enumerate(run.texts, start=first):
            replaced = replaced_by(text)
            if replaced is not None:
                marker = RedactedEvent(
                    position=number, event_id=_id_of(text), sha256=replaced.hex(), is_audited=False
                )
                self._markers.append(marker)
            self._audited.update((one.position, one.sha256) for one in audited(text) if one.position < number)

    def _judged(self) -> HistoryBreak | None:
        stored = self._stored
        faults, revision = self._history.ended(stored.revision, restored=bool(stored.restores))
        if stored.chain is not None and faults:
            broken = {fault.path: fault for fault in faults}
            run, first = next(each for each in self._runs if each[0].path in broken)
            return self._break(run, first, broken[run.path].says)
        if revision is not None and stored.chain is not None:
            run, first = self._runs[-1]
            says = f"{stored.revision} events were appended, and {self._history.events} are there"
            return self._break(run, first, says)
        return self._differs_from_known()

    def _with_audits(self) -> list[RedactedEvent]:
        return [replace(one, is_audited=(one.position, one.sha256) in self._audited) for one in self._markers]

    def _unaudited(self) -> HistoryBreak | None:
        """Return the first marker that no event tells of; restores and forks may have left that event out."""
        stored = self._stored
        taken_over = stored.origin.position if stored.origin is not None else 0
        for one in self._with_audits():
            if one.is_audited or stored.restores or one.position < taken_over:
                continue
            run, first = next(each for each in reversed(self._runs) if each[1] <= one.position)
            found = self._break(run, first, "")
            says = "a marker stands here, and no later event tells of a redaction"
            return replace(
                found,
                position=one.position,
                last=one.position,
                event_id=one.event_id,
                change=HistoryChange.REDACTED,
                says=says,
            )
        return None

    def _unfit(self) -> HistoryBreak | None:
        """Compare the history with its anchors."""
        if self._anchors is None:
            return None
        unfit, self._anchored = unfit_anchor(self._anchors, self._heads())
        if unfit is None:
            return None
        restored = f"; it was restored {self._stored.restores} times" if self._stored.restores else ""
        run, first = self._runs[-1]
        return replace(
            self._break(run, first, ""),
            position=self._anchored,
            last=self._history.events - 1,
            event_id="",
            change=HistoryChange.REWRITTEN,
            says=f"no event leads to the head that was anchored at revision {unfit.revision}{restored}",
        )

    def _heads(self) -> dict[str, int]:
        """Return all heads of the chain, each with the number of events before it."""
        heads: dict[str, int] = {}
        for run, first in self._runs:
            if run.begin is None or run.end is None:
                continue
            start = max(0, len(run.texts) - len(run.texts if run.digests is None else run.digests))
            head = run.begin
            heads[head.hex()] = first + start
            for number, text in enumerate(run.texts[start:], start=first + start + 1):
                head = step(head, text)
                heads[head.hex()] = number
            heads.setdefault(run.end.hex(), first + len(run.texts))
        return heads

    def _differs_from_known(self) -> HistoryBreak | None:
        """Compare the first events with an earlier proof."""
        if self._known is None:
            return None
        events, head = self._known
        for run, first in self._runs:
            count = events - first
            if 0 <= count <= len(run.texts) and run.begin is not None:
                if fold(run.begin, run.texts[:count]) == head:
                    return None
                says = f"the first {events} events are not those of the proof"
                whole = self._break(self._runs[0][0], 0, says)
                return replace(whole, last=max(events - 1, 0), change=HistoryChange.REWRITTEN)
        run, first = self._runs[-1]
        says = f"the proof has {events} events, and {self._history.events} are there"
        return replace(self._break(run, first, says), change=HistoryChange.REWRITTEN)

    def _break(self, run: Run, first: int, says: str) -> HistoryBreak:
        return _break(run, first, says, only_newest=bool(self._stored.chain_from))

    def _unreadable(self, path: str, says: str) -> HistoryBreak:
        events = self._history.events
        return HistoryBreak(
            position=events, last=events - 1, event_id="", path=path, change=HistoryChange.MISSING, says=says
        )


def _break(run: Run, first: int, says: str, *, only_newest: bool) -> HistoryBreak:
    """Return where *run* breaks, whose first event has the number *first*: the very event if it is known."""
    found = first_difference(run.texts, run.digests or (), only_newest=only_newest)
    if found is None:
        return HistoryBreak(
            position=first,
            last=first + len(run.texts) - 1,
            event_id=_id_of(run.texts[0]) if run.texts else "",
            path=run.path,
            change=HistoryChange.UNKNOWN,
            says=says,
        )
    number, change = found
    there = _id_of(run.texts[number]) if number < len(run.texts) else ""
    return HistoryBreak(
        position=first + number,
        last=first + number,
        event_id="" if change is HistoryChange.DROPPED else there,
        path=run.path,
        change=change,
        says=_SAYS[change].format(id=repr(there)[:80]),
    )


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

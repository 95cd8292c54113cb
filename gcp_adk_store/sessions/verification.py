"""Verify that the events of a session are those that were appended, by its hash chain."""

from collections.abc import Sequence
from functools import partial

from gcp_adk_store.codec.events import decode_event
from gcp_adk_store.codec.stored import read_segment, read_session
from gcp_adk_store.errors import InvalidInputError, SessionMissingError, StoredDataError
from gcp_adk_store.fsck.history import History, Run
from gcp_adk_store.model.history import fold
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.proofs import HistoryBreak, HistoryProof
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.pauses import apart
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.storage import SessionStorage

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
    ) -> HistoryProof:
        """Check that the events of a session were neither changed, dropped, swapped nor cut off.

        The chain has a value at the begin and the end of each segment, and after the last event. So a break
        names the first event of the run that does not fit; all events before it are proven. Whoever can
        write the database can write a whole new chain, too: against that, keep ``events`` and ``head`` of an
        earlier proof elsewhere, and pass them. Reads the session document and its segments, past all caches.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            known_events: Number of events of an earlier proof of the session.
            known_head: Head of the same proof.

        Raises:
            SessionMissingError: the session does not exist.
            InvalidInputError: only one of *known_events* and *known_head* is given, or it is malformed.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        known = _known(known_events, known_head)
        rereads = Rereads(self._storage.documents.deadline_s)
        while True:
            stored = await self._now(key)
            proof = await _Verification(self._storage, stored, known).proof()
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
        self, storage: SessionStorage, stored: StoredSession, known: tuple[int, bytes] | None
    ) -> None:
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
            await self._add(Run(self._path, stored.tail, [], begin, stored.chain, "tail"))
            broken = self._judged()
        history, key = self._history, self._stored.key
        return HistoryProof(
            app_name=key.app,
            user_id=key.user,
            session_id=key.session,
            events=history.events,
            unchained=history.events - history.chained if self._stored.chain else history.events,
            head=self._stored.chain.hex() if self._stored.chain else "",
            broken=broken,
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
                await self._add(Run(path, segment.texts, [], begin, end, "segment"))
        return None

    async def _add(self, run: Run) -> None:
        self._runs.append((run, self._history.events))
        await apart(partial(self._history.add, run), light=False)

    def _judged(self) -> HistoryBreak | None:
        stored = self._stored
        faults, revision = self._history.ended(stored.revision, restored=bool(stored.restores))
        if stored.chain is not None and faults:
            broken = {fault.path: fault for fault in faults}
            run, first = next(each for each in self._runs if each[0].path in broken)
            return _break(run, first, broken[run.path].says)
        if revision is not None and stored.chain is not None:
            run, first = self._runs[-1]
            says = f"{stored.revision} events were appended, and {self._history.events} are there"
            return _break(run, first, says)
        return self._differs_from_known()

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
                return _break(self._runs[0][0], 0, f"the first {events} events are not those of the proof")
        run, first = self._runs[-1]
        return _break(run, first, f"the proof has {events} events, and {self._history.events} are there")

    def _unreadable(self, path: str, says: str) -> HistoryBreak:
        events = self._history.events
        return HistoryBreak(position=events, last=events - 1, event_id="", path=path, says=says)


def _break(run: Run, first: int, says: str) -> HistoryBreak:
    return HistoryBreak(
        position=first,
        last=first + len(run.texts) - 1,
        event_id=_id_of(run.texts),
        path=run.path,
        says=says,
    )


def _id_of(texts: Sequence[str]) -> str:
    try:
        return decode_event(texts[0]).event.id
    except (StoredDataError, IndexError):
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

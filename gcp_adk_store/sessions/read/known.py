"""Keep what this process knows of sessions: documents, tails, segments, windows, and events of handles.

No append counts an event again that its tail holds. A process that reads windows knows what the newest one
has. When it seals the tail, the new segment keeps what the window has of the events before it. So the first
read of another process takes this segment and the tail.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final, Protocol, Self

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.codec.decode import StoredEvent, decode_event
from gcp_adk_store.codec.packing import pack_window, unpack_segment
from gcp_adk_store.codec.writes import Delete, Document, Write, Written, fields_after, has_few_keys
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.concurrency import Lru, Pauses, offload
from gcp_adk_store.model.appends import DIGEST_BYTES, Append, Marker, hash_of, link
from gcp_adk_store.model.json_values import copied
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.sessions.read.completion import decode_events
from gcp_adk_store.sessions.read.window import essential, rewinds, window

_CAPACITY_BYTES: Final = 8 * 1024 * 1024
_ENTRY_BYTES: Final = 400
"""About what Python takes for an entry without digests: with them, 8 MiB are the tails of 9,000 sessions."""


@dataclass(frozen=True, slots=True)
class _Tail:
    restores: int
    revision: int
    digests: bytes
    """The digests of all events that the tail may hold, one after another."""

    @property
    def age(self) -> tuple[int, int]:
        return self.restores, self.revision

    def has(self, digest: bytes) -> bool:
        place = self.digests.find(digest)
        while place % DIGEST_BYTES and place >= 0:
            place = self.digests.find(digest, place + 1)
        return place >= 0


class KnownTails:
    """The newest tails that this process has seen or written, by the epochs of their sessions.

    Restores and revision determine the events of a session, and so its tail. A tail that was sealed meanwhile
    holds fewer.
    """

    def __init__(self) -> None:
        """Know no tail."""
        self._known = Lru[str, _Tail](_CAPACITY_BYTES, size_of=lambda tail: _ENTRY_BYTES + len(tail.digests))

    def saw(self, stored: StoredSession) -> None:
        """Take note of a session that was read with its tail, or with the digests of its whole tail."""
        self._put(stored.marker, b"".join(stored.digests))

    def appended(self, base: Marker, append: Append) -> None:
        """Take note of a commit that required *base*."""
        known = self._of(base)
        if known is not None and known.age == (base.restores, base.revision):
            new = b"".join(hashed[:DIGEST_BYTES] for hashed in append.hashes)
            after = _Tail(base.restores, base.revision + len(append.texts), known.digests + new)
            self._known.put(base.epoch, after)

    def sealed(self, marker: Marker) -> None:
        """Take note of a commit that moved the tail of the session of *marker* into a segment."""
        self._put(marker, b"")

    def may_hold(self, base: Marker, append: Append) -> bool:
        """Return whether the tail that a commit requires by *base* may hold one of the events already.

        It may if it is unknown. The commit of a handle that others have overtaken is refused anyway.
        """
        known = self._of(base)
        if known is None or known.age < (base.restores, base.revision):
            return True
        if known.age > (base.restores, base.revision):
            return False
        return any(known.has(hashed[:DIGEST_BYTES]) for hashed in append.hashes)

    def _of(self, base: Marker) -> _Tail | None:
        return _Tail(base.restores, 0, b"") if base.revision == 0 else self._known.lookup(base.epoch)

    def _put(self, marker: Marker, digests: bytes) -> None:
        now = _Tail(marker.restores, marker.revision, digests)
        known = self._known.lookup(marker.epoch)
        if known is None or known.age <= now.age:
            self._known.put(marker.epoch, now)


_FOLLOWED_BYTES: Final = 16 * 1024 * 1024
"""The documents of some 200 sessions with full tails."""


class FollowedDocuments:
    """Documents of sessions as the turns of this process left them.

    Others may have changed one since. A commit that requires its update time proves that nobody has.
    """

    def __init__(self) -> None:
        """Follow no document."""
        self._known = Lru[str, Document](_FOLLOWED_BYTES, size_of=lambda known: known.size)

    def follow(self, document: Document) -> None:
        """Keep *document*, which was read with all its fields, as of the commits that follow.

        One that takes long to copy is not kept.
        """
        if has_few_keys(document.fields):
            self._known.put(document.path, replace(document, fields=copied(document.fields)))

    def committed(self, writes: Sequence[Write | Delete], results: Sequence[Written]) -> None:
        """Take note of a commit; a document is forgotten that was not what the commit required."""
        changed: set[str] = set()
        for write, written in zip(writes, results, strict=True):
            known = self._known.lookup(write.path)
            if known is None or (write.path not in changed and known.update_time == written.update_time):
                continue  # nothing changed, or a read was faster than this answer
            is_based = write.path in changed or write.must == known.update_time
            changed.add(write.path)
            if isinstance(write, Delete) or not is_based or not has_few_keys(known.fields):
                self._known.forget({write.path}.__contains__)
                continue
            fields, _ = fields_after(replace(write, fields=copied(write.fields)), copied(known.fields))
            self._known.put(write.path, replace(known, fields=fields, update_time=written.update_time))

    def known(self, path: str, *, now: float) -> Document | None:
        """Return the document at *path*, as if it were read *now*; ``None`` if it is unknown."""
        known = self._known.lookup(path)
        return None if known is None else replace(known, fields=copied(known.fields), read_time=now)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The session when one of its segments was read."""

    redactions: int
    restores: int
    archived: int

    @classmethod
    def of(cls, stored: StoredSession) -> Self:
        """Return what a segment is known as of that is read now, with *stored*."""
        return cls(stored.redactions, stored.restores, stored.archived.segments)

    def is_now(self, stored: StoredSession, number: int, *, exactly: bool) -> bool:
        """Return whether the segment *number* has the same events, and *exactly* the same archive."""
        is_moved = self.archived <= number < stored.archived.segments
        is_older = exactly and self.restores < stored.restores
        return self.redactions >= stored.redactions and not is_moved and not is_older


def segment_bytes(known: tuple[AsOf, Segment]) -> int:
    """Return about what Python takes for a segment."""
    segment = known[1]
    initial = segment.initial if isinstance(segment.initial, Mapping) else {}
    texts = sum(len(text.encode()) for text in segment.texts)
    return texts + len(segment.window) + sum(len(repr(item)) for item in initial.items())


_LIGHT_WINDOW: Final = 500
"""Events of which the window is found in a few milliseconds; of more, a thread finds it."""

_FEW_SEGMENTS: Final = 4
"""So many are read at once. Of more, the newest is read first: the others are needed if it has no window."""


@dataclass(frozen=True, slots=True)
class KnownWindow:
    """What :func:`window` kept of a session's events, as of *marker*."""

    marker: Marker
    texts: list[str]
    is_sealed: bool = False
    """Whether a segment keeps it: then it was made when the session had later events than *marker* says."""

    def leads_to(self, marker: Marker, later: Sequence[str]) -> bool:
        """Return whether the chain of the session leads over the texts *later* to *marker*.

        A number of events that was damaged, and repaired since, may count some of the window again.
        """
        return reduce(link, map(hash_of, later), self.marker.chain) == marker.chain

    def lacks_some(self, events: Sequence[StoredEvent]) -> bool:
        """Return whether what was left out is needed again; *events* are its own, and later ones.

        A later event may be a rewind, or go on with an invocation before the last one. A segment's window was
        made with some of the later events, so their invocations count, too.
        """
        count = len(self.texts)
        if count == self.marker.revision:
            return False
        names = [one.event.invocation_id for one in events]
        old, last = {*names[:count]}, "".join(names[count - 1 : count])
        for one, name in zip(events[count:], names[count:], strict=True):
            if rewinds(one.event) or (name in old and name != last):
                return True
            if self.is_sealed:
                old.add(name)
                last = name
        return False

    def before(self, stored: StoredSession) -> list[str] | None:
        """Return what it keeps of the events before the tail of *stored*.

        ``None`` if it is older than the tail, if it does not lead to *stored*, or if nothing is left out.
        """
        begin = stored.revision - len(stored.tail)
        if self.marker.revision < begin or not self.leads_to(stored.marker, self.after(stored)):
            return None
        texts, own = [*self.texts], {*stored.tail}
        while texts and texts[-1] in own:
            texts.pop()
        return texts if len(texts) < begin else None

    def after(self, stored: StoredSession) -> Sequence[str]:
        """Return the events of the tail of *stored* that were appended after it."""
        return stored.tail[self.marker.revision - (stored.revision - len(stored.tail)) :]


def left_out(kept: Sequence[str], before: Sequence[str], later: Sequence[str]) -> int:
    """Return how many events a read lacks that takes *kept* for the events *before* the *later* ones.

    Raises:
        StoredDataError: an event is damaged.
    """
    texts, every = [*kept, *later], [*before, *later]
    known = KnownWindow(
        Marker(epoch="", revision=len(before), update_time="", chain=b""), [*kept], is_sealed=True
    )
    events = [decode_event(text) for text in texts]
    if known.lacks_some(events):
        return 0  # the read takes all
    read = {texts[place] for place in window(events)}
    return sum(every[place] not in read for place in essential([decode_event(text) for text in every]))


class KnownWindows:
    """The newest windows that this process has read, by the epochs of their sessions."""

    def __init__(self, capacity_bytes: int) -> None:
        """Know no window; remember *capacity_bytes* of texts."""
        self._known = Lru[str, KnownWindow](
            capacity_bytes, size_of=lambda known: sum(len(text.encode()) for text in known.texts)
        )

    def of(self, marker: Marker) -> KnownWindow | None:
        """Return a window as of *marker* or before; ``None`` if none is known that is still right."""
        known = self._known.lookup(marker.epoch)
        if known is None or known.marker.revision > marker.revision:
            return None
        same = (known.marker.restores, known.marker.redactions) == (marker.restores, marker.redactions)
        return known if same else None

    def put(self, marker: Marker, texts: list[str]) -> None:
        """Remember the window of a session as of *marker*."""
        self._known.put(marker.epoch, KnownWindow(marker, texts))


class Segments(Protocol):
    """What reads the segments of sessions: the :class:`~gcp_adk_store.sessions.read.reader.SessionReader`."""

    async def newest(self, stored: StoredSession, *, at_least: int | None) -> Sequence[str] | None:
        """Return the newest events as texts."""
        ...

    async def segments(self, stored: StoredSession, numbers: Sequence[int]) -> list[Segment] | None:
        """Return segments by number."""
        ...

    def place_of(self, stored: StoredSession, number: int) -> str:
        """Return the path of a segment."""
        ...


class WindowReader:
    """Reads windows of sessions, and remembers the newest of each session."""

    def __init__(self, reader: Segments, capacity_bytes: int) -> None:
        """Read with *reader*; remember *capacity_bytes* of texts."""
        self._reader = reader
        self._known = KnownWindows(capacity_bytes)

    async def events(self, stored: StoredSession) -> list[StoredEvent] | None:
        """Return the events that ADK needs, without payloads; ``None`` if a segment is gone.

        What a window has left out before is not read again, unless a later event may need it.

        Raises:
            StoredDataError: a segment, an event or a window is damaged.
        """
        known = self._known.of(stored.marker) or await self._sealed(stored)
        while True:
            count = None if known is None else stored.revision - known.marker.revision
            newest = await self._reader.newest(stored, at_least=count)
            if newest is None:
                return None
            later = newest if count is None else newest[max(0, len(newest) - count) :]
            if known is not None and not known.leads_to(stored.marker, later):
                known = None
                continue
            texts = [*([] if known is None else known.texts), *later]
            where = self._reader.place_of(stored, stored.sealed)
            events = await decode_events(texts, where=where, pauses=Pauses())
            if known is None or not known.lacks_some(events):
                break
            known = None
        kept = await offload(partial(window, events), light=len(events) <= _LIGHT_WINDOW)
        self._known.put(stored.marker, [texts[place] for place in kept])
        return [events[place] for place in kept]

    async def before_tail(self, stored: StoredSession) -> bytes:
        """Return what the window has of the events before the tail, packed; empty if that is not known.

        The tail belongs to the window from then on, so that the next one is known, too.
        """
        known = self._known.of(stored.marker)
        texts = None if known is None else known.before(stored)
        if known is None or texts is None:
            return b""
        now = [*known.texts, *known.after(stored)]
        where = self._reader.place_of(stored, stored.sealed)
        if not known.lacks_some(await decode_events(now, where=where, pauses=Pauses())):
            self._known.put(stored.marker, now)
        return await offload(partial(pack_window, texts), light=False)

    async def _sealed(self, stored: StoredSession) -> KnownWindow | None:
        """Return the window that the newest segment keeps, if any."""
        live = stored.live
        numbers = live if len(live) <= _FEW_SEGMENTS else live[-1:]
        segments = await self._reader.segments(stored, numbers)
        if not segments or not segments[-1].window:
            return None
        newest = segments[-1]
        revision = stored.revision - len(stored.tail) - len(newest.texts)
        begin = replace(stored.marker, revision=revision, chain=newest.chain_begin)
        texts = await self._unpacked(stored, live[-1], newest.window)
        return KnownWindow(begin, texts, is_sealed=True)

    async def _unpacked(self, stored: StoredSession, number: int, packed: bytes) -> list[str]:
        try:
            return await offload(partial(unpack_segment, packed), light=False)
        except StoredDataError as exc:
            raise StoredDataError(
                f"{self._reader.place_of(stored, number)}: window: {exc}; run: gcp-adk-store fsck --repair"
            ) from exc


class HeldEvents:
    """Ids of the events of callers' sessions, as long as the sessions live.

    With them, an append does not search a history of thousands of events. A caller may change the list of
    events: if it no longer ends as before, it is read again. An exchange in the middle stays unnoticed: such
    an event, delivered again, is recognised only if this process stored it lately.

    Calls that concern one session must not overlap.
    """

    def __init__(self) -> None:
        self._of: dict[int, _Held] = {}

    def holds(self, session: Session, event_id: str) -> bool:
        """Return whether *session* holds an event of this id."""
        key = id(session)
        held = self._of.get(key)
        if held is None or held.session() is not session or not held.is_start_of(session.events):
            held = self._of[key] = _Held(weakref.ref(session, lambda _: self._of.pop(key, None)))
        held.learn(session.events)
        return event_id in held.ids


class _Held:
    def __init__(self, session: "weakref.ref[Session]") -> None:
        self.session = session
        self.ids: set[str] = set()
        self._count = 0
        self._last: Event | None = None

    def is_start_of(self, events: Sequence[Event]) -> bool:
        return self._count <= len(events) and (self._count == 0 or events[self._count - 1] is self._last)

    def learn(self, events: Sequence[Event]) -> None:
        self.ids.update(event.id for event in events[self._count :])
        self._count = len(events)
        self._last = events[-1] if events else None

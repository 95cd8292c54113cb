"""Complete what documents contain by the payloads that they refer to, and find these payloads."""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from google.adk.events import Event

from gcp_adk_store.codec.decode import (
    StoredEvent,
    complete_event,
    decode_event,
    references,
    unpack_text,
    unpack_value,
)
from gcp_adk_store.codec.encode import WHOLE
from gcp_adk_store.codec.memories import content_text, decode_memory
from gcp_adk_store.codec.memory_documents import MemoryLayout, read_memory_head, read_shard
from gcp_adk_store.codec.segments import unpack_initial
from gcp_adk_store.codec.stored import HEADER_FIELDS, archive_of, read_header, read_segment, read_state
from gcp_adk_store.codec.writes import Document, has_few_keys
from gcp_adk_store.errors import (
    PayloadMissingError,
    SessionConflictError,
    SessionMissingError,
    StoredDataError,
    StoreError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Pauses, gather, offload
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import PayloadOwner, PayloadRef
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.storage import SessionStorage

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A session as a read returns it, payloads included."""

    stored: StoredSession
    shared: ScopedState
    """App and user state."""
    events: list[Event]

    @property
    def state(self) -> ScopedState:
        """The state of all scopes."""
        return replace(self.shared, session=self.stored.state)


@dataclass(frozen=True, slots=True)
class Past:
    """What a session was at a point, without payloads, and what it became since."""

    now: StoredSession
    """As it is stored."""
    stored: StoredSession
    """As it was at the point, with the tail and the segments of now."""
    segments: list[Segment]
    """Its live segments."""
    events: list[StoredEvent]
    """All its events; those that are a payload as a whole are complete."""
    count: int
    """How many of them are before the point."""
    changed: frozenset[str]
    """The keys of its state that events after the point changed."""

    @property
    def texts(self) -> list[str]:
        """All its events as they are stored."""
        return [*(text for segment in self.segments for text in segment.texts), *self.stored.tail]

    @property
    def references(self) -> list[set[PayloadRef]]:
        """The payloads that each of its events refers to."""
        pairs = zip(self.texts, self.events, strict=True)
        return [{*references(text).values(), *one.missing.values()} for text, one in pairs]

    @property
    def spans(self) -> list[tuple[Segment, range]]:
        """Its live segments, each with the numbers of its events."""
        ends = [*accumulate(len(segment.texts) for segment in self.segments)]
        return [
            (segment, range(end - len(segment.texts), end))
            for segment, end in zip(self.segments, ends, strict=True)
        ]

    def archives(self, numbers: Collection[int]) -> set[PayloadRef]:
        """Return the archives that nothing needs once markers replace the events of these *numbers*."""
        found: set[PayloadRef | None] = set()
        for segment, span in self.spans:
            found.add(segment.old_archive)
            if any(number in span for number in numbers):
                found.add(segment.archive)
        return {ref for ref in found if ref is not None}

    @property
    def artifacts(self) -> ArtifactsAt:
        """Which artifacts its events had saved at the point, and since."""
        deltas = [one.event.actions.artifact_delta for one in self.events]
        later = self.events[self.count :]
        return ArtifactsAt.of(
            kept=deltas[: self.count],
            later=deltas[self.count :],
            until=later[0].event.timestamp if later else None,
        )


class CompletingReader:
    """Reads payloads of sessions, users and apps."""

    def __init__(self, storage: SessionStorage, *, placeholders: bool) -> None:
        """Prepare the reader; with *placeholders*, an event is read without payloads that are gone."""
        self._documents, self._payloads, self._layout = storage.documents, storage.payloads, storage.layout
        self._placeholders = placeholders

    async def header(self, key: SessionKey) -> StoredSession | None:
        """Return the session document as it is now, without its tail."""
        (document,) = await self._documents.get([self._layout.session(key)], fields=HEADER_FIELDS)
        return await decoded(read_header, document) if document else None

    async def lost(self, stored: StoredSession) -> StoreError | None:
        """Return why a session may lack parts that it had when it was read; ``None`` if it may not."""
        now = await self.header(stored.key)
        if now is None or now.epoch != stored.epoch or now.has_expired:
            return SessionMissingError("another call deleted the session during the read, or it has expired")
        if now.redactions != stored.redactions:
            return SessionConflictError(
                "another call redacted an event of the session during the read; read it again"
            )
        if now.restores != stored.restores:
            return SessionConflictError(
                "another call restored the session to an earlier point during the read; read it again"
            )
        return None

    @asynccontextmanager
    async def unless_lost(self, stored: StoredSession) -> AsyncIterator[None]:
        """Let the block raise why *stored* may lack a payload, in place of the error that it does."""
        try:
            yield
        except PayloadMissingError as exc:
            if lost := await self.lost(stored):
                raise lost from exc
            raise

    async def complete(
        self, stored: StoredSession, selected: Sequence[StoredEvent], shared: ScopedState
    ) -> Found | None:
        """Return the session with its payloads, fetched side by side; ``None`` if it is gone."""
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        try:
            events = await self.complete_events(stored, selected)
            state = await self.complete_state(mine, stored.state)
        except PayloadMissingError:
            if await self.lost(stored):
                return None
            raise
        return Found(stored=replace(stored, state=state), shared=shared, events=events)

    async def complete_events(self, stored: StoredSession, selected: Sequence[StoredEvent]) -> list[Event]:
        """Return events of *stored* with their payloads, fetched side by side."""
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        while missing := {ref for event in selected if event.missing for ref in event.missing.values()}:
            found = await self._fetch(mine, missing, placeholders=self._placeholders)
            if len(found) < len(missing) and (lost := await self.lost(stored)):
                raise PayloadMissingError(f"payloads of {mine.path} are gone: {lost}")
            with named(mine.path):
                selected = [
                    await offload(partial(complete_event, event, found), light=WHOLE not in event.missing)
                    for event in selected
                ]
            selected = [with_warning(event) for event in selected]
        return [event.event for event in selected]

    async def whole_event(self, stored: StoredSession, event: StoredEvent) -> StoredEvent:
        """Return *event*, fetched if it is a payload as a whole, without payloads of parts of its content."""
        (whole,) = await self.unpacked(stored, [event], placeholders=self._placeholders)
        return whole

    async def unpacked(
        self, stored: StoredSession, events: Sequence[StoredEvent], *, placeholders: bool = False
    ) -> list[StoredEvent]:
        """Return *events* with those in full that are a payload as a whole, without those of their parts."""
        mine = self._layout.session_payloads(stored.key, stored.epoch)
        missing = {one.missing[WHOLE] for one in events if WHOLE in one.missing}
        found = await self._fetch(mine, missing, placeholders=placeholders)
        with named(mine.path):
            return [
                with_warning(await offload(partial(complete_event, one, found), light=False))
                if WHOLE in one.missing
                else one
                for one in events
            ]

    async def complete_shared(
        self, owner: UserKey, app: Document | None, user: Document | None
    ) -> ScopedState:
        """Return app and user state with its payloads."""
        layout = self._layout
        return ScopedState(
            app=await self.lasting_state(layout.app_payloads(owner.app), app),
            user=await self.lasting_state(layout.user_payloads(owner), user),
        )

    async def lasting_state(self, owner: PayloadOwner, document: Document | None) -> Mapping[str, Any]:
        """Return the state of an app or a user and its payloads, reread if it changes."""

        async def look() -> Mapping[str, Any] | Changed:
            nonlocal document
            if document is None:
                return {}
            try:
                return await self.complete_state(owner, await decoded(read_state, document))
            except PayloadMissingError:
                # Another call may replace a value and remove its payload during the read.
                (now,) = await self._documents.get([owner.path])
                if now is None or now.update_time == document.update_time:
                    raise
                document = now
            return CHANGED

        return await read_whole(self._documents.deadline_s, look)

    async def complete_state(self, owner: PayloadOwner, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *state* with its payloads, which *owner* has."""
        refs = {key: value for key, value in state.items() if isinstance(value, PayloadRef)}
        if not refs:
            return state
        found = await self._fetch(owner, set(refs.values()))
        with named(owner.path):
            unpacked = {
                key: await offload(partial(unpack_value, ref, found[ref]), light=False)
                for key, ref in refs.items()
            }
        return {**state, **unpacked}

    async def state_of(self, stored: StoredSession, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *state*, which *stored* has or had, with its payloads.

        Raises:
            PayloadMissingError: one is gone, though nobody changed the session.
        """
        async with self.unless_lost(stored):
            return await self.complete_state(self._layout.session_payloads(stored.key, stored.epoch), state)

    async def _fetch(
        self, owner: PayloadOwner, refs: AbstractSet[PayloadRef], *, placeholders: bool = False
    ) -> dict[PayloadRef, bytes]:
        """Return payloads; those that are gone are left out where there are *placeholders* for them."""

        async def get(ref: PayloadRef) -> bytes | None:
            try:
                return await self._payloads.get(owner, ref)
            except PayloadMissingError as exc:
                if not placeholders:
                    raise
                logger.warning(
                    "an event is read without its content: %s", exc, extra=telemetry.log_fields(exc)
                )
                return None

        wanted = sorted(refs, key=lambda ref: ref.sha256)
        found = await gather(get(ref) for ref in wanted)
        return {ref: data for ref, data in zip(wanted, found, strict=True) if data is not None}


@contextmanager
def named(path: str) -> Iterator[None]:
    """Name the document at *path* in errors about what it holds."""
    try:
        yield
    except StoredDataError as exc:
        raise StoredDataError(f"{path}: {exc}") from exc.__cause__


def with_warning(event: StoredEvent) -> StoredEvent:
    """Return *event*; log a warning if a newer ADK wrote it and something of it is left out."""
    if event.left_out:
        logger.warning(
            "a newer google-adk wrote an event; left out: %s", event.left_out, extra=telemetry.log_fields()
        )
    return event


async def decode_events(
    texts: Sequence[str], *, where: str, pauses: Pauses, first: int = 0
) -> list[StoredEvent]:
    """Return the events of *texts* with pauses: a thousand events take tens of milliseconds.

    Raises:
        StoredDataError: one cannot be read; the message names the document *where* they are, and the place of
            the event, counted from *first*.
    """
    events: list[StoredEvent] = []
    try:
        for text in texts:
            events.append(with_warning(decode_event(text)))
            if pauses.is_due:  # an event can have 256 KB of JSON
                await pauses.pause()
    except StoredDataError as exc:
        raise StoredDataError(f"{where}: event {first + len(events)}: {exc}") from exc.__cause__
    return events


async def segment_in(document: Document, owner: PayloadOwner, payloads: Payloads) -> Segment:
    """Return the segment in *document*, with events that the bucket has if they are archived.

    Raises:
        PayloadMissingError: these are gone or damaged.
        StoredDataError: the document is damaged, or the store has no bucket.
    """
    ref = archive_of(document)
    data = None if ref is None else await payloads.get(owner, ref)
    return await offload(partial(read_segment, document, data), light=False)


async def decoded(read: Callable[[Document], T], document: Document) -> T:
    """Return what *read* reads in *document*, in a thread where that takes long: for thousands of keys."""
    return await offload(partial(read, document), light=has_few_keys(document.fields))


def refs_in(state: Mapping[str, Any]) -> set[PayloadRef]:
    """Return the payloads that *state* refers to."""
    return {value for value in state.values() if isinstance(value, PayloadRef)}


async def in_initial(
    payloads: Payloads, owner: PayloadOwner, initial: Mapping[str, object] | PayloadRef | None
) -> set[PayloadRef]:
    """Return the references of an initial state, which may be a payload of *owner* itself.

    Raises:
        StoredDataError: that payload is missing or damaged.
    """
    if not isinstance(initial, PayloadRef):
        return refs_in(initial or {})
    data = await payloads.get(owner, initial)
    return {initial} | refs_in(unpack_initial(initial, data))


async def in_texts(payloads: Payloads, owner: PayloadOwner, texts: Sequence[str]) -> set[PayloadRef]:
    """Return the references of events, of which some may be payloads of *owner* as a whole.

    Raises:
        StoredDataError: such a payload is missing or damaged.
    """
    found: set[PayloadRef] = set()
    for text in texts:
        named = references(text)
        found |= set(named.values())
        whole = named.get(WHOLE)
        if whole is not None:
            data = await payloads.get(owner, whole)
            found |= set(references(unpack_text(whole, data)).values())
    return found


async def in_memories(storage: SessionStorage, owner: PayloadOwner) -> set[PayloadRef]:
    """Return the references of the memory of *owner*, an empty set if it is gone, or is being deleted.

    Raises:
        StoredDataError: the user's memories, or the payload that a memory is as a whole, cannot be read.
    """
    layout = MemoryLayout(storage.layout)

    async def look() -> set[PayloadRef] | Changed:
        (document,) = await storage.documents.get([owner.path])
        if document is None:
            return set()
        head = read_memory_head(document)
        if head.is_ending:
            return set()
        paths = [layout.shard(owner.path, head.epoch, shard.number) for shard in head.shards]
        documents = await storage.documents.get(paths) if paths else []
        texts = [text for found in documents if found is not None for text in read_shard(found).texts]
        texts = [text for text in (*texts, *head.tail) if decode_memory(text).life == owner.life]
        if texts or all(documents):
            return await in_texts(storage.payloads, owner, [content_text(text) for text in texts])
        (now,) = await storage.documents.get([owner.path], fields=("rev",))
        if now is not None and now.update_time == document.update_time:
            return set()  # the shards that are gone had ended
        return CHANGED

    return await read_whole(storage.documents.deadline_s, look)

"""Write whole sessions of other stores: their events in segments, at once, in place of one append each."""

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.codec.segments import description_fields, pack_initial, segment_write
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.model.appends import Append, Summary, Turns, genesis
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import Payload, PayloadRef
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState, split_scopes
from gcp_adk_store.sessions.append.commit import EventEncoder
from gcp_adk_store.sessions.describe.decide import require_described
from gcp_adk_store.sessions.fork.format import in_commits, made_header
from gcp_adk_store.sessions.lifecycle.building import SessionBuilder
from gcp_adk_store.sessions.lifecycle.run import SessionLifecycle
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.session_objects import require_time
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.service import SessionService

_OF_NO_SESSION: Final = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """A session without its events, as another store has it."""

    key: SessionKey
    state: Mapping[str, Any]
    """The session's own state, without that of user and app."""
    initial: Mapping[str, Any] | None = None
    """Its own state at its creation; ``None`` if unknown."""
    create_time: float | None = None
    """Unix time in seconds; ``None`` if unknown."""
    last_update_time: float
    """Unix time in seconds, for a session without events: otherwise its last event has it."""
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def require_valid(self) -> None:
        """Require of id, title, labels and times what the session service requires of them.

        Values of state are required where they are encoded.

        Raises:
            InvalidInputError: one of them is malformed, or over its limit.
        """
        if not self.key.session:
            raise InvalidInputError("session_id is blank: a stored session has an id; give it one")
        require_described(self.title, self.labels)
        if self.create_time is not None:
            require_time("create_time", self.create_time)
        require_time("last_update_time", self.last_update_time)
        for name, state in (("state", self.state), ("initial", {} if self.initial is None else self.initial)):
            if not isinstance(state, Mapping):
                raise InvalidInputError(f"{name} must be a mapping, not {type(state).__name__}")


async def import_session(
    service: SessionService, header: SessionHeader, events: AsyncIterable[Event], *, replaces: bool = False
) -> int:
    """Make a session with all *events*, in their order, and return their number.

    With *replaces*, it takes the place of the session that has the id, whose parts are removed after it:
    until the last of *events* is read and the last commit is stored, that one stays as it is.

    The session becomes visible as a whole, or not at all. Events keep ids and times. Their changes of
    user and app state are kept, and not applied. If *service* has a time to live, the session ends so long
    after its import or its next append. Takes 1 write for each 64 KiB of events and 1 for the session, in
    commits of 3 MiB; if one does not suffice, each takes 1 write of a note more. The segments of one commit
    are in memory.

    Without an *initial* state, the keys that no event changes have had their value since the creation,
    and the others begin with their first change.

    Raises:
        SessionExistsError: the id is taken, and it does not replace that session; nothing is left behind.
        InvalidInputError: an id, a title, a label, a time, an event or a value cannot be stored.
        StoredDataError: the session to replace is damaged; it stays as it is.
        UnavailableError, OutcomeUnknownError, AccessDeniedError, NotProvisionedError: as the service's
            ``create_session``.
    """
    header.require_valid()
    storage, limits, ttl_s = service.storage, service.limits, service.default_ttl_seconds
    reader = SessionReader(storage, cache_bytes=0, placeholders=False)
    epoch = platform_uuid.new_uuid().replace("-", "")
    if ttl_s is not None and not storage.documents.clock.is_set:
        await reader.header(header.key)  # the first answer brings Firestore's time
    expiry, parts_at = storage.begun(ttl_s)
    lifecycle = SessionLifecycle(storage, reader)
    making = SessionBuilder(lifecycle, header.key, epoch, what="import", replaces=replaces)
    encoder = EventEncoder(limits, storage.payloads.place)
    writing = _Writing(storage, encoder, making, header, epoch, expiry, parts_at)
    async with making:
        async for event in events:
            await writing.add(event, seal_over=limits.seal_tail_bytes)
        await writing.complete()
    return writing.count


async def put_shared_state(
    service: SessionService, owner: UserKey, *, app: Mapping[str, Any], user: Mapping[str, Any]
) -> None:
    """Set keys of the state of an app and of its user; other keys stay. 1 write a scope with keys.

    Raises:
        InvalidInputError: a value cannot be stored.
    """
    named = {f"app:{key}": value for key, value in app.items()}
    named |= {f"user:{key}": value for key, value in user.items()}
    if not named:
        return
    storage = service.storage
    spilled = await EventEncoder(service.limits, storage.payloads.place).of_state(named)
    key = SessionKey(app=owner.app, user=owner.user, session=_OF_NO_SESSION)
    await storage.put(key, "", spilled, parts_at=None)
    await storage.documents.commit(storage.layout.shared_state(key, spilled.state))


@dataclass(slots=True)
class _Writing:
    """One session that is being written."""

    storage: SessionStorage
    encoder: EventEncoder
    making: SessionBuilder
    header: SessionHeader
    epoch: str
    expiry: Expiry | None
    parts_at: int | None
    count: int = 0
    """Events so far."""
    head: bytes = b""
    sealed_head: bytes = b""
    sealed: int = 0
    sealed_max: float | None = None
    newest: float | None = None
    last: float | None = None
    tail: list[str] = field(default_factory=list)
    tail_bytes: int = 0
    first: Segment | None = None
    """The first segment waits for the initial state, which the events decide."""
    unwritten: list[Write] = field(default_factory=list)
    """The other segments that are not written yet."""
    turns: Turns = field(default_factory=Turns)
    last_text: str = ""
    changed: set[str] = field(default_factory=set)
    """Keys of the session's state that events change."""

    def __post_init__(self) -> None:
        self.head = self.sealed_head = genesis(self.epoch)

    async def add(self, event: Event, *, seal_over: int) -> None:
        """Go on with *event*, and seal the events so far if they take *seal_over* bytes."""
        encoded = await self.encoder.encode(event)
        await self._put(encoded.encoded.payloads)
        self._follow(encoded.append)
        self.changed |= split_scopes(encoded.delta).session.keys()
        if self.tail_bytes >= seal_over:
            await self._seal()

    async def complete(self) -> None:
        """Write what is left, and the session document last."""
        known = self.header.initial
        if known is None:
            known = {name: value for name, value in self.header.state.items() if name not in self.changed}
        initial = await self._initial(known)
        state = await self.encoder.of_state(self.header.state)
        await self._put(state.session)
        parts = self.unwritten
        if self.first is not None:
            (path,) = self.storage.layout.segments(self.header.key, self.epoch, [0])
            first = replace(self.first, initial=initial)
            parts = [segment_write(path, first, parts_at=self.parts_at), *parts]
        *earlier, last = in_commits(parts)
        for some in earlier:
            await self.making.advance(some, sealed=self.sealed)
        stored = self._stored(state.state, initial)
        summary = Summary(turns=self.turns, last_text=self.last_text)
        document = made_header(self.storage.layout, stored, summary=summary)
        described = description_fields(self.header.title, self.header.labels)
        document = replace(document, fields={**document.fields, **described})
        await self.making.complete([document, *last], revision=self.count)

    def _follow(self, append: Append) -> None:
        self.tail += append.texts
        self.tail_bytes += sum(len(text.encode()) for text in append.texts)
        self.head = append.head_after(self.head)
        self.last = append.timestamp
        self.newest = append.timestamp if self.newest is None else max(self.newest, append.timestamp)
        self.turns = self.turns.after(append.turns)
        self.last_text = append.last_text or self.last_text
        self.count += len(append.texts)

    async def _seal(self) -> None:
        segment = Segment(
            texts=self.tail,
            running_max=self.newest or 0.0,
            chain_begin=self.sealed_head,
            chain_end=self.head,
        )
        number, self.sealed = self.sealed, self.sealed + 1
        self.sealed_max, self.sealed_head = segment.running_max, self.head
        self.tail, self.tail_bytes = [], 0
        if number == 0:
            self.first = segment
            return
        (path,) = self.storage.layout.segments(self.header.key, self.epoch, [number])
        write = await offload(partial(segment_write, path, segment, parts_at=self.parts_at), light=False)
        *earlier, self.unwritten = in_commits([*self.unwritten, write])
        for some in earlier:
            await self.making.advance(some, sealed=self.sealed)

    async def _initial(self, known: Mapping[str, Any]) -> Mapping[str, Any] | PayloadRef:
        """Return the initial state as it is stored, or its payload, after the payloads are written."""
        spilled = await self.encoder.of_state(known)
        light = spilled.state.has_light_values
        pack = partial(pack_initial, spilled.state.session, place=self.storage.payloads.place, light=light)
        packed = await offload(pack, light=light)
        await self._put([*spilled.session, *([packed] if packed else [])])
        return packed.ref if packed else spilled.state.session

    def _stored(self, state: ScopedState, initial: Mapping[str, Any] | PayloadRef) -> StoredSession:
        expiry = self.expiry
        if expiry is not None:
            expiry = expiry.with_part_until(self.parts_at if self.making.spilled or self.sealed else None)
        return StoredSession(
            key=self.header.key,
            epoch=self.epoch,
            revision=self.count,
            last_update_time=self.header.last_update_time if self.last is None else self.last,
            state=state.session,
            tail=self.tail,
            sealed=self.sealed,
            sealed_max=self.sealed_max,
            spilled=self.making.spilled,
            update_time="",
            read_time=platform_time.get_time(),
            expiry=expiry,
            chain=self.head,
            chain_sealed=self.sealed_head,
            initial=None if self.sealed else initial,
            create_time=self.header.create_time,
            turns=self.turns,
        )

    async def _put(self, payloads: Sequence[Payload]) -> None:
        if not payloads:
            return
        owner = self.storage.layout.session_payloads(self.header.key, self.epoch)
        await self.storage.payloads.put(owner, payloads, parts_at=self.parts_at)
        self.making.spilled |= {payload.ref.place for payload in payloads}

"""Append events: those of one process that wait for each other on a session go in one commit."""

import asyncio
import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session

from gcp_adk_store.errors import InvalidInputError, OverloadedError, StoreError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Append
from gcp_adk_store.model.state import split_scopes
from gcp_adk_store.operations import forks
from gcp_adk_store.operations.bounds import Bounds, operation
from gcp_adk_store.operations.limiter import Limiter
from gcp_adk_store.operations.lru import Lru
from gcp_adk_store.sessions.appends import (
    Follower,
    HeldEvents,
    SpelledEvent,
    Spelling,
    UnderWay,
    learn,
    report_unawaited,
)
from gcp_adk_store.sessions.completion import Found
from gcp_adk_store.sessions.handle import mark, marker_of
from gcp_adk_store.sessions.reader import SessionReader
from gcp_adk_store.sessions.recorder import SessionRecorder
from gcp_adk_store.settings import SessionLimits


@dataclass(eq=False, slots=True)
class _Waiting:
    """An append that waits for the permit of its session, or for the commit that it goes with."""

    session: Session
    event: Event
    loop: asyncio.AbstractEventLoop
    spelled: SpelledEvent | None = None
    is_in_handle: bool = False
    """Whether the handle held an event of this id before."""
    held: Event | None = None
    """The event in the handle, once it is there."""
    outcome: "asyncio.Future[Event] | None" = None
    """Set once a commit is to include it."""

    @property
    def is_rewind(self) -> bool:
        """Whether ADK's rewind made the event: its state delta depends on what is stored."""
        return self.event.actions.rewind_before_invocation_id is not None

    @property
    def may_share(self) -> bool:
        """Whether other events may be in its commit: it has no payloads, which are written before."""
        return self.spelled is not None and not self.spelled.change.has_payloads and not self.is_rewind

    @property
    def size(self) -> int:
        """Bytes of its text, once it is spelled."""
        return 0 if self.spelled is None else sum(len(text.encode()) for text in self.spelled.append.texts)

    def begin(self) -> None:
        """Let a commit include it."""
        self.outcome = self.loop.create_future()

    def end(self, failure: BaseException | None = None) -> None:
        """Set its outcome, unless it has one."""
        if self.outcome is None or self.outcome.done():
            return
        if failure is None:
            self.outcome.set_result(self.event)
        elif isinstance(failure, StoreError):
            self.outcome.set_exception(failure)
        else:
            self.outcome.cancel()


class Queues:
    """Appends that wait, in their order, by event loop and session."""

    def __init__(self) -> None:
        forks.begin(self)

    def begin(self) -> None:
        """Start without appends; in a forked child, those of the parent do not run."""
        self._queues: dict[tuple[asyncio.AbstractEventLoop, SessionKey], deque[_Waiting]] = {}

    def add(self, key: SessionKey, waiting: _Waiting) -> None:
        """Let *waiting* be the last."""
        self._queues.setdefault((waiting.loop, key), deque()).append(waiting)

    def first(self, key: SessionKey, loop: asyncio.AbstractEventLoop) -> _Waiting | None:
        """Return the append that waits longest; ``None`` if none waits."""
        queue = self._queues.get((loop, key))
        return queue[0] if queue else None

    def take(self, key: SessionKey, waiting: _Waiting) -> bool:
        """Let *waiting* wait no longer; return whether it did until now."""
        queue = self._queues.get((waiting.loop, key), deque())
        if waiting not in queue:
            return False
        queue.remove(waiting)
        if not queue:
            del self._queues[waiting.loop, key]
        return True


class AppendMethods(BaseSessionService):
    """The methods of the session service that append events.

    The service's constructor sets the attributes.
    """

    bounds: Bounds
    _on_conflict: Literal["raise", "merge"]
    _limits: SessionLimits
    _spelling: Spelling
    _reader: SessionReader
    _recorder: SessionRecorder
    _limiter: Limiter
    _delivered: Lru[tuple[SessionKey, str], bool]
    _held: HeldEvents
    _under_way: UnderWay
    _queues: Queues
    follower: Follower | None
    """Is told of each stored event once, in their order; what it does is no part of the append."""

    @operation(limited=False)
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event* and its change of state, then apply both to *session*; 1 commit.

        Appends of this process to one session that wait for each other go in one commit, in their order, as
        long as each event is small and *session* is the same, or ``on_conflict="merge"``. Each has its own
        outcome: an event that cannot be stored does not affect the others.

        A partial event is returned unchanged. An equal event that is stored already is not stored again, if
        *session* holds it or this process stored it lately. Cancelling the caller does not stop an append
        that began, as long as its event loop runs: *session* stays equal to storage. Large content becomes
        payloads, which are written first.

        An event of ADK's ``Runner.rewind_async`` is stored with the state delta that leaves the session's own
        state as :meth:`get_session_at` says; keys that it did not have become ``None``. This takes 1 read.

        A store with ``index_on_append=True`` remembers the event afterwards, beside the caller; that never
        fails the append. :meth:`flush` waits for it.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            SessionConflictError: another writer was first; nothing was written. Reload and decide again,
                or use ``on_conflict="merge"``.
            InvalidInputError: the event is not JSON, a piece of it is over
                ``SessionLimits.max_payload_bytes``, or the state would exceed Firestore's limits.
            OutcomeUnknownError: not answered before the deadline; reload before repeating.
        """
        if event.partial:
            return event
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        mine = _Waiting(session, event, asyncio.get_running_loop())
        self._queues.add(key, mine)
        return await self._wait(key, mine)

    async def flush(self) -> None:
        """Wait for the running appends of this event loop, also those whose caller was cancelled.

        Of a store with ``index_on_append=True``, also until their memories are stored, or the log says that
        they are not.

        ADK's servers call it when they end, and do not close the service. Every acknowledged write is durable
        before.
        """
        await self._under_way.wait()
        if self.follower is not None:
            await self.follower.flush()

    async def _wait(self, key: SessionKey, mine: _Waiting) -> Event:
        """Wait until *mine* is stored: by another append's commit, or by its own once it has the permit."""
        try:
            permit = await self._limiter.acquire(key)
        except BaseException as exc:
            if mine.outcome is None:  # nothing was sent
                self._queues.take(key, mine)
                raise
            if not isinstance(exc, OverloadedError):
                mine.outcome.add_done_callback(report_unawaited)
                raise
        else:
            if mine.outcome is None:
                self._queues.take(key, mine)
                work = self.bounds.run(lambda: self._lead(key, mine))
                return await self._under_way.see_through(permit, work)
            self._limiter.release(permit)
        try:
            return await asyncio.shield(mine.outcome)
        except asyncio.CancelledError:
            mine.outcome.add_done_callback(report_unawaited)
            raise

    async def _lead(self, key: SessionKey, first: _Waiting) -> Event:
        """Store an append that has the permit, and those behind it that go in the same commit."""
        self._apply_temp_state(first.session, first.event)
        spelled = first.spelled or await self._spelling.of_event(first.event)
        first.is_in_handle = self._held.holds(first.session, first.event.id)
        known = first.is_in_handle or self._delivered.get((key, first.event.id))
        if known and await self._recorder.holds(key, spelled.append):
            return self._trim_temp_delta_state(first.event)
        if first.is_rewind:
            spelled = await self._spelling.of_event(await self._rewound(key, first.event))
            if known and await self._recorder.holds(key, spelled.append):
                return self._trim_temp_delta_state(first.event)
        first.spelled = spelled
        group = [first]
        try:
            await self._gather(key, group)
            await self._store(key, group)
        except StoreError as exc:
            for member in group[1:]:
                member.end(_again(exc))
            raise
        except BaseException as exc:
            for member in group[1:]:
                member.end(exc)
            raise
        return first.event

    async def _gather(self, key: SessionKey, group: list[_Waiting]) -> None:
        """Add to *group* the appends behind its first that go in the same commit; spell them."""
        size = 0
        while following := self._queues.first(key, group[0].loop):
            size += group[-1].size
            if not (group[-1].may_share and self._may_follow(key, group, following)):
                return
            try:
                following.spelled = following.spelled or await self._spelling.of_event(following.event)
            except StoreError as exc:
                if self._queues.take(key, following):
                    following.begin()
                    following.end(exc)
                continue
            if not following.may_share or size + following.size > self._limits.event_text_bytes:
                return
            if self._queues.take(key, following):  # otherwise its caller was cancelled meanwhile
                following.begin()
                self._apply_temp_state(following.session, following.event)
                group.append(following)

    def _may_follow(self, key: SessionKey, group: Sequence[_Waiting], following: _Waiting) -> bool:
        """Return whether an append may go with *group*, before it is spelled."""
        first, event = group[0], following.event
        if following.is_rewind or any(event.id == member.event.id for member in group):
            return False
        if self._held.holds(following.session, event.id) or self._delivered.get((key, event.id)):
            return False  # storage is asked for it
        if following.session is first.session:
            return True
        markers = marker_of(first.session), marker_of(following.session)
        return self._on_conflict == "merge" and None not in markers

    async def _store(self, key: SessionKey, group: Sequence[_Waiting]) -> None:
        """Store *group*, together or else one by one, and set the outcomes of all but the first.

        Raises:
            StoreError: that of the first, or of all.
        """
        try:
            await self._commit(key, group)
        except InvalidInputError:
            if len(group) == 1:
                raise
        else:
            return
        failure = None
        for member in group:
            try:
                await self._commit(key, [member])
            except StoreError as exc:
                failure = failure or (exc if member is group[0] else None)
                member.end(exc)
        if failure is not None:
            raise failure

    async def _commit(self, key: SessionKey, group: Sequence[_Waiting]) -> None:
        """Store *group* in one commit, apply it to the handles, and set the outcomes."""
        spelled = [member.spelled for member in group if member.spelled is not None]
        append = reduce(Append.and_then, (one.append for one in spelled))
        handles = list({id(member.session): member.session for member in group}.values())
        markers = [marker_of(handle) for handle in handles]
        merging = self._on_conflict == "merge"
        appended = await self._recorder.append(key, append, markers[0], spelled[0].change, merging=merging)
        after = [appended.marker]
        missed: list[Found | None] = [None]
        if appended.merged or len(handles) > 1:
            # Unless a handle learns what it missed, its next append conflicts.
            after = [marker and marker.at("") for marker in markers]
            missed = [await self._recorder.missed(key, marker) if marker else None for marker in markers]
        # Without an await, the callers' sessions become equal to storage.
        for member, one in zip(group, spelled, strict=True):
            self._delivered.put((key, member.event.id), value=True)
            self._apply(member, one)
        for handle, marker, found in zip(handles, after, missed, strict=True):
            mark(handle, marker)
            if found is not None:
                learn(
                    handle,
                    found,
                    [member.held for member in group if member.held and member.session is handle],
                )
        self._tell(group)
        if appended.tail_bytes >= self._limits.seal_tail_bytes:
            before = marker_of(handles[0])
            sealed = await self._recorder.seal(key, before)
            for handle in handles:
                if marker_of(handle) == before:
                    mark(handle, sealed)
        for member in group:
            member.end()

    def _tell(self, group: Sequence[_Waiting]) -> None:
        """Tell the follower of the events of *group*, whose handles are equal to storage."""
        for member in group:
            if self.follower is not None and member.held is not None:
                self.follower.appended(member.session, member.held)

    def _apply(self, member: _Waiting, spelled: SpelledEvent) -> None:
        """Make the handle of *member* equal to storage with its event."""
        session = member.session
        event = self._trim_temp_delta_state(member.event)
        event.actions.state_delta = spelled.delta
        self._update_session_state(session, event)
        held = spelled.held(event)
        if not (member.is_in_handle and any(one is event for one in session.events)):
            session.events.append(held)
        session.last_update_time = spelled.append.timestamp
        member.event, member.held = event, held

    async def _rewound(self, key: SessionKey, event: Event) -> Event:
        """Return an event of ADK's rewind that sets the session's own state to what it was.

        ADK computes the state from the events alone, and would set all keys of the initial state to ``None``.
        """
        found = await self._reader.find_before(key, event.actions.rewind_before_invocation_id or "")
        if found is None:
            return event
        mine = split_scopes(event.actions.state_delta).session
        delta = {name: value for name, value in event.actions.state_delta.items() if name not in mine}
        delta.update((name, found.state.session.get(name)) for name in sorted(found.changed))
        return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": delta})})


def _again(failure: StoreError) -> StoreError:
    """Return the same error for another call."""
    again = copy.copy(failure)
    again.__cause__ = failure.__cause__
    return again

"""Append events: those of one process that wait for each other on a session go in one commit."""

import asyncio
from collections.abc import Sequence
from functools import reduce
from typing import Literal

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session

from gcp_adk_store.errors import InvalidInputError, OverloadedError, StoreError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Append
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
    rewound,
)
from gcp_adk_store.sessions.completion import Found
from gcp_adk_store.sessions.content_hooks import ContentHooks
from gcp_adk_store.sessions.handle import mark, marker_of
from gcp_adk_store.sessions.queues import Behind, Queues, Waiting, again
from gcp_adk_store.sessions.reader import SessionReader
from gcp_adk_store.sessions.recorder import Appended, PartlyHeldError, SessionRecorder
from gcp_adk_store.sessions.storage import SessionStorage
from gcp_adk_store.sessions.turn import held
from gcp_adk_store.settings import SessionLimits


class AppendMethods(BaseSessionService):
    """The methods of the session service that append events.

    The service's constructor sets the attributes.
    """

    bounds: Bounds
    _on_conflict: Literal["raise", "merge"]
    _limits: SessionLimits
    _hooks: ContentHooks
    _spelling: Spelling
    _storage: SessionStorage
    _reader: SessionReader
    _recorder: SessionRecorder
    _limiter: Limiter
    _delivered: Lru[tuple[SessionKey, str], bool]
    _held: HeldEvents
    _under_way: UnderWay
    _queues: Queues
    _behind: Behind
    _durability: Literal["event", "turn"]
    follower: Follower | None
    """Receives each stored event once, in order. An append succeeds also when it fails."""

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

        With ``durability="turn"`` it returns when the order of the event is certain; commits go out behind
        it; the final response of an agent waits until all before it are stored. An event that was not
        stored after its append returned is an error of the next append through *session*, of the end of the
        turn, or of :meth:`flush`; nothing more is stored through *session* then.

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
            TurnLostError: the append is a part of a turn, and the turn has ended; nothing was written.
            RedactorError: a redactor failed or took too long; nothing was written.
            OutcomeUnknownError: not answered before the deadline; reload before repeating.
        """
        if event.partial:
            return event
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        hold = held(self._storage, key)
        if hold is not None:
            hold.require_running()
        event = await self._hooks.of_event(event)
        mine = Waiting(session, event, asyncio.get_running_loop(), hold=hold)
        if self._durability == "turn":
            return await self._append_behind(key, mine)
        self._queues.add(key, mine)
        return await self._wait(key, mine)

    async def flush(self) -> None:
        """Wait for the running appends of this event loop, also those whose caller was cancelled.

        Of a store with ``index_on_append=True``, also until their memories are stored, or the log says that
        they are not.

        ADK's servers call it when they end, and do not close the service. Every acknowledged write is durable
        before, unless ``durability="turn"`` acknowledges it early.

        Raises:
            StoreError: with ``durability="turn"``, an append failed, and no later call has told it.
        """
        await self._behind.stored(lambda _, __: True)
        await self._under_way.wait()
        if self.follower is not None:
            await self.follower.flush()
        self._behind.require_all()

    async def flush_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Wait until the appends of this event loop to one session are stored.

        Raises:
            StoreError: with ``durability="turn"``, one of them failed, and no later call has told it.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        await self._behind.stored(lambda other, _: other == key)
        self._behind.require_all(key)

    async def _append_behind(self, key: SessionKey, mine: Waiting) -> Event:
        """Let *mine* be the next event of its handle; return before it is stored, unless it ends a turn."""
        session, event = mine.session, mine.event
        self._behind.require_whole(session)
        answers = mine.hold is not None and mine.hold.answers  # its commit removes a message that waits
        if not (mine.is_rewind or answers):
            self._apply_temp_state(session, event)
            mine.spelled = await self._spelling.of_event(event)
        if mine.spelled is None or self._is_known(key, mine) or self._is_in_tail(mine):
            await self._behind.stored(lambda other, _: other == key)
            self._behind.require_whole(session)
            self._queues.add(key, mine)
            return await self._wait(key, mine)
        # Without an await, so that the order in the handle is that of the queue.
        self._behind.require_whole(session)
        self._apply(mine, mine.spelled)
        self._queues.add(key, mine)
        self._behind.add(key, mine, asyncio.create_task(self._wait(key, mine)))
        # ADK calls a user's message final, too, which begins a turn.
        ends = mine.event.author != "user" and mine.event.is_final_response()
        if ends or self._behind.is_full(key, most_bytes=self._limits.event_text_bytes):
            await self._behind.stored(lambda other, _: other == key)
            self._behind.require_whole(session)
        return mine.event

    def _is_known(self, key: SessionKey, waiting: Waiting) -> bool:
        """Return whether storage may hold the event already; not of one that is in its handle unstored."""
        if waiting.held is not None:
            return False
        waiting.is_in_handle = self._held.holds(waiting.session, waiting.event.id)
        return waiting.is_in_handle or bool(self._delivered.get((key, waiting.event.id)))

    def _is_in_tail(self, waiting: Waiting) -> bool:
        """Return whether the tail that the handle knows may hold the event, also if it is unknown."""
        base = marker_of(waiting.session)
        if base is None or waiting.spelled is None:
            return True
        return self._reader.tails.may_hold(base, waiting.spelled.append)

    async def _wait(self, key: SessionKey, mine: Waiting) -> Event:
        """Wait until *mine* is stored: by another append's commit, or by its own once it has the permit."""
        try:
            permit = await self._limiter.acquire(key)
        except BaseException as exc:
            if mine.outcome is None:  # nothing was sent
                self._queues.take(key, mine)
                self._fail(key, [mine], exc)
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

    async def _lead(self, key: SessionKey, first: Waiting) -> Event:
        """Store an append that has the permit, and those behind it that go in the same commit."""
        if first.held is None:
            self._apply_temp_state(first.session, first.event)
            if first.hold is not None:
                first.event = first.hold.claimed(first.event)
        spelled = first.spelled or await self._spelling.of_event(first.event)
        known = self._is_known(key, first)
        if known and await self._recorder.holds(key, spelled.append):
            return self._trim_temp_delta_state(first.event)
        if first.is_rewind:
            spelled = await self._spelling.of_event(await rewound(self._reader, key, first.event))
            if known and await self._recorder.holds(key, spelled.append):
                return self._trim_temp_delta_state(first.event)
        first.spelled = spelled
        group = [first]
        try:
            await self._gather(key, group)
            await self._store(key, group)
        except BaseException as exc:
            self._fail(key, group, exc)
            for member in group[1:]:
                member.end(again(exc) if isinstance(exc, StoreError) else exc)
            raise
        return first.event

    def _require_whole(self, group: Sequence[Waiting]) -> None:
        """Require that no event of the same handle before one of *group* failed, if it was left behind.

        Nobody awaits this commit, so the failure stays to be reported.
        """
        for member in group:
            failure = None if member.held is None else self._behind.failure(member.session)
            if failure is not None:
                raise failure

    def _fail(self, key: SessionKey, group: Sequence[Waiting], failure: BaseException) -> None:
        """Let no event follow those of *group* that are in their handles and not stored."""
        for member in group:
            if member.held is not None and not member.is_stored:
                self._behind.fail(key, member.session, failure)

    async def _gather(self, key: SessionKey, group: list[Waiting]) -> None:
        """Add to *group* the appends behind its first that go in the same commit; spell them."""
        size = group[0].size
        while following := self._queues.first(key, group[0].loop):
            await asyncio.sleep(0)  # a hundred sessions that gather at once would hold up the event loop
            if self._queues.first(key, group[0].loop) is not following:
                continue  # its caller was cancelled meanwhile
            if not (group[-1].may_share and self._may_follow(key, group, following)):
                return
            try:
                following.spelled = following.spelled or await self._spelling.of_event(following.event)
            except Exception as exc:  # noqa: BLE001  # it is its caller's, and not that of the first
                if self._queues.take(key, following):
                    following.begin()
                    following.end(exc)
                continue
            if not following.may_share or size + following.size > self._limits.event_text_bytes:
                return
            if self._queues.take(key, following):  # otherwise its caller was cancelled
                size += following.size
                following.begin()
                if following.held is None:
                    self._apply_temp_state(following.session, following.event)
                group.append(following)

    def _may_follow(self, key: SessionKey, group: Sequence[Waiting], following: Waiting) -> bool:
        """Return whether an append may go with *group*, before it is spelled."""
        first, event = group[0], following.event
        if following.hold is not first.hold or (following.hold is not None and following.hold.answers):
            return False
        if following.is_rewind or any(event.id == member.event.id for member in group):
            return False
        if self._is_known(key, following):
            return False  # storage is asked for it
        if following.session is first.session:
            return True
        markers = marker_of(first.session), marker_of(following.session)
        return self._on_conflict == "merge" and None not in markers

    async def _store(self, key: SessionKey, group: Sequence[Waiting]) -> None:
        """Store *group*, together or else one by one, and set the outcomes of all but the first.

        Raises:
            StoreError: that of the first, or of all.
        """
        try:
            await self._commit(key, group)
        except (InvalidInputError, PartlyHeldError):
            if len(group) == 1:
                raise
        else:
            return
        failure = None
        for member in group:
            try:
                await self._commit(key, [member])
            except StoreError as exc:
                self._fail(key, [member], exc)
                failure = failure or (exc if member is group[0] else None)
                member.end(exc)
        if failure is not None:
            raise failure

    async def _commit(self, key: SessionKey, group: Sequence[Waiting]) -> None:
        """Store *group* in one commit, apply it to the handles, and set the outcomes."""
        self._require_whole(group)
        spelled = [member.spelled for member in group if member.spelled is not None]
        append = reduce(Append.and_then, (one.append for one in spelled))
        handles = list({id(member.session): member.session for member in group}.values())
        merging = self._on_conflict == "merge"
        hold = group[0].hold
        if hold is not None:
            hold.commits([member.event.id for member in group])
        appended = await self._recorder.append(
            key, append, marker_of(handles[0]), spelled[0].change, merging=merging, hold=hold
        )
        if appended.was_held:
            mark(handles[0], appended.marker)
            self._end_held(key, group)
            return
        await self._follow(key, group, spelled, handles, appended)
        if hold is not None:
            hold.follow(marker_of(handles[0]))
        for member in group:
            member.end()

    async def _follow(
        self,
        key: SessionKey,
        group: Sequence[Waiting],
        spelled: Sequence[SpelledEvent],
        handles: Sequence[Session],
        appended: Appended,
    ) -> None:
        """Let the *handles* follow a commit of *group*."""
        markers = [marker_of(handle) for handle in handles]
        after = [appended.marker]
        missed: list[Found | None] = [None]
        if appended.merged or len(handles) > 1:
            # Unless a handle learns what it missed, its next append conflicts.
            after = [marker and marker.at("") for marker in markers]
            missed = [await self._recorder.missed(key, marker) if marker else None for marker in markers]
        # Without an await, the callers' sessions become equal to storage.
        for member, one in zip(group, spelled, strict=True):
            self._delivered.put((key, member.event.id), value=True)
            if member.held is None:
                self._apply(member, one)
            member.is_stored = True
        for handle, marker, found in zip(handles, after, missed, strict=True):
            mark(handle, marker)
            if found is not None:
                self._learn(key, handle, found)
        self._tell(group)
        if appended.tail_bytes >= self._limits.seal_tail_bytes:
            await self._seal(key, handles)

    def _end_held(self, key: SessionKey, group: Sequence[Waiting]) -> None:
        """End appends whose events were stored before."""
        for member in group:
            self._delivered.put((key, member.event.id), value=True)
            member.is_stored = True
            if member.held is None:
                member.event = self._trim_temp_delta_state(member.event)
            member.end()

    def _tell(self, group: Sequence[Waiting]) -> None:
        """Tell the follower of the events of *group*, whose handles are equal to storage."""
        for member in group:
            if self.follower is not None and member.held is not None:
                self.follower.appended(member.session, member.held)

    def _learn(self, key: SessionKey, handle: Session, found: Found) -> None:
        """Add what others wrote to a handle, before its own events that still wait."""
        learn(handle, found, [each.held for each in self._queues.of(key, handle) if each.held])

    async def _seal(self, key: SessionKey, handles: Sequence[Session]) -> None:
        """Move the tail into a segment, and let the *handles* that know this very tail know it."""
        before = marker_of(handles[0])
        sealed = await self._recorder.seal(key, before)
        for handle in handles:
            if marker_of(handle) == before:
                mark(handle, sealed)

    def _apply(self, member: Waiting, spelled: SpelledEvent) -> None:
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

"""Append events: those of one process that wait for each other on a session go in one commit."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial, reduce

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.errors import InvalidInputError, OverloadedError, StoreError
from gcp_adk_store.kernel.concurrency import Limiter, Lru
from gcp_adk_store.kernel.operation import paced
from gcp_adk_store.model.appends import Append, mark, marker_of
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.state import apply_temporary
from gcp_adk_store.sessions.append.commit import (
    Appended,
    Appending,
    EncodedAppend,
    EventEncoder,
    PartlyHeldError,
)
from gcp_adk_store.sessions.append.handles import Follower, learn, rewound
from gcp_adk_store.sessions.append.queue import (
    InFlightAppends,
    PendingAppends,
    QueuedAppend,
    Queues,
    again,
    report_unawaited,
)
from gcp_adk_store.sessions.append.recorder import SessionRecorder
from gcp_adk_store.sessions.append.turn import HeldTurn
from gcp_adk_store.sessions.read.completion import Found
from gcp_adk_store.sessions.read.known import HeldEvents
from gcp_adk_store.settings import SessionLimits


class Appender:
    """Appends events to the sessions below one prefix of a database, for one service."""

    def __init__(
        self,
        recorder: SessionRecorder,
        encoder: EventEncoder,
        limits: SessionLimits,
        *,
        merging: bool,
        running: Limiter,
    ) -> None:
        """Prepare.

        Args:
            recorder: Stores the events.
            encoder: Encodes them.
            limits: The limits of the service.
            merging: Whether an append that another writer overtook is stored after the other's.
            running: The permits of the service's operations; a commit takes one.
        """
        self._reader = recorder.reader
        self._recorder = recorder
        self._encoder = encoder
        self._limits = limits
        self._merging = merging
        self._running = running
        self.permits = Limiter(max_waiting=limits.max_waiting, longest_wait_s=limits.deadline_s)
        """By session: tasks, threads and loops that share one handle do not conflict with each other."""
        self.follower: Follower | None = None
        """Receives each stored event once, in order. An append succeeds also when it fails."""
        self.keeps_rewinds = False
        """Whether events of ADK's rewind keep their state delta, as those of a copy do."""
        # Ids of events that this process stored lately: a handle that was read without its events does not
        # hold them. A known id is only a reason to ask storage for the event.
        self._delivered = Lru[tuple[SessionKey, str], bool](limits.delivered_events)
        self._held = HeldEvents()
        self._queues = Queues()
        self._pending = PendingAppends(self._wait)
        self.ready = self._pending.ready
        self.begin_deferred = self._pending.begin
        self._under_way = InFlightAppends(self.permits)

    def append(self, key: SessionKey, mine: QueuedAppend) -> Awaitable[Event]:
        """Let *mine* be the next append to its session; what is returned stores it, and is to be awaited."""
        self._queues.add(key, mine)
        stored = self._wait(key, mine)
        # A task comes after those of the appends that were deferred.
        return asyncio.create_task(stored) if self._pending.begin(key) else stored

    async def flush(self) -> None:
        """Wait for the running appends of this event loop; the service's ``flush`` has the errors."""
        await paced()  # the calls that were requested earlier begin first
        self._pending.let_go()
        await self._pending.stored(lambda _, __: True)
        await self._under_way.wait(lambda _, __: True)
        if self.follower is not None:
            await self.follower.flush()
        self._pending.require_all()

    async def flush_session(self, key: SessionKey, hold: HeldTurn | None) -> None:
        """Wait until the appends of this event loop to one session, or to its turn *hold*, are stored."""
        await self.drain(key)
        self._pending.require_all(key, hold)

    async def drain(self, key: SessionKey) -> None:
        """Wait until each append of this event loop to one session is stored or has failed."""
        await paced()  # as in flush
        await self._pending.stored(lambda other, _: other == key)

    async def settle(self, key: SessionKey) -> None:
        """Wait for the appends of this event loop to one session that are a part of no turn."""

        def is_outside(other: SessionKey, waiting: QueuedAppend) -> bool:
            return other == key and waiting.hold is None

        await paced()  # as in flush
        await self._pending.stored(is_outside)
        await self._under_way.wait(is_outside)

    async def append_deferred(self, key: SessionKey, mine: QueuedAppend, *, waits: bool = False) -> Event:
        """Let *mine* be the next event of its handle; return before it is stored, unless it ends a turn.

        If the caller *waits*, only what the run of an agent defers is not stored then: the event of a message
        that is stored in the inbox, and a final response, which the run itself holds back.
        """
        session, event, hold = mine.session, mine.event, mine.hold
        self._pending.let_go()
        self._pending.require_whole(session)
        is_run = hold is not None and hold.defers
        is_message = hold is not None and hold.claims(event)
        # ADK calls a user's message final, too, which begins a turn.
        is_final = event.author != "user" and event.is_final_response()
        defers = is_run and (is_message or is_final or (event.author != "user" and not waits))
        if not self._recomputes(mine):
            apply_temporary(session, event)
            mine.encoded = await self._encoder.encode(event)
        if mine.encoded is None or self._is_known(key, mine) or self._is_in_tail(mine):
            await self._pending.stored(lambda other, _: other == key)
            self._pending.require_whole(session)
            self._queues.add(key, mine)
            return await self._wait(key, mine)
        if (waits and not defers) or event.actions.compaction is not None:
            return await self.append(key, mine)  # ADK gives up a summary that conflicts, and not its run
        # Without an await, so that the order in the handle is that of the queue.
        self._pending.require_whole(session)
        self._apply(mine, mine.encoded)
        self._queues.add(key, mine)
        self._pending.defer(key, mine, until_idle=not (is_message or is_final))
        if not defers:
            self._pending.begin(key)
        if (is_final and not is_run) or self._pending.is_full(key, most_bytes=self._limits.event_text_bytes):
            await self._pending.stored(lambda other, _: other == key)
            if not mine.is_stored:  # one behind it may have failed before it was stored
                self._pending.require_whole(session)
        return mine.event

    def _is_known(self, key: SessionKey, waiting: QueuedAppend) -> bool:
        """Return whether storage may hold the event already; not of one that is in its handle unstored."""
        if waiting.held is not None:
            return False
        waiting.is_in_handle = self._held.holds(waiting.session, waiting.event.id)
        return waiting.is_in_handle or bool(self._delivered.lookup((key, waiting.event.id)))

    def _is_in_tail(self, waiting: QueuedAppend) -> bool:
        """Return whether the tail that the handle knows may hold the event, also if it is unknown."""
        base = marker_of(waiting.session)
        if base is None or waiting.encoded is None:
            return True
        return self._reader.tails.may_hold(base, waiting.encoded.append)

    async def _wait(self, key: SessionKey, mine: QueuedAppend) -> Event:
        """Wait until *mine* is stored: by another append's commit, or by its own once it has the permit."""
        try:
            permit = await self.permits.acquire(key)
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
                return await self._under_way.see_through(permit, (key, mine), self._lead(key, mine))
            self.permits.release(permit)
        try:
            return await asyncio.shield(mine.outcome)
        except asyncio.CancelledError:
            mine.outcome.add_done_callback(report_unawaited)
            raise

    async def _lead(self, key: SessionKey, first: QueuedAppend) -> Event:
        """Store an append that has the permit, and those behind it that go in the same commit."""
        async with self._running.permit():
            if await self._encode_and_look(key, first):
                # Also a handle that was read without the event knows it from now on.
                self._delivered.put((key, first.event.id), value=True)
                return first.trimmed()
            group = [first]
            try:
                await paced()  # appends that were requested meanwhile begin, and share this commit
                await self._gather(key, group)
                try:
                    await self._commit(key, group, is_last=True)
                except (InvalidInputError, PartlyHeldError):
                    if len(group) == 1:
                        raise
                else:
                    return first.event
                # After the handler: an error of one append must not lead to that of all.
                await self._commit_each(key, group)
            except BaseException as exc:
                self._fail(key, group, exc)
                for member in group[1:]:
                    member.end(again(exc) if isinstance(exc, StoreError) else exc)
                raise
            return first.event

    async def _encode_and_look(self, key: SessionKey, first: QueuedAppend) -> bool:
        """Encode the event of *first*; look for it if it may be stored, and return whether it is."""
        if first.held is None:
            apply_temporary(first.session, first.event)
            if first.hold is not None:
                first.hold.claims(first.event)
        first.encoded = first.encoded or await self._encoder.encode(first.event)
        known = self._is_known(key, first)
        if known and await self._recorder.holds(key, first.encoded.append):
            return True
        if not self._recomputes(first):
            return False
        encoded = await self._rewind(key, first)
        return known and await self._recorder.holds(key, encoded.append)

    def _recomputes(self, waiting: QueuedAppend) -> bool:
        """Return whether the state delta of an event depends on what is stored now."""
        return waiting.is_rewind and not self.keeps_rewinds

    async def _rewind(self, key: SessionKey, waiting: QueuedAppend) -> EncodedAppend:
        """Encode an event of ADK's rewind, whose change of state depends on what is stored now."""
        waiting.encoded = await self._encoder.encode(await rewound(self._reader, key, waiting.event))
        return waiting.encoded

    def _require_whole(self, group: Sequence[QueuedAppend]) -> None:
        """Require that no event of the same handle before one of *group* failed, if it was pending.

        Nobody awaits this commit, so the failure stays to be reported.
        """
        for member in group:
            failure = None if member.held is None else self._pending.failure(member.session)
            if failure is not None:
                raise failure

    def _fail(self, key: SessionKey, group: Sequence[QueuedAppend], failure: BaseException) -> None:
        """Let no event follow those of *group* that are in their handles and not stored."""
        for member in group:
            if member.hold is not None and not member.is_stored:
                member.hold.failed([member.event.id])
            if member.held is not None and not member.is_stored:
                self._pending.fail(key, member, failure)

    async def _gather(self, key: SessionKey, group: list[QueuedAppend]) -> None:
        """Add to *group* the appends behind its first that go in the same commit; encode them."""
        size = group[0].size
        ids = {group[0].event.id}
        while following := self._queues.first(key, group[0].loop):
            await paced(is_step=True)  # a hundred sessions that gather would hold up the event loop
            if self._queues.first(key, group[0].loop) is not following:
                continue  # its caller was cancelled meanwhile
            is_new = following.event.id not in ids
            if not (is_new and group[-1].may_share and self._may_follow(key, group[0], following)):
                return
            try:
                following.encoded = following.encoded or await self._encoder.encode(following.event)
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
                    apply_temporary(following.session, following.event)
                group.append(following)
                ids.add(following.event.id)

    def _may_follow(self, key: SessionKey, first: QueuedAppend, following: QueuedAppend) -> bool:
        """Return whether an append may go with those of *first*, before it is encoded."""
        if following.hold is not first.hold or following.is_rewind:
            return False
        if self._is_known(key, following):
            return False  # storage is asked for it
        if following.session is first.session:
            return True
        markers = marker_of(first.session), marker_of(following.session)
        return self._merging and None not in markers

    async def _commit_each(self, key: SessionKey, group: Sequence[QueuedAppend]) -> None:
        """Store each of *group* alone, and set the outcomes of all but the first.

        Raises:
            StoreError: that of the first.
        """
        failure = None
        for member in group:
            try:
                await self._commit(key, [member], is_last=member is group[-1])
            except StoreError as exc:
                self._fail(key, [member], exc)
                failure = failure or (exc if member is group[0] else None)
                member.end(exc)
        if failure is not None:
            raise failure

    async def _commit(self, key: SessionKey, group: Sequence[QueuedAppend], *, is_last: bool) -> None:
        """Store *group* in one commit, apply it to the handles, and set the outcomes."""
        self._require_whole(group)
        encoded = [member.encoded for member in group if member.encoded is not None]
        append = reduce(Append.and_then, (one.append for one in encoded))
        handles = list({id(member.session): member.session for member in group}.values())
        hold = group[0].hold
        if hold is not None:
            hold.commits([member.event.id for member in group])
        appending = Appending(
            self._recorder,
            key,
            append,
            marker_of(handles[0]),
            encoded[0].change,
            merging=self._merging,
            hold=hold,
            is_last=is_last and self._queues.first(key, group[0].loop) is None,
            anew=partial(self._rewind, key, group[0]) if self._recomputes(group[0]) else None,
        )
        await appending.prepare()
        appended = await appending.record()
        await paced(is_step=True)  # the answers of many may come at once
        encoded = [member.encoded for member in group if member.encoded is not None]
        if appended.was_held:
            mark(handles[0], appended.marker)
            self._end_held(key, group)
            return
        await self._follow(key, group, encoded, handles, appended)
        if hold is not None:
            hold.follow(marker_of(handles[0]))
        for member in group:
            member.end()

    async def _follow(
        self,
        key: SessionKey,
        group: Sequence[QueuedAppend],
        encoded: Sequence[EncodedAppend],
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
        for member, one in zip(group, encoded, strict=True):
            self._delivered.put((key, member.event.id), value=True)
            if member.held is None:
                self._apply(member, one)
            member.is_stored = True
        for handle, marker, found in zip(handles, after, missed, strict=True):
            mark(handle, marker)
            if found is not None:  # before its own events that still wait
                learn(handle, found, [each.held for each in self._queues.of(key, handle) if each.held])
        for member in group:
            if self.follower is not None and member.held is not None:
                self.follower.appended(member.session, member.held)
        if appended.tail_bytes >= self._limits.seal_tail_bytes:
            await self._seal(key, handles)

    def _end_held(self, key: SessionKey, group: Sequence[QueuedAppend]) -> None:
        """End appends whose events were stored before."""
        for member in group:
            self._delivered.put((key, member.event.id), value=True)
            member.is_stored = True
            if member.held is None:
                member.event = member.trimmed()
            member.end()

    async def _seal(self, key: SessionKey, handles: Sequence[Session]) -> None:
        """Move the tail into a segment, and let the *handles* that know this tail know it."""
        before = marker_of(handles[0])
        sealed = await self._recorder.seal(key, before)
        for handle in handles:
            if marker_of(handle) == before:
                mark(handle, sealed)

    def _apply(self, member: QueuedAppend, encoded: EncodedAppend) -> None:
        """Make the handle of *member* equal to storage with its event."""
        session = member.session
        event = member.trimmed()
        event.actions.state_delta = encoded.delta
        session.state.update(encoded.state)
        held = encoded.held(event)
        if not (member.is_in_handle and any(one is event for one in session.events)):
            session.events.append(held)
        session.last_update_time = encoded.append.timestamp
        member.event, member.held = event, held

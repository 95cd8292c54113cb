"""Remember what the session service appends, after the append and beside it."""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Lru
from gcp_adk_store.kernel.operation import Operation, enter
from gcp_adk_store.memory.service import MemoryService
from gcp_adk_store.model.keys import SessionKey, UserKey

logger = logging.getLogger(__name__)

_Kept: TypeAlias = Sequence[MemoryEntry] | None
Extract: TypeAlias = Callable[[Sequence[Event]], _Kept | Awaitable[_Kept]]
"""Returns the memories to keep of events of one session, or ``None``; a function or a coroutine function."""

_Events: TypeAlias = dict[asyncio.AbstractEventLoop, dict[UserKey, dict[SessionKey, list[Event]]]]

_FOLLOWED: Final = 8192
"""Sessions that this process knows to be remembered up to their last append."""
_WAITING: Final = 10_000
"""Events that may wait for their commit; beyond that, the session with most catches up with its next append.

As many may wait for the end of their turn; beyond that, the longest counts as ended: that of an agent that
failed never ends. Of all users, the one who has most comes first, so that nobody pushes out another's."""


class Remembering:
    """Adds what was appended to the memories of its user, turn by turn, one commit at a time for each user.

    A turn ends with an agent's final response. Until then its events wait, so that no search of the turn
    finds the question that it is to answer; :meth:`flush` does not wait for the end.

    It never fails an append. What could not be remembered is logged, and caught up with: the next append of
    the session adds all events that the caller's session holds, and those that are remembered already change
    nothing. So does the first append of a session in each process, for one that ended too early.
    """

    def __init__(self, memory: MemoryService, extract: Extract | None) -> None:
        """Prepare; with *extract*, what it returns is remembered instead of the events."""
        self._memory = memory
        self._extract = extract
        self._followed = Lru[SessionKey, bool](_FOLLOWED)
        self._running: _Events = {}  # of turns that have not ended
        self._waiting: _Events = {}
        self._tasks: dict[asyncio.AbstractEventLoop, dict[UserKey, asyncio.Task[None]]] = {}

    def appended(self, session: Session, event: Event) -> None:
        """Have *event*, which is in *session*, remembered; it returns at once."""
        loop = asyncio.get_running_loop()
        self._let_go()
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        if _count(waiting := self._waiting.get(loop, {})) >= _WAITING:
            dropped = _largest(waiting)
            _pop(waiting, dropped)
            self._followed.forget(lambda known: known == dropped)
            logger.warning("%s waits for its next append to be remembered: too many events wait", dropped)
        if _count(running := self._running.get(loop, {})) >= _WAITING:
            ended = _largest(running)
            self._end_turn(loop, ended)
            self._start(loop, ended.owner)
        sessions = self._running.setdefault(loop, {}).setdefault(key.owner, {})
        if self._followed.lookup(key):
            sessions.setdefault(key, []).append(event)
        else:
            stored = _up_to(event, session.events)
            ids = {each.id for each in stored}
            sessions[key] = stored + [each for each in sessions.get(key, []) if each.id not in ids]
        self._followed.put(key, value=True)
        # Not before: a search of the same turn would find the question itself, and a fact may need all of it.
        if event.author != "user" and event.is_final_response():
            self._end_turn(loop, key)
            self._start(loop, key.owner)

    def _end_turn(self, loop: asyncio.AbstractEventLoop, key: SessionKey) -> None:
        """Let what was appended to a session wait for its commit."""
        events = _pop(self._running.get(loop, {}), key)  # none, if another thread let the user be forgotten
        self._waiting.setdefault(loop, {}).setdefault(key.owner, {}).setdefault(key, []).extend(events)

    async def forget(self, user: UserKey) -> None:
        """Drop what waits of a user, and wait for the commit that is under way in this event loop."""
        for users in (*self._running.values(), *self._waiting.values()):
            users.pop(user, None)
        self._followed.forget(lambda known: known.owner == user)
        task = self._tasks.get(asyncio.get_running_loop(), {}).get(user)
        if task is not None:
            await asyncio.wait([task])

    async def flush(self) -> None:
        """Wait until what was appended in this event loop is remembered, or is logged as not."""
        loop = asyncio.get_running_loop()
        for key in [key for sessions in self._running.get(loop, {}).values() for key in sessions]:
            self._end_turn(loop, key)
        for user in [*self._waiting.get(loop, {})]:
            self._start(loop, user)
        while running := [task for task in self._tasks.get(loop, {}).values() if not task.done()]:
            await asyncio.wait(running)

    def _start(self, loop: asyncio.AbstractEventLoop, user: UserKey) -> None:
        tasks = self._tasks.setdefault(loop, {})
        if user in tasks and not tasks[user].done():
            return  # it takes what waits when its commit is done
        context = contextvars.copy_context()
        context.run(enter, Operation(""))  # neither the deadline nor the span of the append
        tasks[user] = loop.create_task(self._work(loop, user), context=context)
        tasks[user].add_done_callback(lambda done: self._end(loop, user, done))

    def _end(self, loop: asyncio.AbstractEventLoop, user: UserKey, done: asyncio.Task[None]) -> None:
        tasks = self._tasks.get(loop, {})
        if tasks.get(user) is done:
            del tasks[user]

    async def _work(self, loop: asyncio.AbstractEventLoop, user: UserKey) -> None:
        waiting = self._waiting.get(loop, {})
        while sessions := waiting.get(user):
            key = next(iter(sessions))
            try:
                await self._remember(key, _pop(waiting, key))
            # Also of the caller's function: the append is done. The event loop cancels this as it ends.
            except (Exception, asyncio.CancelledError) as exc:
                self._followed.forget(lambda known, failed=key: known == failed)  # type: ignore[misc]
                telemetry.warn(logger, f"{key} waits for its next append to be remembered", exc)
                if isinstance(exc, asyncio.CancelledError):
                    raise

    async def _remember(self, key: SessionKey, events: Sequence[Event]) -> None:
        user: dict[str, Any] = {"app_name": key.app, "user_id": key.user}
        if self._extract is None:
            # Not as events: one that no memory can hold would keep the others out, too.
            await self._memory.add_session_to_memory(Session(id=key.session, events=[*events], **user))
            return
        while new := await self._memory.select_new_events(**user, events=events):
            found = self._extract(new)
            entries = (await found if inspect.isawaitable(found) else found) or ()
            # Another process may have taken some of them in meanwhile: these count once.
            if await self._add({**user, "session_id": key.session}, new, [*entries]):
                return

    async def _add(self, where: dict[str, Any], events: Sequence[Event], entries: list[MemoryEntry]) -> bool:
        """Remember what was made of *events*, but what cannot be stored; as ``add_extracted``."""
        add = self._memory.add_extracted
        try:
            return await add(**where, events=events, memories=entries)
        except InvalidInputError:
            # The same would be made of the same events at each turn.
            if not await add(**where, events=events, memories=()):
                return False
        for entry in entries:
            try:
                await add(**where, events=(), memories=[entry])
            except InvalidInputError as exc:
                says = "a memory that extract= returned cannot be stored, and is left out"
                telemetry.warn(logger, says, exc)
        return True

    def _let_go(self) -> None:
        """Drop the work of loops that have ended: nothing runs it any more."""
        for loop in [loop for loop in {*self._tasks, *self._running, *self._waiting} if loop.is_closed()]:
            self._tasks.pop(loop, None)
            for users in (self._running.pop(loop, {}), self._waiting.pop(loop, {})):
                for sessions in users.values():
                    self._followed.forget(lambda known, lost=sessions: known in lost)  # type: ignore[misc]


def _count(users: Mapping[UserKey, Mapping[SessionKey, Sequence[Event]]]) -> int:
    return sum(len(events) for sessions in users.values() for events in sessions.values())


def _largest(users: Mapping[UserKey, Mapping[SessionKey, Sequence[Event]]]) -> SessionKey:
    """Return the session that has most events, of the user who has most; the oldest of equal ones."""
    sessions = max(users.values(), key=lambda of_user: sum(map(len, of_user.values())))
    return max(sessions, key=lambda key: len(sessions[key]))


def _pop(users: dict[UserKey, dict[SessionKey, list[Event]]], key: SessionKey) -> list[Event]:
    """Remove the events of a session, and a user without any; return them."""
    events = users.get(key.owner, {}).pop(key, [])
    if not users.get(key.owner):
        users.pop(key.owner, None)
    return events


def _up_to(event: Event, events: Sequence[Event]) -> list[Event]:
    """Return *events* up to *event*: those behind it may not be stored yet."""
    at = next((at for at in reversed(range(len(events))) if events[at].id == event.id), None)
    return [*events[:at], event]

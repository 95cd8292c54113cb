"""Keep the appends that wait for the permit of their session, that run, and that no caller waits for."""

import asyncio
import copy
import logging
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.errors import OutcomeUnknownError, SessionConflictError, StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Limiter, Permit
from gcp_adk_store.kernel.operation import Operation
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import without_temporary
from gcp_adk_store.sessions.append.commit import EncodedAppend
from gcp_adk_store.sessions.append.turn import HeldTurn

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_LEFT: Final = 1_000
"""Failures that nobody has got, of handles that are gone."""
_MOST_LEFT_OF_A_SESSION: Final = 10
"""So many of them are of one session."""

MOST_PENDING: Final = 100
"""Events of one session that may be pending, with ``event_text_bytes`` together; then they wait."""

IDLE_TURNS: Final = 30
"""Turns of the event loop after which a run is taken to wait for something, such as a model.

A run of ADK 2.13 that waits for nothing takes up to 12 of them from one event to the next, and to its end.
"""


@dataclass(eq=False, slots=True)
class QueuedAppend:
    """An append that waits for the permit of its session, or for the commit that it goes with."""

    session: Session
    event: Event
    loop: asyncio.AbstractEventLoop
    hold: HeldTurn | None = None
    """The turn that it is a part of."""
    encoded: EncodedAppend | None = None
    is_in_handle: bool = False
    """Whether the handle held an event of this id before."""
    held: Event | None = None
    """The event in the handle, once it is there."""
    is_stored: bool = False
    outcome: "asyncio.Future[Event] | None" = None
    """Set once a commit is to include it."""
    given: Event | None = None
    """The event of the caller, which ADK's runner yields; redactors make *event* of it."""

    @property
    def is_rewind(self) -> bool:
        """Whether ADK's rewind made the event."""
        return self.event.actions.rewind_before_invocation_id is not None

    @property
    def may_share(self) -> bool:
        """Whether other events may be in its commit: it has no payloads, which are written before."""
        return self.encoded is not None and not self.encoded.change.has_payloads and not self.is_rewind

    @property
    def size(self) -> int:
        """Bytes of its text, once it is encoded."""
        return 0 if self.encoded is None else sum(len(text.encode()) for text in self.encoded.append.texts)

    def trimmed(self) -> Event:
        """Return its event, which has no ``temp:`` keys any more, and neither has that of the caller."""
        if self.given is not None and self.given is not self.event:
            without_temporary(self.given)
        return without_temporary(self.event)

    def begin(self) -> None:
        """Let a commit include it."""
        self.outcome = self.loop.create_future()

    def end(self, failure: BaseException | None = None) -> None:
        """Set its outcome, unless it has one."""
        if self.outcome is None or self.outcome.done():
            return
        if failure is None:
            self.outcome.set_result(self.event)
        elif isinstance(failure, Exception):
            self.outcome.set_exception(failure)
        else:
            self.outcome.cancel()


Waiting = tuple[SessionKey, QueuedAppend]
"""An append, and the session that it is to."""

Concerns = Callable[[SessionKey, QueuedAppend], bool]
"""Returns whether an append to a session is chosen."""


class Queues:
    """Appends that wait, in their order, by event loop and session."""

    def __init__(self) -> None:
        self._queues: dict[tuple[asyncio.AbstractEventLoop, SessionKey], deque[QueuedAppend]] = {}

    def add(self, key: SessionKey, waiting: QueuedAppend) -> None:
        """Let *waiting* be the last."""
        self._queues.setdefault((waiting.loop, key), deque()).append(waiting)

    def of(self, key: SessionKey, session: Session) -> list[QueuedAppend]:
        """Return the appends of the handle *session* that wait in this event loop, in their order."""
        queue = self._queues.get((asyncio.get_running_loop(), key), ())
        return [waiting for waiting in queue if waiting.session is session]

    def first(self, key: SessionKey, loop: asyncio.AbstractEventLoop) -> QueuedAppend | None:
        """Return the append that waits longest; ``None`` if none waits."""
        queue = self._queues.get((loop, key))
        return queue[0] if queue else None

    def take(self, key: SessionKey, waiting: QueuedAppend) -> bool:
        """Let *waiting* wait no longer; return whether it did until now."""
        queue = self._queues.get((waiting.loop, key), deque())
        if waiting not in queue:
            return False
        queue.remove(waiting)
        if not queue:
            del self._queues[waiting.loop, key]
        return True


class PendingAppends:
    """Appends that returned before they were stored, and the failures of such appends, by their handles.

    After a failure nothing else is appended through the handle: what is stored of it is always the beginning
    of what was appended.

    Appends of a run are deferred: they begin together once the run makes no more of them at once, when others
    have to see them, or when its turn ends. So they share a commit.
    """

    def __init__(self, store: "Callable[[SessionKey, QueuedAppend], Coroutine[Any, Any, Event]]") -> None:
        """Prepare; *store* stores an append and those behind it."""
        self._store = store
        self._deferred: dict[tuple[asyncio.AbstractEventLoop, SessionKey], list[QueuedAppend]] = {}
        self._idle: dict[tuple[asyncio.AbstractEventLoop, SessionKey], asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.AbstractEventLoop, dict[asyncio.Task[Event], Waiting]] = {}
        self._failures: dict[int, _Failure] = {}
        self._left = _LeftFailures()

    def add(self, key: SessionKey, waiting: QueuedAppend, task: "asyncio.Task[Event]") -> None:
        """Remember that *task* stores *waiting*, which is in its handle."""
        self._tasks.setdefault(waiting.loop, {})[task] = key, waiting
        task.add_done_callback(self._end)

    def let_go(self) -> None:
        """Let the appends of closed event loops fail: nothing runs them any more."""
        left = [pair for loop, mine in [*self._tasks.items()] if loop.is_closed() for pair in mine.values()]
        for place in [place for place in [*self._deferred] if place[0].is_closed()]:
            left += [(place[1], waiting) for waiting in self._deferred.pop(place)]
            self._idle.pop(place, None)
        for key, waiting in left:
            self._tasks.pop(waiting.loop, None)
            if not waiting.is_stored:
                self.fail(key, waiting, asyncio.CancelledError())

    def defer(self, key: SessionKey, waiting: QueuedAppend, *, until_idle: bool) -> None:
        """Let *waiting*, which is in its handle, begin with those that follow, or when nothing else runs."""
        place = waiting.loop, key
        self._deferred.setdefault(place, []).append(waiting)
        if until_idle and place not in self._idle:
            task = self._idle[place] = asyncio.create_task(self._begin_when_idle(key))
            task.add_done_callback(lambda _: self._idle.pop(place, None))

    def begin(self, key: SessionKey) -> bool:
        """Begin the deferred appends of this event loop to a session, in order; return whether any is."""
        deferred = self._deferred.pop((asyncio.get_running_loop(), key), ())
        for waiting in deferred:
            self.add(key, waiting, asyncio.create_task(self._store(key, waiting)))
        return bool(deferred)

    async def _begin_when_idle(self, key: SessionKey) -> None:
        """Begin the deferred appends to a session once none was added for some turns of the event loop."""
        place, count, turns = (asyncio.get_running_loop(), key), 0, 0
        while turns < IDLE_TURNS and place in self._deferred:
            await asyncio.sleep(0)
            before, count = count, len(self._deferred.get(place, ()))
            turns = turns + 1 if count == before else 0
        self.begin(key)

    async def ready(self, operation: Operation) -> None:
        """Wait for the appends that *operation* must see: of the same user, and to the state of the app."""
        if not self._tasks and not self._deferred:
            return
        app, user = operation.ids.get("app_name"), operation.ids.get("user_id")

        def concerns(key: SessionKey, waiting: QueuedAppend) -> bool:
            of_app = waiting.encoded is not None and bool(waiting.encoded.append.delta.app)
            return app in (None, key.app) and (of_app or user in (None, key.user))

        await self.stored(concerns)

    async def stored(self, concerns: Concerns) -> None:
        """Wait for the appends of this event loop that are chosen and have begun before this call."""
        loop = asyncio.get_running_loop()
        for place, deferred in [*self._deferred.items()]:
            if place[0] is loop and any(concerns(place[1], waiting) for waiting in deferred):
                self.begin(place[1])
        mine = self._tasks.get(loop, {})
        if tasks := [task for task, (key, waiting) in mine.items() if concerns(key, waiting)]:
            await asyncio.wait(tasks)

    def is_full(self, key: SessionKey, *, most_bytes: int) -> bool:
        """Return whether appends to a session should wait for those before them."""
        loop = asyncio.get_running_loop()
        sizes = [waiting.size for other, waiting in self._tasks.get(loop, {}).values() if other == key]
        sizes += [waiting.size for waiting in self._deferred.get((loop, key), ())]
        return len(sizes) >= MOST_PENDING or sum(sizes) >= most_bytes

    def fail(self, key: SessionKey, waiting: QueuedAppend, failure: BaseException) -> None:
        """Remember that *waiting*, whose event is in its handle, is not stored, or perhaps not.

        The first failure stays. One of an event before it, which comes later, may be less certain.
        """
        place = id(waiting.session)
        known = self._failures.get(place)
        if known is None or (
            isinstance(failure, OutcomeUnknownError) and not isinstance(known.failure, OutcomeUnknownError)
        ):
            alive = weakref.ref(waiting.session, lambda _: self._leave(place))
            # A copy without a traceback: its frames hold the handle, which would live as long as the failure.
            kept = again(failure) if isinstance(failure, StoreError) else None
            self._failures[place] = _Failure(key, waiting.hold, alive, kept)

    def _leave(self, place: int) -> None:
        """Keep a failure of a handle that is gone, such as that of a tool, for the end of the turn."""
        failure = self._failures.pop(place, None)
        if failure is not None and not failure.is_reported:
            self._left.add(failure)

    def failure(self, session: Session) -> BaseException | None:
        """Return the error of an append through the handle *session* that failed, for background work."""
        failure = self._failures.get(id(session))
        return failure.error() if failure is not None and failure.session() is session else None

    def require_whole(self, session: Session) -> None:
        """Require that no append through the handle *session* failed, on behalf of its caller.

        Raises:
            StoreError: the failure.
        """
        if (error := self.failure(session)) is not None:
            self._failures[id(session)].is_reported = True
            raise error

    def require_all(self, key: SessionKey | None = None, hold: HeldTurn | None = None) -> None:
        """Require that no append of a turn, to a session, or to any, failed without being reported so far.

        A turn asks with its *hold*, and gets nothing of another one. Its end raises what failed in it, also
        if somebody else got that before.

        Raises:
            StoreError: the failure.
        """
        for failure in [*self._failures.values(), *self._left]:
            if failure.is_reported or key not in (None, failure.key):
                continue
            if hold is not None and failure.hold not in (None, hold):
                continue
            if failure.hold is hold or not failure.is_of_a_running_turn:
                failure.is_reported = True
                self._left.remove(failure)
            raise failure.error()

    def _end(self, task: "asyncio.Task[Event]") -> None:
        mine = self._tasks[task.get_loop()]
        key, waiting = mine.pop(task)
        if not mine:
            del self._tasks[task.get_loop()]
        if task.cancelled():
            self.fail(key, waiting, asyncio.CancelledError())
        elif (failure := task.exception()) is not None:
            self.fail(key, waiting, failure)


@dataclass(eq=False, slots=True)
class _Failure:
    key: SessionKey
    hold: HeldTurn | None
    """The turn that the append was a part of."""
    session: "weakref.ref[Session]"
    failure: StoreError | None
    """What the append raised; ``None`` if it was cancelled."""
    is_reported: bool = False
    """Whether a caller got it."""

    @property
    def is_of_a_running_turn(self) -> bool:
        """Whether the end of a turn is still to raise it."""
        return self.hold is not None and not self.hold.has_ended

    def error(self) -> BaseException:
        """Return the error for a later call."""
        if self.failure is None:
            return SessionConflictError(
                "an event that was appended before was cancelled; read the session again"
            )
        made = again(self.failure, "an event that was appended before failed, so read the session again: ")
        key = self.key
        made.operation = "append_event"
        made.key = f"app_name={key.app!r} user_id={key.user!r} session_id={key.session!r}"
        return made


class _LeftFailures:
    """Failures that nobody has got, of handles that are gone: the first of each turn of each session.

    If a session has too many, its oldest is forgotten; if all together are too many, the oldest of a session
    of the user who has most.
    """

    def __init__(self) -> None:
        self._of: dict[SessionKey, dict[HeldTurn | None, _Failure]] = {}
        self._counts: Counter[UserKey] = Counter()

    def __iter__(self) -> Iterator[_Failure]:
        return (failure for of_session in self._of.values() for failure in of_session.values())

    def add(self, failure: _Failure) -> None:
        """Keep *failure*, unless one of its turn is kept."""
        of_session = self._of.setdefault(failure.key, {})
        if failure.hold in of_session:
            return
        of_session[failure.hold] = failure
        self._counts[failure.key.owner] += 1
        if len(of_session) > _MOST_LEFT_OF_A_SESSION:
            self.remove(next(iter(of_session.values())))
        elif self._counts.total() > _MOST_LEFT:
            (most, _), *_ = self._counts.most_common(1)
            self.remove(next(failure for failure in self if failure.key.owner == most))

    def remove(self, failure: _Failure) -> None:
        """Keep *failure* no longer, if it is kept."""
        of_session = self._of.get(failure.key, {})
        if of_session.get(failure.hold) is not failure:
            return
        del of_session[failure.hold]
        self._counts -= Counter((failure.key.owner,))  # and no user who has none any more
        if not of_session:
            del self._of[failure.key]


def again(failure: StoreError, before: str = "") -> StoreError:
    """Return the same error for another call, with *before* its message."""
    made = copy.copy(failure)
    made.args = (f"{before}{Exception.__str__(failure)}", *failure.args[1:])
    made.__cause__ = failure.__cause__
    return made


class InFlightAppends:
    """The appends of one service that run now, by event loop."""

    def __init__(self, limiter: Limiter) -> None:
        """Prepare; the appends hold permits of *limiter* until they end."""
        self._limiter = limiter
        self._tasks: dict[asyncio.AbstractEventLoop, dict[asyncio.Task[Any], Waiting]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def let_go(self) -> None:
        """Drop the appends of loops that have ended: nothing else holds them."""
        for loop in [loop for loop in self._tasks.copy() if loop.is_closed()]:
            self._tasks.pop(loop, None)

    async def wait(self, concerns: Concerns) -> None:
        """Wait for the chosen appends of this loop, also those that nobody awaits any more."""
        mine = self._tasks.get(asyncio.get_running_loop(), {})
        if chosen := [task for task, (key, waiting) in mine.items() if concerns(key, waiting)]:
            await asyncio.wait(chosen)

    async def see_through(self, permit: Permit, of: Waiting, work: Coroutine[Any, Any, T]) -> T:
        """Await *work*, then release its *permit*; cancelling the caller does not cancel *work*."""
        self.let_go()
        task = asyncio.create_task(work)
        mine = self._tasks.setdefault(permit.loop, {})
        mine[task] = of

        def end(done: asyncio.Task[T]) -> None:
            del mine[done]
            if not mine:
                self._tasks.pop(permit.loop, None)
            self._limiter.release(permit)

        # A callback, because a task that is cancelled before it starts does not run its code.
        task.add_done_callback(end)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(report_unawaited)
            raise


def report_unawaited(task: "asyncio.Future[Any]") -> None:
    """Log the failure of an append whose caller was cancelled."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        telemetry.warn(logger, "failed after its caller was cancelled", failure)

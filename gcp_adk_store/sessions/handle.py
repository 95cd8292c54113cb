"""Keep the caller's ``Session`` in step with storage, also after its caller is cancelled."""

import asyncio
import logging
import weakref
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Marker
from gcp_adk_store.model.state import ScopedState, merge_scopes
from gcp_adk_store.operations import forks, telemetry
from gcp_adk_store.operations.limiter import Limiter, Permit
from gcp_adk_store.operations.operation import label
from gcp_adk_store.sessions.reader import Found

logger = logging.getLogger(__name__)

T = TypeVar("T")


def learn(session: Session, found: Found, mine: Event) -> None:
    """Bring *session* up to date with what was *found*, in the order of storage.

    Args:
        session: The caller's.
        found: The session, with the events that others appended since the marker of *session*.
        mine: The event that *session* just stored.
    """
    before = [known for known in session.events if known.id != mine.id]
    known = {event.id for event in before}
    new = [event for event in found.events if event.id not in known]
    session.events[:] = [*before, *(mine if event.id == mine.id else event for event in new)]
    session.state.update(merge_scopes(found.state))
    session.last_update_time = found.stored.last_update_time
    mark(session, found.stored.marker)


def marker_of(session: Session) -> Marker | None:
    """Return what *session* knows of storage; ``None`` for one that came from elsewhere."""
    # ADK's place for what a service knows of the stored session; no public way leads to it.
    return Marker.parse(session._storage_update_marker)  # noqa: SLF001


def mark(session: Session, marker: Marker | None) -> None:
    """Let *session* remember *marker*."""
    session._storage_update_marker = None if marker is None else str(marker)  # noqa: SLF001


def to_session(found: Found) -> Session:
    """Return what was read as the caller's own session."""
    stored = found.stored
    return made_session(
        stored.key,
        state=found.state,
        events=found.events,
        last_update_time=stored.last_update_time,
        marker=stored.marker,
    )


def made_session(
    key: SessionKey, *, state: ScopedState, events: list[Event], last_update_time: float, marker: Marker
) -> Session:
    """Return a session with merged state and its marker."""
    session = Session(
        id=key.session,
        app_name=key.app,
        user_id=key.user,
        state=merge_scopes(state),
        events=events,
        last_update_time=last_update_time,
    )
    mark(session, marker)
    return session


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


class UnderWay:
    """The appends of one service that run now, by event loop."""

    def __init__(self, limiter: Limiter) -> None:
        """Prepare; the appends hold permits of *limiter* until they end."""
        self._limiter = limiter
        self._tasks: dict[asyncio.AbstractEventLoop, set[asyncio.Task[Any]]] = {}
        forks.begin(self)

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self) -> None:
        """Start without appends; in a forked child, those of the parent do not run."""
        if self._tasks:
            forks.keep(self._tasks)  # if they were freed, their calls would wait for gRPC
        self._tasks = {}

    def let_go(self) -> None:
        """Drop the appends of loops that have ended: nothing else holds them."""
        for loop in [loop for loop in self._tasks.copy() if loop.is_closed()]:
            self._tasks.pop(loop, None)

    async def wait(self) -> None:
        """Wait for the appends of this loop, also those that nobody awaits any more."""
        mine = self._tasks.get(asyncio.get_running_loop())
        if mine:
            await asyncio.wait(mine.copy())

    async def see_through(self, permit: Permit, work: Coroutine[Any, Any, T]) -> T:
        """Await *work*, then release its *permit*; cancelling the caller does not cancel *work*."""
        self.let_go()
        task = asyncio.create_task(work)
        mine = self._tasks.setdefault(permit.loop, set())
        mine.add(task)

        def end(done: asyncio.Task[T]) -> None:
            mine.discard(done)
            if not mine:
                self._tasks.pop(permit.loop, None)
            self._limiter.release(permit)

        # A callback, not a block around the work: a task that is cancelled before it starts runs no block.
        task.add_done_callback(end)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report_unawaited)
            raise


def _report_unawaited(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.warning(
            "%sfailed after its caller was cancelled: %s",
            label(),
            type(failure).__name__,
            extra=telemetry.log_fields(failure),
        )

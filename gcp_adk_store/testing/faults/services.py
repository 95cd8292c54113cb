"""Inject faults into chosen calls of any ADK service, for tests of agents and apps.

An agent's own tests need no network for that. A wrapped service is one of ADK's, so it goes where the
service itself goes: ``Runner(session_service=FaultySessionService(InMemorySessionService(), plan))``.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session

from gcp_adk_store.errors import OutcomeUnknownError, UnavailableError
from gcp_adk_store.kernel.concurrency import Limiter, Lru
from gcp_adk_store.testing.faults.plans import (
    Cut,
    Delay,
    Fault,
    Garble,
    Hang,
    Hold,
    Injector,
    Lose,
    Plan,
    Refuse,
    no_faults,
)

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
_Unanswered = type[OutcomeUnknownError | UnavailableError]

_LOST: Final = 1000
"""Appends whose answer was lost, and which their callers may repeat."""


def _passed_on(method: Method, unanswered: _Unanswered) -> Method:
    """Return a method that asks the plan about each call, and passes it on or lets it go wrong."""

    @functools.wraps(method)
    async def call(self: Any, **given: Any) -> Any:
        work = functools.partial(getattr(self.inner, method.__name__), **given)
        fault = self.next(given.get("app_name", ""), method.__name__)
        return await _go_wrong(fault, work, unanswered)

    call.__isabstractmethod__ = False  # type: ignore[attr-defined]  # as the wrapped one is
    return cast("Method", call)


def _write(method: Method) -> Method:
    """Return the *method*, which changes something, of a wrapped service."""
    return _passed_on(method, OutcomeUnknownError)


def _read(method: Method) -> Method:
    """Return the *method*, which changes nothing, of a wrapped service."""
    return _passed_on(method, UnavailableError)


class FaultySessionService(Injector, BaseSessionService):
    """A session service whose *plan* says which calls go wrong, and how.

    Calls are numbered by app. What is refused raises :class:`~gcp_adk_store.UnavailableError`, or what
    ``Refuse.error`` makes, and nothing was written; a write whose answer is lost or cut raises
    :class:`~gcp_adk_store.OutcomeUnknownError` after it was done, a read the former. A failed
    ``append_event`` leaves the caller's ``Session`` and event as they were (``temp:`` keys aside), done or
    not, as a real one does; the same event again continues from there. Partial events, which no service
    stores, are passed on and not counted.
    """

    def __init__(self, inner: BaseSessionService, plan: Plan = no_faults) -> None:
        """Wrap *inner*, which stays the caller's own."""
        self.inner = inner
        """The service that does it: for what it has beyond ADK's interface."""
        super().__init__("sessions", plan)
        self._limiter = Limiter()
        self._lost = Lru[tuple[int, str], tuple[Session, Session]](_LOST)
        """By a caller's session and the event whose answer was lost: that session, and one that has it."""

    create_session = _write(BaseSessionService.create_session)
    get_session = _read(BaseSessionService.get_session)
    list_sessions = _read(BaseSessionService.list_sessions)
    delete_session = _write(BaseSessionService.delete_session)
    get_user_state = _read(BaseSessionService.get_user_state)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event*, then apply it to *session*, unless the answer is lost on the way."""
        if event.partial:
            return await self.inner.append_event(session, event)
        fault = self.next(session.app_name, "append_event")
        async with self._limiter.permit(id(session)):  # tasks that share a session append one by one
            return await self._append(fault, session, event)

    async def flush(self) -> None:
        """Let *inner* flush; nothing goes wrong with that."""
        await self.inner.flush()

    async def _append(self, fault: Fault | None, session: Session, event: Event) -> Event:
        place = (id(session), event.id)
        lost = self._lost.lookup(place)
        if lost is None and (fault is None or isinstance(fault, Delay)):
            store = functools.partial(self.inner.append_event, session, event)
            return await _go_wrong(fault, store, OutcomeUnknownError)
        self._apply_temp_state(session, event)
        # Whether the caller learns of it is not known yet: it is done with copies.
        apart = session.model_copy(deep=True) if lost is None else lost[1]
        event_apart = event.model_copy(deep=True)

        async def store_apart() -> Event:
            stored = await self.inner.append_event(apart, event_apart)
            self._lost.put(place, (session, apart))
            return stored

        stored = await _go_wrong(fault, store_apart, OutcomeUnknownError)
        self._lost.forget(lambda known: known == place)
        event.actions.state_delta = stored.actions.state_delta
        _take_over(session, apart, event)
        return event


class FaultyArtifactService(Injector, BaseArtifactService):
    """An artifact service whose *plan* says which calls go wrong, and how.

    Calls are numbered by app; errors are those of :class:`FaultySessionService`.
    """

    def __init__(self, inner: BaseArtifactService, plan: Plan = no_faults) -> None:
        """Wrap *inner*, which stays the caller's own."""
        self.inner = inner
        """The service that does it: for what it has beyond ADK's interface."""
        super().__init__("artifacts", plan)

    save_artifact = _write(BaseArtifactService.save_artifact)
    load_artifact = _read(BaseArtifactService.load_artifact)
    list_artifact_keys = _read(BaseArtifactService.list_artifact_keys)
    delete_artifact = _write(BaseArtifactService.delete_artifact)
    list_versions = _read(BaseArtifactService.list_versions)
    list_artifact_versions = _read(BaseArtifactService.list_artifact_versions)
    get_artifact_version = _read(BaseArtifactService.get_artifact_version)


async def _go_wrong(fault: Fault | None, work: Callable[[], Awaitable[T]], unanswered: _Unanswered) -> T:
    """Run *work* as *fault* has it; *unanswered* is what a lost answer raises.

    Raises:
        UnavailableError: *work* was not run; or what the fault names.
        OutcomeUnknownError: it was, if that is what *unanswered* says.
    """
    await _withheld(fault)
    result = await work()
    if isinstance(fault, Lose | Cut | Garble) or (
        isinstance(fault, Hold) and fault.stage == "after" and not await _released(fault)
    ):
        raise unanswered("the answer was lost on purpose")
    return result


async def _withheld(fault: Fault | None) -> None:
    """Let happen what *fault* has for a call before it is done.

    Raises:
        UnavailableError: the call is not to be done; or what the fault names.
    """
    match fault:
        case Refuse():
            raise UnavailableError("refused on purpose") if fault.error is None else fault.error()
        case Cut(part="request"):
            raise UnavailableError("the request was cut on purpose")
        case Delay(seconds):
            await asyncio.sleep(seconds)
        case Hang():
            await asyncio.Event().wait()  # until the caller gives up
        case Hold("before") if not await _released(fault):
            raise UnavailableError("dropped on purpose")


async def _released(hold: Hold) -> bool:
    hold.reached.set()
    # Shielded: a caller that is cancelled must not decide for the test.
    return await asyncio.shield(asyncio.wrap_future(hold.decision))


def _take_over(session: Session, apart: Session, appended: Event) -> None:
    """Bring *session* to where *apart* is, with the very events that its holder knows."""
    known = {event.id: event for event in (*session.events, appended)}
    session.events[:] = [
        mine if (mine := known.get(event.id)) == event and mine is not None else event
        for event in apart.events
    ]
    session.state.update(apart.state)
    session.last_update_time = apart.last_update_time
    # ADK's place for what a service knows of the stored session; no public way leads to it.
    session._storage_update_marker = apart._storage_update_marker  # noqa: SLF001

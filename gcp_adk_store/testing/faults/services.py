"""Inject faults into chosen calls of any ADK service, for tests of agents and apps.

An agent's own tests need no network for that. A wrapped service is one of ADK's, so it goes where the
service itself goes: ``Runner(session_service=FaultySessionService(InMemorySessionService(), plan))``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.genai import types

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
    Planned,
    Refuse,
    no_faults,
)

T = TypeVar("T")

_LOST: Final = 1000
"""Appends whose answer was lost, and which their callers may repeat."""


class FaultySessionService(Planned, BaseSessionService):
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
        super().__init__(Injector("sessions", plan))
        self._calls = _FaultyCalls(self._injector)
        self._limiter = Limiter()
        self._lost = Lru[tuple[int, str], tuple[Session, Session]](_LOST)
        """By a caller's session and the event whose answer was lost: that session, and one that has it."""

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Make a session."""
        return await self._calls.write(
            app_name,
            "create_session",
            lambda: self.inner.create_session(
                app_name=app_name, user_id=user_id, state=state, session_id=session_id
            ),
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session, or ``None``."""
        return await self._calls.read(
            app_name,
            "get_session",
            lambda: self.inner.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=config
            ),
        )

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of a user or an app."""
        return await self._calls.read(
            app_name, "list_sessions", lambda: self.inner.list_sessions(app_name=app_name, user_id=user_id)
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session."""
        await self._calls.write(
            app_name,
            "delete_session",
            lambda: self.inner.delete_session(app_name=app_name, user_id=user_id, session_id=session_id),
        )

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the user's state."""
        return await self._calls.read(
            app_name, "get_user_state", lambda: self.inner.get_user_state(app_name=app_name, user_id=user_id)
        )

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store *event*, then apply it to *session*, unless the answer is lost on the way."""
        if event.partial:
            return await self.inner.append_event(session, event)
        fault = self._calls.injector.next(session.app_name, "append_event")
        async with self._limiter.permit(id(session)):  # tasks that share a session append one by one
            return await self._append(fault, session, event)

    async def flush(self) -> None:
        """Let *inner* flush; nothing goes wrong with that."""
        await self.inner.flush()

    async def _append(self, fault: Fault | None, session: Session, event: Event) -> Event:
        place = (id(session), event.id)
        lost = self._lost.lookup(place)
        if lost is None and (fault is None or isinstance(fault, Delay)):
            return await self._calls.go_wrong(
                fault, lambda: self.inner.append_event(session, event), unanswered=OutcomeUnknownError
            )
        self._apply_temp_state(session, event)
        # Whether the caller learns of it is not known yet: it is done with copies.
        apart = session.model_copy(deep=True) if lost is None else lost[1]
        event_apart = event.model_copy(deep=True)

        async def store() -> Event:
            stored = await self.inner.append_event(apart, event_apart)
            self._lost.put(place, (session, apart))
            return stored

        stored = await self._calls.go_wrong(fault, store, unanswered=OutcomeUnknownError)
        self._lost.forget(lambda known: known == place)
        event.actions.state_delta = stored.actions.state_delta
        _take_over(session, apart, event)
        return event


class FaultyArtifactService(Planned, BaseArtifactService):
    """An artifact service whose *plan* says which calls go wrong, and how.

    Calls are numbered by app; errors are those of :class:`FaultySessionService`.
    """

    def __init__(self, inner: BaseArtifactService, plan: Plan = no_faults) -> None:
        """Wrap *inner*, which stays the caller's own."""
        self.inner = inner
        """The service that does it: for what it has beyond ADK's interface."""
        super().__init__(Injector("artifacts", plan))
        self._calls = _FaultyCalls(self._injector)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a new version and return its number."""
        return await self._calls.write(
            app_name,
            "save_artifact",
            lambda: self.inner.save_artifact(
                app_name=app_name,
                user_id=user_id,
                filename=filename,
                artifact=artifact,
                session_id=session_id,
                custom_metadata=custom_metadata,
            ),
        )

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version, by default the latest."""
        return await self._calls.read(
            app_name,
            "load_artifact",
            lambda: self.inner.load_artifact(
                app_name=app_name,
                user_id=user_id,
                filename=filename,
                session_id=session_id,
                version=version,
            ),
        )

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the filenames of a scope."""
        return await self._calls.read(
            app_name,
            "list_artifact_keys",
            lambda: self.inner.list_artifact_keys(app_name=app_name, user_id=user_id, session_id=session_id),
        )

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Remove an artifact with all its versions."""
        await self._calls.write(
            app_name,
            "delete_artifact",
            lambda: self.inner.delete_artifact(
                app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
            ),
        )

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of all versions."""
        return await self._calls.read(
            app_name,
            "list_versions",
            lambda: self.inner.list_versions(
                app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
            ),
        )

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return all versions, described."""
        return await self._calls.read(
            app_name,
            "list_artifact_versions",
            lambda: self.inner.list_artifact_versions(
                app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
            ),
        )

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return one version, described; by default the latest."""
        return await self._calls.read(
            app_name,
            "get_artifact_version",
            lambda: self.inner.get_artifact_version(
                app_name=app_name,
                user_id=user_id,
                filename=filename,
                session_id=session_id,
                version=version,
            ),
        )


class _FaultyCalls:
    """Asks a plan about each call, and does it or lets it go wrong."""

    def __init__(self, injector: Injector) -> None:
        self.injector = injector

    async def write(self, app: str, method: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run *work*, which changes something, unless the plan says otherwise."""
        fault = self.injector.next(app, method)
        return await self.go_wrong(fault, work, unanswered=OutcomeUnknownError)

    async def read(self, app: str, method: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run *work*, which changes nothing, unless the plan says otherwise."""
        return await self.go_wrong(self.injector.next(app, method), work, unanswered=UnavailableError)

    async def go_wrong(
        self,
        fault: Fault | None,
        work: Callable[[], Awaitable[T]],
        *,
        unanswered: type[OutcomeUnknownError | UnavailableError],
    ) -> T:
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

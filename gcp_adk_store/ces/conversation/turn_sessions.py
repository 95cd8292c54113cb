"""Show runs of code the session of the turn they belong to, and collect what they change of it.

ADK's Runner holds the session of a turn and appends its events. Code that ran on a copy from the service
would make the Runner's stale. So runs read the Runner's session, and their changes go into the turn's next
event.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from typing_extensions import override

from gcp_adk_store.ces.conversation.decisions import USER, in_force
from gcp_adk_store.ces.host.keys import SessionKey
from gcp_adk_store.ces.tools.mocks import MockConfig


@dataclass(slots=True, eq=False)
class HeldSession:
    """The session of one turn, as the Runner has it, and what was not handed to the Runner yet."""

    session: Session
    delta: dict[str, Any] = field(default_factory=dict)
    """What runs changed of the state."""
    answer: Event | None = None
    """The last event of an agent, which callbacks may still replace."""
    late: list[Event] = field(default_factory=list)
    """Responses of asynchronous tools that came during the turn."""
    mocks: MockConfig | None = None
    """Answers to calls of tools in this turn alone."""

    @property
    def state(self) -> dict[str, Any]:
        """The state with what runs changed."""
        return {**self.session.state, **self.delta}

    @property
    def events(self) -> list[Event]:
        """The events in force, with the one that is held back."""
        held = [] if self.answer is None else [self.answer]
        return [*in_force(self.session.events), *held]

    def take_delta(self) -> dict[str, Any]:
        """Return what runs changed, for an event that will carry it."""
        taken, self.delta = self.delta, {}
        return taken


class TurnSessions(BaseSessionService):
    """A session service for a runtime: the sessions of turns, and in between those of the service itself."""

    def __init__(self) -> None:
        self._held: dict[SessionKey, HeldSession] = {}
        self._services: dict[SessionKey, BaseSessionService] = {}
        self._reserved: dict[SessionKey, list[asyncio.Event]] = {}
        self._mocks: dict[SessionKey, MockConfig] = {}

    @contextmanager
    def holding(self, session: Session, service: BaseSessionService) -> Iterator[HeldSession]:
        """Let runs on *session* see it as it is here, while the block runs."""
        key = key_of(session)
        held = self._held[key] = HeldSession(session, mocks=self._mocks.get(key))
        self._services[key] = service
        try:
            yield held
        finally:
            if self._held.get(key) is held:
                del self._held[key]

    @asynccontextmanager
    async def reserving(self, key: SessionKey, mocks: MockConfig | None = None) -> AsyncIterator[None]:
        """Let responses that come late wait until the block ends: it reads the session and appends to it.

        Args:
            key: The session.
            mocks: Answers to calls of tools in the turns of the block.
        """
        over = asyncio.Event()
        self._reserved.setdefault(key, []).append(over)
        if mocks is not None:
            self._mocks[key] = mocks
        try:
            yield
        finally:
            if self._mocks.get(key) is mocks:
                self._mocks.pop(key, None)
            over.set()
            self._reserved[key].remove(over)
            if not self._reserved[key]:
                del self._reserved[key]

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        key = SessionKey(app_name, user_id, session_id)
        held = self._held.get(key)
        if held is None:
            service = self._services.get(key)
            if service is None:
                return None
            return await service.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=config
            )
        events = held.events
        if config is not None and config.num_recent_events is not None:
            events = events[-config.num_recent_events :] if config.num_recent_events else []
        return Session(
            id=session_id,
            app_name=app_name,
            user_id=user_id,
            state=held.state,
            events=events,
            last_update_time=held.session.last_update_time,
        )

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        key = key_of(session)
        held = self._held.get(key)
        if held is not None:
            if event.author == USER:
                held.late.append(event)
            else:
                held.delta |= event.actions.state_delta
            return event
        while waits := self._reserved.get(key):
            await waits[0].wait()
        # Its task began in a turn, whose lease is over: the append belongs to no turn.
        append = self._services[key].append_event(session, event)
        return await asyncio.get_running_loop().create_task(append, context=contextvars.Context())

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        raise NotImplementedError("a turn makes no sessions")

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        raise NotImplementedError("a turn lists no sessions")

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        raise NotImplementedError("a turn deletes no sessions")


def key_of(session: Session) -> SessionKey:
    """Return the key of *session*."""
    return SessionKey(session.app_name, session.user_id, session.id)

"""Run code on a session, append its changes in one event, and let asynchronous tools go on."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from google.adk.artifacts import BaseArtifactService
from google.adk.errors import StaleSessionError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store.ces.guest.models import sendable
from gcp_adk_store.ces.host.engine import or_failed
from gcp_adk_store.ces.host.invocation import Invocation, failure_of
from gcp_adk_store.ces.host.results import Answer, NoteRun, RunLog, ToolRun, logs_of_run, with_logs
from gcp_adk_store.ces.host.session_context import (
    events_of,
    is_fleeting,
    state_delta,
    to_object,
    user_content,
    variables_of,
    visible,
)
from gcp_adk_store.ces.host.settings import USER, RuntimeSettings, SessionKey
from gcp_adk_store.ces.sandbox.interface import SandboxError
from gcp_adk_store.errors import InvalidInputError, OverloadedError, SessionConflictError, SessionMissingError
from gcp_adk_store.kernel.concurrency import Limiter

logger = logging.getLogger(__name__)

PENDING: Final[Mapping[str, Any]] = {"result": "pending"}
"""What an asynchronous tool answers first."""
APPENDS: Final = 10
"""Of the response of an asynchronous tool, if other writers are first each time."""

_TURNS: Final[ContextVar[frozenset[object]]] = ContextVar("gcp_adk_store_turns", default=frozenset())
"""The turns of sessions that the current code runs in, such as the function of a mock."""


Work: TypeAlias = Callable[[Invocation], Awaitable[Answer]]
"""What a run does for an invocation whose session is open."""

Done: TypeAlias = tuple[Answer, dict[str, Any]]
"""What became of a run, and the fields that all results have."""


@dataclass(slots=True)
class SessionRuns:
    """Runs on the sessions of one service; those of one session take turns within this process."""

    sessions: BaseSessionService
    artifacts: BaseArtifactService | None
    settings: RuntimeSettings
    note_run: NoteRun | None = None
    _limiter: Limiter = field(default_factory=Limiter)
    _turns: dict[SessionKey, object] = field(default_factory=dict)
    """The turn of each session that runs."""
    _late: dict[asyncio.Task[ToolRun], tuple[SessionKey, Session, Future[None]]] = field(default_factory=dict)
    """Asynchronous tools that have not ended. Nothing else may keep the session that each of them saw, and by
    which the service knows where its response goes."""

    async def run(self, invocation: Invocation, work: Work) -> Done:
        """Do *work* on a session, and append its changes.

        Raises:
            SessionMissingError: the session does not exist.
            SessionConflictError: another writer was first, more often than ``reruns_on_conflict``.
            OverloadedError: ``waiting_per_session`` runs of the session wait already.
        """
        started = time.monotonic()
        async with self._turn(invocation):
            for left in range(self.settings.reruns_on_conflict, -1, -1):
                session, opened = await self.open(invocation)
                try:
                    ran = await work(opened)
                except SandboxError as exc:
                    self._note(invocation, Answer(stdout=exc.output).failed(failure_of(exc)))
                    raise
                event_id = None
                try:
                    event = self._event(session, ran, invocation)
                    if event.actions.state_delta:
                        await self.sessions.append_event(session, event)
                        event_id = event.id
                except InvalidInputError as exc:  # the code chose what cannot be stored, not its caller
                    ran = ran.failed(failure_of(exc))
                except StaleSessionError:
                    if not left:
                        raise
                    again = "%s on %s runs again: another writer was first"
                    logger.info(again, invocation.what, invocation.key)
                    continue
                done = self._done(opened, ran, event_id, started)
                self._note(invocation, ran, done[1]["warnings"])
                return done
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _turn(self, invocation: Invocation) -> AsyncIterator[None]:
        outer = _TURNS.get()
        if self._turns.get(invocation.key) in outer:
            raise InvalidInputError(
                f"{invocation.what} is called within a run on {invocation.key}, and would wait for its end; "
                "call it after that run, or on another session"
            )
        waiting = self._limiter.waiting(invocation.key)
        if waiting >= self.settings.waiting_per_session:
            says = f"{waiting} runs of this session wait for their turn, which is the limit"
            way_out = "(waiting_per_session); begin fewer at a time"
            raise OverloadedError(f"{says} {way_out}", **invocation.place)
        async with self._limiter.permit(invocation.key):
            mine = self._turns[invocation.key] = object()
            _TURNS.set(outer | {mine})
            try:
                yield
            finally:
                _TURNS.set(outer)
                if self._turns.get(invocation.key) is mine:  # another one, if the event loop had stopped
                    del self._turns[invocation.key]

    async def open(self, invocation: Invocation) -> tuple[Session, Invocation]:
        """Return the session, and the invocation with what code sees of it.

        Raises:
            SessionMissingError: the session does not exist.
            SessionConflictError: the session has the run's event already.
            InvalidInputError: a value of its events, or of *invocation*, cannot be JSON.
        """
        session = await self._load(invocation, self.settings.recent_events)
        warnings: list[str] = []
        shared = self.settings.shared_variables
        state = variables_of(session, shared, warnings)
        withheld = visible(session.state, shared=shared).keys() - state.keys()
        content = await user_content(session, invocation.user_content, self.artifacts, warnings)
        context = {
            "events": await events_of(session, most_bytes=self.settings.history_bytes, warnings=warnings),
            "invocationId": invocation.invocation_id,
            "agentName": invocation.agent_name,
            "sessionId": invocation.key.session,
            **({} if content is None else {"userContent": content}),
            **to_object(invocation.context, "context"),
            "state": state,
            "withheldVariables": sorted(name for name in withheld if sendable(name) == name),
            "functionCallId": invocation.function_call_id,
        }
        return session, replace(invocation, context=context, warnings=tuple(warnings))

    async def run_tool(self, invocation: Invocation, work: Work) -> ToolRun:
        """Do *work* of a tool; as :meth:`run`."""
        return _tool_run(invocation, *await self.run(invocation, work))

    async def begin(self, invocation: Invocation, work: Work) -> ToolRun:
        """Begin *work* of an asynchronous tool, which goes on in this event loop, and return its placeholder.

        Raises:
            OverloadedError: too many such tools of the session have not ended; *work* does not begin.
        """
        session, opened = await self.open(invocation)
        most = self.settings.waiting_per_session
        late = [*self._late.values()]  # a copy: those of other event loops end meanwhile
        if [key for key, *_ in late].count(invocation.key) >= most:
            says = f"{most} asynchronous tools of this session have not ended, which is the limit"
            way_out = "(waiting_per_session); wait until one ends"
            raise OverloadedError(f"{says} {way_out}", **invocation.place)
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()  # no other event loop that waits for it can cancel it
        task = asyncio.create_task(self._finish(opened, work))
        self._late[task] = invocation.key, session, ended

        def end(late: asyncio.Task[ToolRun]) -> None:
            del self._late[late]
            # Perhaps no caller awaits the task; an event loop that ends cancels its tasks.
            why = asyncio.CancelledError() if late.cancelled() else late.exception()
            if why is not None:
                what = "the response of %s was not stored in %s: %s"
                logger.error(what, invocation.subject, invocation.key, type(why).__name__)
            ended.set_result(None)

        task.add_done_callback(end)
        return ToolRun(
            variables=opened.context["state"],
            invocation_id=invocation.invocation_id,
            response=PENDING,
            function_call_id=invocation.function_call_id,
            late=task,
        )

    async def ended(self) -> None:
        """Wait for asynchronous tools in all event loops that still run; they report what they raise."""
        late = [ended for task, (*_, ended) in [*self._late.items()] if task.get_loop().is_running()]
        await asyncio.gather(*map(asyncio.wrap_future, late))

    async def _finish(self, invocation: Invocation, work: Work) -> ToolRun:
        """Do *work*, and append its response, as the user's, to the current session.

        Its changes apply beside those of other writers. If they cannot be stored, or its process had no
        answer, the response is the error, because a model waits for a response.

        Raises:
            SessionMissingError: the session does not exist any more.
            SessionConflictError: other writers were first each time, or the session has the event already.
        """
        started = time.monotonic()
        ran = await or_failed(work(invocation))
        logs = self._note(invocation, ran, (*invocation.warnings, *ran.warnings), late=True)
        left = APPENDS - 1
        recent_events = self.settings.recent_events if invocation.may_be_stored else 0
        while True:
            async with self._limiter.permit(invocation.key):
                session = await self._load(invocation, recent_events)
                try:
                    event = self._event(session, ran, invocation)
                    event.author, event.content = USER, _response(ran, invocation)
                    with_logs(event, logs, self.settings.stored_log_characters)
                    await self.sessions.append_event(session, event)
                except StaleSessionError:
                    if not left:
                        raise
                    left -= 1
                except InvalidInputError as exc:
                    if ran.error is not None:
                        raise
                    ran = ran.failed(failure_of(exc))
                else:
                    break
        return _tool_run(invocation, *self._done(invocation, ran, invocation.event_id, started))

    def _note(
        self, invocation: Invocation, ran: Answer, warnings: Sequence[str] = (), *, late: bool = False
    ) -> list[RunLog]:
        """Pass the logs of *ran* to ``note_run``, and return them."""
        log = RunLog(
            what=invocation.subject,
            agent=invocation.agent_name,
            printed=ran.stdout,
            warnings=tuple(warnings),
            late=late,
        )
        logs = [*logs_of_run(log, ran.error, ran.calls)]
        if self.note_run is not None:
            for each in logs:
                self.note_run(invocation.key, each)
        return logs

    async def _load(self, invocation: Invocation, recent_events: int | None) -> Session:
        config = None if recent_events is None else GetSessionConfig(num_recent_events=recent_events)
        session = await self.sessions.get_session(**invocation.key.names, config=config)
        if session is None:
            raise SessionMissingError(**invocation.place)
        if any(event.id == invocation.event_id for event in session.events):
            says = f"an earlier run stored the event {invocation.event_id} in {invocation.key}"
            raise SessionConflictError(says, **invocation.place)
        return session

    def _event(self, session: Session, ran: Answer, invocation: Invocation) -> Event:
        delta = {} if ran.error else state_delta(ran.delta, session.state, self.settings)
        return Event(
            id=invocation.event_id,
            author=invocation.agent_name,
            invocation_id=invocation.invocation_id,
            actions=EventActions(state_delta=delta),
        )

    def _done(self, invocation: Invocation, ran: Answer, event_id: str | None, started: float) -> Done:
        duration_s = time.monotonic() - started
        logger.info(
            "%s on %s: %s in %.0f ms, %d variables changed, %d removed, %d calls, %d characters printed",
            invocation.what,
            invocation.key,
            "failed" if ran.error else "done",
            duration_s * 1000,
            len(ran.delta.changed),
            len(ran.delta.removed),
            len(ran.calls),
            len(ran.stdout),
        )
        lasting = "lasts only for this run, because ADK does not store it"
        return ran, {
            "error": ran.error,
            "variables": ran.delta.applied_to(invocation.context["state"]),
            "stdout": ran.stdout,
            "warnings": (
                *invocation.warnings,
                *ran.warnings,
                *(f"the variable {name!r} {lasting}" for name in ran.delta.changed if is_fleeting(name)),
            ),
            "calls": tuple(ran.calls),
            "actions": ran.actions,
            "event_id": event_id,
            "invocation_id": invocation.invocation_id,
            "duration_s": duration_s,
        }


def _tool_run(invocation: Invocation, answer: Answer, fields: dict[str, Any]) -> ToolRun:
    return ToolRun(**fields, response=answer.response, function_call_id=invocation.function_call_id)


def _response(ran: Answer, invocation: Invocation) -> types.Content:
    call_id, said = invocation.function_call_id, dict(ran.response or {})
    response = types.FunctionResponse(id=call_id, name=invocation.subject, response=said)
    return types.Content(role=USER, parts=[types.Part(function_response=response)])

"""Run an agent in the turn of a session, and answer the messages that wait for one."""

import inspect
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, Literal, get_args

from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.errors import (
    InvalidInputError,
    SessionBusyError,
    SessionExistsError,
    SessionMissingError,
    TurnLostError,
)
from gcp_adk_store.kernel.calls import checks_kinds
from gcp_adk_store.model.session_fields import require_times
from gcp_adk_store.sessions.append.turn import TurnLease, within
from gcp_adk_store.turns.service import LEASE_S, WAIT_S, HeldTurns

_SCOPE: Final = "isolation_scope"
"""A field of ADK's events that its older releases do not have."""


def repairs(events: Sequence[Event], *, error: str) -> list[Event]:
    """Return the events that answer the tool calls among *events* that have no response, with *error*.

    Calls of tools that run long are left: their response may still come. Each event answers the calls of one
    event, in the name of its agent, so the response is in that agent's view of the history.
    """
    answered = {response.id for event in events for response in event.get_function_responses()}
    made = []
    for event in events:
        running = event.long_running_tool_ids or set()
        open_calls = [
            call
            for call in event.get_function_calls()
            if call.id is not None and call.id not in answered and call.id not in running
        ]
        if open_calls:
            scope = {_SCOPE: getattr(event, _SCOPE)} if _SCOPE in Event.model_fields else {}
            made.append(
                Event(
                    invocation_id=event.invocation_id,
                    author=event.author,
                    branch=event.branch,
                    content=types.Content(role="user", parts=[_response(call, error) for call in open_calls]),
                    **scope,
                )
            )
    return made


def _response(call: types.FunctionCall, error: str) -> types.Part:
    response = types.FunctionResponse(id=call.id, name=call.name, response={"error": error})
    return types.Part(function_response=response)


OnBusyRun = Literal["wait", "reject", "interrupt", "enqueue"]

_END: Final = object()


@checks_kinds
class Turns(HeldTurns):
    """The turns of sessions: one at a time in each session, in all processes.

    docs/turns.md describes the lease, its guarantees and its costs. Every method may also raise what
    :class:`~gcp_adk_store.FirestoreSessionService` may.
    """

    async def run(
        self,
        runner: Runner,
        *,
        user_id: str,
        session_id: str,
        new_message: types.Content,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
        on_busy: OnBusyRun = "wait",
        wait_s: float = WAIT_S,
        lease_s: float = LEASE_S,
    ) -> AsyncGenerator[Event, None]:
        """Run *runner* on a message as the only turn of the session, and yield its events.

        The messages that wait in the session's inbox are answered before and after it, each in a run of its
        own, whose events are yielded too: ``invocation_id`` distinguishes them. The turn ends when nothing
        waits. If the caller stops early, what waits is left to the next turn.

        Args:
            runner: ADK's runner, whose session service is the one of this store.
            user_id: The session's user.
            session_id: The session. If it is missing, and the runner makes sessions, it is made.
            new_message: The message.
            state_delta: What the message's event changes in the state.
            run_config: As ``Runner.run_async``; a message that waits is answered with that of its holder.
            on_busy: As :meth:`hold`. ``enqueue``: while another turn runs, the message waits in the session's
                inbox, nothing is yielded, and the present holder answers it after its own, or the next one
                first, each message once and in the order of arrival.
            wait_s: As :meth:`hold`; ``enqueue`` does not wait.
            lease_s: As :meth:`hold`.

        Raises:
            SessionBusyError, SessionMissingError, OutcomeUnknownError: as :meth:`hold`.
            SessionInboxFullError: 100 messages, or 256 KiB of them, wait already; nothing was written.
            TurnLostError: the turn was lost, or asked to stop before the message's turn came.
            InvalidInputError: an argument is invalid, or the runner has another session service.
        """
        if on_busy not in get_args(OnBusyRun):
            raise InvalidInputError(f"on_busy is {on_busy!r:.40}; it must be one of {get_args(OnBusyRun)}")
        require_times(wait_s=wait_s, lease_s=lease_s)
        for name in state_delta or ():
            if not isinstance(name, str):
                raise InvalidInputError(f"a state key must be a string, not {type(name).__name__}")
        self._require_mine(runner)
        ids: dict[str, Any] = {"app_name": runner.app_name, "user_id": user_id, "session_id": session_id}
        hold: TurnLease | None
        if on_busy == "enqueue":
            text = str(_waiting(new_message, state_delta, now=self._now()))
            hold = await self._take_or_enqueue(runner, ids, text, lease_s=lease_s)
            if hold is None:
                return
        else:
            hold = await self._take_or_create(runner, ids, on_busy=on_busy, wait_s=wait_s, lease_s=lease_s)
        async with self.kept(hold):
            async with aclosing(self._answer_waiting(hold, runner, run_config)) as events:
                async for event in events:
                    yield event
            if hold.abort_signal.is_set():
                raise TurnLostError(
                    "The turn was asked to stop before the message's turn came; send it again."
                )
            async with aclosing(self._events(hold, runner, new_message, state_delta, run_config)) as events:
                async for event in events:
                    yield event
            async with aclosing(self._answer_until_empty(hold, runner, run_config)) as events:
                async for event in events:
                    yield event

    async def drain(
        self,
        runner: Runner,
        *,
        user_id: str,
        session_id: str,
        run_config: RunConfig | None = None,
        lease_s: float = LEASE_S,
    ) -> AsyncGenerator[Event, None]:
        """Answer the messages that wait in a session's inbox, if no turn runs, and yield the events.

        A holder that was killed leaves them; call this if no next message may come. Nothing happens if a turn
        runs.

        Raises:
            SessionMissingError, OutcomeUnknownError, InvalidInputError, TurnLostError: as :meth:`run`.
        """
        self._require_mine(runner)
        ids: dict[str, Any] = {"app_name": runner.app_name, "user_id": user_id, "session_id": session_id}
        if not (await self.status(**ids)).waiting:
            return
        try:
            hold = await self.take(**ids, on_busy="reject", lease_s=lease_s)
        except SessionBusyError:
            return
        answers = self._answer_until_empty(hold, runner, run_config)
        async with self.kept(hold), aclosing(answers) as events:
            async for event in events:
                yield event

    async def repair(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        error: str = "The tool was interrupted; whether it ran is unknown.",
    ) -> int:
        """Answer the tool calls that a crash left without a response; return how many there were.

        Models refuse a history with such calls. Each gets a response with *error*, in an event of its agent.
        Calls of tools that run long are left. It takes a turn, reads the session, and takes 1 write for each
        event with such calls; within a turn of the session it is a part of it.

        Raises:
            SessionBusyError: another turn runs, which may still answer them.
            SessionMissingError, SessionConflictError, OutcomeUnknownError: as :meth:`hold` and
                ``append_event``; calling again is safe.
        """
        ids: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        async with self.hold(**ids, on_busy="reject"):
            session = await self._sessions.get_session(**ids)
            if session is None:
                raise SessionMissingError("the session does not exist")
            made = repairs(session.events, error=error)
            for event in made:
                await self._sessions.append_event(session, event)
        return sum(len(event.get_function_responses()) for event in made)

    def _require_mine(self, runner: Runner) -> None:
        if runner.session_service is not self._sessions:
            raise InvalidInputError("the runner has another session service; make it with that of this store")

    async def _take_or_create(self, runner: Runner, ids: dict[str, Any], **options: Any) -> TurnLease:
        try:
            return await self.take(**ids, **options)
        except SessionMissingError:
            if not getattr(runner, "auto_create_session", False):
                raise
        with suppress(SessionExistsError):  # made meanwhile
            await self._sessions.create_session(**ids)
        return await self.take(**ids, **options)

    async def _take_or_enqueue(
        self, runner: Runner, ids: dict[str, Any], text: str, *, lease_s: float
    ) -> TurnLease | None:
        """Return the turn, or ``None`` once the message *text* waits for the one that runs."""
        while True:  # each round is an end or a begin of a turn of others
            try:
                return await self._take_or_create(runner, ids, on_busy="reject", lease_s=lease_s)
            except SessionBusyError:
                if await self.enqueue(**ids, text=text):
                    return None

    async def _answer_until_empty(
        self, hold: TurnLease, runner: Runner, run_config: RunConfig | None
    ) -> AsyncGenerator[Event, None]:
        """Answer what waits until nothing does and the turn has ended, or it is asked to stop."""
        while not (hold.abort_signal.is_set() or hold.is_lost):
            try:
                if await self.release_if_empty(hold):
                    return
            except TurnLostError:
                return  # what was answered is stored; what waits is the next holder's
            async with aclosing(self._answer_waiting(hold, runner, run_config)) as events:
                async for event in events:
                    yield event

    async def _answer_waiting(
        self, hold: TurnLease, runner: Runner, run_config: RunConfig | None
    ) -> AsyncGenerator[Event, None]:
        """Answer the messages that waited at the last read, in order."""
        while hold.inbox and not hold.abort_signal.is_set():
            text = hold.inbox[0]
            waiting = WaitingMessage.parse(text)
            message = types.Content.model_validate_json(json.dumps(waiting.message))
            delta = None if waiting.state_delta is None else dict(waiting.state_delta)
            hold.answer(waiting.id, text)
            try:
                async with aclosing(self._events(hold, runner, message, delta, run_config)) as events:
                    async for event in events:
                        yield event
            finally:
                was_stored = hold.answered()
            if not was_stored and not hold.abort_signal.is_set():
                # The runner answered without an event of the user's: the message must not come again.
                await self.withdraw(
                    app_name=hold.key.app,
                    user_id=hold.key.user,
                    session_id=hold.key.session,
                    message_id=waiting.id,
                )
                await self.refresh(hold)

    async def _events(
        self,
        hold: TurnLease,
        runner: Runner,
        message: types.Content,
        state_delta: dict[str, Any] | None,
        run_config: RunConfig | None,
    ) -> AsyncGenerator[Event, None]:
        """Run *runner* on one message within the turn."""
        options: dict[str, Any] = {}
        if "abort_signal" in inspect.signature(runner.run_async).parameters:
            options["abort_signal"] = hold.abort_signal
        events: AsyncGenerator[Event, None] = runner.run_async(
            user_id=hold.key.user,
            session_id=hold.key.session,
            new_message=message,
            state_delta=state_delta,
            run_config=run_config,
            **options,
        )
        try:
            # Step by step: between two of them the caller's own code runs, in the same context.
            while True:
                with within(hold):
                    event = await anext(events, _END)
                if not isinstance(event, Event):
                    return
                yield event
                if hold.abort_signal.is_set() and not options:
                    return  # an ADK whose runner takes no signal
        finally:
            with within(hold):
                await events.aclose()

    def _now(self) -> float:
        return self._sessions.storage.documents.clock.now()


def _waiting(message: types.Content, state_delta: dict[str, Any] | None, *, now: float) -> WaitingMessage:
    return WaitingMessage(
        id=platform_uuid.new_uuid(),
        message=message.model_dump(mode="json", exclude_none=True),
        time=now,
        state_delta=state_delta,
    )

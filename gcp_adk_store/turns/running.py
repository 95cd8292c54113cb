"""Run an agent in the turn of a session, and answer the messages that wait for one."""

import asyncio
import contextvars
import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store.codec.encode import encode_state
from gcp_adk_store.codec.turns import WaitingMessage, content_of, message_of
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionBusyError,
    SessionExistsError,
    SessionMissingError,
    StoreError,
    TurnLostError,
)
from gcp_adk_store.kernel.calls import checks_kinds, named_as, operation
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import require_message, require_times
from gcp_adk_store.model.sessions import HistoryConfig
from gcp_adk_store.model.state import persistent, split_scopes
from gcp_adk_store.sessions.append.queue import IDLE_TURNS
from gcp_adk_store.sessions.append.turn import HeldTurn, enter
from gcp_adk_store.sessions.read.window import live
from gcp_adk_store.turns.service import LEASE_S, WAIT_S, HeldTurns, OnBusyRun, naming


def repairs(events: Sequence[Event], *, error: str) -> list[Event]:
    """Return the events that answer the tool calls among *events* that have no response, with *error*.

    Calls of tools that run long are left: their response may still come. What a rewind took back is no part
    of the history. Each event answers the calls of one event, in the name of its agent, so the response is in
    that agent's view of the history.
    """
    events = [events[place] for place in live(events)]
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
            scope = event.model_dump(include={"isolation_scope"})  # which older releases of ADK do not have
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
        message_id: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run *runner* on a message as the only turn of the session, and yield its events.

        The messages that wait in the session's inbox are answered before and after it, each in a run of its
        own, whose events are yielded too: ``invocation_id`` distinguishes them. The turn ends when nothing
        waits. If the caller stops early, what waits is left to the next turn.

        The write that takes the turn puts the message into the inbox, unless it has more than 64 KiB as JSON.
        So it is answered even if this process is killed. A final response is yielded once it is stored. The
        run is a step ahead of it, since its commit also ends the turn if nothing follows.

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
            message_id: As :meth:`enqueue`. While a message of the id waits for another turn that runs,
                nothing is yielded, whatever *on_busy* is: that turn answers it.

        Raises:
            SessionBusyError, SessionMissingError: as :meth:`hold`.
            OutcomeUnknownError: not answered. If the message may wait, the text has its id, which its event
                gets.
            SessionInboxFullError: 100 messages, or 256 KiB of them, wait already; nothing was written.
            TurnLostError: the turn was lost, or asked to stop before the message's turn came. The text says
                whether the message still waits, and its id, so that the next turn answers it.
            InvalidInputError: an argument is invalid, or the runner has another session service.
        """
        require_times(wait_s=wait_s, lease_s=lease_s)
        require_message(message_id, state_delta)
        ids = self._ids_in(runner, user_id, session_id)
        own = _Message(message_id or platform_uuid.new_uuid(), new_message, state_delta)
        config = getattr(run_config, "get_session_config", None)
        text: str | None = None
        try:
            text = own.text(self._now())
        except InvalidInputError:
            if on_busy == "enqueue":
                raise
            # The append of its event says what it cannot be, or stores it.
        options: dict[str, Any] = {"on_busy": on_busy, "wait_s": wait_s, "lease_s": lease_s}
        with named_as("run", ids):
            hold = await self._begin(runner, ids, text, **options, config=config)
            if hold is None:
                return  # the message waits
            try:
                async with self.kept(hold), aclosing(self._answers(hold, runner, run_config, own)) as events:
                    async for event in events:
                        yield event
            except StoreError as exc:
                if hold.own not in hold.inbox or isinstance(exc, SessionMissingError):
                    raise
                says = exc.args[0]
                if not isinstance(exc, TurnLostError):  # nor is the turn released
                    raise OutcomeUnknownError.since(exc, f"{says}; the message {own.id} may wait") from exc
                raise TurnLostError(
                    f"{says} The message {own.id} waits: the next turn answers it. Do not send it again."
                ) from exc

    @operation
    async def enqueue(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_message: types.Content,
        state_delta: dict[str, Any] | None = None,
        message_id: str | None = None,
    ) -> str:
        """Let a message wait in the session's inbox, such as one of a webhook; return its id.

        It needs no runner. If a turn runs, its holder answers the message after its own. Otherwise the next
        :meth:`run` answers it first, or :meth:`drain` does. 1 read and 1 write.

        Args:
            app_name: The session's app.
            user_id: The session's user.
            session_id: The session.
            new_message: The message; 256 KiB as JSON at most.
            state_delta: What the message's event changes in the state.
            message_id: The id of the message, and of its event; 1 to 256 characters, or ``None`` for a new
                one. While a message of this id waits, another one is the same message, and is not added. So
                use an id once. A message whose event is stored does not wait any more.

        Raises:
            SessionInboxFullError: 100 messages, or 256 KiB of them, wait already; nothing was written.
            SessionMissingError: the session does not exist.
            RedactorError: a redactor failed; nothing was written.
            OutcomeUnknownError: not answered; the message may wait. The text has its id.
            InvalidInputError: an argument is invalid.
        """
        require_message(message_id, state_delta)
        made = _Message(message_id or platform_uuid.new_uuid(), new_message, state_delta)
        text = await self._as_stored(made.text(self._now()))
        with naming(text):
            key = SessionKey(app=app_name, user=user_id, session=session_id)
            await self._leases.enqueue(key, text)
        return made.id

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
        ids = self._ids_in(runner, user_id, session_id)
        with named_as("drain", ids):
            if not (await self.status(**ids)).waiting:
                return
            try:
                hold = await self.take(**ids, on_busy="reject", lease_s=lease_s)
            except SessionBusyError:
                return
            async with self.kept(hold), aclosing(self._answers(hold, runner, run_config)) as events:
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
        with named_as("repair", ids):
            async with self.hold(**ids, on_busy="reject"):
                session = await self._sessions.get_session(**ids, config=HistoryConfig(history="full"))
                if session is None:
                    raise SessionMissingError
                made = repairs(session.events, error=error)
                for event in made:
                    await self._sessions.append_event(session, event)
        return sum(len(event.get_function_responses()) for event in made)

    def _ids_in(self, runner: Runner, user_id: str, session_id: str) -> dict[str, Any]:
        if runner.session_service is not self._sessions:
            raise InvalidInputError("the runner has another session service; make it with that of this store")
        return {"app_name": runner.app_name, "user_id": user_id, "session_id": session_id}

    async def _begin(
        self, runner: Runner, ids: dict[str, Any], text: str | None, **options: Any
    ) -> HeldTurn | None:
        """Take the turn with the message *text*, and make a session that is missing if the runner does so."""
        try:
            return await self.begin(**ids, text=text, **options)
        except SessionMissingError:
            if not getattr(runner, "auto_create_session", False):
                raise
        with suppress(SessionExistsError):  # made meanwhile
            await self._sessions.create_session(**ids)
        return await self.begin(**ids, text=text, **options)

    async def _answers(
        self, hold: HeldTurn, runner: Runner, run_config: RunConfig | None, own: "_Message | None" = None
    ) -> AsyncGenerator[Event, None]:
        """Answer what waits, and *own*, until nothing does and the turn has ended, or it is asked to stop.

        A final response is yielded once it is stored: the last one after the end of the turn, which needs no
        commit of its own then.
        """
        final: list[Event] = []
        while not (hold.abort_signal.is_set() or hold.is_lost):
            message = _next_message(hold, own)
            if message is None:
                has_ended = await self._release_if_empty(hold)
            else:
                has_ended = False
                await self._flush_if(hold, final)
            for event in final:
                yield event
            final.clear()
            if has_ended:
                return
            if message is not None:
                answer = self._answer(hold, runner, run_config, message, final)
                async with aclosing(answer) as events:
                    async for event in events:
                        yield event
        if own is not None and not own.has_begun:
            raise TurnLostError("The turn ended before the message's turn came. Begin a new turn.")
        await self._flush_if(hold, final)
        for event in final:
            yield event

    async def _flush_if(self, hold: HeldTurn, final: list[Event]) -> None:
        if final or hold.has_claimed:
            await self._flush(hold)

    async def _answer(
        self,
        hold: HeldTurn,
        runner: Runner,
        run_config: RunConfig | None,
        message: "_Message",
        final: list[Event],
    ) -> AsyncGenerator[Event, None]:
        """Answer one message; leave the final response in *final*."""
        hold.answer(message.id, message.waits)
        try:
            async with aclosing(self._events(hold, runner, message, run_config, final)) as events:
                async for event in events:
                    yield event
        finally:
            was_claimed = hold.answered()
        if message.waits is not None and not was_claimed and not hold.abort_signal.is_set():
            # The runner answered without an event of the user's: the message must not come again.
            await self.withdraw(**hold.key.ids, message_id=message.id)
            await self._refresh(hold)

    async def _events(
        self,
        hold: HeldTurn,
        runner: Runner,
        message: "_Message",
        run_config: RunConfig | None,
        final: list[Event],
    ) -> AsyncGenerator[Event, None]:
        """Run *runner* on one message within the turn; leave its final response in *final*."""
        hold.defers = message.has_begun = True
        options: dict[str, Any] = {}
        if "abort_signal" in inspect.signature(runner.run_async).parameters:
            options["abort_signal"] = hold.abort_signal
        events: AsyncGenerator[Event, None] = runner.run_async(
            user_id=hold.key.user,
            session_id=hold.key.session,
            new_message=message.content,
            state_delta=message.state_delta,
            run_config=run_config,
            **options,
        )
        # Between two steps the caller's own code runs, which is not part of the turn. So each step is a task
        # in a context of the run: what the runner begins in a context has to end in the same one.
        context = contextvars.copy_context()
        context.run(enter, hold)
        step: asyncio.Task[Event | None] | None = None
        try:
            while True:
                step = asyncio.create_task(_next(events), context=context)
                if final and not await _ends_at_once(step):
                    # It goes on after a final response, such as with a compaction, which nobody waits for.
                    await self._flush(hold)
                    for stored in final:
                        yield stored
                    final.clear()
                if (event := await step) is None:
                    return
                if event.author != "user" and not event.partial and event.is_final_response():
                    final.append(event)
                else:
                    yield event
                if hold.abort_signal.is_set() and not options:
                    return  # an ADK whose runner takes no signal
        finally:
            if step is not None:
                step.cancel()  # nothing, where it has ended
                await asyncio.wait([step])
                if not step.cancelled():
                    step.exception()  # of a step ahead, after an append before it failed: nobody gets it
            await asyncio.create_task(_close(events), context=context)

    def _now(self) -> float:
        return self._sessions.storage.documents.clock.now()


@dataclass(eq=False, slots=True)
class _Message:
    """A message that a run answers."""

    id: str
    content: types.Content
    state_delta: dict[str, Any] | None
    waits: str | None = None
    """Its text in the inbox, if it is there."""
    has_begun: bool = False
    """Whether the runner has it."""

    def text(self, now: float) -> str:
        """Return it as it waits in the inbox.

        Raises:
            InvalidInputError: JSON cannot hold it, no runner takes it, or its event cannot be stored: each
                turn would fail.
        """
        message = message_of(self.content)
        kept, not_plain = persistent(self.state_delta or {})
        state = split_scopes(kept)
        for scope in (state.app, state.user, state.session):
            encode_state(dict.fromkeys(scope))  # its keys, whatever their values
        delta = self.state_delta
        if delta and not not_plain:
            delta = {**delta, **kept}
        return str(WaitingMessage(id=self.id, message=message, time=now, state_delta=delta))


def _next_message(hold: HeldTurn, own: _Message | None) -> _Message | None:
    """Return the message to answer: the first that waits, else *own*, unless the runner has it already."""
    text = hold.first_waiting
    if text is None:
        return own if own is not None and not own.has_begun else None
    waiting = WaitingMessage.parse(text)
    if own is not None and own.id == waiting.id:
        own.waits = text
        return own
    content = content_of(waiting.message)
    delta = None if waiting.state_delta is None else dict(waiting.state_delta)
    return _Message(waiting.id, content, delta, waits=text)


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)


async def _close(events: AsyncGenerator[Event, None]) -> None:
    await events.aclose()


async def _ends_at_once(step: "asyncio.Task[Event | None]") -> bool:
    """Return whether the run ends in *step*, without waiting for anything."""
    for _ in range(IDLE_TURNS):
        if step.done():
            return not step.cancelled() and step.exception() is None and step.result() is None
        await asyncio.sleep(0)
    return False

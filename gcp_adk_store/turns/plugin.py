"""Take turns in runners that somebody else makes and runs."""

import asyncio
from contextlib import AsyncExitStack

from google.adk.agents.invocation_context import InvocationContext
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from gcp_adk_store.errors import InvalidInputError, SessionMissingError
from gcp_adk_store.model.appends import Marker, mark, marker_of
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import require_times
from gcp_adk_store.sessions.append.turn import HeldTurn, enter, held, leave
from gcp_adk_store.turns.service import LEASE_S, WAIT_S, HeldTurns, OnBusy


class TurnPlugin(BasePlugin):
    """Lets a runner that somebody else makes run one turn of a session at a time: ``App(plugins=[...])``.

    Let it be the first plugin: ADK asks no plugin for a message after one that replaced it, and a run takes
    no turn then. It does what a plugin can. The runner reads the session before it asks a plugin, so the
    plugin reads it once more if another turn came between; the agent that the runner chose by the older
    events stays. A run that resumes without a message, and a live run, ask no plugin and take no turn. A run
    whose task is cancelled, or whose message cannot be stored, notifies no plugin of its end: the turn ends
    with the task. Nothing stops the run when it is asked to stop, or when it is lost; its appends are refused
    then. ADK raises a ``RuntimeError`` for an error of a plugin: its ``__cause__`` is that of this library.
    ``store.turns.run`` has none of these gaps.
    """

    def __init__(
        self,
        turns: HeldTurns,
        *,
        on_busy: OnBusy = "wait",
        wait_s: float = WAIT_S,
        lease_s: float = LEASE_S,
        name: str = "adk_store_turns",
    ) -> None:
        """Prepare the plugin for a store's *turns*; the rest is as :meth:`gcp_adk_store.turns.Turns.hold`.

        Raises:
            InvalidInputError: an argument is invalid.
        """
        super().__init__(name)
        require_times(wait_s=wait_s, lease_s=lease_s)
        self._turns = turns
        self._on_busy: OnBusy = on_busy
        self._wait_s = wait_s
        self._lease_s = lease_s
        self._closing: set[asyncio.Task[None]] = set()
        self._running: dict[str, tuple[HeldTurn, AsyncExitStack]] = {}

    async def on_user_message_callback(
        self,
        *,
        invocation_context: InvocationContext,
        user_message: types.Content,  # noqa: ARG002  # ADK's
    ) -> types.Content | None:
        """Take the turn, before the message is stored.

        Raises:
            SessionBusyError, SessionMissingError, OutcomeUnknownError: as ``hold``; the run ends.
            InvalidInputError: the runner has another session service.
        """
        session = invocation_context.session
        service = self._turns.sessions
        if invocation_context.session_service is not service:
            raise InvalidInputError("the runner has another session service than the plugin's turns")
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        outer = held(service.storage, key)
        if outer is not None and not outer.has_ended:
            return None
        hold = await self._turns.take(
            **key.ids,
            on_busy=self._on_busy,
            wait_s=self._wait_s,
            lease_s=self._lease_s,
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._turns.kept(hold))
            await self._read_again(invocation_context, hold.known.marker)
            self._running[invocation_context.invocation_id] = hold, stack.pop_all()
        enter(hold)
        self._end_with_task(invocation_context.invocation_id)
        return None

    async def _read_again(self, invocation_context: InvocationContext, known: Marker) -> None:
        """Give the run the session as it is, unless its runner read it so."""
        session = invocation_context.session
        marker = marker_of(session)
        now = known.epoch, known.revision, known.restores
        if marker is not None and (marker.epoch, marker.revision, marker.restores) == now:
            return
        config = getattr(invocation_context.run_config, "get_session_config", None)
        key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
        fresh = await self._turns.sessions.get_session(**key.ids, config=config)
        if fresh is None:
            raise SessionMissingError
        session.events[:] = fresh.events
        session.state.clear()
        session.state.update(fresh.state)
        session.last_update_time = fresh.last_update_time
        mark(session, marker_of(fresh))

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Release the turn."""
        await self._end(invocation_context)

    async def on_run_error_callback(
        self,
        *,
        invocation_context: InvocationContext,
        error: Exception,  # noqa: ARG002  # ADK's
    ) -> None:
        """Release the turn of a run that failed."""
        await self._end(invocation_context)

    async def _end(self, context: InvocationContext) -> None:
        hold, stack = self._running.pop(context.invocation_id, (None, None))
        if hold is not None and stack is not None:
            leave(hold)
            await stack.aclose()

    def _end_with_task(self, invocation_id: str) -> None:
        """Release the turn also if the task ends and notifies no plugin, as one that is cancelled does."""
        task = asyncio.current_task()

        def end(task: "asyncio.Task[object]") -> None:
            _, stack = self._running.pop(invocation_id, (None, None))
            if stack is not None and not task.get_loop().is_closed():
                closing = task.get_loop().create_task(stack.aclose())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

        if task is not None:
            task.add_done_callback(end)
            _, stack = self._running[invocation_id]
            stack.callback(task.remove_done_callback, end)  # a task may run agents for ever

"""Hold the turn of a session, so that one runs at a time in all processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from gcp_adk_store import machine, settings
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.errors import InvalidInputError, SessionBusyError, StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds, operation
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Turn, require_times
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.append.turn import TurnLease, enter, held, leave
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.turns.lease import Leases, keep, logger

OnBusy = Literal["wait", "reject", "interrupt"]

WAIT_S: Final = 30.0
LEASE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStatus:
    """The turn of a session at the time of a read."""

    is_running: bool
    fence: int
    """The number of the newest turn; 0 before the first."""
    holder: str
    """Names the one who runs it; empty if nobody does."""
    until: float | None
    """When it ends unless it is renewed, in Unix seconds of Firestore's clock."""
    abort: bool
    """Whether its holder was asked to stop."""
    waiting: tuple[str, ...]
    """The ids of the messages that wait, in order."""


@checks_kinds
class HeldTurns:
    """The methods that hold turns, without running an agent."""

    def __init__(self, sessions: SessionService) -> None:
        """Prepare the turns of *sessions*; without I/O."""
        self._sessions = sessions
        # Of one process: a turn's commits and its session's appends go one after another.
        self._permits = sessions._appender.permits  # noqa: SLF001
        self._hooks = sessions._hooks  # noqa: SLF001  # redactors see messages that wait, too
        self._leases = Leases(sessions.storage)
        self._endings: set[asyncio.Task[None]] = set()
        self._bounds = Bounds(
            type(self), system=telemetry.FIRESTORE, deadlines_s={}, names_ids=settings.names_ids
        )

    @property
    def sessions(self) -> SessionService:
        """The session service whose appends belong to these turns."""
        return self._sessions

    @asynccontextmanager
    async def hold(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        on_busy: OnBusy = "wait",
        wait_s: float = WAIT_S,
        lease_s: float = LEASE_S,
    ) -> AsyncIterator[TurnLease]:
        """Run the block as the only turn of a session; 1 write at its begin and 1 at its end.

        The begin takes 1 read more unless this process had the last turn. Appends of the block, and of the
        tasks that it starts, belong to the turn: an append after the turn was lost raises TurnLostError and
        writes nothing. Appends renew the lease; without any, 1 write for each third of *lease_s* does.
        A block within a turn of the same session is a part of that turn. A caller that is cancelled while it
        waits takes no turn later.

        Args:
            app_name: The session's app.
            user_id: The session's user.
            session_id: The session.
            on_busy: What to do while another turn runs. ``wait``: wait for its end, *wait_s* at most.
                ``reject``: raise. ``interrupt``: ask its holder to stop, and take the turn at its end,
                or from it after *wait_s*.
            wait_s: Seconds to wait; 1 read at its begin, and for each change of the session meanwhile.
            lease_s: Seconds after which the turn of a process that was killed or stopped is free; a day at
                most. A holder notices a request to stop within a third of it.

        Yields:
            The turn: ``fence``, ``abort_signal`` and ``is_lost``.

        Raises:
            SessionBusyError: another turn runs, or still runs after *wait_s*.
            SessionMissingError: the session does not exist.
            InvalidInputError: an argument is invalid.
            OutcomeUnknownError: not answered; the turn may be taken until its lease expires.
        """
        ids = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        outer = held(self._sessions.storage, SessionKey(app=app_name, user=user_id, session=session_id))
        if outer is not None and not outer.is_lost and not outer.has_ended:
            yield outer
            return
        hold = await self.take(**ids, on_busy=on_busy, wait_s=wait_s, lease_s=lease_s)
        async with self.kept(hold):
            enter(hold)
            try:
                yield hold
            finally:
                leave(hold)

    @operation
    async def take(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        on_busy: OnBusy = "wait",
        wait_s: float = WAIT_S,
        lease_s: float = LEASE_S,
    ) -> TurnLease:
        """Take a turn without a block; :meth:`kept` renews and releases it. The rest is as :meth:`hold`."""
        if on_busy not in get_args(OnBusy):
            raise InvalidInputError(f"on_busy is {on_busy!r:.40}; it must be one of {get_args(OnBusy)}")
        require_times(wait_s=wait_s, lease_s=lease_s)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await self._take(key, on_busy=on_busy, wait_s=wait_s, lease_s=lease_s)

    @asynccontextmanager
    async def kept(self, hold: TurnLease) -> AsyncIterator[None]:
        """Renew the turn *hold* while the block runs, and release it at the end, when all of it is stored."""
        keeping = asyncio.create_task(keep(self._leases, hold, self._permits))
        key = hold.key
        try:
            yield
            await self._sessions.flush_session(app_name=key.app, user_id=key.user, session_id=key.session)
        finally:
            keeping.cancel()
            await asyncio.shield(self._see_to(self._end(hold)))

    @operation
    async def status(self, *, app_name: str, user_id: str, session_id: str) -> TurnStatus:
        """Return the turn of a session as it is now; 1 read.

        Raises:
            SessionMissingError: the session does not exist.
        """
        stored = await self._leases.header(SessionKey(app=app_name, user=user_id, session=session_id))
        turn = stored.turn or Turn()
        return TurnStatus(
            is_running=turn.is_held(stored.read_time),
            fence=turn.fence,
            holder=turn.holder,
            until=turn.until,
            abort=turn.abort,
            waiting=tuple(WaitingMessage.parse(text).id for text in stored.inbox),
        )

    @operation
    async def request_abort(self, *, app_name: str, user_id: str, session_id: str) -> bool:
        """Ask the holder of a session's turn to stop, from any process; return whether a turn ran then.

        The holder notices it at its next append, and within a third of its ``lease_s``: then its
        ``abort_signal`` is set. 1 read and 1 write.

        Raises:
            SessionMissingError: the session does not exist.
        """
        return await self._leases.request_abort(SessionKey(app=app_name, user=user_id, session=session_id))

    @operation
    async def withdraw(self, *, app_name: str, user_id: str, session_id: str, message_id: str) -> bool:
        """Remove a message that waits, by its id; return whether it waited. 1 read and 1 write.

        Raises:
            SessionMissingError: the session does not exist.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await self._leases.withdraw(key, message_id)

    @operation
    async def enqueue(self, *, app_name: str, user_id: str, session_id: str, text: str) -> bool:
        """Let the message *text* wait for the turn that runs; return whether one does. 1 read and 1 write.

        :meth:`Turns.run` calls it with the JSON of a message.

        Raises:
            SessionInboxFullError, InvalidInputError: it does not fit; nothing was written.
            RedactorError: a redactor failed; nothing was written.
            SessionMissingError: the session does not exist.
            OutcomeUnknownError: not answered; the message may wait.
        """
        if hooks := self._hooks:
            waiting = WaitingMessage.parse(text)
            state = None if waiting.state_delta is None else await hooks.of_state(waiting.state_delta)
            text = str(replace(waiting, message=await hooks.of_message(waiting.message), state_delta=state))
        return await self._leases.enqueue(SessionKey(app=app_name, user=user_id, session=session_id), text)

    async def release_if_empty(self, hold: TurnLease) -> bool:
        """End the turn *hold* unless a message waits for it; return whether it has ended. 1 write.

        Raises:
            TurnLostError: it was lost.
        """
        async with self._permits.permit(hold.key):
            return await self._leases.release(hold, only_if_empty=True)

    async def refresh(self, hold: TurnLease) -> None:
        """Read the inbox of a session whose turn is *hold*; 1 read."""
        async with self._permits.permit(hold.key):
            hold.learn(await self._leases.header(hold.key))

    async def _take(self, key: SessionKey, *, on_busy: OnBusy, wait_s: float, lease_s: float) -> TurnLease:
        ends_at = machine.monotonic() + wait_s
        seen: StoredSession | None = None
        asked: int | None = None
        forced: int | None = None
        while True:
            try:
                return await self._try(key, lease_s=lease_s, by_force_from=forced, seen=seen)
            except SessionBusyError as busy:
                left_s = ends_at - machine.monotonic()
                if on_busy == "reject" or (left_s <= 0 and on_busy == "wait"):
                    raise
                if left_s <= 0:
                    forced = busy.fence
                    continue
                if on_busy == "interrupt" and asked != busy.fence:
                    asked = busy.fence
                    await self._leases.request_abort(key)
                seen = await self._leases.freed(key, busy, wait_s=left_s, by_any=on_busy == "wait")

    async def _try(
        self, key: SessionKey, *, lease_s: float, by_force_from: int | None, seen: StoredSession | None
    ) -> TurnLease:
        """Take the turn if it is free; a caller that is cancelled meanwhile leaves it free."""
        is_wanted = True
        taking = asyncio.create_task(
            self._leases.take(
                key, lease_s=lease_s, by_force_from=by_force_from, seen=seen, is_wanted=lambda: is_wanted
            )
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            is_wanted = False
            # A commit that was sent may take the turn: nobody would release it.
            self._see_to(self._give_back(taking))
            raise

    async def _end(self, hold: TurnLease) -> None:
        if hold.is_lost or hold.has_ended:
            hold.has_ended = True
            return
        try:
            async with self._permits.permit(hold.key):
                await self._leases.release(hold)
        except StoreError as exc:
            if not hold.is_lost:  # it ends when its lease expires
                telemetry.warn(logger, "a turn is not released", exc)
        finally:
            hold.has_ended = True

    async def _give_back(self, taking: "asyncio.Task[TurnLease]") -> None:
        with suppress(StoreError):
            await self._end(await taking)

    def _see_to(self, work: Any) -> "asyncio.Task[None]":
        """Start *work*, which ends also if nobody awaits it."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

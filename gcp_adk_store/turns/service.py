"""Hold the turn of a session, so that one runs at a time in all processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import machine
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionBusyError,
    StoredDataError,
    StoreError,
    TurnLostError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, checks_kinds, named_as, operation
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import MAX_WAITING_BYTES, Turn, has_room, require_times
from gcp_adk_store.model.sessions import StoredSession, read_of
from gcp_adk_store.sessions.append.turn import HeldTurn, enter, held, leave
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.turns.lease import Leases, TurnLease, TurnRunsError, keep, logger, require_free

OnBusy = Literal["wait", "reject", "interrupt"]
OnBusyRun = Literal["wait", "reject", "interrupt", "enqueue"]

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


@contextmanager
def naming(message: str | None) -> Iterator[None]:
    """Let an ``OutcomeUnknownError`` of the block say the id of the *message* that may wait."""
    try:
        yield
    except OutcomeUnknownError as exc:
        if message is None or len(message) > MAX_WAITING_BYTES:
            raise
        says = f"{exc}; the id of the message, and of its event, is {WaitingMessage.parse(message).id}"
        raise OutcomeUnknownError.since(exc, says) from exc


@dataclass(frozen=True, slots=True)
class _Begins:
    """What a turn begins with."""

    message: str | None
    """The text of the message that it answers."""
    config: GetSessionConfig | None
    """Which events its first read asks for."""
    or_enqueues: bool
    """Whether the message waits for another turn that runs, instead of an error."""
    waits: bool
    """Whether its caller waits for the end of another turn that runs."""


@checks_kinds
class HeldTurns:
    """The methods that hold turns, without running an agent."""

    def __init__(self, sessions: SessionService) -> None:
        """Prepare the turns of *sessions*; without I/O."""
        self._sessions = sessions
        # Of one process: a turn's commits and its session's appends go one after another.
        self._appends = sessions._appender  # noqa: SLF001
        self._permits = self._appends.permits
        self._hooks = sessions._hooks  # noqa: SLF001  # redactors see messages that wait, too
        self._leases = Leases(sessions.storage, sessions._reader.followed)  # noqa: SLF001
        self._endings: set[asyncio.Task[None]] = set()
        self._bounds = Bounds(type(self), system=telemetry.FIRESTORE)

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
                ``reject``: raise. ``interrupt``: ask its holder to stop, and take the turn when it
                ends; after *wait_s*, take it away from the holder.
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
            yield TurnLease(outer)
            return
        with named_as("hold", ids):
            hold = await self.take(**ids, on_busy=on_busy, wait_s=wait_s, lease_s=lease_s)
        async with self.kept(hold):
            enter(hold)
            try:
                yield TurnLease(hold)
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
    ) -> HeldTurn:
        """Take a turn without a block; :meth:`kept` renews and releases it. The rest is as :meth:`hold`."""
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        hold = await self._take(key, on_busy=on_busy, wait_s=wait_s, lease_s=lease_s)
        assert hold is not None  # noqa: S101  # there is no message that could wait instead
        return hold

    @operation
    async def begin(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        text: str | None = None,
        on_busy: OnBusyRun = "wait",
        wait_s: float = WAIT_S,
        lease_s: float = LEASE_S,
        config: GetSessionConfig | None = None,
    ) -> HeldTurn | None:
        """Take a turn, and store the message *text* in the same write if it fits; ``Turns.run`` calls it.

        The first read of the session in the turn, with *config*, happens beside this write if this process
        had the last turn. Otherwise it happens before it, and the write requires what it found. ``None`` is
        returned if the message waits for another turn, with ``enqueue``.

        Raises:
            RedactorError: a redactor failed; nothing was written.
            SessionInboxFullError, InvalidInputError: the message cannot wait; nothing was written.
            SessionBusyError, SessionMissingError, OutcomeUnknownError: as :meth:`hold`.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        message = None if text is None else await self._as_stored(text)
        how: OnBusy = "reject" if on_busy == "enqueue" else on_busy
        begins = _Begins(
            message,
            read_of(config, self._sessions.history),
            or_enqueues=on_busy == "enqueue" and message is not None,
            waits=how != "reject",
        )
        with naming(message):
            return await self._take(key, on_busy=how, wait_s=wait_s, lease_s=lease_s, begins=begins)

    @asynccontextmanager
    async def kept(self, hold: HeldTurn) -> AsyncIterator[None]:
        """Renew the turn *hold* while the block runs, and release it at the end, when all of it is stored."""
        keeping = asyncio.create_task(keep(self._leases, hold, self._appends))
        try:
            yield
            await self._flush(hold)
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
            is_running=stored.is_in_turn,
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
        """Remove a waiting message; return whether it waited. A turn that has begun with it still answers it.

        Raises:
            SessionMissingError: the session does not exist.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await self._leases.withdraw(key, message_id)

    async def _as_stored(self, text: str) -> str:
        """Return the message *text* as the redactors leave it.

        Raises:
            InvalidInputError: it is not a message: each later turn of the session would end in it.
        """
        if len(text) > MAX_WAITING_BYTES:
            return text  # whoever stores it says that it does not fit
        try:
            waiting = WaitingMessage.parse(text)
        except StoredDataError:
            raise InvalidInputError(
                f"text has {len(text)} characters, and is not a message as JSON: Turns.run makes one"
            ) from None
        if (hooks := self._hooks) is None:
            # UTF-8 cannot hold a lone surrogate; JSON in ASCII can.
            return text if text.isascii() else str(waiting)
        state = None if waiting.state_delta is None else await hooks.of_state(waiting.state_delta)
        return str(replace(waiting, message=await hooks.of_message(waiting.message), state_delta=state))

    async def _release_if_empty(self, hold: HeldTurn) -> bool:
        """Store what the turn *hold* appended; end it unless a message waits. Return whether it has ended.

        The commit of the last append ends it; if all is stored already, it takes 1 write. A turn that was
        lost has ended.

        Raises:
            StoreError: an append of the turn failed.
        """
        hold.releases = True
        try:
            await self._flush(hold)
        finally:
            hold.releases = False
        if hold.has_ended:
            self._leases.remember(hold)
            return True
        with suppress(TurnLostError):
            async with self._permits.permit(hold.key):
                return await self._leases.release(hold, only_if_empty=True)
        return True

    async def _refresh(self, hold: HeldTurn) -> None:
        """Read the inbox of a session whose turn is *hold*; 1 read."""
        async with self._permits.permit(hold.key):
            hold.learn(await self._leases.header(hold.key))

    async def _flush(self, hold: HeldTurn) -> None:
        """Wait until the appends of the turn *hold* are stored."""
        await self._appends.flush_session(hold.key, hold)

    async def _take(
        self,
        key: SessionKey,
        *,
        on_busy: OnBusy,
        wait_s: float,
        lease_s: float,
        begins: "_Begins | None" = None,
    ) -> HeldTurn | None:
        require_times(wait_s=wait_s, lease_s=lease_s)
        ends_at = machine.monotonic() + wait_s
        seen: StoredSession | None = None
        asked: int | None = None
        forced: int | None = None
        while True:
            try:
                return await self._try(key, lease_s=lease_s, by_force_from=forced, seen=seen, begins=begins)
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
        self,
        key: SessionKey,
        *,
        lease_s: float,
        by_force_from: int | None,
        seen: StoredSession | None,
        begins: "_Begins | None",
    ) -> HeldTurn | None:
        """Take the turn if it is free; a caller that is cancelled meanwhile leaves it free."""
        is_wanted = True

        async def take(seen: StoredSession | None) -> HeldTurn | None:
            return await self._leases.take(
                key,
                lease_s=lease_s,
                by_force_from=by_force_from,
                seen=seen,
                message=None if begins is None else begins.message,
                or_enqueue=begins is not None and begins.or_enqueues,
                is_wanted=lambda: is_wanted,
            )

        work = take(seen) if begins is None else self._take_and_read(key, take, seen, begins)
        taking = asyncio.create_task(work)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            is_wanted = False
            # A commit that was sent may take the turn: nobody would release it.
            self._see_to(self._give_back(taking))
            raise

    async def _take_and_read(
        self,
        key: SessionKey,
        take: Callable[[StoredSession | None], Awaitable[HeldTurn | None]],
        seen: StoredSession | None,
        begins: _Begins,
    ) -> HeldTurn | None:
        """Take the turn and read the session, at once if the read is not what the turn requires.

        Where another turn runs, and the caller does not wait for its end, the history is not read.
        """
        find = partial(self._sessions._reader.find, key, begins.config, follows=True)  # noqa: SLF001
        await self._appends.settle(key)  # one that is stored after the read makes the turn conflict
        running = None if begins.waits else self._leases.running(key)
        if running is not None and begins.or_enqueues and has_room(running.inbox, begins.message or ""):
            return await take(running)  # if it does not run any more, the write is refused
        if seen is None and (running is not None or self._leases.remembered(key) is None):
            try:
                found = await find(look=None if begins.waits else require_free)
                required = None if found is None else found.stored
            except TurnRunsError as busy:
                found, required = None, busy.stored
            hold = await take(required)
        else:
            known = None if seen is not None else self._leases.left(key)
            reading = asyncio.create_task(find(known=known))
            try:
                hold = await take(seen)
            except BaseException:
                reading.cancel()
                raise
            finally:
                await asyncio.wait([reading])
            # An error of it is that of the turn's first read, which reads again.
            found = None if reading.exception() is not None else reading.result()
        # If others changed the session meanwhile, the turn reads it again.
        if hold is not None and found is not None and hold.is_as_known:
            hold.first_read = begins.config, found
        return hold

    async def _end(self, hold: HeldTurn) -> None:
        await self._appends.drain(hold.key)
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

    async def _give_back(self, taking: "asyncio.Task[HeldTurn | None]") -> None:
        with suppress(StoreError):
            if (hold := await taking) is not None:
                await self._end(hold)

    def _see_to(self, work: Any) -> "asyncio.Task[None]":
        """Start *work*, which ends also if nobody awaits it."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

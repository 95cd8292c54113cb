"""Take, renew and release the turn of a session: the writes and reads of its lease."""

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from google.adk.platform import uuid as platform_uuid

from gcp_adk_store import machine
from gcp_adk_store.codec.stored import TURN_FIELDS, read_header
from gcp_adk_store.codec.turns import WaitingMessage, find_waiting, write_turn
from gcp_adk_store.codec.writes import Document, Write, Written
from gcp_adk_store.errors import (
    OutcomeUnknownError,
    SessionBusyError,
    SessionMissingError,
    StoreError,
    TurnLostError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Lru, stepping
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.transact import CHANGED, Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import MAX_HOLDER, Turn, has_room, require_room
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.append.run import Appender
from gcp_adk_store.sessions.append.turn import HeldTurn
from gcp_adk_store.sessions.read.known import FollowedDocuments
from gcp_adk_store.sessions.read.storage import SessionStorage

logger = logging.getLogger(__name__)

_KNOWN_HEADERS: Final = 1024
"""Sessions whose last turn was this process', and which are taken again without a read: some 500 kB."""

_LATER_S: Final = 0.05
"""After the end of a lease, until somebody who waits looks: clocks agree to within a request."""

_LONGEST_START_S: Final = 0.05
"""Those who wait for one turn write at different times, up to so much later."""

_ENDS: Final = "the turn ends when its lease expires"

RENEWALS: Final = 3
"""Parts of a lease: a heartbeat renews it when nothing else has for one of them."""


class TurnLease:
    """A turn of a session that this process holds."""

    def __init__(self, turn: HeldTurn) -> None:
        """Show *turn*, as :meth:`Turns.hold` does."""
        self._turn = turn

    @property
    def fence(self) -> int:
        """The number of the turn; each turn of a session has a higher one."""
        return self._turn.fence

    @property
    def abort_signal(self) -> asyncio.Event:
        """Set when somebody asks the turn to stop, and when it is lost."""
        return self._turn.abort_signal

    @property
    def is_lost(self) -> bool:
        """Whether this process knows that another turn has taken its place."""
        return self._turn.is_lost


class Leases:
    """The turns of the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, followed: FollowedDocuments) -> None:
        self._storage = storage
        self._followed = followed
        self._documents = storage.documents
        self._layout = storage.layout
        self._known = Lru[SessionKey, StoredSession](_KNOWN_HEADERS)

    async def header(self, key: SessionKey) -> StoredSession:
        """Return the header of a session with its turn and its inbox; 1 read.

        Raises:
            SessionMissingError: the session does not exist.
        """
        return _living(await self._find(key))

    async def _find(self, key: SessionKey) -> StoredSession | None:
        (document,) = await self._documents.get([self._layout.session(key)], fields=TURN_FIELDS)
        return _header(document)

    async def take(
        self,
        key: SessionKey,
        *,
        lease_s: float,
        by_force_from: int | None = None,
        seen: StoredSession | None = None,
        message: str | None = None,
        or_enqueue: bool = False,
        is_wanted: Callable[[], bool],
    ) -> HeldTurn | None:
        """Take the turn of a session; 1 write, and 1 read unless this process had its last turn.

        *by_force_from* is the fence of a turn that is taken from its holder, if it still runs. *seen* is what
        :meth:`freed` returned: then nothing is read before. The text *message* goes to the end of the inbox
        in the same write, if it has room: then it is the lease's ``own``. With *or_enqueue*, it goes there
        also while another turn runs, and ``None`` is returned: that turn answers it. So it is if a message of
        its id waits there already.

        Raises:
            SessionBusyError: another one runs; nothing was written.
            SessionInboxFullError, InvalidInputError: another one runs, and the message does not fit; nothing
                was written.
            SessionMissingError: the session does not exist.
            OutcomeUnknownError: not answered; the turn may be taken until its lease expires.
        """
        holder = f"{platform.node()}-{os.getpid()}"[: MAX_HOLDER - 40] + f"-{platform_uuid.new_uuid()}"[:40]
        since = machine.monotonic()
        sent: int | None = None
        was_enqueued = False

        def decide(found: StoredSession | None, attempts: Attempts) -> Decision[HeldTurn | None]:
            nonlocal since, sent, was_enqueued
            stored = _living(found)
            turn = stored.turn or Turn()
            waiting = None if message is None else find_waiting(stored.inbox, message)
            own = waiting or message
            if turn.holder == holder:  # an attempt was not answered
                return Done(self._lease(stored, turn, lease_s=lease_s, since=since, own=own))
            is_busy = turn.is_held(stored.read_time) and turn.fence != by_force_from
            if waiting and (or_enqueue if attempts.maybe_applied else is_busy):
                # It waits already, and another turn answers it: one that runs now, and not long ago.
                return CHANGED if stored is remembered else Done(None)
            if message is not None and attempts.maybe_applied and (was_enqueued or turn.fence != sent):
                raise OutcomeUnknownError(
                    "sent and not answered, and another turn may have answered the message, or may answer "
                    "it; read the session before sending it again"
                )
            if is_busy and not or_enqueue:
                raise busy(stored, turn)
            if not is_wanted():
                raise TurnLostError("the caller that waited for the turn has gone")
            if is_busy and message is not None:
                was_enqueued = True
                return self._enqueued(stored, message)
            since, sent = machine.monotonic(), turn.fence
            taken = turn.taken(holder, self._documents.clock.now() + lease_s)
            inbox = stored.inbox
            if message is not None and waiting is None and has_room(inbox, message):
                inbox = (*inbox, message)
            changed = None if inbox is stored.inbox else inbox

            write = write_turn(self._layout.session(key), stored, taken, inbox=changed)

            def hold(written: Sequence[Written]) -> HeldTurn:
                self._followed.committed([write], written)
                now = replace(stored, update_time=written[0].update_time, inbox=inbox)
                lease = self._lease(now, taken, lease_s=lease_s, since=since, own=own)
                lease.is_as_known = stored is remembered
                return lease

            return Commit([write], hold)

        remembered = seen or self.remembered(key)
        known: tuple[StoredSession | None] | None = None if remembered is None else (remembered,)
        return await transact(self._documents, partial(self._find, key), decide, known=known, advice=_ENDS)

    def _lease(
        self, stored: StoredSession, turn: Turn, *, lease_s: float, since: float, own: str | None
    ) -> HeldTurn:
        lease = HeldTurn(self._storage, stored.key, stored, turn, lease_s=lease_s, since=since)
        lease.own = own if own in stored.inbox else None
        return lease

    async def freed(
        self, key: SessionKey, busy: SessionBusyError, *, wait_s: float, by_any: bool
    ) -> StoredSession | None:
        """Wait until a session has no turn; return its header, or ``None`` after *wait_s*.

        *busy* named its turn; *by_any* says whether the turns of others that follow it are waited for, too.
        1 read at its begin and for each change of the session meanwhile, and none while nothing changes.

        Raises:
            SessionMissingError: the session does not exist.
        """
        ends_at = machine.monotonic() + wait_s
        fence, until = busy.fence, busy.until
        async with stepping(self._documents.watch(self._layout.session(key))) as step:
            while True:
                lease_s = max(0.0, until - self._documents.clock.now()) + _LATER_S
                left_s = min(ends_at - machine.monotonic(), lease_s)
                come = await step(max(0.0, left_s))
                if come is None:
                    return None
                stored = _living(_header(come[0]))
                turn = stored.turn or Turn()
                if stored.is_in_turn:
                    if turn.fence != fence and not by_any:
                        return None
                    fence, until = turn.fence, turn.until or 0.0
                    continue
                # Of several who wait, the first to write wins: the others see that by its change.
                if (later := await step(machine.uniform(0, _LONGEST_START_S))) is None:
                    return stored
                stored = _living(_header(later[0]))
                if stored.turn is None or not stored.is_in_turn:
                    return stored
                fence, until = stored.turn.fence, stored.turn.until or 0.0

    async def renew(self, hold: HeldTurn) -> None:
        """Move the end of a lease, and notice a request to stop; 1 write.

        Raises:
            TurnLostError: the turn has ended.
            SessionMissingError: the session does not exist.
        """

        def change(stored: StoredSession) -> Write:
            turn = replace(stored.turn or hold.turn, until=hold.renewed(self._documents.clock.now()))
            return write_turn(self._layout.session(hold.key), stored, turn)

        await self._change(hold, change)

    async def release(self, hold: HeldTurn, *, only_if_empty: bool = False) -> bool:
        """End a turn; 1 write. Return whether it has ended.

        With *only_if_empty* it goes on if a message waits, whose sender relies on its holder. The message
        with which it began does not wait any more: its sender gets the error of its run.
        """

        def change(stored: StoredSession) -> Write | None:
            # The write requires the update time of the inbox that was seen, so none is overlooked.
            left = [text for text in hold.inbox if text != hold.own]
            if only_if_empty and left:
                return None
            inbox = left if len(left) < len(hold.inbox) else None
            return write_turn(self._layout.session(hold.key), stored, hold.turn.released, inbox=inbox)

        if not await self._change(hold, change, is_release=True):
            return False
        hold.has_ended = True
        hold.inbox = [text for text in hold.inbox if text != hold.own]
        self.remember(hold)
        return True

    def remember(self, hold: HeldTurn) -> None:
        """Remember the session after the turn *hold*, which has ended."""
        if hold.inbox_time == hold.known.update_time:
            self._known.put(hold.key, replace(hold.known, turn=hold.turn.released, inbox=tuple(hold.inbox)))

    async def _change(
        self, hold: HeldTurn, change: Callable[[StoredSession], Write | None], *, is_release: bool = False
    ) -> bool:
        """Commit what *change* makes of the header, read again if others changed it; ``None`` is nothing."""

        def decide(seen: StoredSession | None, attempts: Attempts) -> Decision[bool]:
            if seen is not None:
                is_over = seen.turn is None or seen.turn.holder != hold.turn.holder
                is_own_left = hold.own in seen.inbox  # then another one took the turn before its end
                if is_release and attempts.maybe_applied and is_over and not is_own_left:
                    return Done(value=True)  # an attempt that was not answered; the next turn may run
                hold.learn(seen)
            hold.require_running()
            stored = hold.known
            if not hold.has_seen(stored.marker):
                return CHANGED
            write = change(stored)
            if write is None:
                return Done(value=False)

            def wrote(written: Sequence[Written]) -> bool:
                self._followed.committed([write], written)
                hold.wrote(written[0].update_time, stored.turn or hold.turn)
                return True

            return Commit([write], wrote)

        return await transact(self._documents, partial(self.header, hold.key), decide, known=(None,))

    async def request_abort(self, key: SessionKey) -> bool:
        """Ask the holder of a session's turn to stop; return whether there was one. 1 read and 1 write."""
        asked: int | None = None

        def decide(stored: StoredSession, attempts: Attempts) -> Decision[bool]:
            nonlocal asked
            turn, is_held = stored.turn, stored.is_in_turn
            if attempts.maybe_applied and (turn is None or turn.fence != asked or not is_held):
                return Done(value=True)  # the holder that was asked has ended; the next one is not to stop
            if turn is None or not is_held:
                return Done(value=False)
            if turn.abort:
                return Done(value=True)
            asked = turn.fence
            return Commit([write_turn(self._layout.session(key), stored, turn.aborted)], lambda _: True)

        return await transact(self._documents, partial(self.header, key), decide)

    async def enqueue(self, key: SessionKey, text: str) -> None:
        """Add the message *text* to the inbox, unless one of its id is there. 1 read and 1 write.

        Raises:
            SessionInboxFullError, InvalidInputError: it does not fit; nothing was written.
            SessionMissingError: the session does not exist.
            OutcomeUnknownError: not answered; the message may wait.
        """

        def decide(stored: StoredSession, attempts: Attempts) -> Decision[None]:
            if find_waiting(stored.inbox, text) is not None:
                return Done(None)
            if attempts.maybe_applied:
                raise OutcomeUnknownError(
                    "sent and not answered, and the message does not wait now: it never arrived, or a turn "
                    "has taken it; read the session before you send it again"
                )
            return self._enqueued(stored, text)

        await transact(self._documents, partial(self.header, key), decide)

    def _enqueued(self, stored: StoredSession, text: str) -> Commit[None]:
        """Return the commit that puts the message *text* to the end of the inbox.

        Raises:
            SessionInboxFullError, InvalidInputError: it does not fit.
        """
        require_room(stored.inbox, text)
        write = write_turn(self._layout.session(stored.key), stored, inbox=[*stored.inbox, text])
        return Commit([write], lambda written: self._followed.committed([write], written))

    async def withdraw(self, key: SessionKey, message_id: str) -> bool:
        """Remove a message from the inbox; return whether it was there. 1 read and 1 write."""

        def decide(stored: StoredSession, attempts: Attempts) -> Decision[bool]:
            left = [text for text in stored.inbox if WaitingMessage.parse(text).id != message_id]
            if len(left) == len(stored.inbox):
                return Done(value=attempts.maybe_applied)
            return Commit([write_turn(self._layout.session(key), stored, inbox=left)], lambda _: True)

        return await transact(self._documents, partial(self.header, key), decide)

    def left(self, key: SessionKey) -> Document | None:
        """Return the document of a session as the last turn of this process left it, if it may be right."""
        if (header := self.remembered(key)) is None:
            return None
        document = self._followed.known(self._layout.session(key), now=self._documents.clock.now())
        return document if document is not None and document.update_time == header.update_time else None

    def running(self, key: SessionKey) -> StoredSession | None:
        """Return the header of a session whose turn runs, as far as this process knows its document."""
        if not self._documents.clock.is_set:
            return None
        document = self._followed.known(self._layout.session(key), now=self._documents.clock.now())
        stored = _header(document)
        return stored if stored is not None and not stored.has_expired and stored.is_in_turn else None

    def remembered(self, key: SessionKey) -> StoredSession | None:
        """Return the header after the last turn of this process, if it may still be right."""
        stored = self._known.lookup(key)
        if stored is None or not self._documents.clock.is_set:
            return None
        return None if stored.marker.has_expired(self._documents.clock.now()) else stored


async def keep(leases: Leases, hold: HeldTurn, appends: Appender) -> None:
    """Renew the lease of *hold* until it ends; *appends* of the session's service renew it, too."""
    part_s = hold.lease_s / RENEWALS
    pause_s = 0.0
    while not (hold.is_lost or hold.has_ended):
        left_s = max(pause_s, hold.renewed_at + part_s - machine.monotonic())
        if left_s > 0:
            pause_s = 0.0
            await asyncio.sleep(left_s)
            continue
        if appends.begin_deferred(hold.key):
            pause_s = part_s / 4  # they renew it
            continue
        try:
            with part_of(part_s):
                async with appends.permits.permit(hold.key):
                    await leases.renew(hold)
        except (TurnLostError, SessionMissingError):
            return  # the next append raises it
        except StoreError as exc:
            telemetry.warn(logger, "the lease of a turn could not be renewed yet", exc)
            pause_s = part_s / 4


def _header(document: Document | None) -> StoredSession | None:
    return None if document is None else read_header(document, with_state=False)


def _living(stored: StoredSession | None) -> StoredSession:
    """Return the header of a session that was *stored*.

    Raises:
        SessionMissingError: the session does not exist, or has expired.
    """
    if stored is None or stored.has_expired:
        raise SessionMissingError
    return stored


class TurnRunsError(Exception):
    """A read of a session ended early, because a turn of it runs."""

    def __init__(self, stored: StoredSession) -> None:
        """End the read that found *stored*."""
        super().__init__()
        self.stored = stored


def require_free(stored: StoredSession) -> None:
    """Check that no turn of a session runs.

    Raises:
        TurnRunsError: one does.
    """
    if stored.is_in_turn:
        raise TurnRunsError(stored)


def busy(stored: StoredSession, turn: Turn) -> SessionBusyError:
    """Return the error for a session whose *turn* runs."""
    until = turn.until or 0.0
    left_s = max(0.0, until - stored.read_time)
    return SessionBusyError(
        # Without the holder, which names a machine and a process: clients get the message.
        f"turn {turn.fence} of the session runs; its lease ends in {left_s:.1f} s unless it is renewed",
        holder=turn.holder,
        fence=turn.fence,
        until=until,
        retry_after_s=left_s,
    )

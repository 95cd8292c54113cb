"""The turn that an append is a part of."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from google.adk.events import Event

from gcp_adk_store import machine
from gcp_adk_store.errors import TurnLostError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Turn
from gcp_adk_store.model.sessions import Marker, StoredSession
from gcp_adk_store.sessions.read.storage import SessionStorage


class TurnLease:
    """A turn of a session that this process holds, and what it knows of the stored session.

    Appends of one session in a process follow each other, so no two change it at once.
    """

    def __init__(
        self,
        storage: SessionStorage,
        key: SessionKey,
        stored: StoredSession,
        turn: Turn,
        *,
        lease_s: float,
        since: float,
    ) -> None:
        """Begin *turn*, which *stored* has since the time that it carries.

        Its lease counts from *since*, on the clock of ``machine.monotonic``.
        """
        self.storage = storage
        self.key = key
        self.turn = turn
        self.epoch = stored.epoch
        self.lease_s = lease_s
        self.abort_signal = asyncio.Event()
        """Set when somebody asks the turn to stop, and when it is lost."""
        self.is_lost = False
        self.has_ended = False
        self.renewed_at = since
        """When the last write began that moved the end of the lease, by ``machine.monotonic``."""
        self.known = replace(stored, turn=turn, tail=(), state={}, inbox=())
        """The newest header that this process knows, without state and inbox."""
        self.inbox: Sequence[str] = stored.inbox
        """The messages that wait, as of :attr:`inbox_time`, as is whether it is asked to stop."""
        self.inbox_time = stored.update_time
        """The update time of the session that had this inbox."""
        self._required = ""
        self._loop = asyncio.get_running_loop()
        self._until = turn.until or 0.0
        self._asked_at = since
        self._message: tuple[str, str] | None = None
        self._claimed: str | None = None

    @property
    def fence(self) -> int:
        """The number of the turn; each turn of a session has a higher one."""
        return self.turn.fence

    def require_running(self) -> None:
        """Check that the turn runs, as far as this process knows.

        Raises:
            TurnLostError: it was lost, or its block has ended.
        """
        if self.is_lost or self.has_ended:
            raise self._error("it was lost" if self.is_lost else "its block has ended")

    def newest(self, base: Marker) -> Marker:
        """Return the marker of the same events that is known best: *base*, or that after a renewal."""
        known = self.known.marker
        same = (base.epoch, base.revision, base.restores) == (known.epoch, known.revision, known.restores)
        return known if same and _nanos(base.update_time) < _nanos(known.update_time) else base

    def has_seen(self, base: Marker) -> bool:
        """Return whether a handle with the marker *base* has seen this turn, and the inbox that it changes.

        If not, the session must be read before a write.
        """
        has_turn = (base.epoch, base.fence) == (self.epoch, self.fence)
        if not has_turn or base.update_time != self.inbox_time:  # somebody may have asked it to stop
            return False
        self._required = base.update_time
        return True

    def renewed(self, now: float) -> float:
        """Return the end that a write *now* gives the lease, never before the present one."""
        self._asked_at = machine.monotonic()
        self._until = max(self._until, now + self.lease_s)
        return self._until

    def learn(self, stored: StoredSession) -> None:
        """Take over what was read of the session; whether it is asked to stop is noticed here."""
        if (stored.epoch, stored.marker.fence) != (self.epoch, self.fence):
            self.lose()
            return
        self.known = replace(stored, tail=(), state={}, inbox=())
        self.inbox, self.inbox_time = stored.inbox, stored.update_time
        if stored.turn is not None and stored.turn.abort:
            self.signal()

    def appended(self, marker: Marker | None) -> None:
        """Take over the *marker* after an append of the turn, which has renewed its lease."""
        self.renewed_at = self._asked_at
        if self._claimed is not None:
            self.inbox = self.inbox_after or ()
            self._message = self._claimed = None
        if marker is not None and self._required == self.inbox_time:
            self.inbox_time = marker.update_time
        self.follow(marker)

    def follow(self, marker: Marker | None) -> None:
        """Take over the *marker* of a handle, if it is newer."""
        known = self.known.marker
        is_newer = marker is not None and _nanos(marker.update_time) > _nanos(known.update_time)
        if marker is not None and is_newer and (marker.epoch, marker.fence) == (known.epoch, known.fence):
            self.known = replace(
                self.known,
                revision=marker.revision,
                update_time=marker.update_time,
                expiry=marker.expiry,
                chain=marker.chain,
                restores=marker.restores,
                turns=marker.turns,
            )

    def wrote(self, update_time: str, turn: Turn) -> None:
        """Take over a write of the *turn* alone, which required :attr:`known`."""
        if self.inbox_time == self.known.update_time:
            self.inbox_time = update_time
        self.known = replace(self.known, update_time=update_time, turn=turn)
        self.renewed_at = self._asked_at

    def lose(self) -> TurnLostError:
        """End the turn, which somebody else has now; return the error that says so."""
        self.is_lost = True
        self.signal()
        return self._error("it was lost")

    def signal(self) -> None:
        """Ask what runs in the turn to stop, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.abort_signal.set)

    # A message that waited in the inbox.

    @property
    def inbox_after(self) -> Sequence[str] | None:
        """The inbox after the append that runs; ``None`` if it stays as it is."""
        if self._claimed is None:
            return None
        return [text for text in self.inbox if text != self._claimed]

    def answer(self, message_id: str, text: str) -> None:
        """Let the next event of the user be that of the message *text* of the inbox."""
        self._message = (message_id, text)

    def answered(self) -> bool:
        """Let no further event be the message's; return whether it is stored."""
        was_stored = self._message is None
        self._message = self._claimed = None
        return was_stored

    @property
    def answers(self) -> bool:
        """Whether the event of a message is still to come."""
        return self._message is not None

    def commits(self, ids: Collection[str]) -> None:
        """Let a commit of events with these *ids* take no message out that is not theirs."""
        if self._message is None or self._message[0] not in ids:
            self._claimed = None

    def claimed(self, event: Event) -> Event:
        """Return *event*, with the id of the message if it is the message's.

        Its append takes the message out of the inbox.
        """
        self._claimed = None
        if self._message is not None and event.author == "user":
            event.id, self._claimed = self._message
        return event

    def _error(self, why: str) -> TurnLostError:
        return TurnLostError(
            f"Turn {self.fence} of the session is over: {why}. Nothing was written. Begin a new turn."
        )


_HELD: Final[ContextVar[tuple[TurnLease, ...]]] = ContextVar("adk_store_turns", default=())


def held(storage: SessionStorage, key: SessionKey) -> TurnLease | None:
    """Return the turn of a session of *storage* that the running code is a part of.

    Tasks that it starts have a copy of its context, and so its turn, also after the turn has ended.
    """
    for hold in reversed(_HELD.get()):
        if hold.storage is storage and hold.key == key:
            return hold
    return None


def enter(hold: TurnLease) -> None:
    """Make the running code a part of the turn *hold*."""
    _HELD.set((*_HELD.get(), hold))


def leave(hold: TurnLease) -> None:
    """Make the running code a part of *hold* no more, in whichever context it runs."""
    _HELD.set(tuple(other for other in _HELD.get() if other is not hold))


@contextmanager
def within(hold: TurnLease) -> Iterator[None]:
    """Let the block be a part of the turn *hold*."""
    before = _HELD.get()
    enter(hold)
    try:
        yield
    finally:
        _HELD.set(before)


def _nanos(update_time: str) -> tuple[int, int]:
    seconds, _, nanos = update_time.partition(".")
    return int(seconds or 0), int(nanos or 0)

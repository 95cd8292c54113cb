"""The turn that an append is a part of."""

import asyncio
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import machine
from gcp_adk_store.errors import TurnLostError
from gcp_adk_store.model.appends import Marker
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Turn
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.read.completion import Found
from gcp_adk_store.sessions.read.storage import SessionStorage


class HeldTurn:
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
        """Whether this process knows that another turn has taken its place."""
        self.has_ended = False
        self.renewed_at = since
        """When the last write began that moved the end of the lease, by ``machine.monotonic``."""
        self.known = replace(stored, turn=turn, tail=(), state={}, inbox=())
        """The newest header that this process knows, without state and inbox."""
        self.inbox: Sequence[str] = stored.inbox
        """The messages that wait, as of :attr:`inbox_time`, as is whether it is asked to stop."""
        self.inbox_time = stored.update_time
        """The update time of the session that had this inbox."""
        self.own: str | None = None
        """The message of the inbox with which the turn began. Its end leaves no trace of it."""
        self.is_as_known = False
        """Whether the write that took the turn required the session as its caller knew it."""
        self.first_read: tuple[GetSessionConfig | None, Found] | None = None
        """Which events were read beside the write that took the turn, and what was found."""
        self.defers = False
        """Whether a run of an agent makes its appends, which wait for each other; see ``PendingAppends``."""
        self.releases = False
        """Whether the last append that waits ends the turn, unless a message waits then."""
        self._required = ""
        self._loop = asyncio.get_running_loop()
        self._until = turn.until or 0.0
        self._asked_at = since
        self._message: tuple[str, str | None] | None = None
        self._claimed: tuple[str, str] | None = None
        self._removes: str | None = None

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
            if stored.epoch != self.epoch:
                self.inbox = ()  # it went with its session
            self.lose()
            return
        self.known = replace(stored, tail=(), state={}, inbox=())
        self.inbox, self.inbox_time = stored.inbox, stored.update_time
        if stored.turn is not None and stored.turn.abort:
            self.signal()

    def appended(self, marker: Marker | None) -> None:
        """Take over the *marker* after an append of the turn, which has renewed its lease."""
        self.renewed_at = self._asked_at
        if self._removes is not None:
            self.inbox = self.inbox_after or ()
            self._claimed = self._removes = None
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

    def read_already(self, config: GetSessionConfig | None) -> Found | None:
        """Return the session as the first read with *config* finds it, if it was read as the turn began.

        ``None`` if it has to be read, as after an append, or if that read is not of the revision that the
        turn began with: others may append until the turn is taken.
        """
        read, self.first_read = self.first_read, None
        known = self.known
        if read is None or read[0] != config or self.inbox_time != known.update_time:
            return None
        stored = read[1].stored
        if (stored.epoch, stored.revision, stored.restores) != (known.epoch, known.revision, known.restores):
            return None
        now = replace(
            stored,
            turn=known.turn,
            update_time=known.update_time,
            inbox=tuple(self.inbox),
            expiry=known.expiry,
        )
        return replace(read[1], stored=now)

    # A message that waited in the inbox.

    @property
    def inbox_after(self) -> Sequence[str] | None:
        """The inbox after the append that runs; ``None`` if it stays as it is."""
        return None if self._removes is None else [text for text in self.inbox if text != self._removes]

    @property
    def released(self) -> Turn | None:
        """The turn after the append that runs, if that ends it: nobody relies on its holder any more."""
        waiting = self.inbox if self.inbox_after is None else self.inbox_after
        return None if waiting or not self.releases else self.turn.released

    def answer(self, message_id: str, text: str | None) -> None:
        """Let the next event of the user be that of a message, *text* in the inbox if it waits there."""
        self._message = (message_id, text)

    def answered(self) -> bool:
        """Let no further event be the message's; return whether one is."""
        is_claimed = self._message is None
        self._message = None
        return is_claimed

    @property
    def first_waiting(self) -> str | None:
        """The first message of the inbox whose event is not appended yet."""
        claimed = None if self._claimed is None else self._claimed[1]
        return next((text for text in self.inbox if text != claimed), None)

    @property
    def has_claimed(self) -> bool:
        """Whether the event of a message is appended, and not stored yet."""
        return self._claimed is not None

    def commits(self, ids: Collection[str]) -> None:
        """Let a commit of events with these *ids* remove the message whose event is among them."""
        is_there = self._claimed is not None and self._claimed[0] in ids
        self._removes = self._claimed[1] if self._claimed is not None and is_there else None

    def claims(self, event: Event) -> bool:
        """Give *event* the id of the message if it is the message's; return whether it is.

        The commit that stores it removes the message from the inbox.
        """
        if self._message is not None and event.author == "user":
            (event.id, text), self._message = self._message, None
            self._claimed = None if text is None else (event.id, text)
        return self._claimed is not None and event.id == self._claimed[0]

    def failed(self, ids: Collection[str]) -> None:
        """Let a message stay in the inbox whose event is one of these *ids*, which are not stored."""
        if self._claimed is not None and self._claimed[0] in ids:
            self._claimed = self._removes = None

    def _error(self, why: str) -> TurnLostError:
        return TurnLostError(
            f"Turn {self.fence} of the session is over: {why}. Nothing was written. Begin a new turn."
        )


ENTERED: Final[ContextVar[tuple[HeldTurn, ...]]] = ContextVar("adk_store_turns", default=())
"""The turns that the running code is a part of, of any store; the newest is the last."""


def held(storage: SessionStorage, key: SessionKey) -> HeldTurn | None:
    """Return the turn of a session of *storage* that the running code is a part of.

    Tasks that it starts have a copy of its context, and so its turn, also after the turn has ended.
    """
    for hold in reversed(ENTERED.get()):
        if hold.storage is storage and hold.key == key:
            return hold
    return None


def enter(hold: HeldTurn) -> None:
    """Make the running code a part of the turn *hold*."""
    ENTERED.set((*ENTERED.get(), hold))


def leave(hold: HeldTurn) -> None:
    """Take the running code out of the turn *hold*, in whichever context it runs."""
    ENTERED.set(tuple(other for other in ENTERED.get() if other is not hold))


def _nanos(update_time: str) -> tuple[int, int]:
    seconds, _, nanos = update_time.partition(".")
    return int(seconds or 0), int(nanos or 0)

"""Values that a session's document holds beside its events: lifetime, the running turn, cut segments."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from gcp_adk_store.errors import InvalidInputError, SessionInboxFullError, require_number
from gcp_adk_store.model.keys import require_text

PARTS_GRACE_S: Final = 60 * 60
"""Seconds that parts stay beyond their computed expiry: for slow uploads, wrong clocks, paused processes."""

MAX_TTL_S: Final = 100 * 365 * 24 * 60 * 60
"""The longest time to live, a hundred years: Firestore's times end with the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The expiry of a session without further appends. Times are Unix times in whole seconds.

    Its parts, which are segments and chunks of payloads, expire by themselves too, but never before the
    session: each lives twice the time to live after its write, so that a time to live of activity renews it
    once. The time is that of Firestore's answers, because the clock of a process may be wrong. An expiry that
    is too early does not shorten a session's life, which counts from Firestore's time of its last write.
    """

    ttl_s: int
    """Seconds that the session lives after its last append."""
    at: int
    """When it ends."""
    parts_at: int | None = None
    """The time until which all its parts are kept; ``None`` while it has none."""

    @classmethod
    def begin(cls, ttl_seconds: float, *, now: float) -> Self:
        """Return the expiry of a session that is made *now*.

        Raises:
            InvalidInputError: *ttl_seconds* is not a number above 0, or is over a hundred years.
        """
        given: object = ttl_seconds
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not number or not 0 < ttl_seconds <= MAX_TTL_S:
            shown = "beyond that" if number and abs(ttl_seconds) > MAX_TTL_S else str(given)[:40]
            raise InvalidInputError(
                f"ttl_seconds is {shown}, it must be a number above 0 and at most {MAX_TTL_S}"
            )
        ttl_s = math.ceil(ttl_seconds)
        return cls(ttl_s=ttl_s, at=math.ceil(now) + ttl_s)

    def has_passed(self, now: float, *, written_at: float) -> bool:
        """Return whether the session has expired, even if Firestore still has its document.

        *now* and *written_at*, the last write of the session, are Firestore's times; 0 if unknown.
        """
        return now >= self.ends_at(written_at=written_at)

    def ends_at(self, *, written_at: float) -> float:
        """Return Firestore's time at which a session ends whose last write was at *written_at*.

        A write that does not move the expiry gives the session no life without its parts.
        """
        end = written_at + self.ttl_s
        return max(self.at, end if self.parts_at is None else min(end, self.parts_at + PARTS_GRACE_S))

    def refreshed(self, now: float) -> "Expiry":
        """Return the expiry after an append, never earlier than before."""
        return replace(self, at=max(self.at, math.ceil(now) + self.ttl_s))

    def of_new_part(self, now: float) -> int:
        """Return when a part that is written *now* expires.

        A clock that is behind the one of the session's expiry does not make it earlier.
        """
        return max(math.ceil(now), self.at - self.ttl_s) + 2 * self.ttl_s

    def with_part_until(self, parts_at: int | None) -> "Expiry":
        """Return the expiry with one more part that expires at *parts_at*, or unchanged without one."""
        if parts_at is None:
            return self
        return replace(self, parts_at=parts_at if self.parts_at is None else min(self.parts_at, parts_at))

    @property
    def outlives_its_parts(self) -> bool:
        """Return whether the parts must be renewed first."""
        return self.parts_at is not None and self.parts_at < self.at

    def renewed_until(self, parts_at: int) -> "Expiry":
        """Return the expiry after a renewal of all parts."""
        return replace(self, parts_at=parts_at)


MAX_HOLDER: Final = 200
"""Characters of the text that names a holder."""

MAX_WAITING: Final = 100
"""Messages that wait in the inbox of one session."""

MAX_WAITING_BYTES: Final = 256 * 1024
"""UTF-8 bytes of these messages together: a quarter of what a document holds."""

MAX_LEASE_S: Final = 24 * 60 * 60.0
"""The longest lease: a turn that its process left has ended after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The turn of a session as it is stored."""

    fence: int = 0
    """The number of turns that the session has had; each one has a higher number than all before it."""
    holder: str = ""
    """Names the one who runs it; empty after its end."""
    until: float | None = None
    """When it ends without a renewal, in Unix seconds of Firestore's clock; ``None`` after its end."""
    abort: bool = False
    """Whether somebody asked the holder to stop."""

    def is_held(self, now: float) -> bool:
        """Return whether it runs *now*, by Firestore's clock."""
        return self.until is not None and now < self.until

    def taken(self, holder: str, until: float) -> "Turn":
        """Return the turn that follows this one."""
        return Turn(fence=self.fence + 1, holder=holder, until=until)

    @property
    def released(self) -> "Turn":
        """This turn after its end."""
        return Turn(fence=self.fence)

    @property
    def ended(self) -> "Turn":
        """What ends this turn from outside: the fence that is stored differs from the holder's then."""
        return Turn(fence=self.fence + 1)

    @property
    def aborted(self) -> "Turn":
        """This turn, its holder asked to stop."""
        return replace(self, abort=True)


def require_room(inbox: Sequence[str], text: str) -> None:
    """Check that one more message, *text*, fits in *inbox*.

    Raises:
        SessionInboxFullError: it does not; nothing was written.
        InvalidInputError: the message alone is over the limit.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_WAITING_BYTES:
        raise InvalidInputError(
            f"the message has {size} bytes as JSON, and one that waits has at most {MAX_WAITING_BYTES}; save "
            "its files as artifacts, or let turns.run wait for the turn"
        )
    if len(inbox) >= MAX_WAITING:
        raise SessionInboxFullError(f"{len(inbox)} messages wait already, which is the most; try again later")
    waiting = sum(len(one.encode()) for one in inbox)
    if waiting + size > MAX_WAITING_BYTES:
        raise SessionInboxFullError(
            f"the messages that wait have {waiting} bytes already, and {MAX_WAITING_BYTES} is the most; try "
            "again later"
        )


MAX_OWN_BYTES: Final = 64 * 1024
"""Bytes of a message that is stored with the lease of its turn; a larger one waits for its event."""


def has_room(inbox: Sequence[str], text: str) -> bool:
    """Return whether the message *text* of a turn that begins fits in *inbox*, beside what else may come."""
    waiting = sum(len(one.encode()) for one in inbox)
    size = len(text.encode(errors="surrogatepass"))
    return size <= MAX_OWN_BYTES and len(inbox) < MAX_WAITING and waiting + size <= MAX_WAITING_BYTES


MAX_MESSAGE_ID: Final = 256
"""The most characters of a message's id that its sender chooses."""


def require_message(message_id: str | None, state_delta: Mapping[str, Any] | None) -> None:
    """Check what a sender gives beside a message.

    Raises:
        InvalidInputError: the id is empty or too long, or a state key is not a string.
    """
    if message_id is not None:
        require_text(message_id, "message_id")
        if not 0 < len(message_id) <= MAX_MESSAGE_ID:
            raise InvalidInputError(
                f"message_id has {len(message_id)} characters; it must have 1 to {MAX_MESSAGE_ID}, or be None"
            )
    for name in state_delta or ():
        if not isinstance(name, str):
            raise InvalidInputError(f"a state key must be a string, not {type(name).__name__}")


def require_times(*, wait_s: float, lease_s: float) -> None:
    """Check the arguments of a turn.

    Raises:
        InvalidInputError: one is not a number of its range.
    """
    require_number("wait_s", wait_s)
    require_number("lease_s", lease_s)
    if not 0 <= wait_s < float("inf"):
        raise InvalidInputError(f"wait_s is {wait_s}; it must be 0 or more seconds")
    if not 0 < lease_s <= MAX_LEASE_S:
        raise InvalidInputError(f"lease_s is {lease_s}; it must be above 0 and at most {MAX_LEASE_S:.0f} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The oldest events of a session, which a read of all leaves out."""

    events: int = 0
    """So many."""
    segments: int = 0
    """The bucket has the events of the segments with lower numbers."""


Cut = tuple[range, ...]
"""Numbers that restores cut off, in rising runs that neither overlap nor touch each other."""


def live_numbers(sealed: int, cut: Cut) -> Sequence[int]:
    """Return the numbers of the segments that hold a session's events, oldest first.

    The next segment takes the number *sealed*.
    """
    if not cut:
        return range(sealed)
    starts = (0, *(run.stop for run in cut))
    stops = (*(run.start for run in cut), sealed)
    return [number for start, stop in zip(starts, stops, strict=True) for number in range(start, stop)]


def newest_live(sealed: int, cut: Cut) -> int | None:
    """Return the number of the newest of these segments, ``None`` if the tail holds all events."""
    end = cut[-1].start if cut and cut[-1].stop == sealed else sealed
    return end - 1 if end else None


def is_cut(number: int, cut: Cut) -> bool:
    """Return whether a restore cut off *number*."""
    return any(number in run for run in cut)


def cut_from(first: int, *, sealed: int, cut: Cut) -> Cut:
    """Return what is cut off once all numbers from *first* on are, that of the tail, *sealed*, included.

    Runs that touch each other become one: a session has at most one run more than segments.
    """
    before = [run for run in cut if run.start < first]
    while before and before[-1].stop >= first:
        first = before.pop().start
    return (*before, range(first, sealed + 1))


def runs_of(numbers: Iterable[int]) -> Cut:
    """Return rising *numbers* as runs."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return tuple(runs)


def are_runs(found: Iterable[range], *, sealed: int) -> bool:
    """Return whether *found* can be the numbers that were cut off before the number *sealed*."""
    end = -1
    for run in found:
        if not end < run.start < run.stop <= sealed:
            return False
        end = run.stop
    return True

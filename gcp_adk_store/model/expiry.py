"""Decide when a session expires, and how long its parts must stay."""

import math
from dataclasses import dataclass, replace
from typing import Final, Self

from gcp_adk_store.errors import InvalidInputError

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
        """Return Firestore's time at which a session ends whose last write was at *written_at*."""
        return max(self.at, written_at + self.ttl_s)

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

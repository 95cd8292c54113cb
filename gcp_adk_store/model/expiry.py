"""Decide when a session ends by itself, and how long what lies beside it has to stay."""

import math
from dataclasses import dataclass, replace
from typing import Final, Self

from gcp_adk_store.errors import InvalidInputError

PARTS_GRACE_S: Final = 60 * 60
"""How much longer parts are kept than is reckoned with: for uploads that take their time, and for clocks and
processes that stand still."""

MAX_TTL_S: Final = 100 * 365 * 24 * 60 * 60
"""The longest time to live, a hundred years: Firestore's times end with the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The end of a session that nobody appends to any more. Times are Unix times in whole seconds.

    Its parts, which are segments and chunks of payloads, expire by themselves too, and must not before the
    session does. They are kept for two times to live from when they are written, so that they need to be
    renewed once in a time to live of activity, not with every append.

    Firestore's clock decides when it has passed: that of a process may be wrong. A process reckons ends by
    the time that Firestore's answers told it. An end that is reckoned too early shortens no life: a session
    lives its time to live from the time that Firestore gave its last write.
    """

    ttl_s: int
    """How long the session lives after its last append."""
    at: int
    """When it ends."""
    parts_at: int | None = None
    """Until when all its parts are kept for certain; ``None`` while it has none."""

    @classmethod
    def begin(cls, ttl_seconds: float, *, now: float) -> Self:
        """Return the expiry of a session that is made *now*.

        Raises:
            InvalidInputError: *ttl_seconds* is no number, not above 0, or over a hundred years.
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
        """Tell whether the session is gone, even while Firestore still has it.

        Args:
            now: Firestore's time.
            written_at: Firestore's time when the session was written last, 0 where that is not known.
        """
        return now >= max(self.at, written_at + self.ttl_s)

    def refreshed(self, now: float) -> "Expiry":
        """Return the expiry after an append; a clock that is behind moves it no nearer."""
        return replace(self, at=max(self.at, math.ceil(now) + self.ttl_s))

    def of_new_part(self, now: float) -> int:
        """Return until when a part that is written *now* is reckoned with.

        A clock that is behind the one that the session's end is of does not shorten that.
        """
        return max(math.ceil(now), self.at - self.ttl_s) + 2 * self.ttl_s

    def with_part_until(self, parts_at: int | None) -> "Expiry":
        """Return the expiry with one more part, if any, that is reckoned with until *parts_at*."""
        if parts_at is None:
            return self
        return replace(self, parts_at=parts_at if self.parts_at is None else min(self.parts_at, parts_at))

    @property
    def outlives_its_parts(self) -> bool:
        """Tell whether the parts must be renewed first."""
        return self.parts_at is not None and self.parts_at < self.at

    def renewed_until(self, parts_at: int) -> "Expiry":
        """Return the expiry after all parts were renewed."""
        return replace(self, parts_at=parts_at)

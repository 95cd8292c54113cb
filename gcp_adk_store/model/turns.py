"""Decide who may run a turn of a session, and what may wait for one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gcp_adk_store.errors import InvalidInputError, SessionInboxFullError

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
        """What ends this turn from outside: the holder's fence is the stored one no more."""
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
    size = len(text.encode())
    if size > MAX_WAITING_BYTES:
        raise InvalidInputError(
            f"the message has {size} bytes as JSON, and one that waits has at most {MAX_WAITING_BYTES}; save "
            "its files as artifacts, or use another on_busy"
        )
    if len(inbox) >= MAX_WAITING:
        raise SessionInboxFullError(f"{len(inbox)} messages wait already, which is the most; try again later")
    waiting = sum(len(one.encode()) for one in inbox)
    if waiting + size > MAX_WAITING_BYTES:
        raise SessionInboxFullError(
            f"the messages that wait have {waiting} bytes already, and {MAX_WAITING_BYTES} is the most; try "
            "again later"
        )


def require_times(*, wait_s: float, lease_s: float) -> None:
    """Check the arguments of a turn.

    Raises:
        InvalidInputError: one is not a number of its range.
    """
    if not 0 <= wait_s < float("inf"):
        raise InvalidInputError(f"wait_s is {wait_s}; it must be 0 or more seconds")
    if not 0 < lease_s <= MAX_LEASE_S:
        raise InvalidInputError(f"lease_s is {lease_s}; it must be above 0 and at most {MAX_LEASE_S:.0f} s")

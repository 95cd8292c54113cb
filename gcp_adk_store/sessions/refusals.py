"""Decide what a refused write means: whether it is stored, goes again, or fails, and with which error."""

from dataclasses import dataclass

from gcp_adk_store.errors import OutcomeUnknownError, SessionConflictError, SessionMissingError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Append, Marker, Settlement, StoredSession
from gcp_adk_store.ports.refusals import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 where that is not known."""
    merged: bool = False
    """Whether others appended before it that the handle has not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the reads after a refused append found."""

    stored: StoredSession | None
    """The session now; ``None`` if there is none."""
    settlement: Settlement


def resolve(
    key: SessionKey, append: Append, base: Marker, found: Settled, refused: RefusedError, *, merging: bool
) -> Appended | Marker:
    """Return the append if it is stored, or else the marker that its next commit must stand on.

    Args:
        key: The session.
        append: What was sent.
        base: The marker that it stood on.
        found: What was read after the refusal.
        refused: The refusal.
        merging: Whether the append may follow others that its handle has not seen.

    Raises:
        SessionMissingError: the session is gone; nothing was written.
        SessionConflictError: another writer was first, and *merging* is false; nothing was written.
        OutcomeUnknownError: the session is gone, and the append may have changed shared state before that.
    """
    stored, settlement = found.stored, found.settlement
    if stored is None or settlement is Settlement.MISSING:
        if refused.perhaps_own and (append.delta.app or append.delta.user):
            # The shared state outlives the session.
            raise OutcomeUnknownError(
                "sent and not answered, and then the session was gone; read before repeating it"
            ) from refused
        raise session_missing(key) from refused
    if settlement is Settlement.LANDED:
        return Appended(marker=stored.marker, tail_bytes=0)
    if settlement is Settlement.OVERTAKEN:
        # Without an update time, the handle's next append finds what others appended.
        return Appended(marker=base.advanced("", stored.expiry), tail_bytes=0)
    if settlement is Settlement.STALE and not merging:
        raise SessionConflictError(
            "The session has been modified in storage since it was loaded. "
            "Reload the session before appending again."
        ) from refused
    # This document exactly: the next commit meets no other session, and storage refuses an earlier commit
    # that arrives late.
    return stored.marker


def session_missing(key: SessionKey) -> SessionMissingError:
    """Return the error for a session that does not exist."""
    return SessionMissingError(f"Session {key.session} not found")

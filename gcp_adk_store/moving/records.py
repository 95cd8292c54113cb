"""The ports of a copy: what it requires of a store to read from, and of one to write to."""

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from google.adk.events import Event

from gcp_adk_store.model.internal_metadata import event_elsewhere
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.importing import SessionHeader

SHARED_STATE_SESSION = "gcp-adk-store-shared-state"
"""Id of a session that is made and deleted to set the state of app and user; no copy takes it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A session in a listing."""

    user_id: str
    session_id: str
    stamp: str
    """Another text after each change of the session."""
    last_update_time: float
    """Unix time in seconds."""
    unreadable: str = ""
    """Why the session cannot be read; empty for one that can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A session of one moment, and the state of its app and user."""

    header: SessionHeader
    shared: ScopedState
    stamp: str
    events: AsyncIterable[Event]
    """In order; they are read as they are asked for, once."""
    notes: tuple[tuple[str, str], ...] = ()
    """Kind and text of what its store does not hold, or holds in a form of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a kind of store keeps."""

    kind: str
    """Its name in reports."""
    sorts_by_time: bool = False
    """Whether a reader gets events by their timestamps, not in the order of their appends."""
    keeps_times: bool = False
    """Whether a copy keeps the time of a session's creation."""
    keeps_titles: bool = False
    """Whether a copy keeps title and labels."""
    at_once: int = 1
    """Sessions that may be read or written side by side."""
    losses: tuple[str, ...] = ()
    """What it never holds, a line each."""


def elsewhere(record: Record) -> Record:
    """Return *record*, which gets other ids, with its events as a session of other ids takes them over."""
    return replace(record, events=(event_elsewhere(event) async for event in record.events))


class Source(Protocol):
    """A store to read from."""

    @property
    def traits(self) -> Traits:
        """What it keeps."""
        ...

    def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """Yield the sessions of an app, or of one of its users; those of one user follow each other."""
        ...

    def open(self, key: SessionKey) -> AbstractAsyncContextManager[Record | None]:
        """Open a session for a block; ``None`` for one that does not exist."""
        ...

    async def shared(self, key: SessionKey) -> ScopedState:
        """Return the state of the app and the user of a session, as it is now."""
        ...

    async def close(self) -> None:
        """Close the connections that were opened for the copy."""
        ...


class Target(Source, Protocol):
    """A store to write to."""

    async def write(self, record: Record, events: AsyncIterable[Event]) -> int:
        """Make a session with *events*, and return their number.

        Raises:
            SessionExistsError: the id is taken.
        """
        ...

    async def append(self, key: SessionKey, events: AsyncIterable[Event]) -> int:
        """Append *events* to a session, and return their number."""
        ...

    async def replace(self, record: Record, events: AsyncIterable[Event]) -> int:
        """Put a session with *events* in the place of the one that has its id; return their number.

        The old session stays as it is until all *events* are read: an error of theirs leaves it alone.
        """
        ...

    async def remove(self, key: SessionKey) -> None:
        """Delete a session."""
        ...

    async def put_shared(self, owner: UserKey, shared: ScopedState) -> None:
        """Set the keys of the state of an app and a user; other keys stay."""
        ...

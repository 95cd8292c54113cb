"""Follow the events of a session on their way, and compare them with those that the target has."""

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from hashlib import sha256
from typing import Any

from google.adk.events import Event

from gcp_adk_store.model.state import split_scopes
from gcp_adk_store.moving.canonical import Digest, canonical_event, canonical_state, kept_state


class Passing:
    """Events that are read once, one by one, with what a copy must know of all of them."""

    def __init__(self, events: AsyncIterable[Event], *, in_order: bool = True) -> None:
        """Prepare; unless their order counts, they are compared as a collection."""
        self._events = aiter(events)
        self._in_order = in_order
        self.digest = Digest()
        self.hashes: list[bytes] = []
        """The SHA-256 of each event so far, if their order does not count."""
        self.earlier = 0
        """Events that are older than the event before them."""
        self.ties = 0
        """Events that have the time of the event before them."""
        self._last: float | None = None
        self._values: dict[str, bytes] = {}

    def __aiter__(self) -> "Passing":
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        self._follow(event)
        return event

    def _follow(self, event: Event) -> bytes:
        encoded = canonical_event(event)
        self.digest.add(encoded)
        if not self._in_order:
            self.hashes.append(sha256(encoded).digest())
        if self._last is not None:
            self.earlier += event.timestamp < self._last
            self.ties += event.timestamp == self._last
        self._last = event.timestamp
        delta, _ = kept_state(event.actions.state_delta)
        for key, value in split_scopes(delta).session.items():
            self._values[key] = sha256(canonical_state({key: value})).digest()
        return encoded

    async def drain(self) -> int:
        """Read the events that are left, and return their number."""
        count = 0
        async for _ in self:
            count += 1
        return count

    @property
    def changed(self) -> bool:
        """Whether an event changed the session's state."""
        return bool(self._values)

    def unexplained(self, state: Mapping[str, Any]) -> list[str]:
        """Return the keys of *state* whose last change by an event gave another value."""
        return [
            key
            for key, value in self._values.items()
            if key not in state or sha256(canonical_state({key: state[key]})).digest() != value
        ]

    def same(self, other: "Passing") -> bool:
        """Return whether both had the same events, all of which were read."""
        if self._in_order:
            return self.digest.of_events() == other.digest.of_events()
        return Counter(self.hashes) == Counter(other.hashes)

    async def starts_with(self, there: AsyncIterable[Event]) -> bool:
        """Return whether the events begin with all those *there*; the others are left to read."""
        async for theirs in there:
            mine = await anext(self, None)
            if mine is None or canonical_event(mine) != canonical_event(theirs):
                return False
        return True

    async def without(self, there: AsyncIterable[Event]) -> list[Event] | None:
        """Return the events that are not *there*, in any order; ``None`` if others are there."""
        known = Counter([sha256(canonical_event(event)).digest() async for event in there])
        missing = []
        async for event in self:
            if known[self.hashes[-1]]:
                known[self.hashes[-1]] -= 1
            else:
                missing.append(event)
        return None if known.total() else missing


async def each(events: list[Event]) -> AsyncIterator[Event]:
    """Yield *events*."""
    for event in events:
        yield event

"""Encode sessions canonically, compare them, and spool what is large."""

import json
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

from google.adk.events import Event
from pydantic_core import PydanticSerializationError

from gcp_adk_store.codec.decode import decode_event
from gcp_adk_store.codec.encode import bounds_of, with_surrogates
from gcp_adk_store.model.json_values import encode_surrogates, has_surrogates, map_texts
from gcp_adk_store.model.state import is_light, persistent, split_scopes
from gcp_adk_store.settings import SessionLimits

_BOUNDS: Final = bounds_of(SessionLimits())


def canonical_event(event: Event) -> bytes:
    """Return *event* as JSON in ASCII with sorted keys and without spaces; ``None`` is left out.

    The state delta is what stores keep of it: JSON values, without ``temp:`` keys. Two events have the same
    encoding if and only if ADK reads them as equal.

    Raises:
        InvalidInputError: the event holds more values than a store accepts, or contains itself.
    """
    delta, _ = kept_state(event.actions.state_delta)
    actions = event.actions.model_copy(update={"state_delta": delta})
    return _encode(plain_event(event.model_copy(update={"actions": actions})))


def plain_event(event: Event) -> dict[str, Any]:
    """Return *event* as JSON values, which ``codec.decode.decode_event`` reads as text.

    Lone surrogates are encoded as in storage, and a key says so.
    """
    try:
        text = event.model_dump_json(exclude_none=True)
        is_whole = "\ufffd" not in text or not has_surrogates(event)  # pydantic puts it into keys
    except (PydanticSerializationError, UnicodeError):
        is_whole = False
    if not is_whole:
        text = with_surrogates(map_texts(event, encode_surrogates).model_dump_json(exclude_none=True))
    return dict(json.loads(text))


def canonical_state(state: Mapping[str, Any]) -> bytes:
    """Return *state*, which holds JSON values, as JSON in ASCII with sorted keys and without spaces."""
    return _encode(dict(state))


def kept_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what stores keep of *state*, as JSON values, and the keys of which the type is lost."""
    kept, _ = persistent(state, bounds=_BOUNDS, light=is_light(state))
    return kept, [key for key, value in kept.items() if not _is_same(value, state[key])]


class Digest:
    """The SHA-256 of a session's events in order, each by its own SHA-256."""

    def __init__(self) -> None:
        self.events = 0
        """The number of events so far."""
        self._hash = sha256()

    def add(self, encoded: bytes) -> None:
        """Go on with one event, *encoded* canonically."""
        self.events += 1
        self._hash.update(sha256(encoded).digest())

    def of_events(self) -> str:
        """Return the digest of the events so far as hex digits."""
        return self._hash.hexdigest()


def _encode(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _is_same(kept: Any, given: Any) -> bool:
    if type(kept) is not type(given):
        return False
    if isinstance(kept, dict):
        return kept.keys() == given.keys() and all(_is_same(kept[key], given[key]) for key in kept)
    if isinstance(kept, list):
        return len(kept) == len(given) and all(map(_is_same, kept, given))
    return bool(kept == given)


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
        return event

    @property
    def changed(self) -> bool:
        """Whether an event changed the session's state."""
        return bool(self._values)

    def untouched(self, state: Mapping[str, Any]) -> bytes:
        """Return the part of *state* that no event changed, canonically."""
        return canonical_state({key: value for key, value in state.items() if key not in self._values})

    def unexplained(self, state: Mapping[str, Any]) -> list[str]:
        """Return the keys of *state* whose last change by an event gave another value."""
        return [
            key
            for key, value in self._values.items()
            if key not in state or sha256(canonical_state({key: state[key]})).digest() != value
        ]

    def same(self, other: "Passing") -> bool:
        """Return whether both had the same events, all of which were read."""
        return self.of_events() == other.of_events()

    def of_events(self) -> str:
        """Return the digest of the events, which were all read; it depends on their order if that counts."""
        if self._in_order:
            return self.digest.of_events()
        return sha256(b"".join(sorted(self.hashes))).hexdigest()

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


@asynccontextmanager
async def spooled(events: AsyncIterable[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Read *events* to their end, and give them again within the block.

    A temporary file holds them, so that one event is in memory. Only this user can open it (mode 0600), and
    on POSIX it has no name. A second read of an input would not do: a pipe has none, and a file may change
    between both.
    """
    with TemporaryFile() as file:
        async for event in events:
            file.write(json.dumps(plain_event(event)).encode() + b"\n")
        file.seek(0)
        yield _events(file)


async def _events(file: BinaryIO) -> AsyncIterator[Event]:
    for line in file:
        yield decode_event(line.decode()).event

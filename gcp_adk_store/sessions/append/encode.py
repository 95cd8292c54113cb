"""Encode appended events, and keep the caller's ``Session`` equal to what is stored."""

import logging
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from google.adk.events import Event
from google.adk.sessions import Session, State

from gcp_adk_store.codec.encode import EncodedEvent, Spilled, bounds_of, encode_event, spill_scopes
from gcp_adk_store.errors import PointMissingError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.model.appends import Append, mark, text_of, turns_of
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.state import is_light, merge_scopes, own, persistent, split_scopes
from gcp_adk_store.sessions.read.completion import Found
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.settings import SessionLimits

logger = logging.getLogger(__name__)

_SHARED: Final = (State.APP_PREFIX, State.USER_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedAppend:
    """An event on its way into storage."""

    append: Append
    change: Spilled
    """Its change of state, and all payloads that must be written before it."""
    delta: dict[str, Any]
    """The part of its change of state that is stored, as the event keeps it."""
    state: dict[str, Any]
    """The same as the caller's session keeps it: with the caller's own maps and lists, if JSON does not
    change them. ADK records what an agent writes into one of them while the session holds that object."""
    encoded: EncodedEvent

    def held(self, event: Event) -> Event:
        """Return *event* as a later read returns it: the same object if JSON does not change it."""
        # Comparing a large event would block the event loop.
        return event if not self.encoded.is_payload and event == self.encoded.event else self.encoded.event


class EventEncoder:
    """Limits that events and state are encoded within, and where their payloads go."""

    def __init__(self, limits: SessionLimits, place: PayloadPlace) -> None:
        self._limits = limits
        self._place = place

    async def of_state(self, state: Mapping[str, Any]) -> Spilled:
        """Return *state* as it is stored.

        Raises:
            InvalidInputError: a key or a value cannot be stored.
        """
        light = is_light(state)
        _, spilled = await offload(lambda: self._spill(state, light=light), light=light)
        return spilled

    async def encode(self, event: Event) -> EncodedAppend:
        """Return *event* as it is stored.

        Raises:
            InvalidInputError: the event is not JSON, or a piece of it is too large.
        """
        light = is_light(event)
        delta, state, encoded, change = await offload(lambda: self._encode(event, light=light), light=light)
        if encoded.payloads:
            change = replace(change, session=[*change.session, *encoded.payloads])
        append = Append(
            texts=(encoded.text,),
            timestamp=encoded.event.timestamp,
            delta=change.state,
            spilled=frozenset(payload.ref.place for payload in change.session),
            turns=turns_of(encoded.event),
            last_text=text_of(encoded.event),
        )
        return EncodedAppend(append=append, change=change, delta=delta, state=state, encoded=encoded)

    def _encode(
        self, event: Event, *, light: bool
    ) -> tuple[dict[str, Any], dict[str, Any], EncodedEvent, Spilled]:
        given = event.actions.state_delta
        delta, change = self._spill(given, light=light)
        encoded = encode_event(event, state_delta=delta, limits=self._limits, place=self._place, light=light)
        return delta, {key: own(given[key], value) for key, value in delta.items()}, encoded, change

    def _spill(self, state: Mapping[str, Any], *, light: bool) -> tuple[dict[str, Any], Spilled]:
        """Return the part of *state* that is stored, and how it is stored."""
        kept, warnings = persistent(state, bounds=bounds_of(self._limits), light=light)
        for warning in warnings:
            logger.warning("%s", warning, extra=telemetry.log_fields())
        scopes = split_scopes(kept)
        return kept, spill_scopes(scopes, limits=self._limits, place=self._place, light=light)


def learn(session: Session, found: Found, unstored: Sequence[Event] = ()) -> None:
    """Add to *session* the events and the state of others, in the order of storage.

    *found* has the events since the marker of *session*, which may hold some of them already: an earlier
    append may not have been able to read what others stored before it. *unstored* are the events that it
    holds after them. A map or a list of the session's own state that no other event changed stays the
    caller's: an agent may have written into it what the state delta of its next event will have.
    """
    after = {id(event) for event in unstored}
    held = [event for event in session.events if id(event) not in after]
    here: dict[str, list[Event]] = {}  # events of one id may differ
    for event in held:
        here.setdefault(event.id, []).append(event)
    known = {event.id for event in found.events}
    before = [event for event in held if event.id not in known]
    new = [here[event.id].pop(0) if here.get(event.id) else event for event in found.events]
    session.events[:] = [*before, *new, *unstored]
    mine = {id(event) for event in held}
    changed = {key for event in new if id(event) not in mine for key in event.actions.state_delta}
    state = merge_scopes(found.state)
    for event in unstored:
        state.update(event.actions.state_delta)
    for key, value in state.items():
        current = session.state.get(key)
        is_own = isinstance(current, dict | list) and key not in changed and not key.startswith(_SHARED)
        session.state[key] = current if is_own else own(current, value)
    session.last_update_time = found.stored.last_update_time
    mark(session, found.stored.marker)


async def rewound(reader: SessionReader, key: SessionKey, event: Event) -> Event:
    """Return an event of ADK's rewind that sets the session's own state to what it was.

    ADK computes the state from the events alone, and would set all keys of the initial state to ``None``.
    """
    point = Point.before_invocation(event.actions.rewind_before_invocation_id or "")
    try:
        found = await reader.find_at(key, point)
    except PointMissingError:
        found = None
    if found is None:
        return event
    past, then = found
    mine = split_scopes(event.actions.state_delta).session
    delta = {name: value for name, value in event.actions.state_delta.items() if name not in mine}
    delta.update((name, then.state.session.get(name)) for name in sorted(past.changed))
    return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": delta})})


class Follower(Protocol):
    """Follows the appends of a session service."""

    def appended(self, session: Session, event: Event) -> None:
        """Take note of *event*, which is stored and in *session*; return at once, without an error."""
        ...

    async def flush(self) -> None:
        """Wait for what was begun in this event loop."""
        ...

    async def forget(self, user: UserKey) -> None:
        """Let nothing that was appended of *user* so far be written any more."""
        ...


class HeldEvents:
    """Ids of the events of callers' sessions, as long as the sessions live.

    With them, an append does not search a history of thousands of events. A caller may change the list of
    events: if it no longer ends as before, it is read again. An exchange in the middle stays unnoticed: such
    an event, delivered again, is recognised only if this process stored it lately.

    Calls that concern one session must not overlap.
    """

    def __init__(self) -> None:
        self._of: dict[int, _Held] = {}

    def holds(self, session: Session, event_id: str) -> bool:
        """Return whether *session* holds an event of this id."""
        key = id(session)
        held = self._of.get(key)
        if held is None or held.session() is not session or not held.is_start_of(session.events):
            held = self._of[key] = _Held(weakref.ref(session, lambda _: self._of.pop(key, None)))
        held.learn(session.events)
        return event_id in held.ids


class _Held:
    def __init__(self, session: "weakref.ref[Session]") -> None:
        self.session = session
        self.ids: set[str] = set()
        self._count = 0
        self._last: Event | None = None

    def is_start_of(self, events: Sequence[Event]) -> bool:
        return self._count <= len(events) and (self._count == 0 or events[self._count - 1] is self._last)

    def learn(self, events: Sequence[Event]) -> None:
        self.ids.update(event.id for event in events[self._count :])
        self._count = len(events)
        self._last = events[-1] if events else None

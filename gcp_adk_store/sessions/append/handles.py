"""Keep the caller's ``Session`` equal to what is stored, and find the state that a rewind sets."""

from collections.abc import Sequence
from typing import Final, Protocol

from google.adk.events import Event
from google.adk.sessions import Session, State

from gcp_adk_store.errors import PointMissingError
from gcp_adk_store.model.appends import mark
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import merge_scopes, own, split_scopes
from gcp_adk_store.sessions.read.completion import Found
from gcp_adk_store.sessions.read.reader import SessionReader

_SHARED: Final = (State.APP_PREFIX, State.USER_PREFIX)


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

"""Check arguments, and make the caller's ``Session`` with its version token."""

import sys

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.errors import InvalidInputError, shown
from gcp_adk_store.kernel.operation import is_count
from gcp_adk_store.model.appends import Marker, mark
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import is_cut
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.model.state import ScopedState, merge_scopes
from gcp_adk_store.sessions.read.completion import Found


def require_limit(limit: object) -> None:
    """Check the most events of an iteration.

    Raises:
        InvalidInputError: *limit* is neither a number from 1 on nor ``None``.
    """
    if limit is not None and not is_count(limit):
        raise InvalidInputError(f"limit is {shown(limit, 40)}, it must be 1 or more, or None for all events")


def require_time(name: str, given: object) -> float:
    """Return Unix time in seconds.

    Raises:
        InvalidInputError: *given* is not a finite number.
    """
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= sys.float_info.max:
        return float(given)
    is_number = isinstance(given, int | float)
    found = f"{given!r:.40}" if is_number else f"of the type {type(given).__name__}"
    raise InvalidInputError(f"{name} is {found}, it must be Unix time in seconds, or None")


def require_place(place: EventPlace, stored: StoredSession) -> None:
    """Check the place of a cursor.

    Raises:
        InvalidInputError: *stored* does not have the segment, or a restore cut it off.
    """
    if is_cut(place.segment, stored.cut):
        raise InvalidInputError("a restore moved the events at the cursor; call again without the cursor")
    if place.segment > stored.sealed:
        raise beyond()


def beyond() -> InvalidInputError:
    """Return the error for a cursor that no event of its session has."""
    return InvalidInputError("cursor leads beyond the events of the session")


def to_session(found: Found) -> Session:
    """Return what was read as the caller's own session."""
    stored = found.stored
    return made_session(
        stored.key,
        state=found.state,
        events=found.events,
        last_update_time=stored.last_update_time,
        marker=stored.marker,
    )


def made_session(
    key: SessionKey, *, state: ScopedState, events: list[Event], last_update_time: float, marker: Marker
) -> Session:
    """Return a session with merged state and its marker."""
    session = Session(
        id=key.session,
        app_name=key.app,
        user_id=key.user,
        state=merge_scopes(state),
        events=events,
        last_update_time=last_update_time,
    )
    mark(session, marker)
    return session

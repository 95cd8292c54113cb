"""Make the caller's ``Session``, and keep its marker."""

from google.adk.events import Event
from google.adk.sessions import Session, State

from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Marker
from gcp_adk_store.model.state import ScopedState, merge_scopes
from gcp_adk_store.sessions.completion import Found


def marker_of(session: Session) -> Marker | None:
    """Return what *session* knows of storage; ``None`` for one that came from elsewhere."""
    # ADK keeps here what a service knows of the stored session, and has no public access to it.
    return Marker.parse(session._storage_update_marker)  # noqa: SLF001


def mark(session: Session, marker: Marker | None) -> None:
    """Let *session* remember *marker*."""
    session._storage_update_marker = None if marker is None else str(marker)  # noqa: SLF001


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


def apply_temporary(session: Session, event: Event) -> None:
    """Give the caller's *session* the ``temp:`` keys of *event*, which are never stored.

    The next agents of the invocation read them there.
    """
    delta = event.actions.state_delta
    session.state.update((key, value) for key, value in delta.items() if _is_temporary(key))


def without_temporary(event: Event) -> Event:
    """Return *event*, whose change of state has no ``temp:`` keys any more."""
    delta = event.actions.state_delta
    event.actions.state_delta = {key: value for key, value in delta.items() if not _is_temporary(key)}
    return event


def _is_temporary(key: str) -> bool:
    return key.startswith(State.TEMP_PREFIX)

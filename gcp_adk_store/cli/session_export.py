"""Write a session as lines of JSON: itself, its events in their order, and their number."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from gcp_adk_store.errors import SessionConflictError, SessionMissingError

if TYPE_CHECKING:
    from google.adk.sessions import Session

    from gcp_adk_store.sessions.listings import SessionEvent
    from gcp_adk_store.sessions.service import FirestoreSessionService

FORMAT: Final = 1
_LOOKS: Final = 10
"""How often the state is read again because somebody writes to the session, or to what it shares."""


async def export_session(
    sessions: "FirestoreSessionService",
    key: Mapping[str, Any],
    file: BinaryIO,
    *,
    place: Mapping[str, Any],
    on_event: Callable[[int], object],
) -> int:
    """Write a session to *file* and return the number of its events; a few segments are in memory at a time.

    State and events are those of one moment. Everything is ASCII: other characters are escaped, as JSON does
    it, so that the lines can be shown too.

    Args:
        sessions: Where it is.
        key: ``app_name``, ``user_id`` and ``session_id``.
        file: Where it goes.
        place: What the first line says beside the session.
        on_event: Called with the number of events that are written.

    Raises:
        SessionMissingError: there is no such session, or it is deleted meanwhile.
        SessionConflictError: it was written to at each of 10 looks.
    """
    session, first, events = await _at_one_moment(sessions, key)
    header = dict(key) | {"last_update_time": session.last_update_time, "state": session.state}
    _write(file, {"session": {"format": FORMAT, **place, **header}})
    count = 0
    while first is not None:
        count += 1
        _write(file, {"event": first.event.model_dump(mode="json", exclude_none=True)})
        on_event(count)
        first = await anext(events, None)
    _write(file, {"end": {"events": count}})
    return count


async def _at_one_moment(
    sessions: "FirestoreSessionService", key: Mapping[str, Any]
) -> "tuple[Session, SessionEvent | None, AsyncIterator[SessionEvent]]":
    """Return a session without events, the first of its events and the others, all of one moment.

    The events are those of the moment at which the first is asked for: where the session is the same before
    and after, it is so then.
    """
    before = await read_header(sessions, key)
    for _ in range(_LOOKS):
        events = sessions.iter_events(**key)
        first = await anext(events, None)
        after = await read_header(sessions, key)
        if before == after:  # with the marker of its last write
            return after, first, events
        before = after
    raise SessionConflictError(f"the session was written to at each of {_LOOKS} looks; export it later")


async def read_header(sessions: "FirestoreSessionService", key: Mapping[str, Any]) -> "Session":
    """Return a session without its events.

    Raises:
        SessionMissingError: there is no such session.
    """
    from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: PLC0415  # half of ADK

    found = await sessions.get_session(**key, config=GetSessionConfig(num_recent_events=0))
    if found is None:
        raise SessionMissingError(f"there is no session {key['session_id']!r}")
    return found


def _write(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

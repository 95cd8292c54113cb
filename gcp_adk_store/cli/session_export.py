"""Write a session as JSON lines: the session, its events in order, and their number."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from gcp_adk_store.errors import SessionConflictError, SessionMissingError

if TYPE_CHECKING:
    from google.adk.sessions import Session

    from gcp_adk_store.sessions.iterations import SessionEvent
    from gcp_adk_store.sessions.service import FirestoreSessionService

FORMAT: Final = 1
_LOOKS: Final = 10
"""The limit of repeated reads because of writes to the session or to its shared state."""


async def export_session(
    sessions: "FirestoreSessionService",
    key: Mapping[str, Any],
    file: BinaryIO,
    *,
    place: Mapping[str, Any],
    on_event: Callable[[int], object],
) -> int:
    """Write a session to *file* and return the number of its events; a few segments are in memory at a time.

    State and events are those of one moment. Everything is ASCII: other characters are escaped as in
    JSON, so that a terminal can show the lines.

    Args:
        sessions: The session service.
        key: ``app_name``, ``user_id`` and ``session_id``.
        file: The output.
        place: More fields of the first line.
        on_event: Called with the number of written events.

    Raises:
        SessionMissingError: the session does not exist, or is deleted meanwhile.
        SessionConflictError: it changed during each of 10 reads.
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
    """Return a session without events, its first event and the others, all of one moment.

    The read of the first event fixes that moment: a session that is the same before and after the read was
    the same then.
    """
    before = await read_header(sessions, key)
    for _ in range(_LOOKS):
        events = sessions.iter_events(**key)
        first = await anext(events, None)
        after = await read_header(sessions, key)
        if before == after:  # it has the marker of its last write
            return after, first, events
        before = after
    raise SessionConflictError(f"the session was written to at each of {_LOOKS} looks; export it later")


async def read_header(sessions: "FirestoreSessionService", key: Mapping[str, Any]) -> "Session":
    """Return a session without its events.

    Raises:
        SessionMissingError: the session does not exist.
    """
    from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: PLC0415  # half of ADK

    found = await sessions.get_session(**key, config=GetSessionConfig(num_recent_events=0))
    if found is None:
        raise SessionMissingError(f"the session {key['session_id']!r} does not exist")
    return found


def _write(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

"""Show a session to code, as the platform does."""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.artifact_util import parse_artifact_uri
from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.ces.guest.plain import NotJsonError, plain, sendable
from gcp_adk_store.ces.host.keys import SessionKey
from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.ces.host.variables import fitting, is_mark, visible
from gcp_adk_store.ces.host.wire import to_json, to_object
from gcp_adk_store.errors import InvalidInputError

_USER: Final = "user"
_EVENT_FIELDS: Final = frozenset(
    {
        *("id", "invocation_id", "author", "timestamp", "content", "actions", "long_running_tool_ids"),
        *("partial", "turn_complete", "error_code", "error_message", "interrupted", "branch"),
        "grounding_metadata",
    }
)
_LARGEST_MEDIA_BYTES: Final = 4 * 1024 * 1024  # A part of a run's request; base64 is a third more.
_EVENTS_OF_A_STEP: Final = 200
"""Short events, of which each takes some 30 us; a session may have ten thousands of them."""
_WITHHELD_BYTES: Final = 1024 * 1024  # Of a run's request, for names of variables that it does not have.


def variables_of(
    session: Session, settings: RuntimeSettings, warnings: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the variables that code gets, and names of those that are there and not sent.

    So a run begins with any variables. Code can remove those that are not sent, and set them.

    Args:
        session: Whose variables.
        settings: With their bounds.
        warnings: Gets what is not sent, and why.
    """
    seen = visible(session.state, shared=settings.shared_variables)
    readable: dict[str, Any] = {}
    for name, value in seen.items():
        try:
            readable |= plain({name: to_json(value, f"the variable {name!r}")}, "the variables")
        except (InvalidInputError, NotJsonError) as exc:
            warnings.append(sendable(f"the variable {name!r} is not sent to the code: {exc}"))
    sent = fitting(readable, settings, warnings)
    left, withheld = _WITHHELD_BYTES, []
    for name in seen.keys() - sent.keys():
        left -= len(json.dumps(name))
        if left >= 0 and sendable(name) == name:  # half of a surrogate pair cannot be sent
            withheld.append(name)
    return sent, sorted(withheld)


async def events_of(
    session: Session, *, media: bool, most_bytes: int | None, warnings: list[str]
) -> list[dict[str, Any]]:
    """Return the session's latest events as code sees them, in order; other tasks run in between.

    Args:
        session: Whose events.
        media: Whether what the user sent in earlier turns keeps its inline data.
        most_bytes: As much of JSON as they may have together; None is any.
        warnings: Gets how many are left out.
    """
    latest = latest_input(session)
    turn = None if latest is None else latest.invocation_id
    left = math.inf if most_bytes is None else most_bytes
    made: list[dict[str, Any]] = []
    for number, event in enumerate(reversed(session.events), start=1):
        if number % _EVENTS_OF_A_STEP == 0:
            await asyncio.sleep(0)
        wire = _event(event)
        if not media and event.author == _USER and event.invocation_id != turn:
            _strip(wire)
        left -= len(json.dumps(wire))
        if left < 0:
            missing = len(session.events) - len(made)
            warnings.append(f"context.events lacks the oldest {missing}, which are over history_bytes")
            break
        made.append(wire)
    return made[::-1]


def latest_input(session: Session) -> Event | None:
    """Return the last event of what the user said; responses of tools do not count."""
    for event in reversed(session.events):
        parts = (event.content.parts if event.content else None) or []
        if event.author == _USER and any(part.function_response is None for part in parts):
            return event
    return None


async def user_content(
    session: Session, given: Any, artifacts: BaseArtifactService | None, warnings: list[str]
) -> dict[str, Any] | None:
    """Return what the user said last, with the artifacts that it refers to in their place.

    Args:
        session: Whose user.
        given: What they said, where the session does not have it yet.
        artifacts: Where the session's artifacts are.
        warnings: Gets what is missing.
    """
    latest = latest_input(session)
    content = given if given is not None else latest and latest.content
    if content is None:
        return None
    wire = to_object(content, "user_content")
    if artifacts is not None:
        key = SessionKey(session.app_name, session.user_id, session.id)
        wire["parts"] = [await _loaded(part, key, artifacts, warnings) for part in wire.get("parts") or ()]
    return wire


async def _loaded(
    part: dict[str, Any], key: SessionKey, artifacts: BaseArtifactService, warnings: list[str]
) -> dict[str, Any]:
    """Return *part*, or the inline data of the artifact of this session's user that it refers to."""
    file = part.get("fileData") or part.get("file_data")
    uri = file.get("fileUri") or file.get("file_uri") if isinstance(file, Mapping) else None
    place = parse_artifact_uri(uri) if isinstance(uri, str) else None
    if place is None:
        return part
    if (place.app_name, place.user_id) != (key.app, key.user) or place.session_id not in {None, key.session}:
        warnings.append("user_content refers to an artifact of another session, which was not loaded")
        return part
    found = await artifacts.load_artifact(
        app_name=key.app,
        user_id=key.user,
        session_id=key.session,
        filename=place.filename,
        version=place.version,
    )
    data = found.inline_data if found is not None else None
    if data is None or len(data.data or b"") > _LARGEST_MEDIA_BYTES:
        warnings.append("user_content refers to an artifact that is gone, or too large for a run")
        return part
    return {"inlineData": to_json(data, "the artifact")}


def _event(event: Event) -> dict[str, Any]:
    dumped = event.model_dump(mode="python", by_alias=True, exclude_none=True, include=set(_EVENT_FIELDS))
    wire = to_object(dumped, f"event {event.id}", null_for_nan=True)  # as the store keeps events
    actions = wire.get("actions") or {}
    if delta := actions.get("stateDelta"):
        actions["stateDelta"] = {name: value for name, value in delta.items() if not is_mark(name)}
    return wire


def _strip(wire: dict[str, Any]) -> None:
    content = wire.get("content") or {}
    if parts := content.get("parts"):
        content["parts"] = [part for part in parts if "inlineData" not in part]

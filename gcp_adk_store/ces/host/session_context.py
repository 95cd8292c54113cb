"""Show a session to code, as the platform does, and keep its variables in ADK's state, within bounds.

ADK's state knows no removal: a removed variable is None there, and a mark beside it, ``ces_removed:{name}``
in the same scope, distinguishes it from a variable that was set to None. Both are written by one event. Marks
are keys of their own, so writers whose changes are merged key by key do not undo each other's.
"""

import base64
import enum
import json
import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

import pydantic
from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.artifact_util import parse_artifact_uri
from google.adk.events import Event
from google.adk.sessions import Session, State
from pydantic_core import PydanticSerializationError, to_jsonable_python

from gcp_adk_store.ces.guest import messages
from gcp_adk_store.ces.guest.models import NotJsonError, plain, sendable
from gcp_adk_store.ces.host.results import Delta
from gcp_adk_store.ces.host.settings import USER, RuntimeSettings, SessionKey
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.concurrency import Pauses


def to_object(value: Any, where: str, *, lenient: bool = False) -> dict[str, Any]:
    """Return *value* as a JSON object: models in camelCase without what is None, bytes as standard base64.

    With *lenient*, NaN and infinities become null, and lone surrogates as Python escapes them: those of what
    users say, models answer and servers return would end each run that has it in its history.

    Raises:
        InvalidInputError: *value* is neither a model nor a mapping, or JSON cannot hold a part of it; the
            message names *where*.
    """
    try:
        made = _json(value, lenient=lenient)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as exc:
        raise InvalidInputError(f"{where} cannot be JSON: {type(exc).__name__}") from exc
    if not isinstance(made, dict):
        raise InvalidInputError(f"{where} must be an object, not {type(value).__name__}")
    return made


def _json(value: Any, *, lenient: bool) -> Any:  # noqa: C901, PLR0911  # one for each kind of value
    below = partial(_json, lenient=lenient)
    match value:
        case pydantic.BaseModel():
            return below(value.model_dump(mode="python", by_alias=True, exclude_none=True))
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case enum.Enum():
            return below(value.value)
        case float() if not math.isfinite(value):
            if lenient:
                return None
            raise ValueError(f"{value} is not JSON")
        case str():
            return sendable(value) if lenient else value
        case None | bool() | int() | float():
            return value
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise TypeError("a key is not text")
            return {below(key): below(each) for key, each in value.items()}
        case list() | tuple():
            return [below(each) for each in value]
        case set() | frozenset():
            return sorted(below(each) for each in value)
        case _:
            return to_jsonable_python(value)


MARK: Final = "ces_removed:"

_SHARED: Final = (State.APP_PREFIX, State.USER_PREFIX)
_OWNERS: Final = {"": "session", State.USER_PREFIX: "user", State.APP_PREFIX: "app"}
"""Of each scope that is stored; their settings ``..._variables_bytes`` bound it."""
_LARGEST_MEDIA_BYTES: Final = 4 * 1024 * 1024  # A part of a run's request; base64 is a third more.


class VariablesTooLargeError(InvalidInputError):
    """A run sets more than a session, a user or an app may have of variables; nothing was stored."""


def visible(state: Mapping[str, Any], *, shared: Collection[str]) -> dict[str, Any]:
    """Return the variables of *state* that code sees: those of users and apps if *shared* has their names."""
    return {
        name: value
        for name, value in state.items()
        if not is_mark(name)
        and not (value is None and state.get(_mark(name)) is True)
        and (name in shared or not name.startswith(_SHARED))
    }


def state_delta(change: Delta, state: Mapping[str, Any], settings: RuntimeSettings) -> dict[str, Any]:
    """Return what an event makes of *state*, so that variables are as *change* has them.

    It has none of those that ADK never stores.

    Raises:
        InvalidInputError: a name is the runtime's own, or of others and not in ``shared_variables``.
        VariablesTooLargeError: a scope grows, and has more than it may then.
    """
    for name in (*change.changed, *change.removed):
        if is_mark(name):
            says = f"a variable cannot have the name {name[:100]!r}: marks of removals have such"
            raise InvalidInputError(says)
        if name.startswith(_SHARED) and name not in settings.shared_variables:
            says = f"code may not change the variable {name[:100]!r}: shared_variables does not name it"
            raise InvalidInputError(says)
    delta = {**change.changed, **dict.fromkeys(change.removed)}
    marks = {_mark(name): False for name in change.changed if state.get(_mark(name)) is True}
    marks |= {_mark(name): True for name in change.removed}
    delta = {name: value for name, value in (delta | marks).items() if not is_fleeting(name)}
    for scope in {_scope(name) for name in delta} & _OWNERS.keys():
        _require_room(scope, state, delta, settings)
    return delta


def _require_room(
    scope: str, state: Mapping[str, Any], delta: Mapping[str, Any], settings: RuntimeSettings
) -> None:
    """Raise an error if *delta* makes the variables of *scope* more than they may be.

    A scope that has more already, by another writer, takes what makes it no larger. So code can delete.
    """
    before, after = (
        [_bytes_of(*each) for each in variables.items() if _scope(each[0]) == scope and not is_mark(each[0])]
        for variables in (state, {**state, **delta})
    )
    owner, setting = f"the {_OWNERS[scope]}", f"{_OWNERS[scope]}_variables_bytes"
    most = getattr(settings, setting)
    size = sum(after)
    if size > most and size > sum(before):
        raise VariablesTooLargeError(
            f"the variables of {owner} would have {size} bytes of JSON, more than the {most} of {setting}; "
            "remove some, or make them smaller"
        )
    if len(after) > settings.variables_per_scope and len(after) > len(before):
        raise VariablesTooLargeError(
            f"{owner} would have {len(after)} names of variables, with those of removed ones, more "
            f"than the {settings.variables_per_scope} of variables_per_scope; use names again"
        )


def _bytes_of(name: str, value: Any) -> int:
    """Return the bytes of a variable in a run's request, about; a removed one is None and has its name's."""
    size = len(json.dumps(name))
    try:
        return size if value is None else size + len(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError):  # of another writer; code is not sent it
        return size


def is_mark(name: str) -> bool:
    """Whether *name* is of a mark, and no variable's."""
    return name.startswith(MARK, len(_scope(name)))


def is_fleeting(name: str) -> bool:
    """Whether ADK never stores the variable *name*."""
    return name.startswith(State.TEMP_PREFIX)


def _mark(name: str) -> str:
    scope = _scope(name)
    return f"{scope}{MARK}{name.removeprefix(scope)}"


def _scope(name: str) -> str:
    return next((each for each in (*_SHARED, State.TEMP_PREFIX) if name.startswith(each)), "")


def variables_of(session: Session, shared: Collection[str], warnings: list[str]) -> dict[str, Any]:
    """Return the variables that code gets; *warnings* gets those that are not JSON, and are left out."""
    readable: dict[str, Any] = {}
    for name, value in visible(session.state, shared=shared).items():
        try:
            readable |= plain(to_object({name: value}, f"the variable {name!r}"), "the variables")
        except (InvalidInputError, NotJsonError) as exc:
            warnings.append(sendable(f"the variable {name!r} is not sent to the code: {exc}"))
    return readable


async def events_of(session: Session, *, most_bytes: int | None, warnings: list[str]) -> list[dict[str, Any]]:
    """Return the session's latest events as code sees them, in order; other tasks run in between.

    What the user sent in earlier turns has no inline data, as on the platform. *warnings* gets how many are
    left out because all have more than *most_bytes* of JSON; None is any.
    """
    latest = latest_input(session)
    turn = None if latest is None else latest.invocation_id
    left = math.inf if most_bytes is None else most_bytes
    made: list[dict[str, Any]] = []
    pauses = Pauses()
    for event in reversed(session.events):  # of which there may be ten thousands
        if pauses.is_due:
            await pauses.pause()
        wire = _event(event, keeps_media=event.author != USER or event.invocation_id == turn)
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
        if event.author == USER and any(part.function_response is None for part in parts):
            return event
    return None


async def user_content(
    session: Session, given: Any, artifacts: BaseArtifactService | None, warnings: list[str]
) -> dict[str, Any] | None:
    """Return what the user said last, with the artifacts that it refers to in their place.

    That is what is *given*, where the session does not have it yet. *warnings* gets what is missing.
    """
    latest = latest_input(session)
    content = given if given is not None else latest and latest.content
    if content is None:
        return None
    wire = to_object(content, "user_content", lenient=True)
    if artifacts is not None and isinstance(parts := wire.get("parts"), list):
        key = SessionKey.of_session(session)
        wire["parts"] = [await _loaded(part, key, artifacts, warnings) for part in parts]
    return wire


async def _loaded(part: Any, key: SessionKey, artifacts: BaseArtifactService, warnings: list[str]) -> Any:
    """Return *part*, or the inline data of the artifact of this session's user that it refers to."""
    file = part.get("fileData") or part.get("file_data") if isinstance(part, Mapping) else None
    uri = file.get("fileUri") or file.get("file_uri") if isinstance(file, Mapping) else None
    place = parse_artifact_uri(uri) if isinstance(uri, str) else None
    if place is None:
        return part
    if (place.app_name, place.user_id) != (key.app, key.user) or place.session_id not in {None, key.session}:
        warnings.append("user_content refers to an artifact of another session, which was not loaded")
        return part
    found = await artifacts.load_artifact(**key.names, filename=place.filename, version=place.version)
    data = found.inline_data if found is not None else None
    if data is None or len(data.data or b"") > _LARGEST_MEDIA_BYTES:
        warnings.append("user_content refers to an artifact that is gone, or too large for a run")
        return part
    return {"inlineData": to_object(data, "the artifact")}


def _event(event: Event, *, keeps_media: bool) -> dict[str, Any]:
    seen = {*messages.Event.model_fields}
    dumped = event.model_dump(mode="python", by_alias=True, exclude_none=True, include=seen)
    wire = to_object(dumped, f"event {event.id}", lenient=True)  # as the store keeps events
    actions, content = wire.get("actions") or {}, wire.get("content") or {}
    if delta := actions.get("stateDelta"):
        actions["stateDelta"] = {name: value for name, value in delta.items() if not is_mark(name)}
    if not keeps_media and (parts := content.get("parts")):
        content["parts"] = [part for part in parts if "inlineData" not in part]
    return wire

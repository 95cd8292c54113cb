"""Write a conversation that was held as a golden conversation, which evaluations read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml
from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.ces.conversation.decisions import MODEL, USER, calls_of, in_force
from gcp_adk_store.ces.host.session_context import visible
from gcp_adk_store.errors import InvalidInputError

_EVENT: Final = re.compile(r"<event>([^<>]+)</event>")


def golden_of(
    session: Session, variables: Mapping[str, Any], *, name: str | None = None, with_outputs: bool = False
) -> str:
    """Return the conversation of *session* as the YAML of one golden conversation.

    Args:
        session: With all its events; those that a rewind took back do not count.
        variables: The state at its begin.
        name: Of the golden; by default the id of the session.
        with_outputs: Whether the responses of tools answer in their place when the golden runs.

    Raises:
        InvalidInputError: nothing was said, a turn failed, or the user sent something else than text.
    """
    turns: dict[str, list[Event]] = {}
    for event in in_force(session.events):
        turns.setdefault(event.invocation_id, []).append(event)
    said = [events for events in turns.values() if _said(events)]
    if not said:
        raise InvalidInputError("nothing was said in this session, so it makes no golden")
    golden = {
        "conversation": name or session.id,
        "session_parameters": dict(visible(variables, shared=())),
        "turns": [
            _turn(events, number, with_outputs=with_outputs) for number, events in enumerate(said, start=1)
        ],
    }
    text: str = yaml.safe_dump({"conversations": [golden]}, sort_keys=False, allow_unicode=True, width=110)
    return text


def _said(events: Iterable[Event]) -> list[Event]:
    """Return what the user said, without the responses of asynchronous tools."""
    return [
        event
        for event in events
        if event.author == USER and event.content is not None and not event.get_function_responses()
    ]


def _turn(events: Sequence[Event], number: int, *, with_outputs: bool) -> dict[str, Any]:
    failed = next((event for event in events if event.error_code), None)
    if failed is not None:
        raise InvalidInputError(f"turn {number} failed with {failed.error_code}, so it makes no golden")
    (user, *_) = _said(events)
    told = (user.content.parts if user.content else None) or []
    if not all(part.text for part in told):
        raise InvalidInputError(f"turn {number}: the user sent more than text, which a golden cannot have")
    text = "\n".join(str(part.text) for part in told)
    named = _EVENT.fullmatch(text)
    turn: dict[str, Any] = {"event": named[1]} if named else {"user": text}
    if variables := visible(user.actions.state_delta, shared=()):
        turn["variables"] = dict(variables)
    of_agents = [event for event in events if event.author != USER]
    responses = {each.id: each.response for event in of_agents for each in event.get_function_responses()}
    calls = []
    for call in (call for event in of_agents for call in calls_of(event.content)):
        made: dict[str, Any] = {"action": call.name, "args": dict(call.args or {})}
        if with_outputs and responses.get(call.id) is not None:
            made["output"] = dict(responses[call.id] or {})
        calls.append(made)
    if calls:
        turn["tool_calls"] = calls
    turn["agent"] = "\n".join(
        part.text
        for event in of_agents
        if event.content is not None and event.content.role == MODEL
        for part in event.content.parts or ()
        if part.text and not part.thought
    )
    return turn

"""Decide which tool calls of a session a crash left without a response."""

from collections.abc import Sequence
from typing import Final

from google.adk.events import Event
from google.genai import types

_SCOPE: Final = "isolation_scope"
"""A field of ADK's events that its older releases do not have."""


def repairs(events: Sequence[Event], *, error: str) -> list[Event]:
    """Return the events that answer the tool calls among *events* that have no response, with *error*.

    Calls of tools that run long are left: their response may still come. Each event answers the calls of one
    event, in the name of its agent, so the response is in that agent's view of the history.
    """
    answered = {response.id for event in events for response in event.get_function_responses()}
    made = []
    for event in events:
        running = event.long_running_tool_ids or set()
        open_calls = [
            call
            for call in event.get_function_calls()
            if call.id is not None and call.id not in answered and call.id not in running
        ]
        if open_calls:
            scope = {_SCOPE: getattr(event, _SCOPE)} if _SCOPE in Event.model_fields else {}
            made.append(
                Event(
                    invocation_id=event.invocation_id,
                    author=event.author,
                    branch=event.branch,
                    content=types.Content(role="user", parts=[_response(call, error) for call in open_calls]),
                    **scope,
                )
            )
    return made


def _response(call: types.FunctionCall, error: str) -> types.Part:
    response = types.FunctionResponse(id=call.id, name=call.name, response={"error": error})
    return types.Part(function_response=response)

"""The greeting, called as the platform's own test files call callbacks."""

import json

from python_code import CallbackContext, Content, Event, LlmRequest, Part, before_model_callback


def started(**state: object) -> CallbackContext:
    """A session that has just begun."""
    said = Content(role="user", parts=[Part.from_text(text="<event>session start</event>")])
    event = Event(id="1", invocation_id="i", author="user", timestamp=0, content=said)
    return CallbackContext(state=state, events=[event])


def test_it_greets_at_the_start() -> None:
    """Without the model, and so that nobody talks over it."""
    context = started()
    response = before_model_callback(context, LlmRequest())

    assert context.state["greeted"]
    said = json.loads(response.content.parts[0].inline_data.raw_data)
    assert "Welcome" in said["content"]
    assert said["disableBargeIn"]


def test_it_greets_once() -> None:
    """Though the event may come again."""
    assert before_model_callback(started(greeted=True), LlmRequest()) is None

"""A marker contains nothing that somebody said: each change of one is refused."""

import json
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import SessionLimits, StoredDataError
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef
from gcp_adk_store.sessions.redact.format import marker_of
from tests.support.stored import read_text


def marker() -> str:
    """Return the marker of an event with everything that a marker may keep."""
    parts = [
        types.Part(text="words"),
        types.Part(function_call=types.FunctionCall(id="c", name="pay", args={"card": "words"})),
        types.Part(
            function_response=types.FunctionResponse(id="c", name="pay", response={"result": "words"})
        ),
    ]
    details = [types.ModalityTokenCount(modality=types.MediaModality.TEXT, token_count=7)]
    event = Event(
        id="e\ud800",
        invocation_id="t",
        author="agent",
        branch="a.b",
        timestamp=1.5,
        content=types.Content(role="model", parts=parts),
        long_running_tool_ids={"c"},
        model_version="gemini",
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=7, prompt_tokens_details=details
        ),
        custom_metadata={"note": "words"},
        actions=EventActions(
            state_delta={"key": "words"}, artifact_delta={"f": 1}, rewind_before_invocation_id="t0"
        ),
    )
    refs = [PayloadRef(sha256="ab" * 32, size=3, place=PayloadPlace.CHUNKS)]
    return marker_of('{"a":1}', event, refs, reason="ticket 7", time=2.5, limits=SessionLimits())


def test_a_marker_with_all_that_it_may_keep_is_accepted() -> None:
    """None of the words is in it."""
    assert "words" not in marker()
    assert "e\ud800" == read_text(marker()).id


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["content", "parts", 0, "text"], "words"),
        (["content", "parts", 0, "thought_signature"], "d29yZHM="),
        (["content", "parts", 1, "function_call", "args"], {"a": 1}),
        (["content", "parts", 2, "function_response", "response"], {"result": "words"}),
        (["content", "parts", 2, "function_response", "response"], {"other": 1}),
        (["content", "role"], {"a": 1}),
        (["content"], "words"),
        (["custom_metadata", "note"], "words"),
        (["custom_metadata", "adk_store_redacted", "note"], "words"),
        (["custom_metadata", "adk_store_redacted", "reason"], "two\nlines"),
        (["custom_metadata", "adk_store_redacted", "time"], "words"),
        (["custom_metadata", "adk_store_redacted", "sha256"], "cd" * 32),
        (["custom_metadata"], {}),
        (["actions", "state_delta", "key"], "words"),
        (["actions", "artifact_delta", "f"], "words"),
        (["actions", "transfer_to_agent"], "words"),
        (["usage_metadata", "prompt_token_count"], "many words"),
        (["adk_store_removed", 0, "note"], "words"),
        (["adk_store_removed", 0, "sha256"], "words"),
        (["long_running_tool_ids"], [1]),
        (["error_message"], "words"),
        (["unknown"], "words"),
        (["timestamp"], True),
    ],
)
def test_a_changed_marker_is_refused(path: list[Any], value: Any) -> None:
    """Also by every read; the error has none of the words."""
    changed = json.loads(marker())
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    end = changed.pop("adk_store_redacted")
    text = json.dumps({**changed, "adk_store_redacted": end}, separators=(",", ":"))

    with pytest.raises(StoredDataError, match="content that no redaction writes") as raised:
        read_text(text)
    assert "words" not in f"{raised.value}"


def test_a_key_that_comes_twice_and_what_is_no_json_are_refused() -> None:
    """A reader may take either of the two."""
    text = marker()
    for changed in (text.replace('"author":', '"author":"words","author":', 1), text[1:]):
        with pytest.raises(StoredDataError, match="content that no redaction writes"):
            read_text(changed)


def test_empty_fields_that_another_release_of_adk_writes_are_accepted() -> None:
    """They say nothing, and redacted sessions stay readable after an update of ADK."""
    changed = json.loads(marker())
    changed["actions"] |= {"requested_later": {}, "flag": False}
    end = changed.pop("adk_store_redacted")
    text = json.dumps({**changed, "new": [], "adk_store_redacted": end}, separators=(",", ":"))

    assert "e\ud800" == read_text(text).id

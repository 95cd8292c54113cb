"""Show that large maps of an event are encoded and read apart from it, and nothing changes by that."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import SessionLimits, StoredDataError
from tests.support.stored import read_back, read_text, texts_of

LIMITS = SessionLimits(
    inline_bytes=10**5,
    event_text_bytes=10**8,
    max_payload_bytes=10**8,
    max_values=10**6,
    seal_tail_bytes=500_000,
)
MANY = [*range(6_000), 2**80, 0.1, -0.0, math.pi * 1e300, None, True, "Grüße", {"a": [[]], "": {}}]


def event(held: Any) -> Event:
    """Return an event with *held* in every map of values, and small ones beside it."""
    return Event(
        id="e1",
        author="agent",
        timestamp=1.5,
        content=types.Content(
            role="model",
            parts=[
                types.Part(function_call=types.FunctionCall(id="c", name="f", args={"x": held, "y": 1})),
                types.Part(function_response=types.FunctionResponse(name="f", response={"x": held})),
                types.Part(function_call=types.FunctionCall(name="g", args={"small": [1]})),
                types.Part(text="t", thought_signature=b"\xff\xfe"),
            ],
        ),
        custom_metadata={"x": held},
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("text_bytes", [10**8, 1000], ids=["as text", "as a payload"])
@pytest.mark.parametrize(
    "half", ["", "\ud83d", "\ud83d\ude00"], ids=["without halves", "with one", "with two"]
)
def test_a_large_event_comes_back_as_it_was(text_bytes: int, half: str) -> None:
    """Numbers to the last bit, texts and keys with their lone surrogates."""
    original = event([*MANY, {half: half}])
    original.actions.state_delta = {"big": MANY, half: 1}
    before = repr(original)

    assert [before] == [*map(repr, read_back(original, limits=replace(LIMITS, event_text_bytes=text_bytes)))]


@pytest.mark.parametrize(
    "odd", [math.nan, math.inf, (1, 2), {1: 2}, {"set"}, b"\xff", datetime(2026, 1, 2, tzinfo=UTC)], ids=repr
)
def test_large_maps_are_encoded_as_pydantic_encodes_them(odd: Any) -> None:
    """Also where something in them is no value of JSON."""
    expected = event([*range(5000), odd]).model_dump_json(exclude_none=True)
    (text,) = texts_of(event([*range(5000), odd]), limits=LIMITS)
    (found,) = read_back(event([*range(5000), odd]), limits=LIMITS)

    assert json.loads(expected) == json.loads(text)
    assert repr(Event.model_validate_json(expected)) == repr(found)


@pytest.mark.parametrize(
    "text", ["[" * 300_000, '{"content":' + "[" * 300_000, '{"actions":[],"content":{"parts":5}}']
)
def test_a_damaged_text_is_left_to_its_reader(text: str) -> None:
    """Who reports what is wrong with it."""
    with pytest.raises(StoredDataError, match="event 0: "):
        read_text(text)

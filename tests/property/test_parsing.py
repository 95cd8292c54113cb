"""Stored events are parsed as ADK parses them, with half of the work."""

import json
import string
import sys
from types import FrameType
from typing import Any, Final

import pytest
from google.adk.events import Event
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake

from gcp_adk_store.codec.encode import parse_event

_SCHEMA: Final = Event.model_json_schema()
_OTHER_NAMES: Final = ("message", "state", "route", "node_path", "unknown", "adk_store_payloads")
_TEXTS: Final = st.sampled_from(["", "text", "YQ==", "2026-01-02", "MALE", "1.5", "null", "\ud800", "é"])
_NUMBERS: Final = st.integers(-3, 10**20) | st.floats(width=32)
_NAMES: Final = st.sampled_from(string.ascii_letters)
_JSON: Final = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
_OF_TYPE: Final[dict[str, st.SearchStrategy[Any]]] = {
    "string": _TEXTS,
    "integer": st.integers(0, 3),
    "number": _NUMBERS,
    "boolean": st.booleans(),
    "null": st.none(),
}


@st.composite
def values(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """Draw JSON that fits *schema*, or, now and then, any JSON."""
    if draw(st.integers(0, 40)) == 0:
        return draw(_JSON)
    if "$ref" in schema:
        schema = _SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return draw(values(draw(st.sampled_from(schema["anyOf"]))))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "items" in schema:
        return draw(st.lists(values(schema["items"]), max_size=2))
    return draw(members(schema) if "properties" in schema else _OF_TYPE.get(schema.get("type", ""), _JSON))


@st.composite
def members(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    """Draw some fields of a model, each by one of its two names, or by both."""
    names = draw(st.lists(st.sampled_from(sorted(schema["properties"])), max_size=3, unique=True))
    drawn = {}
    for name in {*schema.get("required", []), *names}:
        for key in draw(st.sampled_from([(name,), (to_snake(name),), (name, to_snake(name))])):
            drawn[key] = draw(values(schema["properties"][name]))
    return drawn


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw the text of an event, often with content, and now and then with a name that is not a field's."""
    event = draw(members(_SCHEMA)) | {"id": "e1", "timestamp": 1.5}
    if draw(st.booleans()):
        event["content"] = draw(values({"$ref": "#/$defs/Content"}))
    if draw(st.integers(0, 5)) == 0:
        event[draw(st.sampled_from(_OTHER_NAMES))] = draw(_JSON)
    return json.dumps(event)


def shown(value: Any) -> Any:
    """Return all that can be seen of a model: classes, values, and which fields were set."""
    if isinstance(value, BaseModel):
        return type(value), shown(value.__dict__), value.model_fields_set, shown(value.model_extra)
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [type(value), *map(shown, value)]
    return type(value), repr(value)


def _outcome(parse: Any, text: str) -> Any:
    try:
        return shown(parse(text))
    except ValidationError as exc:
        return repr(exc.errors(include_url=False))
    except AttributeError as exc:
        return repr(exc)


@pytest.mark.filterwarnings("ignore:.* is not a valid")
@given(text=texts())
@example(text='{"id": "e", "timestamp": 1, "author": "a", "author": "b"}')
@example(text='{"id": "e", "timestamp": 1, "content": {"parts": [{"text": "a", "text": "b"}]}}')
@example(text='{"id": "e", "timestamp": 1, "content": {"parts": [{"text": null}]}}')
@example(text='{"id": "e", "timestamp": 1, "state": {"a": 1}, "route": "next", "nodePath": "x"}')
@example(text='{"id": "e", "timestamp": "now"}')
@example(text='{"id": "e", "timestamp": 1, "finishReason": 3}')
@example(text='{"id": "e", "timestamp": 1, "finishReason": 3, "message": []}')
@example(text="[]")
def test_a_stored_event_is_parsed_as_adk_parses_it(text: str) -> None:
    """With the same classes, values, fields that were set, and errors."""
    assert _outcome(parse_event, text) == _outcome(Event.model_validate_json, text)


@pytest.mark.parametrize(
    "part", [{"text": "t"}, {"function_response": {"response": {"found": None}}}], ids=str
)
def test_an_event_is_parsed_without_what_adk_does_for_callers(part: dict[str, Any]) -> None:
    """Otherwise a read of a long history takes twice the time."""
    text = json.dumps({"id": "e", "author": "a", "timestamp": 1.5, "content": {"parts": [part]}})
    called: set[str] = set()

    def trace(frame: FrameType, _: str, __: object) -> None:
        called.add(frame.f_code.co_qualname)

    parse_event(text)  # makes the validator
    sys.setprofile(trace)
    try:
        parse_event(text)
    finally:
        sys.setprofile(None)
    assert "parse_event" in called
    assert not called & {
        "Event._accept_convenience_kwargs",
        "BaseModel._check_field_type_mismatches",
        "Part.__init__",
    }

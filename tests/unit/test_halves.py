r"""Show that texts with a lone surrogate come back as they were, wherever they stand.

Models produce them when a response ends within a character; ``"\ud83d"`` is half of an emoji. Two halves that
stand side by side, as when pieces of a response are joined, are not the pair.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, SessionLimits
from gcp_adk_store.codec.events import complete_event, decode_event, encode_event
from gcp_adk_store.codec.names import escape_name, unescape_name
from gcp_adk_store.codec.objects import StoredObject, decode_artifact, encode_artifact
from gcp_adk_store.codec.spilling import spill_state, unpack_value
from gcp_adk_store.codec.values import decode_state, encode_state
from gcp_adk_store.model.json_values import decode_surrogates, encode_surrogates, joins
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef
from gcp_adk_store.model.state import persistent

ROOMY = SessionLimits(inline_bytes=10**6, event_text_bytes=10**6, max_payload_bytes=10**6)
HALF, PAIR, EMOJI = "\ud83d", "\ud83d\ude00", "\U0001f600"

# Halves often, alone and side by side; the sign that they are encoded with, and what it could be taken for.
TEXT = st.lists(
    st.sampled_from([HALF, "\ude00", EMOJI, "\U0010fffd", "d83d", "\ufffd", "%", '"', "\\ud83d"])
    | st.characters(exclude_categories=()),
    max_size=6,
).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MAPS = st.dictionaries(TEXT, VALUES, max_size=3)


@given(TEXT)
def test_a_encoded_text_is_unicode_and_can_be_read(text: str) -> None:
    """No two texts are encoded alike, since each can be read again."""
    encoded = encode_surrogates(text)

    assert encoded.encode().decode() == encoded
    assert text == decode_surrogates(encoded)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Draw an event with such texts in every place that a model, a tool or a caller fills."""
    response = types.FunctionResponse(id=draw(TEXT), name=draw(TEXT), response=draw(MAPS))
    parts = [
        types.Part(text=draw(TEXT)),
        types.Part(text=draw(TEXT), thought=True, thought_signature=draw(st.binary(max_size=5))),
        types.Part(function_call=types.FunctionCall(id=draw(TEXT), name=draw(TEXT), args=draw(MAPS))),
        types.Part(function_response=response),
        types.Part(inline_data=types.Blob(data=b"a" * 60, mime_type="image/png", display_name=draw(TEXT))),
    ]
    return Event(
        id=draw(TEXT) or "e",
        invocation_id=draw(TEXT),
        author=draw(TEXT),
        branch=draw(TEXT),
        timestamp=1.5,
        content=types.Content(role=draw(TEXT), parts=parts),
        actions=EventActions(artifact_delta={draw(TEXT): 1}),
        custom_metadata=draw(MAPS),
        error_message=draw(TEXT),
        long_running_tool_ids={draw(TEXT)},
    )


@given(
    events(),
    MAPS,
    st.sampled_from(
        [ROOMY, replace(ROOMY, inline_bytes=50), replace(ROOMY, inline_bytes=50, event_text_bytes=300)]
    ),
)
def test_an_event_comes_back_as_it_was(original: Event, delta: dict[str, Any], limits: SessionLimits) -> None:
    """In every place, in keys too; by itself, with a payload, and as a payload as a whole."""
    encoded = encode_event(original, state_delta=delta, place=PayloadPlace.CHUNKS, limits=limits)
    stored = decode_event(encoded.text.encode().decode())
    while stored.missing:
        stored = complete_event(stored, {one.ref: one.data for one in encoded.payloads})
    actions = original.actions.model_copy(update={"state_delta": delta})
    expected = original.model_copy(update={"actions": actions})

    assert expected == stored.event == encoded.event
    assert repr(expected) == repr(stored.event)


@given(events(), st.sampled_from([ROOMY, replace(ROOMY, event_text_bytes=300)]))
def test_an_earlier_release_reads_such_an_event(original: Event, limits: SessionLimits) -> None:
    """It gives the text to pydantic as it is, and shows the encoding instead of the half."""
    read = Event.model_validate_json(
        encode_event(original, state_delta={}, place=PayloadPlace.CHUNKS, limits=limits).text
    )

    assert original.timestamp == read.timestamp
    assert original.author in (read.author, decode_surrogates(read.author))


def test_how_a_half_is_encoded_in_an_event() -> None:
    """This encoding is in stored documents: format 1 never changes it."""
    original = Event(id="e", author=HALF, timestamp=1.5, custom_metadata={HALF: "a\U0010fffd"})
    stored = json.loads(encode_event(original, state_delta={}, place=PayloadPlace.CHUNKS, limits=ROOMY).text)

    assert "\U0010fffdd83d" == stored["author"]
    assert {"\U0010fffdd83d": "a\U0010fffd\U0010fffd"} == stored["custom_metadata"]
    assert stored["adk_store_halves"] is True


@given(MAPS)
def test_state_comes_back_as_it_was(state: dict[str, Any]) -> None:
    """Keys and values, nested ones too; nothing is said in the log, for nothing is changed."""
    state = {key: value for key, value in state.items() if not key.startswith("temp:")}
    kept, _ = persistent(state)
    spilled, payloads = spill_state(kept, over=50, limit=10**6, place=PayloadPlace.CHUNKS)
    fields = encode_state(spilled)
    found = {payload.ref: payload.data for payload in payloads}
    stored = {
        key: unpack_value(value, found[value]) if isinstance(value, PayloadRef) else value
        for key, value in decode_state(fields).items()
    }

    assert repr(state) == repr(kept) == repr(stored)
    for name, field in fields.items():
        (wire,) = field.values() if isinstance(field, dict) else (field,)
        assert name.encode().decode() == name
        assert not isinstance(wire, str) or wire.encode().decode() == wire


@dataclass
class Note:
    """A value as tools put it into state."""

    text: str
    tags: dict[str, int]


def test_values_that_json_changes_keep_their_texts() -> None:
    """Tuples and dataclasses become lists and maps, as without halves."""
    kept, warnings = persistent({"k": Note(text=HALF, tags={HALF: 1}), HALF: ({PAIR: 1, EMOJI: 2},)})

    assert {"k": {"text": HALF, "tags": {HALF: 1}}, HALF: [{PAIR: 1, EMOJI: 2}]} == kept
    assert [] == warnings


@pytest.mark.parametrize("value", [PAIR, [PAIR], {PAIR: 1, EMOJI: 2}])
def test_halves_side_by_side_leave_for_a_payload(value: Any) -> None:
    """However small: escapes of JSON would join them; an earlier release reads the bytes, too."""
    kept, (payload,) = spill_state({"k": value}, over=10**6, limit=10**6, place=PayloadPlace.CHUNKS)

    assert {"k": payload.ref} == kept
    assert repr(value) == repr(unpack_value(payload.ref, payload.data))


@given(TEXT)
def test_a_name_comes_back_as_it_was(text: str) -> None:
    """State keys with halves become legal names of fields."""
    name = escape_name(text, what="key")

    assert name.encode().decode() == name
    assert text == unescape_name(name)


def test_how_a_half_is_encoded_in_a_name() -> None:
    """As its three bytes: this encoding is in stored documents."""
    assert "a%ED%A0%BD" == escape_name("a" + HALF, what="key")


def stored(part: types.Part, metadata: dict[str, Any] | None = None) -> tuple[StoredObject, bytes]:
    """Return the object that a save of *part* makes, and its bytes."""
    upload = encode_artifact(part, custom_metadata=metadata, save_id="s")
    found = StoredObject(
        name="a/u/s/f/0",
        generation=1,
        content_type=upload.content_type,
        metadata=upload.metadata,
        create_time=1.0,
        size=len(upload.data),
    )
    return found, upload.data


@given(TEXT)
def test_an_artifacts_text_comes_back_as_it_was(text: str) -> None:
    """The object's bytes are UTF-8 for every reader; one with halves says so in its metadata."""
    found, data = stored(types.Part(text=text))

    assert types.Part(text=text) == decode_artifact(found, data)
    assert data.decode() in (text, encode_surrogates(text))


@given(MAPS)
def test_an_artifacts_metadata_comes_back_as_it_was(metadata: dict[str, Any]) -> None:
    """Keys and values with lone surrogates, unless two stand side by side."""
    apart = {f"{number}": value for number, value in enumerate(metadata) if not joins(value)}
    found, _ = stored(types.Part(text="t"), apart)

    assert apart == found.custom_metadata


def test_halves_side_by_side_in_an_artifacts_metadata_are_refused() -> None:
    """It is JSON for every reader, which cannot distinguish them from the pair."""
    with pytest.raises(InvalidInputError, match="custom_metadata holds two lone surrogates side by"):
        stored(types.Part(text="t"), {"k": [PAIR]})


def test_a_name_with_a_half_is_refused() -> None:
    """A display name is read by other services; the error says which field, and what to do."""
    blob = types.Blob(data=b"x", mime_type="image/png", display_name=HALF)
    with pytest.raises(InvalidInputError, match="display_name holds a lone surrogate at index 0"):
        stored(types.Part(inline_data=blob))

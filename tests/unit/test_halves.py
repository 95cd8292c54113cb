r"""Show that texts with a lone surrogate come back as they were, wherever they stand.

Models produce them when a response ends within a character; ``"\ud83d"`` is half of an emoji. Two halves that
stand side by side, as when pieces of a response are joined, are not the pair.
"""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, SessionLimits, SessionService, Store
from gcp_adk_store.model.json_values import decode_surrogates, encode_surrogates, joins
from gcp_adk_store.model.state import persistent
from tests.support.stored import fields_of, read_back, session_path, texts_of

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
    original.actions.state_delta = {f"k{key}": value for key, value in delta.items()}  # of this session
    expected = original.model_copy(deep=True)
    (found,) = read_back(original, limits=limits)

    assert expected == found
    assert repr(expected) == repr(found)


@given(events(), st.sampled_from([ROOMY, replace(ROOMY, event_text_bytes=300)]))
def test_an_earlier_release_reads_such_an_event(original: Event, limits: SessionLimits) -> None:
    """It gives the text to pydantic as it is, and shows the encoding instead of the half."""
    (text,) = texts_of(original, limits=limits)
    read = Event.model_validate_json(text)

    assert original.timestamp == read.timestamp
    assert original.author in (read.author, decode_surrogates(read.author))


def test_how_a_half_is_encoded_in_an_event() -> None:
    """This encoding is in stored documents: format 1 never changes it."""
    original = Event(id="e", author=HALF, timestamp=1.5, custom_metadata={HALF: "a\U0010fffd"})
    (stored,) = map(json.loads, texts_of(original))

    assert "\U0010fffdd83d" == stored["author"]
    assert {"\U0010fffdd83d": "a\U0010fffd\U0010fffd"} == stored["custom_metadata"]
    assert stored["adk_store_halves"] is True


WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


def kept(state: dict[str, Any], limits: SessionLimits) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a session's state in its document, and the state as another process reads it."""

    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        async with Store.local(":memory:", session_limits=limits) as store:
            await store.sessions.create_session(**WHO, state=state)
            found = await SessionService(store.sessions.storage).get_session(**WHO)
            assert found is not None
            return (await fields_of(store, session_path(WHO)))["state"], dict(found.state)

    return asyncio.run(work())


@given(MAPS, st.sampled_from([ROOMY, replace(ROOMY, state_value_bytes=50)]))
def test_state_comes_back_as_it_was(state: dict[str, Any], limits: SessionLimits) -> None:
    """Keys and values, nested ones too."""
    fields, read = kept(state, limits)

    assert {repr(each) for each in state.items()} == {repr(each) for each in read.items()}
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
    """However small: escapes of JSON would join them."""
    fields, read = kept({"k": value}, ROOMY)

    assert ["payload"] == [*fields["k"]]
    assert repr({"k": value}) == repr(read)


def test_how_a_half_is_encoded_in_a_name() -> None:
    """As its three bytes: this encoding is in stored documents."""
    fields, read = kept({"a" + HALF: 1}, ROOMY)

    assert (["a%ED%A0%BD"], {"a" + HALF: 1}) == ([*fields], read)


def saved(
    part: types.Part, metadata: dict[str, Any] | None = None
) -> tuple[types.Part, dict[str, Any], bytes]:
    """Return an artifact and its metadata as they are read, and the bytes of its object."""
    file: dict[str, Any] = {"app_name": "app", "user_id": "user", "filename": "user:f"}

    async def work() -> tuple[types.Part, dict[str, Any], bytes]:
        async with Store.local(":memory:") as store:
            await store.artifacts.save_artifact(**file, artifact=part, custom_metadata=metadata)
            found = await store.artifacts.load_artifact(**file)
            (version,) = await store.artifacts.list_artifact_versions(**file)
            objects = store.sessions.storage.payloads.objects
            assert objects is not None
            read = await objects.read("app/user/user/user:f/0", generation=None)
            assert found is not None
            assert read is not None
            return found, version.custom_metadata, read[0]

    return asyncio.run(work())


@given(TEXT)
def test_an_artifacts_text_comes_back_as_it_was(text: str) -> None:
    """The object's bytes are UTF-8 for every reader; one with halves says so in its metadata."""
    found, _, data = saved(types.Part(text=text))

    assert types.Part(text=text) == found
    assert data.decode() in (text, encode_surrogates(text))


@given(MAPS)
def test_an_artifacts_metadata_comes_back_as_it_was(metadata: dict[str, Any]) -> None:
    """Keys and values with lone surrogates, unless two stand side by side."""
    apart = {f"{number}": value for number, value in enumerate(metadata) if not joins(value)}

    assert apart == saved(types.Part(text="t"), apart)[1]


def test_halves_side_by_side_in_an_artifacts_metadata_are_refused() -> None:
    """It is JSON for every reader, which cannot distinguish them from the pair."""
    with pytest.raises(InvalidInputError, match="custom_metadata holds two lone surrogates side by"):
        saved(types.Part(text="t"), {"k": [PAIR]})


def test_a_name_with_a_half_is_refused() -> None:
    """A display name is read by other services; the error says which field, and what to do."""
    blob = types.Blob(data=b"x", mime_type="image/png", display_name=HALF)
    with pytest.raises(InvalidInputError, match="display_name holds a lone surrogate at index 0"):
        saved(types.Part(inline_data=blob))

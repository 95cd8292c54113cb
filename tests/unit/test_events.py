"""Show that events survive as JSON texts, and that damage is told without quoting it."""

import json
import zlib
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.events import (
    decode_event,
    encode_event,
    event_timestamp,
    pack_segment,
    unpack_segment,
)
from gcp_adk_store.errors import InvalidInputError, StoredDataError

LIMIT = 1_000_000


def event(*parts: types.Part, **fields: Any) -> Event:
    """Return an event of an agent."""
    content = types.Content(role="model", parts=list(parts))
    return Event(id="e1", invocation_id="i1", author="agent", timestamp=1.5, content=content, **fields)


def call(**args: Any) -> types.Part:
    """Return a part that calls a function with *args*."""
    return types.Part(function_call=types.FunctionCall(id="c1", name="f", args=args))


@pytest.mark.parametrize(
    "original",
    [
        event(types.Part(text="Grüße 雪 \x00 \u2028")),
        event(types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png"))),
        event(types.Part(text="t", thought=True, thought_signature=b"\xff\xfb")),
        event(call(none=None, nested=[[1, [2]]], big=2**80, zero=-0.0, empty={"": {}})),
        event(custom_metadata={"none": None, "list": [None]}, long_running_tool_ids={"c1"}, partial=False),
        event(
            actions=EventActions(
                state_delta={"k": None, "app:x": [1], "d": {"n": None}},
                artifact_delta={"f": 3},
                transfer_to_agent="b",
            )
        ),
        event(error_code="E", error_message="m", branch="a.b", turn_complete=True),
    ],
)
def test_an_event_comes_back_as_it_was(original: Event) -> None:
    """Bytes, empty and null values, large numbers and every field survive."""
    text = encode_event(original, state_delta=original.actions.state_delta, max_bytes=LIMIT)

    assert original == decode_event(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_timestamp_is_exact(timestamp: float) -> None:
    """An event's time, which also orders sessions, keeps its last bit."""
    original = event()
    original.timestamp = timestamp
    text = encode_event(original, state_delta={}, max_bytes=LIMIT)

    assert repr(timestamp) == repr(decode_event(text).timestamp)


def test_encoding_leaves_the_event_alone() -> None:
    """The caller's event keeps its own change of state while the text holds the one to store."""
    original = event(types.Part(text="t"), actions=EventActions(state_delta={"temp:x": 1, "k": (1,)}))
    before = original.model_copy(deep=True)
    delta = original.actions.state_delta
    text = encode_event(original, state_delta={"k": [1]}, max_bytes=LIMIT)

    assert before == original
    assert delta is original.actions.state_delta
    assert {"k": [1]} == decode_event(text).actions.state_delta


def test_absent_fields_take_no_room() -> None:
    """What an event does not say is not spelled out a dozen times a turn."""
    stored = json.loads(encode_event(event(), state_delta={}, max_bytes=LIMIT))

    assert None not in stored.values()
    assert ("e1", "i1", "agent", 1.5) == tuple(
        stored[k] for k in ("id", "invocation_id", "author", "timestamp")
    )


def test_an_event_of_exactly_the_limit_is_taken() -> None:
    """The limit counts UTF-8 bytes, so that a document's size can be bounded by it."""
    original = event(types.Part(text="雪" * 10))
    size = len(encode_event(original, state_delta={}, max_bytes=LIMIT).encode())

    assert size == len(encode_event(original, state_delta={}, max_bytes=size).encode())
    with pytest.raises(InvalidInputError) as caught:
        encode_event(original, state_delta={}, max_bytes=size - 1)
    assert str(caught.value).startswith(
        f"event 'e1' takes {size} bytes as JSON, the limit is {size - 1}; keep large payloads as artifacts"
    )


@pytest.mark.parametrize("value", [object(), "\ud800"])
def test_an_event_beyond_json_is_refused(value: Any) -> None:
    """What has no JSON form is refused by the event's id, with the reason as cause and no content."""
    with pytest.raises(InvalidInputError) as caught:
        encode_event(event(call(secret=value)), state_delta={}, max_bytes=LIMIT)

    assert "event 'e1' cannot be written as JSON; see the cause" == str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_field_of_a_newer_adk_is_no_obstacle() -> None:
    """A newer release's extra field of an event does not make the session unreadable."""
    assert "a" == decode_event('{"author":"a","invented_tomorrow":{"x":1}}').author


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"author":5,"actions":{"secret_k":"secret"}}', "actions.secret_k, author"),
        ('{"author":5,"timestamp":"secret"}', "author, timestamp"),
        ('{"content":{"parts":[{"text":"x"},{"text":["secret"]}]},"author":"a"}', "content.parts.1.text"),
        ('{"author":"secret', ""),
        ('["secret"]', ""),
        ("", ""),
    ],
)
def test_an_event_that_cannot_be_read_names_the_place(text: str, places: str) -> None:
    """The error tells where the stored event does not fit, never what it holds."""
    with pytest.raises(StoredDataError) as caught:
        decode_event(text)

    assert f"a stored event does not fit the installed google-adk at: {places}" == str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"author":"a","actions":{"secret_k":"secret","escalate":true}}', "actions.secret_k"),
        (
            '{"author":"a","actions":{"escalate":true},"content":{"parts":[{"text":"x","kk":"secret"}]}}',
            "parts.0.kk",
        ),
    ],
)
def test_forbidden_keys_of_a_newer_adk_are_left_out(
    text: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the event is read; the log names the key, not what it held."""
    found = decode_event(text)

    assert ("a", True) == (found.author, found.actions.escalate)
    assert place in caplog.text
    assert "secret" not in caplog.text.replace("secret_k", "")


def deep(levels: int) -> Any:
    """Return lists within lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "unreadable",
    [
        event(call(x=deep(220))),
        event(call(x=10**5000)),
        Event(id="e1", author="a", timestamp=float("nan")),
    ],
    ids=["too deep", "too many digits", "no time"],
)
def test_an_event_that_could_not_be_read_back_is_refused(unreadable: Event) -> None:
    """It would lock its session for good; the error says so before anything is written."""
    with pytest.raises(InvalidInputError, match="event 'e1' cannot be"):
        encode_event(unreadable, state_delta={}, max_bytes=LIMIT)


def test_the_time_of_an_event_is_read_alone() -> None:
    """As the event itself has it; a text without one is damaged."""
    text = encode_event(
        Event(id="e1", author="a", timestamp=1727500000.1234567), state_delta={}, max_bytes=LIMIT
    )
    with pytest.raises(StoredDataError, match="a stored event of 2 characters has no timestamp"):
        event_timestamp("{}")

    assert 1727500000.1234567 == event_timestamp(text)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_a_segment_comes_back_as_it_was(texts: list[str]) -> None:
    """Texts leave a segment in the order and spelling they entered it."""
    assert texts == unpack_segment(pack_segment(texts))


def test_a_segment_is_compressed_json() -> None:
    """The body can be read without this library: zlib over a JSON array of texts."""
    texts = ['{"id":"1"}', '{"id":"ü"}']

    assert '["{\\"id\\":\\"1\\"}","{\\"id\\":\\"ü\\"}"]' == zlib.decompress(pack_segment(texts)).decode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"secret",
        pack_segment(["secret"] * 9)[:-1],
        pack_segment(["secret"])[:-1] + b"\x00",
        zlib.compress(b'["secret"'),
        zlib.compress(b'["\xff"]'),
    ],
)
def test_a_damaged_segment_is_told_by_its_size(body: bytes) -> None:
    """A truncated, altered or foreign body is an error of stored data that quotes none of it."""
    with pytest.raises(StoredDataError) as caught:
        unpack_segment(body)

    assert f"the body of a segment ({len(body)} bytes) is damaged" == str(caught.value)

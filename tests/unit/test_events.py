r"""Show that events survive as JSON texts, with large maps and lone surrogates, and that damage is named.

Models produce a lone surrogate when a response ends within a character; ``"\ud83d"`` is half of an emoji. Two
halves that stand side by side, as when pieces of a response are joined, are not the pair.
"""

import asyncio
import hashlib
import json
import math
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, SessionLimits, SessionService, Store, StoredDataError
from gcp_adk_store.model.json_values import decode_surrogates, encode_surrogates, joins
from gcp_adk_store.model.state import persistent
from tests.support.stored import change, fields_of, put_object, read_back, read_text, session_path, texts_of
from tests.support.stores import remove_payloads

ROOMY = SessionLimits(inline_bytes=10**6, event_text_bytes=10**6, max_payload_bytes=10**6)


def event(*parts: types.Part, **fields: Any) -> Event:
    """Return an event of an agent."""
    content = types.Content(role="model", parts=list(parts))
    return Event(id="e1", invocation_id="i1", author="agent", timestamp=1.5, content=content, **fields)


def call(**args: Any) -> types.Part:
    """Return a part that calls a function with *args*."""
    return types.Part(function_call=types.FunctionCall(id="c1", name="f", args=args))


def pictures() -> Event:
    """Return an event with bytes in a part, in a function's answer, and small ones."""
    answer = types.FunctionResponse(
        name="f",
        response={"k": None},
        parts=[
            types.FunctionResponsePart(
                inline_data=types.FunctionResponseBlob(data=b"b" * 200, mime_type="image/png")
            )
        ],
    )
    return event(
        types.Part(inline_data=types.Blob(data=b"a" * 100, mime_type="image/png", display_name="a")),
        types.Part(text="t"),
        types.Part(function_response=answer),
        types.Part(inline_data=types.Blob(data=b"c", mime_type="image/png")),
    )


def test_an_event_that_is_long_by_itself_leaves_as_a_whole() -> None:
    """Compressed, with its time still in the text; the bytes in it are payloads of their own."""
    limits = replace(ROOMY, inline_bytes=150, event_text_bytes=300)
    (text,) = texts_of(pictures(), limits=limits)

    assert {"author", "timestamp", "adk_store_payloads"} <= json.loads(text).keys()
    assert 1.5 == json.loads(text)["timestamp"]
    assert len(text.encode()) <= 300
    assert [pictures()] == read_back(pictures(), limits=limits)


@pytest.mark.parametrize("limits", [{"inline_bytes": 99}, {"event_text_bytes": 300}])
def test_a_piece_over_the_limit_of_a_payload_is_refused(limits: dict[str, int]) -> None:
    """With its size, the limit and the setting."""
    small = replace(ROOMY, max_payload_bytes=150, **limits)  # type: ignore[arg-type]  # sizes only
    with pytest.raises(
        InvalidInputError, match=r"event 'e1' holds \d+ bytes in one piece, .*max_payload_bytes is 150"
    ):
        read_back(pictures(), limits=small)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"at": [7], "sha256": "d" * 64, "size": 1, "in": "chunks"}, "has no place in its event"),
        ({"at": [0], "sha256": "d" * 64, "size": 1, "in": "moon"}, "in a form unknown"),
        ({"at": [0], "sha256": "d", "size": 1, "in": "chunks"}, "in a form unknown"),
        ({"at": [0], "sha256": "d" * 64, "size": 10**18, "in": "chunks"}, "in a form unknown"),
        ({"at": 5, "sha256": "d" * 64, "size": 1, "in": "chunks"}, "in an unknown way"),
        ({"at": [0.0], "sha256": "d" * 64, "size": 1, "in": "chunks"}, "in an unknown way"),
    ],
)
def test_a_damaged_reference_is_refused(entry: dict[str, Any], message: str) -> None:
    """With a typed error that shows no content."""
    text = json.dumps({"author": "a", "timestamp": 1, "adk_store_payloads": [entry]})

    with pytest.raises(StoredDataError, match=message):
        read_text(text, on_missing_payload="placeholder")


def gone(data: bytes) -> str:
    """Return what stands in the place of *data* that were lost."""
    return f"[content of {len(data)} bytes is missing: sha256:{hashlib.sha256(data).hexdigest()}]"


WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
B = b"b" * 200


async def test_a_lost_piece_of_a_function_response_becomes_plain_text_data() -> None:
    """A part of a response has no text of its own; the response around it is as it was."""
    async with Store.local(":memory:", session_limits=replace(ROOMY, inline_bytes=99)) as store:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(session, pictures())
        await remove_payloads(store)
        reader = SessionService(store.sessions.storage, on_missing_payload="placeholder")
        found = await reader.get_session(**WHO)
    note = types.FunctionResponseBlob(data=gone(B).encode(), mime_type="text/plain")

    assert found is not None
    assert [
        types.FunctionResponse(
            name="f", response={"k": None}, parts=[types.FunctionResponsePart(inline_data=note)]
        )
    ] == found.events[0].get_function_responses()


@pytest.mark.parametrize("place", [[7], [7, 0], [2, 7], [0, 5]])
def test_a_lost_piece_without_a_place_is_refused(place: list[int]) -> None:
    """As one that was found is: the reference is damaged, with or without its payload."""
    (text,) = texts_of(pictures(), limits=replace(ROOMY, inline_bytes=150))
    stored = json.loads(text)
    stored["adk_store_payloads"][0]["at"] = place
    with pytest.raises(StoredDataError, match="has no place in its event"):
        read_text(json.dumps(stored), on_missing_payload="placeholder")


@pytest.mark.parametrize("data", [b"", b"{}", zlib.compress(b"\xff"), zlib.compress(b"{}")[:-1]])
async def test_a_payload_that_is_no_event_is_refused(data: bytes) -> None:
    """With a typed error that names it; it is damage, not a payload that is lost."""
    reference = {"at": [], "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "in": "bucket"}
    text = json.dumps({"author": "a", "timestamp": 1, "adk_store_payloads": [reference]})
    async with Store.local(":memory:", session_limits=replace(ROOMY, event_text_bytes=300)) as store:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(session, event(types.Part(text="x" * 1000)))
        objects = store.sessions.storage.payloads.objects
        assert objects is not None
        (name,) = await objects.names("", delimiter=None)
        await put_object(store, f"{name.rpartition('/')[0]}/{reference['sha256']}", data)
        await change(store, session_path(WHO), {"tail": [text]})
        with pytest.raises(StoredDataError, match=r"payload .* is not an event"):
            await SessionService(store.sessions.storage).get_session(**WHO)


def test_what_json_changes_is_changed_in_the_event_that_will_be_read() -> None:
    """Tuples are lists there."""
    (found,) = read_back(event(call(pair=(1, 2))))

    assert {"pair": [1, 2]} == found.get_function_calls()[0].args


def test_an_event_beyond_json_is_refused() -> None:
    """What has no JSON form is refused by the event's id, with the reason as cause and no content."""
    with pytest.raises(InvalidInputError) as caught:
        read_back(event(call(secret=object())))

    assert str(caught.value).endswith(" event 'e1' cannot be written as JSON; see the cause")
    assert caught.value.__cause__ is not None


def test_a_field_of_a_newer_adk_is_no_obstacle() -> None:
    """A newer release's extra field of an event does not make the session unreadable."""
    assert "a" == read_text('{"author":"a","timestamp":1,"invented_tomorrow":{"x":1}}').author


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"author":5,"actions":{"secret_k":"secret"}}', "actions.secret_k, author"),
        ('{"author":5,"timestamp":"secret"}', "author, timestamp"),
        ('{"content":{"parts":[{"text":"x"},{"text":["secret"]}]},"author":"a"}', "content.parts.1.text"),
        ('{"author":"secret', ""),
        ('["secret"]', ""),
        ("", ""),
        # An enumeration of google-genai calls a method of texts on it.
        ('{"author":"a","timestamp":1,"finishReason":["secret"]}', "an enumeration whose value is not text"),
    ],
)
def test_an_event_that_cannot_be_read_names_the_place(text: str, places: str) -> None:
    """The error says where the stored event does not fit, never what it holds."""
    with pytest.raises(StoredDataError) as caught:
        read_text(text)

    says = f"a stored event does not fit the installed google-adk at: {places}"
    assert str(caught.value).endswith(f"event 0: {says}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"author":"a","timestamp":1,"actions":{"secret_k":"secret","escalate":true}}', "actions.secret_k"),
        (
            '{"author":"a","timestamp":1,"actions":{"escalate":true},"content":{"parts":[{"text":"x","kk":"secret"}]}}',
            "parts.0.kk",
        ),
    ],
)
def test_forbidden_keys_of_a_newer_adk_are_left_out(
    text: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the event is read; what is left out is named, without what it held."""
    found = read_text(text)

    assert ("a", True) == (found.author, found.actions.escalate)
    assert place in caplog.text
    assert "secret" not in caplog.text.replace("secret_k", "")


def deep(levels: int) -> Any:
    """Return lists within lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(
    ("unreadable", "message"),
    [
        (event(call(x=deep(220))), "event 'e1' holds more than 200 maps and lists within each other"),
        (event(call(x=10**4300)), "event 'e1' holds an integer of over 4300 digits; keep it as text"),
        (Event(id="e1", author="a", timestamp=float("nan")), "event 'e1' cannot be read back"),
        (event().model_copy(update={"finish_reason": 3}), "event 'e1' cannot be read back"),
    ],
    ids=["too deep", "too many digits", "no time", "no text"],
)
def test_an_event_that_could_not_be_read_back_is_refused(unreadable: Event, message: str) -> None:
    """It would lock its session for good; the error says so before anything is written."""
    with pytest.raises(InvalidInputError, match=message):
        read_back(unreadable)


@pytest.mark.parametrize("value", [deep(193), 10**4300 - 1, -(10**4300) + 1], ids=["deep", "long", "below"])
def test_what_is_at_a_limit_of_an_event_comes_back(value: Any) -> None:
    """200 levels with those of the event around the value, and 4,300 digits."""
    original = event(call(x=value))

    assert [original] == read_back(original)
    with pytest.raises(InvalidInputError):
        read_back(event(call(x=[value] if isinstance(value, list) else value * 10)))


def test_bytes_of_an_event_of_a_newer_adk_are_read_as_bytes() -> None:
    """They are base64 there, with keys that are left out as without."""
    text = (
        '{"author":"a","timestamp":1,"content":{"parts":[{"kk":1,"inline_data":{"data":"_v8=",'
        '"mime_type":"image/png"}}]}}'
    )
    content = read_text(text).content

    assert (
        types.Content(parts=[types.Part(inline_data=types.Blob(data=b"\xfe\xff", mime_type="image/png"))])
        == content
    )


OF_MAPS = SessionLimits(
    inline_bytes=10**5,
    event_text_bytes=10**8,
    max_payload_bytes=10**8,
    max_values=10**6,
    seal_tail_bytes=500_000,
)
MANY = [*range(6_000), 2**80, 0.1, -0.0, math.pi * 1e300, None, True, "Grüße", {"a": [[]], "": {}}]


def with_maps(held: Any) -> Event:
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
    original = with_maps([*MANY, {half: half}])
    original.actions.state_delta = {"big": MANY, half: 1}
    before = repr(original)

    assert [before] == [*map(repr, read_back(original, limits=replace(OF_MAPS, event_text_bytes=text_bytes)))]


@pytest.mark.parametrize(
    "odd", [math.nan, math.inf, (1, 2), {1: 2}, {"set"}, b"\xff", datetime(2026, 1, 2, tzinfo=UTC)], ids=repr
)
def test_large_maps_are_encoded_as_pydantic_encodes_them(odd: Any) -> None:
    """Also where something in them is no value of JSON."""
    expected = with_maps([*range(5000), odd]).model_dump_json(exclude_none=True)
    (text,) = texts_of(with_maps([*range(5000), odd]), limits=OF_MAPS)
    (found,) = read_back(with_maps([*range(5000), odd]), limits=OF_MAPS)

    assert json.loads(expected) == json.loads(text)
    assert repr(Event.model_validate_json(expected)) == repr(found)


@pytest.mark.parametrize(
    "text", ["[" * 300_000, '{"content":' + "[" * 300_000, '{"actions":[],"content":{"parts":5}}']
)
def test_a_damaged_text_is_left_to_its_reader(text: str) -> None:
    """Who reports what is wrong with it."""
    with pytest.raises(StoredDataError, match="event 0: "):
        read_text(text)


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


@dataclass(frozen=True)
class Tag:
    """A value that a set holds, unlike the map that it becomes."""

    text: str


def test_values_that_json_changes_keep_their_texts() -> None:
    """Tuples, sets and dataclasses become lists and maps, as without halves."""
    given = {"k": Note(text=HALF, tags={HALF: 1}), HALF: ({PAIR: 1, EMOJI: 2},), "s": {Tag(HALF)}}
    kept, warnings = persistent(given)

    maps = {"k": {"text": HALF, "tags": {HALF: 1}}, HALF: [{PAIR: 1, EMOJI: 2}], "s": [{"text": HALF}]}
    assert maps == kept
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

"""Every name, attribute, method, default and example of the reference is as documented, and travels so."""

import base64
import copy
import enum
import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest
from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.guest.context import CallbackContext
from gcp_adk_store.ces.guest.messages import Blob, Content, Event, FunctionCall, LlmRequest, LlmResponse, Part
from gcp_adk_store.ces.guest.models import NotJsonError, from_wire, to_wire
from gcp_adk_store.ces.guest.namespace import CLASSES
from tests.ces.guest import seed
from tests.ces.guest.runs import Host, of_tool, replied, result_of


def members(of_class: Any) -> Iterator[str]:
    """Yield what *of_class* itself has, as reference.txt writes it."""
    inherited = getattr(of_class.__base__, "model_fields", {})
    for name, field in getattr(of_class, "model_fields", {}).items():
        if name not in inherited:
            required = field.is_required()
            default = "required" if required else repr(field.get_default(call_default_factory=True))
            yield f"{name} ({field.alias}): {inspect.formatannotation(field.annotation)} = {default}"
    for name, member in vars(of_class).items():
        if isinstance(member, enum.Enum | property):
            yield name
        elif inspect.isroutine(member) and not name.startswith(("_", "model_")):
            signature = inspect.signature(getattr(of_class, name), eval_str=True)
            yield f"{name}{signature}"


def test_the_runtime_has_what_the_reference_has_and_nothing_else() -> None:
    """Each class with its attributes, their names in JSON, types and defaults, and its methods."""
    shown = ["\n    ".join((f"class {name}", *members(CLASSES[name]))) + "\n" for name in sorted(CLASSES)]

    assert re.sub(r"\b(ces_internal|typing)\.", "", "\n".join(shown)) == seed.REFERENCE[:-1]


@pytest.mark.parametrize("name", [*seed.CLASSES, *seed.GLOBALS])
def test_a_name_is_there_in_code_and_in_the_module(name: str) -> None:
    """It is a global and a name of ces_public, also what belongs to the run, and the same in both."""
    of_module = "module" if name == "ces_public" else f"module.{name}"

    assert result_of(f"import ces_public as module\nreturn {name} is {of_module}")
    if name in seed.CLASSES:
        found = f"return [{name} is ces_public.{name}, {name}.__name__, {name}.__module__]"
        assert result_of(found) == [True, name, "ces_internal"]


@pytest.mark.parametrize("encoding", [str, to_camel], ids=["snake_case", "camelCase"])
def test_an_object_is_read_under_both_encodings(encoding: Any) -> None:
    """With the objects in it; the variables of a context have two names besides."""
    blob = {encoding("display_name"): "letter.txt", encoding("mime_type"): "text/plain", "data": "aGVsbG8="}
    of_event = {
        "id": "e",
        "author": "root",
        "timestamp": 1,
        "content": {"parts": [{encoding("inline_data"): blob}]},
    }
    event = Event.model_validate({**of_event, encoding("invocation_id"): "i"})
    (part,) = event.parts()
    assert part.inline_data is not None
    assert (part.inline_data.data, part.inline_data.mime_type) == (b"aGVsbG8=", "text/plain")
    assert (part.inline_data.display_name, event.invocation_id) == ("letter.txt", "i")

    given = {"variables": {"a": 1}, encoding("user_content"): {"parts": [{"text": "hi"}]}}
    context = CallbackContext.model_validate(given)
    assert (context.state, context.user_content) == ({"a": 1}, Content(parts=[Part(text="hi")]))


def test_a_response_is_ok_below_400() -> None:
    """raise_for_status agrees."""
    for status_code, ok in ((0, True), (200, True), (399, True), (400, False), (503, False)):
        found = result_of(f"""
            response = ExternalResponse(text="[1]", status_code={status_code}, reason="because")
            try:
                response.raise_for_status()
                raised = None
            except StatusError as error:
                raised = [error.status_code, error.reason]
            public = [name for name in dir(response) if not name.startswith("_")]
            return [response.ok, response.json(), raised, public]
        """)

        assert found[:3] == [ok, [1], None if ok else [status_code, "because"]]
        assert found[3] == ["json", "ok", "raise_for_status", "reason", "status_code", "text"]


@pytest.mark.parametrize(
    ("example", "expression", "expected"),
    [
        (
            "Blob",
            "[blob.data.decode(), blob.raw_data.decode(), blob.mime_type]",
            ["aGVsbG8gd29ybGQ=", "hello world", "text/plain"],
        ),
        ("Blob", "[made.raw_data.decode(), made.mime_type]", ['{"key": "value"}', "application/json"]),
        ("LlmResponse", "[part.text for part in response.content.parts]", ["hello world"]),
        ("LlmResponse", "[response.content.role, response.content.is_model()]", ["model", True]),
        ("Part", "[text_part.text, tool_part.function_call.name]", ["Hello from the user!", "get_weather"]),
        ("Part", "tool_part.function_call.args", {"location": "Mountain View"}),
    ],
)
def test_the_examples_of_values_run(example: str, expression: str, expected: Any) -> None:
    """To the letter, as the beginning of a file."""
    source = seed.EXAMPLES[example].replace("\nBlob.from_json", "\nmade = Blob.from_json")

    assert of_tool(f"{source}\ndef tool():\n    return {expression}")["result"] == expected


def test_the_examples_of_variables_run() -> None:
    """Each is its own tool on one session."""
    get, put, remove = (seed.EXAMPLES[name] for name in ("get_variable", "set_variable", "remove_variable"))
    removed = of_tool(remove, name="remove_a_value", state={"my_key": 1})

    assert of_tool(get, name="get_a_value", state={"my_key": 1})["result"] == 6
    assert of_tool(put, name="set_a_value")["state_delta"] == {"changed": {"my_key": 10}, "removed": []}
    assert removed["state_delta"] == {"changed": {}, "removed": ["my_key"]}


@pytest.mark.parametrize("example", ["tools", "async_tools", "ces_requests"])
@pytest.mark.parametrize("status_code", [200, 500])
def test_the_examples_of_calls_run(example: str, status_code: int) -> None:
    """An error is caught by StatusError; the body is read as JSON."""
    host = Host(lambda _: replied({"found": True}, status_code=status_code))
    code = seed.EXAMPLES[example]
    code = code.replace("<TOOL_DISPLAY_NAME>", "look_up").replace("<ARGS_AS_DICT>", "{'id': 1}")
    answer = of_tool(f"{code}\ndef tool():\n    return data", host=host, tools=["look_up"])

    assert answer["result"] == {"found": True}
    assert answer["stdout"] == ("" if status_code == 200 else "Request failed with status 500\n")


def inline_json(part: Part) -> tuple[str | None, Any]:
    """Return the media type of a part's data, and the JSON in it."""
    assert part.inline_data is not None
    return part.inline_data.mime_type, json.loads(part.inline_data.raw_data)


def call(name: str, **args: Any) -> dict[str, Any]:
    """Return a call as it travels."""
    return {"functionCall": {"name": name, "args": args}}


def data(encoded: str, mime_type: str) -> dict[str, Any]:
    """Return data as it travels."""
    return {"inlineData": {"data": encoded, "mimeType": mime_type}}


def test_a_part_of_code_has_one_field() -> None:
    """As the reference says; what the host sent is kept. Flags of events are bools, sets and texts."""
    with pytest.raises(pydantic.ValidationError, match="one field, and this one has function_call and text"):
        Part(function_call=FunctionCall(name="f"), text="a")
    wire = {"role": "agent", "parts": [{"functionCall": {"name": "f"}, "text": "a"}]}
    sent = from_wire(Content, wire)
    needed = {"id": "e", "invocationId": "i", "author": "root", "timestamp": 1}
    event = Event.model_validate({**needed, "partial": None, "actions": {"escalate": None}})

    assert (sent.is_model(), sent.is_user()) == (True, False)
    assert to_wire(sent, "content") == wire
    assert (event.partial, event.turn_complete, event.interrupted) == (False, False, False)
    assert event.long_running_tool_ids == set()
    assert (event.actions.escalate, event.actions.transfer_to_agent) == (False, "")


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (Part.from_text("hi"), {"text": "hi"}),
        (Part.from_function_call("look_up", {"id": None}), call("look_up", id=None)),
        (
            Part.from_function_response("look_up", {"output": [1]}),
            {"functionResponse": {"name": "look_up", "response": {"output": [1]}}},
        ),
        (Part.from_agent_transfer("billing"), call("transfer_to_agent", agent_name="billing")),
        (
            Part.from_end_session(reason="done"),
            call("end_session", reason="done", session_escalated=False),
        ),
        (
            Part.from_end_session(reason="angry", escalated=True),
            call("end_session", reason="angry", session_escalated=True),
        ),
        (Part.from_inline_data(b"aGVsbG8=", "text/plain"), data("aGVsbG8=", "text/plain")),
        (Part.from_json('{"a": 1}'), data("eyJhIjogMX0=", "application/json")),
    ],
)
def test_a_part_that_was_made_travels_in_its_documented_shape(part: Part, wire: dict[str, Any]) -> None:
    """In camelCase, without what is absent; None inside of arguments stays. Read again, it is the same."""
    assert wire == to_wire(part, "part")
    assert Part.model_validate(wire) == part


RESPONSE: dict[str, Any] = {
    **dict.fromkeys(["disableBargeIn", "enableDtmf"], False),
    "content": "Type it",
    "dtmfFinishDigit": "#",
    "dtmfEndpointingTimeout": 3,
}


def test_audio_and_customized_responses_are_json_of_their_own_types() -> None:
    """Every option under its name on the wire, with the documented defaults."""
    assert inline_json(Part.from_audio("gs://b/a.wav")) == (
        "application/json+audio",
        {"audioUri": "gs://b/a.wav", "cancellable": False, "interruptable": True},
    )
    kind = "application/json+agentResponse"
    assert inline_json(Part.from_customized_response(content="Type it")) == (kind, RESPONSE)
    flags = Part.from_customized_response(content="Type it", disable_barge_in=True, enable_dtmf=True)
    assert inline_json(flags) == (kind, {**RESPONSE, "disableBargeIn": True, "enableDtmf": True})
    digits = Part.from_customized_response(content="", dtmf_finish_digit="*", dtmf_endpointing_timeout=9)
    changed = {"content": "", "dtmfFinishDigit": "*", "dtmfEndpointingTimeout": 9}
    assert inline_json(digits) == (kind, {**RESPONSE, **changed})


def test_a_part_says_its_text_and_which_function_it_is_about() -> None:
    """An empty text is one; data has a transcript or has not. A call is no response."""
    spoken = Part(inline_data=Blob.model_validate({"transcript": "said"}))
    parts = (Part(text=""), spoken, Part(inline_data=Blob()), Part())
    call = Part.from_function_call("look_up", {})
    response = Part.from_function_response("look_up", {})

    assert [part.text_or_transcript() for part in parts] == ["", "said", None, None]
    assert (call.has_function_call("look_up"), call.has_function_call("other")) == (True, False)
    assert (call.has_function_response("look_up"), response.has_function_response("look_up")) == (False, True)
    assert response.has_function_call("look_up") is False


def test_raw_data_reads_both_alphabets_of_base64() -> None:
    """Some libraries write the one for URLs. Text that looks like base64 is text, if that encodes none."""
    raw = bytes([0xFB, 0xEF, 0xFF])
    with pytest.raises(TypeError):
        _ = Blob().raw_data

    assert base64.urlsafe_b64encode(raw) != base64.b64encode(raw)
    assert Blob(data=base64.urlsafe_b64encode(raw)).raw_data == raw
    assert to_wire(Blob(data=base64.urlsafe_b64encode(raw)), "blob") == {"data": "++//"}

    for raw in (b"true", b"null", b"1234", b"{}", b"name"):
        encoded = base64.b64encode(raw)
        for given in (raw, encoded):
            blob = Part.from_inline_data(given, "application/json").inline_data
            assert blob is not None
            assert (blob.raw_data, to_wire(blob, "blob")["data"]) == (raw, encoded.decode())


@pytest.mark.parametrize("raw", [b"\x89PNG", b"\x89PNGX", b"abcd\n"])
def test_raw_bytes_that_were_never_encoded_travel_as_base64(raw: bytes) -> None:
    """from_inline_data keeps what it is given; the wire holds base64 alone."""
    part = Part.from_inline_data(raw, "image/png")
    assert part.inline_data is not None

    assert part.inline_data.data == raw
    assert to_wire(part.inline_data, "blob")["data"] == base64.b64encode(raw).decode()


def test_what_is_not_known_travels_along_unseen() -> None:
    """A thought signature, the schema of a function: lost, a model would refuse the next call."""
    part = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}
    declared = {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}
    wire = {
        "contents": [{"role": "model", "parts": [part]}],
        "config": {"temperature": 0.5, "tools": [declared]},
    }
    request = from_wire(LlmRequest, wire)

    assert wire == to_wire(request, "request")
    assert not hasattr(request.config, "temperature")
    assert "temperature" not in request.model_dump()["config"]
    assert wire == to_wire(request.model_copy(deep=True), "request")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, Part.model_copy])
def test_what_is_not_known_is_no_difference(copied: Callable[[Part], Part]) -> None:
    """To code, a part with a signature is the part that it can see; copies travel with it."""
    wire = {"text": "a", "thoughtSignature": "c2ln"}
    part = from_wire(Part, wire)

    assert part == Part(text="a")
    assert repr(part) == repr(Part(text="a"))
    assert part.model_dump(exclude_none=True) == {"text": "a"}
    assert wire == to_wire(copied(part), "part")


def test_what_code_makes_up_does_not_travel() -> None:
    """ADK's own classes would refuse a name that no class has. What JSON cannot hold is an error."""
    made = LlmResponse.model_validate({"content": {"parts": [{"text": "a", "txet": "b"}], "rol": "model"}})
    response = LlmResponse.from_parts([Part(function_call=FunctionCall(name="f", args={"when": {1, 2}}))])

    assert to_wire(made, "response") == {"content": {"parts": [{"text": "a"}]}}
    where = r"response\.content\.parts\[0\]\.function_call\.args\['when'\].*set"
    with pytest.raises(NotJsonError, match=where):
        to_wire(response, "response")

"""Parts, contents, requests and responses have the shapes that travel."""

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from gcp_adk_store.ces.guest.messages import Blob, Content, Event, FunctionCall, LlmRequest, LlmResponse, Part
from gcp_adk_store.ces.guest.models import NotJsonError, from_wire, to_wire


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

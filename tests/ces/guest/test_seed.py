"""Every name, attribute, method, default and example of the platform's reference is as documented."""

import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.guest.messages import Event
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

    assert re.sub(r"\b(ces_internal|typing)\.", "", "\n".join(shown)) == seed.REFERENCE


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
    assert result_of("return [context.state, context.user_content.parts[0].text]", context=given) == [
        {"a": 1},
        "hi",
    ]


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

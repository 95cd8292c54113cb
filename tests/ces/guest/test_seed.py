"""Every name, attribute, method, default and example of the platform's reference is as documented."""

import inspect
import typing
from typing import Any

import pydantic
import pytest
from pydantic.alias_generators import to_camel

from gcp_adk_store.ces.guest.namespace import CLASSES
from tests.ces.guest import seed
from tests.ces.guest.runs import Host, of_tool, replied, result_of

SIGNATURES = {
    owner: {**seed.METHODS.get(owner, {}), **seed.METHODS_BEYOND.get(owner, {})} for owner in seed.METHODS
}
METHODS = [(owner, name) for owner, methods in SIGNATURES.items() for name in methods]
ATTRIBUTES = [(owner, name) for owner, attributes in seed.ATTRIBUTES.items() for name in attributes]
PROPERTIES = {"CallbackContext": {"variables"}}
"""Attributes that are other ones under another name."""


def meant(annotation: str) -> Any:
    """Return what an annotation of the reference means."""
    return eval(annotation, {**vars(typing), "List": list, **CLASSES})  # noqa: S307  # of this repository's own table


def documented(signature: str) -> inspect.Signature:
    """Return a signature of the reference."""
    names: dict[str, Any] = {**vars(typing), **CLASSES}
    exec(f"def documented{signature}: ...", names)  # noqa: S102  # as above
    return inspect.signature(names["documented"])


def assert_accepts(function: Any, signature: str, *, of: Any = None) -> None:
    """Assert that *function* has the documented parameters, of the same kinds, types and defaults.

    Types are compared where the reference has them; Self is the class that the method is *of*.
    """
    expected = documented(signature)
    ours = inspect.signature(function, eval_str=True)
    assert [(each.name, each.kind, each.default) for each in ours.parameters.values()] == [
        (each.name, each.kind, each.default) for each in expected.parameters.values()
    ]
    for name, parameter in expected.parameters.items():
        assert parameter.annotation in {inspect.Parameter.empty, ours.parameters[name].annotation}
    returned = of if ours.return_annotation is typing.Self else ours.return_annotation
    assert expected.return_annotation in (inspect.Parameter.empty, returned)


@pytest.mark.parametrize("name", [*seed.CLASSES, *seed.GLOBALS])
def test_a_name_is_there_in_code_and_in_the_module(name: str) -> None:
    """It is a global and a name of ces_public, also what belongs to the run, and the same in both."""
    of_module = "module" if name == "ces_public" else f"module.{name}"

    assert result_of(f"import ces_public as module\nreturn {name} is {of_module}")
    if name in seed.CLASSES:
        found = f"return [{name} is ces_public.{name}, {name}.__name__, {name}.__module__]"
        assert result_of(found) == [True, name, "ces_internal"]


@pytest.mark.parametrize(("owner", "name"), ATTRIBUTES)
@pytest.mark.parametrize("encoding", [str, to_camel], ids=["snake_case", "camelCase"])
def test_an_attribute_is_read_under_both_encodings(owner: str, name: str, encoding: Any) -> None:
    """What JSON holds is read, and has the documented type."""
    annotation, value = seed.ATTRIBUTES[owner][name]
    made: Any = CLASSES[owner](**{**seed.NEEDED.get(owner, {}), encoding(name): value})
    found = getattr(made, name)

    assert found is not None
    assert found != getattr(CLASSES[owner](**seed.NEEDED.get(owner, {})), name, None)
    pydantic.TypeAdapter(meant(annotation)).validate_python(found, strict=True)


@pytest.mark.parametrize("owner", sorted(seed.ATTRIBUTES))
def test_a_class_has_the_documented_attributes_and_no_others(owner: str) -> None:
    """Those of newer versions counted in; each of its type, or absent where the reference has no None.

    The default is None, unless the reference's type has none; it is never one object for all.
    """
    of_class: Any = CLASSES[owner]
    inherited = getattr(of_class.__base__, "model_fields", {})
    fields = {name: field for name, field in of_class.model_fields.items() if name not in inherited}
    fields.pop("transcript_field", None)  # what the method transcript returns
    expected = {name: meant(annotation) for name, (annotation, _) in seed.ATTRIBUTES[owner].items()}

    assert set(fields) == set(expected) - PROPERTIES.get(owner, set())
    for name, field in fields.items():
        assert field.annotation in (expected[name], expected[name] | None)
    needed = seed.NEEDED.get(owner, {})
    for name in expected:
        first, second = (getattr(of_class(**needed), name) for _ in range(2))
        default = needed.get(name, meant(seed.DEFAULTS.get(owner, {}).get(name, "None")))
        assert (first, type(first)) == (default, type(default))
        assert first is not second or not isinstance(first, dict | list | pydantic.BaseModel)


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_has_the_documented_signature(owner: str, name: str) -> None:
    """Names, kinds, types and defaults of its parameters, and what it returns."""
    of_class: Any = CLASSES[owner]
    is_of_class = isinstance(inspect.getattr_static(of_class, name), classmethod)
    method = getattr(of_class if is_of_class else object.__new__(of_class), name)

    assert_accepts(method, SIGNATURES[owner][name], of=of_class)


@pytest.mark.parametrize("name", seed.GLOBAL_FUNCTIONS)
def test_a_global_function_has_its_signature(name: str) -> None:
    """As its example calls it."""
    found = result_of(f"import inspect\nreturn str(inspect.signature({name}, eval_str=True))")
    plain = inspect.Signature(
        [each.replace(annotation=inspect.Parameter.empty) for each in documented(found).parameters.values()]
    )

    assert str(plain) == seed.GLOBAL_FUNCTIONS[name]


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

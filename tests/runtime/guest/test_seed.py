"""Every name, attribute, method, default and example of the platform's reference is as documented."""

import inspect
import typing
from typing import Any

import pydantic
import pytest
from pydantic.alias_generators import to_camel

from gcp_adk_store.runtime.guest.namespace import CLASSES
from tests.runtime.guest import seed
from tests.runtime.guest.runs import Host, as_tool, of_tool, replied, result_of

ATTRIBUTES = [(owner, name) for owner, attributes in seed.ATTRIBUTES.items() for name in attributes]
METHODS = [(owner, name) for owner, methods in seed.METHODS.items() for name in methods]


def documented_type(annotation: str) -> Any:
    """Return what an annotation of the reference means."""
    return eval(annotation, {**vars(typing), **CLASSES})  # noqa: S307  # of this repository's own table


def parameters(signature: str) -> list[inspect.Parameter]:
    """Return the parameters that a signature of the reference has."""
    names: dict[str, Any] = {}
    exec(f"def documented({signature}): ...", names)  # noqa: S102  # as above
    return list(inspect.signature(names["documented"]).parameters.values())


def accepts(function: Any, signature: str) -> None:
    """Assert that *function* has the documented parameters, of the same kind, with the same defaults."""
    ours = list(inspect.signature(function).parameters.values())
    for documented, own in zip(parameters(signature), ours, strict=True):
        assert (own.name, own.kind) == (documented.name, documented.kind)
        if documented.default is not inspect.Parameter.empty:
            assert own.default == documented.default


@pytest.mark.parametrize("name", seed.CLASSES)
def test_a_class_is_there_in_code_and_in_the_module(name: str) -> None:
    """It is a global, a name of ces_public, and the same in both."""
    found = result_of(
        f"import ces_public as module\n"
        f"return [{name}.__name__, {name} is module.{name} is ces_public.{name}, {name}.__module__]"
    )

    assert found == [name, True, "ces_internal"]


@pytest.mark.parametrize("name", seed.GLOBALS)
def test_a_global_is_there_in_code_and_in_the_module(name: str) -> None:
    """Also those that belong to the run are names of ces_public."""
    of_module = "module" if name == "ces_public" else f"module.{name}"

    assert result_of(f"import ces_public as module\nreturn {name} is {of_module}")


@pytest.mark.parametrize(("owner", "name"), ATTRIBUTES)
@pytest.mark.parametrize("spelling", [str, to_camel], ids=["snake_case", "camelCase"])
def test_an_attribute_is_read_under_both_spellings(owner: str, name: str, spelling: Any) -> None:
    """What JSON holds is read, and has the documented type."""
    annotation, value = seed.ATTRIBUTES[owner][name]
    made: Any = CLASSES[owner](**{**seed.NEEDED.get(owner, {}), spelling(name): value})
    found = getattr(made, name)

    assert found is not None
    pydantic.TypeAdapter(documented_type(annotation)).validate_python(found, strict=True)


@pytest.mark.parametrize(("owner", "name"), ATTRIBUTES)
def test_an_optional_attribute_is_none_by_default(owner: str, name: str) -> None:
    """Every one that is documented as Optional."""
    made: Any = CLASSES[owner](**seed.NEEDED.get(owner, {}))
    optional = seed.ATTRIBUTES[owner][name][0].startswith("Optional")

    assert (getattr(made, name) is None) or not optional


@pytest.mark.parametrize("owner", sorted(seed.ATTRIBUTES))
def test_an_unknown_attribute_is_ignored(owner: str) -> None:
    """It is neither an error nor there."""
    made: Any = CLASSES[owner](**seed.NEEDED.get(owner, {}), no_such_attribute=1)

    assert not hasattr(made, "no_such_attribute")


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_has_the_documented_parameters(owner: str, name: str) -> None:
    """Names, kinds and defaults."""
    method = inspect.getattr_static(CLASSES[owner], name)
    is_of_class = isinstance(method, classmethod)
    bound = getattr(CLASSES[owner], name) if is_of_class else getattr(object.__new__(CLASSES[owner]), name)

    accepts(bound, seed.METHODS[owner][name])


@pytest.mark.parametrize("name", seed.GLOBAL_FUNCTIONS)
def test_a_global_function_takes_the_documented_parameters(name: str) -> None:
    """get_variable takes a default besides, as much code has it."""
    found = result_of(f"import inspect\nreturn list(inspect.signature({name}).parameters)")
    documented = [parameter.name for parameter in parameters(seed.GLOBAL_FUNCTIONS[name])]

    assert found[: len(documented)] == documented
    assert found[len(documented) :] == (["default"] if name == "get_variable" else [])


def test_http_methods_are_strings() -> None:
    """Exactly the documented ones."""
    assert list(seed.HTTP_METHODS) == result_of("return [method for method in HttpMethod]")


def test_a_tool_context_is_a_callback_context() -> None:
    """What reads the session works in tools too."""
    assert result_of("return isinstance(context, ToolContext) and issubclass(ToolContext, CallbackContext)")


def test_a_status_error_has_what_it_is_made_of() -> None:
    """It can be caught by its name."""
    found = result_of(
        """
        try:
            raise StatusError(404, "Not Found")
        except StatusError as error:
            return [error.status_code, error.reason]
        """
    )

    assert found == [404, "Not Found"]


@pytest.mark.parametrize(
    ("status_code", "ok"), [(0, True), (200, True), (399, True), (400, False), (503, False)]
)
def test_a_response_is_ok_below_400(status_code: int, ok: bool) -> None:  # noqa: FBT001  # a case
    """raise_for_status agrees."""
    source = f"""
        response = ExternalResponse(text="[1]", status_code={status_code}, reason="because")
        try:
            response.raise_for_status()
            raised = None
        except StatusError as error:
            raised = [error.status_code, error.reason]
        public = [name for name in dir(response) if not name.startswith("_")]
        return [response.ok, response.json(), raised, public]
        """
    found = result_of(source)

    assert found[:3] == [ok, [1], None if ok else [status_code, "because"]]
    assert found[3] == ["json", "ok", "raise_for_status", "reason", "status_code", "text"]


def test_a_response_that_is_no_json_says_so() -> None:
    """json() raises what the module json does."""
    answer = of_tool("def tool():\n    return ExternalResponse(text='<html>').json()")

    assert answer["error"]["type"] == "JSONDecodeError"


def test_the_examples_of_blobs_run() -> None:
    """Raw bytes become base64; JSON gets its type."""
    found = result_of(
        """
        blob = Blob(mime_type='text/plain')
        blob.raw_data = b'hello world'
        made = Blob.from_json(data='{"key": "value"}')
        return [blob.data.decode(), blob.raw_data.decode(), made.raw_data.decode(), made.mime_type]
        """
    )

    assert found == ["aGVsbG8gd29ybGQ=", "hello world", '{"key": "value"}', "application/json"]


def test_the_examples_of_parts_and_responses_run() -> None:
    """Through ces_public and without it."""
    found = result_of(
        """
        text_part = ces_public.Part.from_text(text="Hello from the user!")
        tool_part = ces_public.Part.from_function_call(
          name="get_weather",
          args={"location": "Mountain View"}
        )
        response = LlmResponse.from_parts(
          parts=[
            Part.from_text(text="hello world")
          ]
        )
        return [text_part.text, tool_part.function_call.args, response.content.parts[0].text,
                response.content.role, response.content.is_model(), response.content.is_user()]
        """
    )

    assert found == [
        "Hello from the user!",
        {"location": "Mountain View"},
        "hello world",
        "model",
        True,
        False,
    ]


def test_the_examples_of_variables_run() -> None:
    """Each is its own tool on one session."""
    get = "def get_a_value() -> int:\n  my_value = get_variable('my_key')\n  return my_value + 5"
    put = "def set_a_value() -> None:\n  set_variable('my_key', 10)"
    remove = "def remove_a_value() -> None:\n  remove_variable('my_key')"

    assert of_tool(get, name="get_a_value", state={"my_key": 1})["result"] == 6
    assert of_tool(put, name="set_a_value")["state_delta"] == {"changed": {"my_key": 10}, "removed": []}
    assert of_tool(remove, name="remove_a_value", state={"my_key": 1})["state_delta"] == {
        "changed": {},
        "removed": ["my_key"],
    }


@pytest.mark.parametrize(
    "call",
    [
        "tools.look_up({'id': 1})",
        "async_tools.look_up({'id': 1})()",
        "ces_requests.get('https://api.example.com')",
    ],
)
@pytest.mark.parametrize("status_code", [200, 500])
def test_the_examples_of_calls_run(call: str, status_code: int) -> None:
    """An error is caught by StatusError; the body is read as JSON."""
    host = Host(lambda _: replied({"found": True}, status_code=status_code))
    body = f"""
        response = {call}
        try:
          response.raise_for_status()
        except StatusError:
          print(f"Request failed with status {{response.status_code}}")
        data = response.json()
        return data
        """
    answer = of_tool(as_tool(body), host=host, tools=["look_up"])

    assert answer["result"] == {"found": True}
    assert answer["stdout"] == ("" if status_code == 200 else "Request failed with status 500\n")

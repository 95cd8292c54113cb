"""What lint finds in how code uses the runtime's names, and what it lets pass."""

import pytest

from gcp_adk_store.ces.apps.findings import Parsed
from gcp_adk_store.ces.apps.lint import check_callback, check_tool, check_tool_names
from gcp_adk_store.ces.guest.contract import Callback


def of_tool(line: str, *, imports: str = "") -> list[tuple[str, int]]:
    """Return what is found in a tool that does *line*, by code and line."""
    source = f'import os, time\n{imports}\ndef find(name: str) -> dict:\n    "Find it."\n    {line}\n'
    parsed = Parsed.of(source, "find.py")
    assert isinstance(parsed, Parsed), parsed
    return [(each.code, each.line) for each in check_tool(parsed, "find")]


def of_callback(callback: Callback, line: str) -> list[str]:
    """Return the codes of what is found in a callback that does *line*."""
    names = {
        "before_model": ("callback_context", "llm_request"),
        "after_tool": ("tool", "input", "callback_context", "tool_response"),
    }.get(callback, ("callback_context",))
    parameters = ", ".join(f"{name}: dict" for name in names)
    parsed = Parsed.of(f"def {callback}_callback({parameters}) -> None:\n    {line}\n", "code.py")
    assert isinstance(parsed, Parsed), parsed
    return [each.code for each in check_callback(parsed, callback)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("return tools.look_up({}).get('name')", "CES404"),
        ("return ces_requests.get(name).headers", "CES404"),
        ("answer = tools.look_up({}); return answer.content", "CES404"),
        ("async_tools.look_up({})", "CES405"),
        ("return async_tools.look_up({}).json()", "CES405"),
        ("return ces_requests.async_get(name).json()", "CES405"),
        ("return ces_requests.Session()", "CES406"),
        ("return requests.exceptions", "CES406"),
        ("return requests.get(name, timeout=5)", "CES403"),
        ("return ces_requests.post(name, data=b'x')", "CES407"),
        ("return ces_requests.post(name, data=name.encode())", "CES407"),
        ("return context.user_input_text", "CES409"),
        ("return Part.from_txt(name)", "CES409"),
        ("return Part.from_text(text=name, partial=True)", "CES409"),
        ("return LlmResponse.of_parts([])", "CES409"),
    ],
)
def test_each_difference_of_the_platform_is_found(line: str, code: str) -> None:
    """It alone, in its line."""
    assert [(code, 5)] == of_tool(line)


@pytest.mark.parametrize(
    "line",
    [
        "return os.environ['LANG'], os.environ.get('PYTHON_VERSION'), os.environ.get(name)",
        "answer = tools.look_up({}); return answer.json(), answer.ok, answer.reason, answer.text",
        "answer = tools.look_up({}).json(); return answer.items()",
        "answer = tools.look_up({}); answer = answer.json(); return answer.get('a')",
        "waits = async_tools.look_up({}); return waits().json()",
        "return [each() for each in [async_tools.look_up({}), ces_requests.async_get(name)]]",
        "return ces_requests.post(name, data={'a': 'b'}), ces_requests.post(name, data=name)",
        "return ces_requests.get('https://8.8.8.8/'), ces_requests.get('https://api.example.com')",
        "return ces_requests.get(f'http://{name}/'), ces_requests.get('no address')",
        "return context.user_content, context.function_call_id, context.get_last_user_input()",
        "return Part.from_text('a'), Part.from_end_session(reason='x', escalated=True), HttpMethod.GET",
        "context.state['a'] = {'b': 1}; context.state.pop('a'); context.state.update(b=1)",
        "found = dict(get_variable('a')); found['b'] = 1; set_variable('a', found)",
        "time.sleep(1); time.sleep(len(name))",
        "class Event: pass",
        "return ces_public.Part.from_text('x'), ces_internal.Part",
        "return globals()['ces_requests'].get(name)",
    ],
)
def test_what_the_platform_has_passes(line: str) -> None:
    """Whatever the code makes of it."""
    assert [] == of_tool(line)


def test_an_attribute_that_the_code_asks_for_by_hasattr_passes() -> None:
    """Such code knows that it may be missing."""
    guarded = (
        "answer = tools.look_up({}); return answer.content if hasattr(answer, 'content') else answer.text"
    )

    assert [] == of_tool(guarded)
    assert [("CES404", 5)] == of_tool(guarded.replace("'content'", "'body'"))


def test_names_that_the_code_binds_itself_are_its_own() -> None:
    """Whatever the runtime calls by them."""
    assert [] == of_tool("ces_requests = name; return ces_requests.Session()")
    assert [] == of_tool("return requests.headers", imports="from json import loads as requests")
    assert [("CES406", 5)] == of_tool(
        "return ces_requests.Session()", imports="from ces_public import ces_requests"
    )


def test_a_tool_whose_name_is_not_snake_case_is_found() -> None:
    """Beside a good one."""
    parsed = Parsed.of('def findIt() -> dict:\n    """Find it."""\n', "code.py")
    assert isinstance(parsed, Parsed)

    assert ["CES108"] == [each.code for each in check_tool(parsed, "findIt")]


@pytest.mark.parametrize(
    ("callback", "line", "codes"),
    [
        ("before_model", "return {'text': 'a'}", ["CES109"]),
        ("before_model", "return 'a'", ["CES109"]),
        ("before_model", "return Content(parts=[])", ["CES109"]),
        ("before_agent", "return LlmResponse.from_parts([])", ["CES109"]),
        ("after_tool", "return [1]", ["CES109"]),
        ("before_model", "return LlmResponse.from_parts([])", []),
        ("before_model", "return LlmResponse(content=Content(parts=[]))", []),
        ("before_agent", "return Content(parts=[Part.from_text('a')])", []),
        ("before_agent", "return None if callback_context else callback_context", []),
        ("before_model", "return (lambda: {'a': 1}) and None", []),
        ("after_tool", "return {'a': tool_response}", []),
        ("after_tool", "return {'a': tool_response.get('result', tool_response)['name']}", []),
        ("after_tool", "return {'a': tool_response.get('output') or tool_response.get('error')}", []),
    ],
)
def test_what_callbacks_return_and_read_has_the_platforms_shape(
    callback: Callback, line: str, codes: list[str]
) -> None:
    """Where the code says it without a run."""
    assert codes == of_callback(callback, line)


def test_a_system_tool_is_no_tool_of_code_and_the_remedy_says_what_is() -> None:
    """A part of a response."""
    parsed = Parsed.of("tools.end_session({})", "code.py")
    assert isinstance(parsed, Parsed)
    (found,) = check_tool_names(parsed, frozenset())

    assert "Part.from_end_session" in found.fix

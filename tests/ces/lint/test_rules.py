"""What lint finds in one file and in how it uses the runtime, where, and what it lets pass."""

import re

import pytest

from gcp_adk_store.ces import Finding
from gcp_adk_store.ces.apps.findings import Parsed
from gcp_adk_store.ces.apps.lint import check_callback, check_tool
from gcp_adk_store.ces.guest.contract import CALLBACKS, Callback, parameters_of

GOOD = '''from typing import Optional
import json


def find(name: str, limit: int = 3) -> dict:
    """Find people of a name."""
    return {"found": _all(name)[:limit], "note": tools.note({"text": name}).json()}


def _all(name: Optional[str]) -> list:
    return [name]
'''
BINDS = """
def _bound(value: list) -> int:
    match value:
        case [first, *rest] as all_of_it:
            return [each for each in (first, rest, all_of_it)]
        case {"a": int(), **others}:
            return lambda one, /, *two, three=4, **five: (others, one, two, three, five)
    try:
        import os.path as place, sys
        with open(place) as file:
            del file
    except ValueError as problem:
        return problem, sys, (walrus := 1)


class _Own:
    size: int = 3

    def grow(self, by: int = size) -> int:
        global counted
        counted = by
        return __name__, __class__
"""


def of_tool(source: str, name: str = "find") -> list[Finding]:
    """Return what is found in the code of a tool."""
    parsed = Parsed.of(source, "find.py")
    return [parsed] if isinstance(parsed, Finding) else list(check_tool(parsed, name))


def of_callback(source: str, callback: Callback) -> list[Finding]:
    """Return what is found in the code of a callback."""
    parsed = Parsed.of(f"from typing import Any\n{source}", "code.py")
    assert isinstance(parsed, Parsed)
    return list(check_callback(parsed, callback))


@pytest.mark.parametrize(
    ("was", "becomes", "code", "line"),
    [
        ("def find(", "def find(:", "CES002", 5),
        ("def find(", "def look(", "CES102", 5),
        ('    """Find people of a name."""\n', "", "CES104", 5),
        ("def find(", "async def find(", "CES105", 5),
        ("name: str, ", "name, ", "CES201", 5),
        ("name: Optional[str]", "name", "CES201", 10),
        ("limit: int = 3", "limit: int = None", "CES202", 5),
        ("limit: int = 3", "*, limit: int = None", "CES202", 5),
        ("limit: int = 3", "limit: Optional[int] = None", "CES206", 5),
        ("limit: int = 3", "limit: int | None = None", "CES206", 5),
        ("limit: int = 3", "limit: 'Optional[int]' = None", "CES206", 5),
        ("limit: int = 3", "limit: int = 3, **more: str", "CES203", 5),
        ("limit: int = 3", "*more: str, limit: int = 3", "CES203", 5),
        ("limit: int", "context: dict, limit: int", "CES204", 5),
        ("import json", "import requests", "CES301", 2),
        ("import json", "import google.cloud.storage", "CES301", 2),
        ("import json", "from google import auth", "CES301", 2),
        ("import json", "import ces_requests", "CES301", 2),
        ("import json", "import asyncore", "CES301", 2),
        ("import json", "from .note import x", "CES301", 2),
        ("import json", "try:\n    import requests\nexcept KeyError:\n    pass", "CES301", 3),
        ("from typing import Optional\n", "\n", "CES302", 10),
        ("import json", "_LIMITS = json.loads('{}')", "CES303", 2),
        ("[name]", "[nmae]", "CES303", 11),
        ("[name]", "[logger.name]", "CES304", 11),
        ("[name]", "[Event]", "CES305", 11),
        ('tools.note({"text": name})', "tools.note(text=name)", "CES402", 7),
        ('tools.note({"text": name})', 'async_tools.note({"text": name}, 1)()', "CES402", 7),
        ('tools.note({"text": name})', "ces_requests.get(name, timeout=3)", "CES403", 7),
        ('tools.note({"text": name})', "ces_requests.async_post(name, verify=False)()", "CES403", 7),
    ],
)
def test_each_fault_is_found_in_its_line(was: str, becomes: str, code: str, line: int) -> None:
    """It alone, with something to do about it."""
    assert was in GOOD
    found = of_tool(GOOD.replace(was, becomes, 1))

    assert [(code, line)] == [(each.code, each.line) for each in found]
    assert found[0].fix


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("", ""),
        # Also what later releases of Python no longer have.
        *(
            ("import json", line)
            for line in (
                "import numpy.linalg",
                "from google.protobuf import json_format",
                "from google import protobuf",
                "import pydantic, xml.etree.ElementTree",
                "import telnetlib",
                "from ces_public import ces_requests, Part",
                "import ces_public",
                "try:\n    import requests\nexcept (KeyError, ImportError):\n    pass",
            )
        ),
        # Of what is not the runtime's nothing is said.
        *(
            ('tools.note({"text": name})', call)
            for call in (
                "ces_requests.get(name, params={}, headers={})",
                "ces_requests.post(url=name, data='', json=None)",
                "tools.note()",
                "name.get(name, timeout=3)",
            )
        ),
    ],
)
def test_good_code_passes(was: str, becomes: str) -> None:
    """With a helper, a default, imports of what the platform has, and calls as documented."""
    assert [] == of_tool(GOOD.replace(was, becomes, 1))


@pytest.mark.parametrize(
    "code",
    [
        "from json import *\ndumps(1)",
        "globals()['own'] = 1\nown",
        "try:\n    logger\nexcept NameError:\n    pass",
        BINDS,
        "print(Part, HttpMethod, requests, importlib, ces_public.Part, ces_internal, context, StatusError)",
    ],
)
def test_names_that_code_binds_in_any_way_are_defined(code: str) -> None:
    """So are the runtime's; and nothing is said where nobody can know."""
    assert "CES303" not in {each.code for each in of_tool(f"{GOOD}\n{code}\n")}


def test_code_without_a_function_is_no_tool_and_names_of_tools_are_snake_case() -> None:
    """Code that Python cannot hold is reported by the error that it raises; some have no message."""
    assert ["CES101"] == [each.code for each in of_tool("import json\n")]
    (spelt,) = of_tool('def findIt() -> dict:\n    """Find it."""\n', "findIt")
    assert "CES108" == spelt.code
    (found,) = of_tool("-" * 500_000 + "1")
    assert re.search(r"cannot read it: \w", found.says)


@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_callback_of_the_documented_form_passes(callback: Callback) -> None:
    """And without one of its parameters it does not."""
    names = parameters_of(callback)
    whole = f"def {callback}_callback({', '.join(f'{name}: Any' for name in names)}) -> None:\n    pass\n"

    assert [] == codes(whole, callback)
    assert ["CES106"] == codes(whole.replace(f"{names[-1]}: Any", ""), callback)
    assert ["CES106"] == codes(whole.replace(f"{names[-1]}: Any", "other: Any"), callback)
    assert ["CES106"] == codes(whole.replace(f"{names[-1]}: Any", f"{names[-1]}: Any, more: Any"), callback)
    assert ["CES106"] == codes(whole.replace(": Any)", ": Any, *, more: Any)"), callback)
    assert ["CES101"] == codes(whole.replace("_callback(", "(", 1), callback)
    assert ["CES205"] == codes(whole.replace(f"{names[-1]}: Any", names[-1]), callback)


def test_the_remedy_for_a_parameter_without_a_type_has_its_type() -> None:
    """As the platform hands it over."""
    source = "def before_model_callback(callback_context, llm_request):\n    pass\n"
    assert ["annotate it: callback_context: CallbackContext", "annotate it: llm_request: LlmRequest"] == [
        each.fix for each in of_callback(source, "before_model")
    ]


def codes(source: str, callback: Callback) -> list[str]:
    """Return the codes of what is found in a callback."""
    return [each.code for each in of_callback(source, callback)]


def of_line(line: str, *, imports: str = "") -> list[tuple[str, int]]:
    """Return what is found in a tool that does *line*, by code and line."""
    source = f'import os, time\n{imports}\ndef find(name: str) -> dict:\n    "Find it."\n    {line}\n'
    return [(each.code, each.line) for each in of_tool(source)]


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
    assert [(code, 5)] == of_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "return os.environ['LANG'], os.environ.get('PYTHON_VERSION'), os.environ.get(name)",
        "answer = tools.look_up({}); return answer.json(), answer.ok, answer.reason, answer.text",
        "answer = ces_requests.get(name); answer.raise_for_status(); return answer.status_code",
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
    assert [] == of_line(line)


def test_names_that_the_code_binds_itself_are_its_own() -> None:
    """Whatever the runtime calls by them, as a stand-in of a test is; code may ask for one by hasattr."""
    takes = GOOD.replace("limit: int", "ces_requests: str, limit: int") + "\n_all.get(timeout=1)\n"
    guarded = (
        "answer = tools.look_up({}); return answer.content if hasattr(answer, 'content') else answer.text"
    )

    assert [] == of_tool(takes)
    assert [] == of_tool(f"{GOOD}\nces_requests = _all\nces_requests.get('', timeout=1)\n")
    assert [] == of_line("ces_requests = name; return ces_requests.Session()")
    assert [] == of_line("return requests.headers", imports="from json import loads as requests")
    assert [] == of_line(guarded)
    assert [("CES404", 5)] == of_line(guarded.replace("'content'", "'body'"))
    imported = "from ces_public import ces_requests"
    assert [("CES406", 5)] == of_line("return ces_requests.Session()", imports=imported)


@pytest.mark.parametrize(
    ("callback", "line", "found"),
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
def test_callbacks_return_and_read_platform_shapes(callback: Callback, line: str, found: list[str]) -> None:
    """Where the code says it without a run."""
    parameters = ", ".join(f"{name}: dict" for name in parameters_of(callback))

    assert found == codes(f"def {callback}_callback({parameters}) -> None:\n    {line}\n", callback)

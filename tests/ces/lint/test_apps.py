"""What lint reads of an app's folder, and what it finds between its files."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcp_adk_store.ces import MockTool, OpenApiTool, lint_app, load_tools, read_app
from tests.ces.conversation.apps import write_files

TOOL = 'def {name}(value: str) -> dict:\n    """Do it."""\n    return {{}}\n'
CALLBACK = (
    "def before_model_callback(callback_context: dict, llm_request: dict) -> None:\n    tools.first({})\n"
)
AFTER_AGENT = "def after_agent_callback(callback_context: dict) -> None:\n    tools.web_search({})\n"
SCHEMA = "paths:\n  /a:\n    get:\n      operationId: findAccount\n    parameters: []\n"


LAUGHS = "a: &a {n: 1}\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 20)}]\n"
    for below, name in zip("abcde", "bcdef", strict=True)
)
"""Some 3 million values in a few lines."""
DEEP = f'{{"clientFunction": {{"parameters": {{"a": {"[" * 600}{"]" * 600}}}}}}}'
"""Python's reader of JSON takes it, and what recurses into it does not."""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app without a fault."""
    code = "agents/root/before_model_callbacks/{}/python_code.py"
    schema = "toolsets/bank/open_api_toolset/open_api_schema.yaml"
    first = "tools/first/python_function/python_code.py"
    function = {"name": "first", "pythonCode": first}
    variables = [{"name": "n", "schema": {"default": 3}}, {"name": "m", "schema": {}}]
    callbacks = [{"pythonCode": code.format("b")}, {"pythonCode": code.format("a"), "disabled": True}]
    second = TOOL.format(name="second") + "    tools.Bank_findAccount({})\n"
    files = {
        "app.json": {"variableDeclarations": variables},
        "tools/first/first.json": {
            "displayName": "first",
            "executionType": "ASYNCHRONOUS",
            "pythonFunction": function,
        },
        first: TOOL.format(name="first"),
        "tools/second/python_function/python_code.py": second,
        "tools/search/search.json": {"displayName": "web_search", "googleSearchTool": {}},
        "toolsets/bank/bank.json": {"displayName": "Bank", "openApiToolset": {"openApiSchema": schema}},
        schema: SCHEMA,
        "agents/root/root.json": {"beforeModelCallbacks": callbacks},
        code.format("a"): CALLBACK,
        code.format("b"): CALLBACK,
        "agents/other/after_agent_callbacks/x/python_code.py": AFTER_AGENT,
    }
    return write_files(tmp_path, files)


def test_a_function_that_the_configuration_selects_need_not_be_the_first(app: Path) -> None:
    """By the API's reference; that others measured another thing is a warning. A missing one is an error."""
    path = app / FIRST
    path.write_text(f"def shared(a: str) -> str:\n    return a\n\n\n{TOOL.format(name='first')}")
    config = {"pythonFunction": {"name": "fifth"}}
    helper = "def shared(a: str) -> str:\n    return a\n\n\n"
    files = {"fifth.json": config, "python_function/python_code.py": helper + TOOL.format(name="fifth")}
    write_files(app / "tools/fifth", files)

    found = {(each.code, each.severity, each.path.split("/")[1]) for each in lint_app(read_app(app))}
    path.write_text('def shared(a: str) -> str:\n    """Do it."""\n    return a\n')
    missing = [each.severity for each in lint_app(read_app(app)) if each.path.startswith("tools/first")]

    assert found == {
        (code, "warning", tool)
        for code, tool in (("CES102", "first"), ("CES102", "fifth"), ("CES103", "first"))
    }
    assert missing == ["error", "warning"]


def codes(folder: Path) -> list[tuple[str, str, int]]:
    """Return what is found in *folder*."""
    return [(each.code, each.path, each.line) for each in lint_app(read_app(folder))]


def test_an_export_is_read_whole(app: Path) -> None:
    """Tools, callbacks in the order of the configuration, operations of toolsets, variables."""
    read = read_app(app)

    assert [("first", "ASYNCHRONOUS"), ("second", "SYNCHRONOUS")] == [
        (tool.name, tool.execution) for tool in read.tools
    ]
    assert {"first", "second", "web_search", "Bank_findAccount"} == read.tool_names
    assert [
        ("other", "after_agent", "x", False),
        ("root", "before_model", "b", False),
        ("root", "before_model", "a", True),
    ] == [(each.owner, each.callback, each.path.parent.name, each.disabled) for each in read.callbacks]
    assert {"n": 3} == read.variables
    assert [] == codes(app)


def test_configuration_may_be_yaml_or_missing(tmp_path: Path) -> None:
    """A folder's name is then the tool's. A folder of files is one of tools; tests beside them are none."""
    files = {
        "app.yaml": "variableDeclarations:\n- name: n\n  schema: {default: x}\n",
        "tools/first/python_function/python_code.py": TOOL.format(name="first"),
    }
    read = read_app(write_files(tmp_path / "app", files))
    plain = {"first.py": TOOL.format(name="first"), "test_first.py": "", "conftest.py": ""}
    of_files = write_files(tmp_path / "files", plain)

    assert ["first"] == [tool.name for tool in read.tools] == [tool.name for tool in read_app(of_files).tools]
    assert ({"n": "x"}, []) == (read.variables, codes(of_files))


FIRST = "tools/first/python_function/python_code.py"
A = "agents/root/before_model_callbacks/a/python_code.py"


def test_a_tool_that_nobody_has_is_found(app: Path) -> None:
    """In its line. A helper of two tools is found in the second of them; callbacks may share names."""
    write_files(app, {FIRST: TOOL.format(name="first") + "    x = async_tools.firts({})\n"})
    write_files(app, {A: CALLBACK.replace("tools.first", "tools.end_session")})

    assert [("CES401", A, 2), ("CES401", FIRST, 4)] == codes(app)
    of_callback, of_tool = lint_app(read_app(app))
    assert "Bank_findAccount, first, second, web_search" in of_tool.fix
    assert "Part.from_end_session" in of_callback.fix

    helper = "\n\ndef _clean(text: str) -> str:\n    return text\n"
    for name in ("first", "second"):
        write_files(app, {f"tools/{name}/python_function/python_code.py": TOOL.format(name=name) + helper})
    for name in ("a", "b"):
        write_files(app, {f"agents/root/before_model_callbacks/{name}/python_code.py": CALLBACK + helper})

    assert [("CES103", "tools/second/python_function/python_code.py", 6)] == codes(app)


SCHEMA_FILE = "toolsets/bank/open_api_toolset/open_api_schema.yaml"
CONFIG, AGENT = "tools/first/first.json", "agents/root/root.json"


def rule_with(code: str) -> dict[str, Any]:
    """Return a transfer rule of that code."""
    condition = {"pythonCodeCondition": {"pythonCode": code}}
    return {"childAgent": "a", "direction": "PARENT_TO_CHILD", "deterministicTransfer": condition}


OUTSIDE = {"pythonFunction": {"name": "first", "pythonCode": "../outside.py"}}


@pytest.mark.parametrize(
    ("path", "content", "found"),
    [
        (CONFIG, '{\n"displayName": }', (CONFIG, 2)),
        (CONFIG, "[]", (CONFIG, 1)),
        (SCHEMA_FILE, "a: [\nb", (SCHEMA_FILE, 2)),
        ("tools/second/second.yaml", LAUGHS, ("tools/second/second.yaml", 1)),
        ("tools/second/second.yaml", "a: &a [*a]", ("tools/second/second.yaml", 1)),
        ("tools/second/second.yaml", "a: !!timestamp x", ("tools/second/second.yaml", 1)),
        ("tools/second/second.json", DEEP, ("tools/second/second.json", 1)),
        (AGENT, {"beforeModelCallbacks": [{"pythonCode": "agents/gone.py"}]}, ("agents/gone.py", 1)),
        (AGENT, {"beforeModelCallbacks": [{}]}, (AGENT, 1)),
        (AGENT, {"transferRules": [rule_with("../outside.py")]}, ("../outside.py", 1)),
        (AGENT, {"transferRules": [rule_with("agents/gone.py")]}, ("agents/gone.py", 1)),
        (CONFIG, OUTSIDE, ("../outside.py", 1)),
        *((path, b"\xff\xfe", (path, 1)) for path in (FIRST, CONFIG)),
    ],
)
def test_what_cannot_be_read_is_found(app: Path, path: str, content: Any, found: tuple[str, int]) -> None:
    """And the rest of the app is looked over all the same."""
    (app.parent / "outside.py").write_text("1 +")
    if isinstance(content, bytes):
        (app / path).write_bytes(content)
    else:
        write_files(app, {path: content})

    assert ("CES001", *found) in codes(app)
    assert not any(code == "CES002" for code, *_ in codes(app))


def test_marks_and_ends_of_lines_of_windows_are_read(app: Path) -> None:
    """In code and configuration."""
    for name in (FIRST, CONFIG, "app.json"):
        text = (app / name).read_text().replace("\n", "\r\n")
        (app / name).write_bytes(b"\xef\xbb\xbf" + text.encode())

    assert [] == codes(app)
    assert {"n": 3} == read_app(app).variables


def test_an_execution_that_the_platform_does_not_have_is_found(app: Path) -> None:
    """In the configuration of its tool, which is read all the same."""
    for execution in ("ASYNC", "synchronous", 3, "SYNCHRONOUS", None):
        write_files(app, {CONFIG: {"executionType": execution, "pythonFunction": {"name": "first"}}})

        assert (execution in {"SYNCHRONOUS", None}) is (("CES107", CONFIG, 1) not in codes(app))
        assert "first" in read_app(app).tool_names


def test_a_comment_lets_a_fault_pass(app: Path) -> None:
    """The one that it names, in its line; any other is found, and one that is not named."""
    source = "def first(value, other) -> dict:{}\n    return {{}}\n"
    comments = ("  # noqa: CES201, CES104", "  # noqa: CES104", "  # noqa", "\n    # noqa: CES104, CES201")
    found = []
    for comment in comments:
        write_files(app, {FIRST: source.format(comment)})
        found.append([code for code, *_ in codes(app)])

    faults = ["CES104", "CES201", "CES201"]
    assert [[], ["CES201", "CES201"], faults, faults] == found


def test_operations_are_named_as_they_are_called(app: Path) -> None:
    """Also those without an operationId; a document without a server has stand-ins, which a mock replaces."""
    spec = "info: {title: B}\npaths:\n  /a b/{id}:\n    get: {}\n    post: {operationId: do it}\n"
    names = {"Bank_get_a_b_id", "Bank_do_it"}
    write_files(app, {SCHEMA_FILE: spec})
    stood_in = {tool.name: tool for tool in load_tools(read_app(app)) if isinstance(tool, MockTool)}
    write_files(app, {SCHEMA_FILE: f"servers: [{{url: 'https://bank.example.com'}}]\n{spec}"})
    (called,) = (tool for tool in load_tools(read_app(app)) if isinstance(tool, OpenApiTool))

    assert {"web_search", *names} == set(stood_in)
    assert "no absolute URL as its server" in str(stood_in["Bank_do_it"].response)
    assert {501} == {tool.status_code for tool in stood_in.values()}
    assert names == set(called.operations) == read_app(app).toolsets[0].tool_names


KEYS = [
    "displayName",
    "pythonFunction",
    "name",
    "pythonCode",
    "executionType",
    "beforeModelCallbacks",
    "schema",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("tools/first/first.json"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None)
@given(config=JSON, text=st.text(max_size=40))
def test_nothing_in_an_export_stops_lint(config: object, text: str) -> None:
    """Whatever its configuration and its code are, there is an answer."""
    with tempfile.TemporaryDirectory() as place:
        configs = ("app.json", "agents/a/a.json", "tools/first/first.json", "toolsets/b/b.json")
        app = write_files(Path(place), dict.fromkeys(configs, config))
        write_files(app, {"tools/first/python_function/python_code.py": text})

        assert isinstance(lint_app(read_app(app)), list)

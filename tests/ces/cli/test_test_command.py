"""``gcp-adk-store ces test`` says of each test what became of it, and of each that is none why."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import Result

from gcp_adk_store.ces.testing import callback_checks
from tests.ces.conversation.apps import ces, write_files
from tests.support.clock import PassingTime
from tests.support.ready_programs import ready_programs

PAGE = Path(__file__).parents[3] / "docs/ces-commands.md"
TOOL = '''def half(number: int) -> dict:
    """Half a number."""
    print("halving", number)
    set_variable("seen", get_variable("seen", 0) + 1)
    said = context.user_content.parts[0].text if context.user_content else None
    return {"half": 10 / number, "said": said}
'''
SLOW = '''def slow() -> dict:
    """Answer later."""
    return {"late": tools.half({"number": 2}).json()["result"]["half"]}
'''
ALLOWED = ("test", "--allow-problems")
"""One agent of the app has a configuration that is not JSON."""
READ = {"operationId": "read"}
TOOL_TESTS = """\
tests:
  - name: right
    tool: half
    args: {number: 4}
    variables: [seen]
    expectations:
      response: [{path: $.result.half, operator: equals, value: 2.5}]
      variables: [{path: $.seen, operator: equals, value: 8}]
  - name: wrong
    tool: half
    args: {number: 4}
    expectations:
      response:
        - {path: $.result.half, operator: equals, value: 3}
  - name: raises
    tool: half
    args: {number: 0}
    expectations: {response: [{path: $.result.half, operator: is_not_null}]}
  - name: raises as expected
    tool: half
    args: {number: 0}
    expectations: {response: [{path: $.result.error, operator: contains, value: ZeroDivisionError}]}
  - name: raises unexpectedly
    tool: half
    args: {number: 0}
    expectations:
      response: [{path: $.result.said, operator: is_null}]
      variables: [{path: $.seen, operator: equals, value: 7}]
  - name: raises as a whole
    tool: half
    args: {number: 0}
    expectations:
      response: [{path: $.result, operator: equals, value: {error: "ZeroDivisionError: division by zero"}}]
  - {name: nobody, tool: double, expectations: &any {response: [{path: $, operator: is_not_null}]}}
  - {name: undeclared, tool: half, args: {number: 1}, variables: [other], expectations: *any}
  - name: context
    tool: half
    args: {number: 1}
    context: {state: {seen: 1}, userContent: {role: user, parts: [{text: hi}]}}
    expectations:
      response: [{path: $.result.said, operator: equals, value: hi}]
      variables: [{path: $.seen, operator: equals, value: 2}]
  - name: later
    tool: slow
    expectations: {response: [{path: $.result.late, operator: equals, value: 5}]}
  - name: mocked
    tool: slow
    mockConfig: {mockedToolCalls: [{toolId: half, mockResponse: {result: {half: 1}}}]}
    expectations: {response: [{path: $.result.late, operator: equals, value: 1}]}
  - name: a stand-in
    tool: web_search
    expectations: {response: [{path: $.error, operator: contains, value: runs on the platform alone}]}
"""
FIRST = """from typing import Any


def before_model_callback(callback_context: CallbackContext, llm_request: Any) -> LlmResponse:
    print("thinking")
    number = tools.half({"number": 4}).json()["result"]["half"]
    callback_context.set_variable("number", number)
    return LlmResponse.from_parts([Part.from_text(text=str(number))])
"""
FIRST_TEST = """import sys
from unittest.mock import MagicMock

import pytest

import python_code
from cxas_scrapi.utils.callback_libs import *
from python_code import before_model_callback


def test_with_mocks():
    python_code.tools = MagicMock()
    python_code.tools.half.return_value.json.return_value = {"result": {"half": 7}}
    context = CallbackContext(state={})
    assert before_model_callback(context, LlmRequest()).content.parts[0].text == "7"
    assert context.state["number"] == 7


def test_wrong():
    print("looking")
    assert python_code.__file__.endswith("other.py")


def test_in_the_sandbox(ces_callback):
    assert ces_callback().variables == {"seen": 8, "number": 2.5}
    assert ces_callback(tools={"half": {"result": {"half": 3}}}, state={"seen": 1}).variables["number"] == 3


def test_that_raises(ces_callback):
    ces_callback(tools={"half": {"result": None}})


@pytest.mark.skip(reason="not yet")
def test_left_out():
    pass
"""
SECOND = """def after_agent_callback(callback_context: CallbackContext) -> None:
    callback_context.state["second"] = tools.half({"number": 1}).ok
"""
SECOND_TEST = """import os
import socket
from pathlib import Path

import pytest
from ces_public import CallbackContext

from gcp_adk_store.testing import callback_tests


def test_that_imports_late():
    import python_code
    assert python_code.after_agent_callback.__code__.co_argcount == 1
    with pytest.raises(AttributeError, match="replace python_code.tools"):
        python_code.after_agent_callback(CallbackContext())


def test_nothing_of_the_host_is_there(tmp_path):
    assert not Path({secret!r}).exists()
    assert not Path("/etc/passwd").exists()
    assert "ADK_STORE_CES_ENVIRONMENT" not in os.environ
    assert [] == [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    (tmp_path / "own").write_text("x")


def test_nothing_is_changed_reached_or_started():
    with pytest.raises(OSError, match="Read-only file system"):
        Path(__file__).with_name("other.py").write_text("x")
    with pytest.raises(PermissionError):
        socket.socket()
    with pytest.raises(PermissionError):
        os.fork()
    with pytest.raises(MemoryError):
        bytearray(4 * 1024**3)


def test_it_answers_in_place_of_a_tool(ces_callback):
    (call,) = ces_callback(tools={{"half": {{"result": 1}}, "Bank_read": 2}}).calls
    assert (call.asked, call.text) == ({{"number": 1}}, '{{"result": 1}}')
    with pytest.raises(TypeError, match="half of tools is a function: give its answer"):
        ces_callback(tools={{"half": lambda args: 1}})


def test_only_callbacks_beside_tests_are_run():
    (host,) = callback_tests._commands
    asked = {{"said": None, "state": {{}}, "tools": {{}}, "subjects": {{}}}}
    assert "secret" not in str(host.call({{"callback": {{**asked, "file": {secret!r}}}}}))


def test_what_is_not_json_is_said(ces_callback):
    with pytest.raises(TypeError, match="not JSON serializable"):
        ces_callback(state={{"a": object()}})


def test_what_is_no_argument_is_said(ces_callback):
    with pytest.raises(TypeError, match="no argument llm_respons; there are llm_request, llm_response"):
        ces_callback(llm_respons={{}})
"""
LEFT_OUT_TEST = """import pytest

pytest.skip("the whole file", allow_module_level=True)
"""
CALLBACK_TEST = "agents/root/after_agent_callbacks/second/test.py"
APART_TEST = """import os
import sys

HERE = os.path.dirname(__file__)
AGENT = os.path.join(HERE, "..", "..", "..", "..", "..", "..", "agents", "root")
sys.path.insert(0, os.path.join(AGENT, "before_model_callbacks", "first"))

from python_code import before_model_callback


def test_apart():
    assert before_model_callback.__code__.co_argcount == 2
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app whose tests end in every way that there is."""
    folder = tmp_path_factory.mktemp("app")
    first, second = "agents/root/before_model_callbacks", "agents/root/after_agent_callbacks/second"
    secret = folder.parent / "secret"
    secret.write_text("x")
    documented = (
        "examples/ces/app/agents/support/before_model_callbacks/before_model_callbacks_02/python_code.py"
    )
    files = {
        "app.json": {"variableDeclarations": [{"name": "seen", "schema": {"type": "INTEGER", "default": 7}}]},
        "tools/half/python_function/python_code.py": TOOL,
        "tools/slow/slow.json": {"executionType": "ASYNCHRONOUS", "pythonFunction": {"name": "slow"}},
        "tools/slow/python_function/python_code.py": SLOW,
        "tools/web_search/web_search.json": {"googleSearchTool": {}},
        "toolsets/Bank/Bank.json": {"openApiToolset": {"openApiSchema": "bank.json"}},
        "bank.json": {"servers": [{"url": "https://b.test"}], "info": {}, "paths": {"/": {"get": READ}}},
        "evals/tool_tests/half.yaml": TOOL_TESTS,
        "evals/tool_tests/malformed.yml": "tests:\n  - {name: a, tool: half, expect: 1}\n",
        "evals/other.yaml": "not: tests",
        "agents/lost/lost.json": '{\n"beforeModelCallbacks": [',
        f"{first}/first/python_code.py": FIRST,
        f"{first}/first/test.py": FIRST_TEST,
        f"{second}/python_code.py": SECOND,
        f"{second}/test_second.py": SECOND_TEST.format(secret=str(secret)),
        f"{second}/test_left_out.py": LEFT_OUT_TEST,
        f"{second}/test_nothing.py": "def check():\n    assert False\n",
        "evals/callback_tests/tests/root/before_model_callbacks/first/test.py": APART_TEST,
        f"{first}/broken/python_code.py": "def before_model_callback(",
        f"{first}/broken/test.py": "import python_code\n",
        f"{first}/documented/test.py": page_block(),
        f"{first}/documented/python_code.py": (PAGE.parents[1] / documented).read_text(),
    }
    return write_files(folder, files)


def page_block() -> str:
    """Return the test of a callback that docs/ces-commands.md shows."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (each for each in blocks if "ces_callback" in each)
    return block


@pytest.fixture(scope="module")
def ended(app: Path, ces_environment: Path) -> Result:
    """The command on that app."""
    assert ces_environment.is_dir()
    return ces(*ALLOWED, app, "--json", "--junit", app.parent / "junit.xml")


@pytest.fixture(scope="module")
def outcomes(ended: Result) -> dict[str, dict[str, Any]]:
    """What became of each test, by its name."""
    return {each["name"]: each for each in json.loads(ended.stdout) if each["name"] != "the file"}


ENDS = {
    "passed": {
        *("right", "raises as expected", "raises as a whole", "context", "later", "mocked", "a stand-in"),
        *("test_with_mocks", "test_in_the_sandbox", "test_apart", "test_nothing_of_the_host_is_there"),
        *("test_nothing_is_changed_reached_or_started", "test_it_answers_in_place_of_a_tool"),
        *("test_only_callbacks_beside_tests_are_run", "test_what_is_not_json_is_said"),
        *("test_what_is_no_argument_is_said", "test_that_imports_late", "test_the_second_wish_hands_over"),
    },
    "failed": {"wrong", "raises", "raises unexpectedly", "test_wrong", "test_that_raises"},
    "error": {"nobody", "undeclared"},
    "skipped": {"test_left_out"},
}


def test_every_test_ends_as_it_should(ended: Result, outcomes: dict[str, dict[str, Any]]) -> None:
    """And one that failed ends the command with 1."""
    assert 1 == ended.exit_code
    assert {name: status for status, names in ENDS.items() for name in names} == {
        name: each["status"] for name, each in outcomes.items()
    }


def test_a_failed_expectation_says_where_and_what(app: Path, outcomes: dict[str, dict[str, Any]]) -> None:
    """With what was printed, and the lines of the test, or those of the callback in the sandbox."""
    path = f"{app}/evals/tool_tests/half.yaml"

    assert [f"response $.result.half equals 3: it is 2.5 ({path}:14)"] == outcomes["wrong"]["says"]
    assert ("halving 4\n", path, 9) == tuple(outcomes["wrong"][name] for name in ("stdout", "path", "line"))
    assert f'{app}/tools/half/python_function/python_code.py", line 6' in outcomes["raises"]["says"][1]
    assert (
        "the tool raised an exception that the test does not expect"
        == outcomes["raises unexpectedly"]["says"][0]
    )
    assert "ZeroDivisionError: division by zero" in outcomes["raises unexpectedly"]["says"][1]
    assert ["unknown tool 'double'; known: Bank_read, half, slow, web_search"] == outcomes["nobody"]["says"]
    assert ["the app declares no variable other with a default"] == outcomes["undeclared"]["says"]

    wrong, raised = outcomes["test_wrong"], outcomes["test_that_raises"]

    assert ("root/first", "looking\n") == (wrong["subject"], wrong["stdout"])
    assert f"{app}/agents/root/before_model_callbacks/first/test.py" == wrong["path"]
    assert "endswith" in wrong["says"][0]
    assert "thinking\n" in raised["says"][0]
    assert 'first/python_code.py", line 6, in before_model_callback' in raised["says"][0]
    assert "not yet" in outcomes["test_left_out"]["says"][0]


def test_files_that_are_none_are_errors_with_their_line(app: Path, ended: Result) -> None:
    """Beside all others, which are run."""
    second = app / "agents/root/after_agent_callbacks/second"
    wrong = {Path(each["path"]): each for each in json.loads(ended.stdout) if each["name"] == "the file"}

    assert f"{app}/agents/lost/lost.json:2: it is not JSON" in ended.stderr
    assert len(wrong) == 4
    assert wrong[app / "evals/tool_tests/malformed.yml"]["line"] == 2
    assert wrong[second / "test_left_out.py"]["status"] == "skipped"
    for path, says in (
        (app / "evals/tool_tests/malformed.yml", "unknown name expect in a test"),
        (app / "agents/root/before_model_callbacks/broken/test.py", "SyntaxError"),
        (second / "test_nothing.py", "it has no test: write a function whose name begins with test_"),
    ):
        assert (wrong[path]["status"], says in wrong[path]["says"][0]) == ("error", True)


def test_the_report_for_ci_has_every_test(app: Path, ended: Result) -> None:
    """With its status, its place, and what is wrong."""
    (suite,) = ET.parse(app.parent / "junit.xml").getroot()  # noqa: S314  # our own
    reported = json.loads(ended.stdout)
    cases = {case.get("name"): case for case in suite}
    failure = cases["wrong"].find("failure")

    assert len(reported) == len(suite) == int(suite.get("tests", "0"))
    for status, name in (("failed", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert str(sum(each["status"] == status for each in reported)) == suite.get(name)
    assert failure is not None
    assert "$.result.half equals 3: it is 2.5" in (failure.get("message") or "")
    assert ("half", "9") == (cases["wrong"].get("classname"), cases["wrong"].get("line"))
    assert "halving 4\n" == cases["wrong"].findtext("system-out")
    assert [] == list(cases["right"].findall("failure"))


@pytest.mark.usefixtures("ces_environment")
def test_the_table_has_each_failure_below_it(app: Path) -> None:
    """As JSON has it; of the tools alone."""
    result = ces(*ALLOWED, app, "--only", "tools", "--sandbox", "inprocess", COLUMNS="120")

    assert 1 == result.exit_code
    assert re.search(r"passed +half +right +\d", result.stdout)
    assert f"{app}/evals/tool_tests/half.yaml:9: wrong\n  response $.result.half equals 3" in result.stdout
    assert "  printed:\n    halving 4\n" in result.stdout
    assert "7 passed, 3 failed, 3 error" in result.stdout


CALLBACKS = "agents/root/after_agent_callbacks"
CODE = "def after_agent_callback(callback_context: CallbackContext) -> None:\n    pass\n"
ENDING_TEST = """import os
import time

from gcp_adk_store.testing.callback_tests import _commands

(host,) = _commands
FORGED = dict(path="x", line=19, name="test_second", subject="", status="error")


def sent(frame):
    os.write(host._frames, len(frame).to_bytes(4, "big") + frame)
    time.sleep(3600)


def test_first():
    pass


def test_second():
    print("so far")
    {ends}


def test_third():
    pass
"""

LARGE = "dict(call=dict(callback=dict(said=None, state={'a': 'x' * 2_000_000}, tools={}, subjects={})))"
"""A run whose answer no channel holds that nobody reads."""


def write(app: Path, ends: str) -> None:
    """Make an app of one callback, whose second test does what *ends* says."""
    write_files(app / CALLBACKS, {"only/python_code.py": CODE, "only/test.py": ENDING_TEST.format(ends=ends)})


@pytest.fixture
def late(passing: PassingTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a minute pass whenever the second test says that it began."""
    handle = callback_checks._File._handle

    async def handle_late(self: Any, message: Any) -> Any:
        if message.get("began", {}).get("name") == "test_second":
            passing.after(60)
        return await handle(self, message)

    monkeypatch.setattr(callback_checks._File, "_handle", handle_late)


@pytest.mark.sample(2)
@pytest.mark.usefixtures("ces_environment")
@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("os._exit(0)", "pytest ended with 0:"),
        ("time.sleep(3600)", "did not end within 60 s"),
        ("host.call({'outcome': {}})", "sent an invalid message"),
        ("sent(b'[' * 9_000_000)", "sent an invalid message"),
        (f"host._write({LARGE}); time.sleep(3600)", "did not end within 60 s"),
        ("sent(b'[' + b'{},' * 200_000 + b'{}]')", "sent an invalid message"),
        ("while True: host.call({'began': FORGED}); time.sleep(0.1)", "did not end within 60 s"),
    ],
)
def test_a_test_that_ends_pytest_is_an_error_and_what_was_before_it_stands(
    request: pytest.FixtureRequest, tmp_path: Path, ends: str, says: str
) -> None:
    """So that none passes unseen."""
    write(tmp_path, ends)
    if "60 s" in says:
        request.getfixturevalue("late")
    result = ces("test", tmp_path, "--json", "--timeout", "60")
    first, second = json.loads(result.stdout)

    assert 1 == result.exit_code
    assert ("test_first", "passed") == (first["name"], first["status"])
    assert ("test_second", "error", 19) == (second["name"], second["status"], second["line"])
    assert says in second["says"][0]
    assert "later tests of this file did not run" == second["says"][1]


@pytest.mark.long
@pytest.mark.usefixtures("ces_environment")
def test_a_test_changes_no_times_of_the_hosts_devices(tmp_path: Path) -> None:
    """Those that it sees are the host's own, by their paths and by standard input."""
    refused = "with __import__('pytest').raises(PermissionError): os.utime({!r})"
    devices = ("/dev/null", "/dev/zero", "/dev/urandom", 0)
    write(tmp_path, "\n    ".join(map(refused.format, devices)))
    result = ces("test", tmp_path, "--json")

    assert ["passed"] * 3 == [each["status"] for each in json.loads(result.stdout)], result.stdout


@pytest.mark.usefixtures("ces_environment")
def test_without_bubblewrap_no_callbacks_test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install, and nothing runs outside."""
    write(tmp_path, "pass")
    monkeypatch.setenv("PATH", "/nowhere")
    result = ces("test", tmp_path, "--only", "callbacks")

    assert 2 == result.exit_code
    assert "apt-get install --no-install-recommends bubblewrap libseccomp2" in result.stderr


@pytest.mark.sample(1)
@pytest.mark.usefixtures("ces_environment")
@pytest.mark.parametrize(
    "flood",
    [
        "host.call({'outcome': {**FORGED, 'status': 'passed', 'says': ['x' * 1_000_000]}})",
        "os.write(host._frames, b'\\x01' + b'{},' * 100_000)",
        "host.call({'outcome': {**FORGED, 'status': 'passed'}})",
    ],
)
def test_a_test_that_floods_the_command_is_an_error_and_takes_little_of_it(
    tmp_path: Path, flood: str
) -> None:
    """However it writes, and however long: the command keeps its memory."""
    write(tmp_path, f"while True: {flood}")
    script = f"""
import sys, tracemalloc
from gcp_adk_store.ces.testing import callback_checks
from gcp_adk_store.cli.command import command
callback_checks._MESSAGES //= 10  # traced, each takes a millisecond
from tests.support.clock import PassingTime
tracemalloc.start()
try:
    command(["ces", "test", {str(tmp_path)!r}, "--junit", {str(tmp_path / "found.xml")!r}])
finally:
    print(tracemalloc.get_traced_memory()[1], file=sys.stderr)
"""
    (tmp_path / "measured.py").write_text(script)
    measured = [ready_programs() / "python", tmp_path / "measured.py"]
    ran = subprocess.run(measured, capture_output=True, text=True, check=False)

    assert 1 == ran.returncode
    assert "sent an invalid message" in ran.stdout
    assert len(ran.stdout) + (tmp_path / "found.xml").stat().st_size < 8_000_000
    assert int(ran.stderr.splitlines()[-1]) < 300_000_000, "bytes; ADK's modules take half of them"


@pytest.mark.long
@pytest.mark.usefixtures("ces_environment")
def test_the_word_of_a_file_counts_for_this_file_alone(tmp_path: Path) -> None:
    """Though it says what became of another one, and how all ended."""
    says = "host.call({'outcome': {**FORGED, 'status': 'passed', 'path': 'OTHER'}}); "
    other = tmp_path / CALLBACKS / "other"
    write(
        tmp_path, f"{says.replace('OTHER', str(other / 'test.py'))} host.finish({{'status': 0}}); os._exit(0)"
    )
    write_files(other, {"python_code.py": CODE, "test.py": "def test_fails():\n    assert False\n"})
    result = ces("test", tmp_path, "--json")
    found = json.loads(result.stdout)

    assert 1 == result.exit_code
    assert [("test_fails", "failed")] == [
        (each["name"], each["status"]) for each in found if each["path"] == str(other / "test.py")
    ]

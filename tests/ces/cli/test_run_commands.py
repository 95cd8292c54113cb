"""Show what ``gcp-adk-store ces run-tool`` and ``run-callback`` run, print, keep, and end with."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import SessionService
from tests.ces.conversation.apps import ces, write_app, write_files
from tests.ces.conversation.test_toolsets import KEY, write
from tests.ces.host.web import serving

TOOL = '''def half(number: int) -> dict:
    """Half a number."""
    print("halving", number)
    set_variable("halved", get_variable("halved", 0) + 1)
    return {"half": 10 / number, "note": tools.note({"text": "a"}).json()["result"]}
'''
NOTE = '''def note(text: str) -> str:
    """Note it."""
    print("noting", text)
    return ces_requests.get("http://127.0.0.1:9/").reason
'''
FIRST = """def before_model_callback(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    llm_request.config = GenerateContentConfig()
    llm_request.config.hide_tool("half")
"""
SECOND = """def before_model_callback(callback_context: CallbackContext, llm_request: Any) -> LlmResponse:
    said = callback_context.get_last_user_input()[0].text
    callback_context.remove_variable("old")
    return LlmResponse.from_parts([Part.from_text(text=said.upper())])
"""

HERE = ("--sandbox", "inprocess")
"""For what the command itself does with code: each start of the sandbox takes a quarter of a second."""

pytestmark = pytest.mark.usefixtures("ces_environment")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tools, and callbacks beside it."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "half.py").write_text(TOOL)
    (tmp_path / "tools" / "note.py").write_text(NOTE)
    (tmp_path / "first.py").write_text(FIRST)
    (tmp_path / "second.py").write_text(SECOND)
    return tmp_path


def half(folder: Path, *arguments: str, number: int = 4) -> Result:
    """Run the tool that halves, with the other beside it."""
    tools = ("--tools", folder / "tools")
    return ces("run-tool", folder / "tools/half.py", "--args", f'{{"number": {number}}}', *tools, *arguments)


def test_a_tool_shows_what_it_prints_answers_changes_and_asks(folder: Path) -> None:
    """Also what a tool that it calls prints; nothing is kept, and no host reached."""
    result = half(folder)

    assert (0, "") == (result.exit_code, result.stderr)
    assert "printed\n  halving 4\n" in result.stdout
    assert '"half": 2.5' in result.stdout
    assert '"note": "Error fetching from URL"' in result.stdout
    assert "variables\n  halved = 1\n" in result.stdout
    assert 'tool note {"text": "a"}: 200' in result.stdout
    assert "    noting a\n" in result.stdout


def test_a_failure_shows_the_codes_own_lines_and_keeps_nothing(folder: Path) -> None:
    """With the file's name as it was given; it ends with 1. JSON has all, also what a mock answers."""
    result = half(folder, number=0)

    assert 1 == result.exit_code
    assert "halving 0" in result.stdout
    assert "halved" not in result.stdout
    assert f'File "{folder}/tools/half.py", line 5, in half' in result.stderr
    assert 'return {"half": 10 / number' in result.stderr
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "gcp_adk_store" not in result.stderr

    mocks = {"mockedToolCalls": [{"toolId": "note", "mockResponse": {"result": "mocked"}}]}
    (folder / "mocks.json").write_text(json.dumps(mocks))
    answer = json.loads(half(folder, *HERE, "--mocks", f"@{folder}/mocks.json", "--json").stdout)

    assert {"result": {"half": 2.5, "note": "mocked"}} == answer["response"]
    assert ({"halved": 1}, "halving 4\n", None) == (answer["variables"], answer["stdout"], answer["error"])
    assert [("note", True)] == [(call["name"], call["mocked"]) for call in answer["calls"]]


def test_an_unknown_tool_says_where_tools_come_from(folder: Path) -> None:
    """Unless that was said, and the tool is not there. A file of the app that is not read is said, too."""
    without = ces("run-tool", folder / "tools/half.py", *HERE, "--args", '{"number": 4}')
    (folder / "tools/other").mkdir()
    (folder / "tools/other/other.json").write_text("{")
    unread = half(folder, *HERE)
    (folder / "tools/note.py").unlink()
    missing = half(folder, *HERE)

    assert (1, 0, 1) == (without.exit_code, unread.exit_code, missing.exit_code)
    assert "unknown tool; known: none" in without.stderr
    assert "--tools DIR names the app" in without.stderr
    assert f"{folder}/tools/other/other.json:1: it is not JSON" in unread.stderr
    assert "--tools DIR names the app" not in missing.stderr


def test_callbacks_run_in_order_on_one_session(folder: Path) -> None:
    """What is changed in place is shown, and what overrides, and what is removed."""
    said = ("--said", "hello", "--variables", '{"old": 1}')
    result = ces("run-callback", "before_model", folder / "first.py", folder / "second.py", *said)

    assert (0, "") == (result.exit_code, result.stderr)
    assert "override by callback 2\n" in result.stdout
    assert '"text": "HELLO"' in result.stdout
    assert "llm_request, changed\n" in result.stdout
    assert '"half"' in result.stdout
    assert "  old removed\n" in result.stdout


def test_code_without_a_result_is_ended_and_says_why(folder: Path) -> None:
    """A loop by its time, in words and in JSON; what nests too deep for Python fails as other code."""
    file = folder / "endless.py"
    file.write_text("def endless() -> None:\n    import time\n    time.sleep(600)\n")
    result = ces("run-tool", file, "--timeout", "0.5")
    answer = json.loads(ces("run-tool", file, *HERE, "--timeout", "0.01", "--json").stdout)
    file.write_text(f"def deep() -> None:\n    return a{'.b' * 10_000}\n")
    deep = ces("run-tool", file)

    assert 1 == result.exit_code == deep.exit_code
    assert "SandboxTimeoutError: " in result.stderr
    assert "SandboxTimeoutError" == answer["error"]["type"]
    assert deep.stderr.startswith("RecursionError: ")


def test_a_stored_session_keeps_what_changes(
    folder: Path, project: str, connect: Callable[..., SessionService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by the first command, read by the second, found by this process."""
    monkeypatch.setenv("ADK_STORE_PROJECT", project)
    place = ["--session", "shop/ada/s%2F1"]
    made = [*place, "--create", "--variables", '{"halved": 5}', "--said", "half it"]
    lines = (place, made, [*place, "--dry-run", "--said", "dry"], place, made)
    missing, first, dry, second, again = results = [half(folder, *HERE, *each) for each in lines]
    session = asyncio.run(connect().get_session(app_name="shop", user_id="ada", session_id="s/1"))

    assert [2, 0, 0, 0, 2] == [each.exit_code for each in results]
    where = f"project {project}, database (default), prefix adk, no bucket, on the emulator at"
    for result, says in (
        (missing.stderr, f"the session shop/ada/s%2F1 in project {project}, "),
        (missing.stderr, "; create it with --create"),
        (first.stdout, f"session\n  shop/ada/s%2F1 in {where}"),
        (dry.stdout, ": a copy, not stored\n"),
        (dry.stdout, "halved = 7"),
        (second.stdout, ": changed\n"),
        (second.stdout, "halved = 7"),
        (again.stderr, "already; leave out --create"),
    ):
        assert says in result
    assert session is not None
    assert 7 == session.state["halved"]
    assert ["user", "agent", "agent"] == [event.author for event in session.events]


SEES = """def sees() -> dict:
    return {
        "said": [part.text for event in context.events for part in event.parts()],
        "variables": dict(context.state),
    }
"""


def test_a_copy_has_what_the_session_has(
    folder: Path, project: str, connect: Callable[..., SessionService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events, its variables, and those that it shares as they are now, not as they were in its events."""
    monkeypatch.setenv("ADK_STORE_PROJECT", project)
    (folder / "sees.py").write_text(SEES)
    deep = json.loads("[" * 95 + "]" * 95)  # more than code can have

    async def prepare() -> None:
        service = connect()
        content = types.Content(role="user", parts=[types.Part(text="hello")])
        for name, delta in (("one", {"app:n": 1, "b": 2}), ("other", {"app:n": 2})):
            where: dict[str, Any] = {"app_name": "shop", "user_id": "ada", "session_id": name}
            session = await service.create_session(**where, state={"a": 1, "deep": deep})
            actions = EventActions(state_delta=delta)
            event = Event(author="user", invocation_id="i", content=content, actions=actions)
            await service.append_event(session, event)

    asyncio.run(prepare())
    line = ["run-tool", folder / "sees.py", *HERE, "--session", "shop/ada/one"]
    shown = ces(*line, "--dry-run").stdout
    line += ["--json", "--shared-variable", "app:n"]
    copied, stored = (json.loads(ces(*line, *more).stdout) for more in (["--dry-run"], []))

    assert {"said": ["hello"], "variables": {"a": 1, "b": 2, "app:n": 2}} == stored["response"]["result"]
    assert stored["response"] == copied["response"]
    assert "removed" not in shown  # what code does not see


def test_arguments_come_from_files_and_from_standard_input(folder: Path) -> None:
    """Files also as editors of Windows write them, code and JSON."""
    bom = b"\xef\xbb\xbf"
    (folder / "echo.py").write_bytes(bom + b"def echo(said: str) -> str:\r\n    return said\r\n")
    (folder / "args.json").write_bytes(bom + b'{"said": "from a file"}')
    line = ("run-tool", folder / "echo.py", *HERE, "--json", "--args")
    file = ces(*line, f"@{folder}/args.json")
    piped = ces(*line, "-", says='{"said": "from a pipe"}')

    assert ["from a file", "from a pipe"] == [
        json.loads(each.stdout)["response"]["result"] for each in (file, piped)
    ]


def test_code_steers_no_terminal(folder: Path) -> None:
    """By what it prints, sets, answers or raises; in JSON it is escaped."""
    hostile = r"\x1b[2J\x9b1m\r\u202e"
    (folder / "steer.py").write_text(
        f'def steer(fail: bool) -> str:\n    said = "{hostile}"\n    print(said)\n'
        "    set_variable('a', said)\n    if fail:\n        raise ValueError(said)\n    return said\n"
    )
    for arguments in ({"fail": True}, {"fail": False}):
        line = ("run-tool", folder / "steer.py", *HERE, "--args", json.dumps(arguments))
        shown, as_json = ces(*line), ces(*line, "--json")
        text = shown.output + as_json.output

        assert not any(each in text for each in ("\x1b", "\x9b", "\r", "\u202e"))
        assert r"\x1b[2J\x9b1m" in shown.output
        assert json.loads(as_json.stdout)["stdout"].startswith("\x1b[2J\x9b1m")


GUARD = """def before_agent_guardrail_callback(callback_context: CallbackContext) -> GuardrailResult:
    said = callback_context.get_last_user_input()[0].text
    return create_guardrail_result(decision="TRIGGER" if "bad" in said else "OK", reason="a word")
"""
GUARD_TEST = """import python_code


def test_it_triggers(ces_callback):
    assert ces_callback(said="bad").override == {"decision": "TRIGGER", "reason": "a word"}
    assert ces_callback(said="good").override is None


def test_its_names_are_there():
    assert python_code.create_guardrail_result().decision == "OK"
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code of a guardrail in an app, and its test."""
    path = "guardrails/words/before_agent_callback/python_code.py"
    declared = {"codeCallback": {"beforeAgentCallback": {"pythonCode": path}}}
    files = {path: GUARD, path.replace("python_code", "test"): GUARD_TEST, "app.json": {}}
    return write_files(tmp_path, {**files, "guardrails/words/words.json": declared}) / path


def test_a_guardrail_is_run_on_a_message(code: Path) -> None:
    """Its result is the override, if it triggers."""
    decided = []
    for said in ("bad", "good"):
        line = ("run-callback", "before_agent_guardrail", code, "--said", said)
        result = ces(*line, "--sandbox", "inprocess", "--json")
        decided.append(json.loads(result.stdout)["override"])

    assert decided == [{"decision": "TRIGGER", "reason": "a word"}, None]


@pytest.mark.long
def test_the_test_of_a_guardrail_is_run(code: Path) -> None:
    """As that of an agent's callback."""
    result = ces("test", code.parents[3], "--sandbox", "inprocess", "--json")

    assert [each["status"] for each in json.loads(result.stdout)] == ["passed", "passed"], result.output


def test_a_guardrail_that_does_not_run_here_is_named(tmp_path: Path) -> None:
    """Nobody takes the conversation for a guarded one; one that is not enabled is of no interest."""
    app = write_app(tmp_path, {"root": {}}).folder
    for name, enabled in (("Words", True), ("Off", False)):
        config = {"enabled": enabled, "contentFilter": {"bannedContents": ["bad"]}}
        write_files(app, {f"guardrails/{name}/{name}.json": config})
    (tmp_path / "script.yaml").write_text("[Hello.]")
    script = ("--script", tmp_path / "script.yaml")

    result = ces("chat", app, "--sandbox", "inprocess", *script, says="bad\n")

    assert (result.exit_code, result.stdout) == (0, "root: Hello.\n")
    assert result.stderr.startswith("the guardrail Words has no code, and does not run here\n")
    assert "Off" not in result.stderr


ASK = "def ask() -> dict:\n    return tools.Bank_read({'note': 'hi'}).json()\n"


def test_a_toolset_is_called_where_an_option_says(tmp_path: Path) -> None:
    """With the key of an environment variable, and the session's values."""
    app = write(tmp_path, authentication=KEY)
    (tmp_path / "ask.py").write_text(ASK)
    with serving() as web:
        toolset = ("--server", f"Bank={web.url}/v1", "--credential", "Bank=BANK_KEY")
        given = ("--allow-host", web.url[7:], "--variables", '{"token": "t", "tier": 1}', "--json")
        line = ("run-tool", tmp_path / "ask.py", "--tools", app, "--sandbox", "inprocess")
        result = ces(*line, *toolset, *given, BANK_KEY="secret-key")
        asked = web.last

    assert result.exit_code == 0, result.output
    assert "secret-key" not in result.output
    assert (asked.method, asked.headers["x-api-key"], asked.headers["x-token"]) == ("POST", "secret-key", "t")
    assert asked.path.startswith("/v1/sessions/")
    assert json.loads(asked.body) == {"note": "hi", "tier": 1}

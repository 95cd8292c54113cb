"""Show what ``gcp-adk-store ces chat`` says, shows, keeps, and ends with."""

import re
from pathlib import Path

import pytest
from click.testing import Result

from tests.ces.conversation.apps import ces, write_app, write_files

GREET = 'def greet(name: str) -> str:\n    """Greet."""\n    set_variable("met", name)\n    return "Hello"\n'
SCRIPT = """
- calls: [{name: greet, args: {name: Ada}}]
- "Hello, Ada.\\e[2J"
- text: Goodbye.
  calls: [{name: end_session, args: {reason: done}}]
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app, and beside it a script."""
    write_app(
        tmp_path / "app",
        {"root": {"tools": ["greet", "end_session"]}},
        tools={"greet": GREET},
        variables={"met": ""},
    )
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path / "app"


def chat(app: Path, *arguments: str, says: str | bytes) -> Result:
    """Run the command on lines of the user."""
    return ces("chat", app, "--sandbox", "inprocess", *arguments, says=says)


def scripted(app: Path) -> tuple[str, str]:
    """Return the options of the script."""
    return "--script", str(app.parent / "script.yaml")


def test_a_conversation_shows_its_state_and_its_calls_on_demand(app: Path) -> None:
    """What agents say cannot control the terminal."""
    says = "I am Ada.\n/state\n/calls\n/agent\n/help\n\nBye\nAnd more\n"
    result = chat(app, *scripted(app), says=says)

    assert result.exit_code == 0
    assert "root: Hello, Ada.\\x1b[2J\n" in result.stdout
    assert '{\n  "met": "Ada"\n}\n' in result.stdout
    assert 'root calls greet {"name": "Ada"} -> {"result": "Hello"}\nroot\n' in result.stdout
    assert "/state  the variables" in result.stdout
    assert result.stdout.endswith("root: Goodbye.\n")
    assert "in memory, not stored" in result.stderr
    assert result.stderr.endswith("the session has ended\n")


def test_a_script_of_json_is_read_as_json(app: Path) -> None:
    """YAML would make two lone surrogates of the emoji, and refuse the tab."""
    script = app.parent / "script.json"
    script.write_text('[\t"Hello \\ud83d\\ude00."]')

    assert "root: Hello \U0001f600.\n" in chat(app, "--script", str(script), says="Hi\n").stdout


@pytest.mark.parametrize("command_name", ["chat", "eval"])
def test_a_model_that_is_not_reached_is_an_error_in_a_line(
    app: Path, monkeypatch: pytest.MonkeyPatch, command_name: str
) -> None:
    """Nobody listens there. Google's client sends requests by aiohttp if that is installed."""
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
    evaluation = {"conversation": "it greets", "user": "Hi", "agent": "Hello"}
    write_files(app, {"evals/greets.yaml": {"conversations": [evaluation]}})
    model = ("--sandbox", "inprocess", "--model", "gemini-2.5-flash")
    result = ces(command_name, app, *model, says="Hi\n")

    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in {1, 2}
    assert re.search("All connection attempts failed|Cannot connect to host", result.output)


def test_a_session_in_a_folder_goes_on_in_the_next_command(app: Path) -> None:
    """The folder is made; who answers is read from it. A session in memory ends with its command."""
    place = ("--local", str(app.parent / "store"), "--session", "shop/ada/s1")
    (app.parent / "second.json").write_text('["I know."]')

    first = chat(app, *scripted(app), *place, "--variables", '{"met": "Bob"}', says="/state\nI am Ada.\n")
    second = chat(app, "--script", str(app.parent / "second.json"), *place, says="/state\nAnd?\n")
    refused = chat(app, *scripted(app), *place, "--variables", "{}", says="")
    in_memory = chat(app, *scripted(app), "--local", ":memory:", *place[2:], says="/state\n")

    assert (first.exit_code, second.exit_code, refused.exit_code) == (0, 0, 2)
    assert '"met": ""' in in_memory.stdout
    assert "shop/ada/s1 in memory, not stored" in in_memory.stderr
    assert '"met": "Bob"' in first.stdout
    assert '"met": "Ada"' in second.stdout
    assert second.stdout.endswith("root: I know.\n")
    assert f"shop/ada/s1 in folder {app.parent / 'store'}" in second.stderr
    assert "--variables is for a new session" in refused.stderr


def test_a_turn_that_fails_is_reported_and_the_next_one_works(app: Path) -> None:
    """The command ends with 1."""
    code = (
        "def before_model_callback(callback_context, llm_request):\n"
        "    said = callback_context.get_last_user_input()[0].text\n"
        "    return LlmResponse.from_parts([Part.from_text(str(1 / int(said)))])\n"
    )
    write_files(app, {"agents/root/before_model_callbacks/01/python_code.py": code})

    result = chat(app, *scripted(app), says="0\n2\n")

    assert result.exit_code == 1
    assert "the turn failed: CALLBACK_FAILED: before_model of root: ZeroDivisionError" in result.stderr
    assert result.stdout == "root: 0.5\n"


def test_a_line_that_is_not_utf_8_ends_the_command(app: Path) -> None:
    """Instead of waiting for ever."""
    result = chat(app, *scripted(app), says=b"\xe4\n")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "standard input cannot be read: 'utf-8' codec can't decode byte 0xe4" in result.stderr


TALKS = '''def greet(name: str) -> str:
    """Greet."""
    print("I greet " + name)
    ces_requests.get("https://api.example.com:8443/greetings")
    return "Hello"
'''


def test_what_code_prints_and_warns_of_is_shown_on_demand(app: Path) -> None:
    """A host that is not allowed is reported unasked. A log as it happens has prints and tracebacks."""
    code = app / "tools" / "greet" / "python_function" / "python_code.py"
    code.write_text(TALKS)
    refused = (
        "api.example.com:8443 is not among the allowed hosts; run with --allow-host api.example.com:8443,"
    )

    result = chat(app, *scripted(app), says="I am Ada.\n/log\n")
    code.write_text(TALKS.replace('"Hello"', "1 / 0"))
    short = write_files(app.parent, {"short.json": [{"calls": [{"name": "greet", "args": {"name": "Ada"}}]}]})
    failed = chat(app, "--script", str(short / "short.json"), "--log", says="I am Ada.\n")

    assert refused in result.stderr
    assert "I greet" not in result.stderr
    assert "root: greet\n  I greet Ada\n  warning: GET api.example.com: " + refused in result.stdout
    assert failed.exit_code == 2
    assert "root: greet\n  I greet Ada\n" in failed.stderr
    assert "  Traceback (most recent call last):\n" in failed.stderr
    assert "  ZeroDivisionError: division by zero\n" in failed.stderr

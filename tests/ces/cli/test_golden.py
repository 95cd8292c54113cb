"""A conversation is looked at while it is held, and saved as an evaluation that passes."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import Result

from gcp_adk_store import Point, SessionArchive, Store
from gcp_adk_store.inspector import create_app
from tests.ces.callbacks import callback
from tests.ces.conversation.apps import ces, write_app, write_files
from tests.inspector.story import seen

GREET = '''def greet(name: str) -> str:
    """Greet."""
    print("a secret of " + name)
    set_variable("met", name)
    return "Hello " + name
'''
SCRIPT = [
    {"calls": [{"name": "transfer_to_agent", "args": {"agent_name": "desk"}}]},
    {"calls": [{"name": "greet", "args": {"name": "Ada"}}]},
    "Hello, Ada: 12:30 it is.",
    "Bye.",
]
KEY = ("--session", "shop/ada/s1")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app, and beside it a script."""
    agents = {"root": {"childAgents": ["desk"]}, "desk": {"tools": ["greet"]}}
    write_app(tmp_path / "app", agents, tools={"greet": GREET}, variables={"met": "", "tier": "gold"})
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return tmp_path / "app"


def chat(app: Path, *arguments: object, says: str = "") -> Result:
    """Hold a conversation with the app by the script."""
    script = ("--script", app.parent / "script.json")
    return ces("chat", app, "--sandbox", "inprocess", *script, *arguments, says=says)


def save(app: Path) -> tuple[object, ...]:
    """Save the stored conversation with and without the responses of tools; return the words to run both."""
    tests = app.parent / "evals"
    tests.mkdir()
    for file, *options in (("run.yaml", "--name", "runs"), ("outputs.yaml", "--outputs")):
        saved = ces("golden", "--local", app.parent / "store", KEY[1], tests / file, *options)
        assert (saved.exit_code, saved.stdout) == (0, "")
        assert "ces eval DIR --tests" in saved.stderr
    return "eval", app, "--sandbox", "inprocess", "--tests", tests


def test_a_stored_conversation_is_saved_as_a_golden_that_passes(app: Path) -> None:
    """With the variables of its begin; tools run, unless their responses are saved too."""
    says = "<event>session start</event>\nBye\n"
    chat(app, "--local", app.parent / "store", *KEY, "--variables", '{"tier": "silver"}', says=says)
    passes = ces(*save(app), "--script", app.parent / "script.json", "--name", "runs")
    golden, with_outputs = (
        yaml.safe_load((app.parent / "evals" / name).read_text())["conversations"][0]
        for name in ("run.yaml", "outputs.yaml")
    )

    assert passes.exit_code == 0, passes.output
    assert (golden["conversation"], with_outputs["conversation"]) == ("runs", "s1")
    assert golden["session_parameters"] == {"met": "", "tier": "silver"}
    transfer = {"action": "transfer_to_agent", "args": {"agent_name": "desk"}}
    calls = [transfer, {"action": "greet", "args": {"name": "Ada"}}]
    said = {"event": "session start", "agent": "Hello, Ada: 12:30 it is."}
    assert golden["turns"][0] == {**said, "tool_calls": calls}
    assert with_outputs["turns"][0]["tool_calls"][1]["output"] == {"result": "Hello Ada"}


def test_a_golden_has_the_turns_that_were_archived(app: Path) -> None:
    """The variables are those of the begin, so the turns after it must not be missing."""
    chat(app, "--local", app.parent / "store", *KEY, says="Hi\nBye\n")
    whole = ces("golden", "--local", app.parent / "store", KEY[1], "-").stdout

    async def archive() -> SessionArchive:
        async with Store.local(app.parent / "store") as store:
            place: dict[str, Any] = {"app_name": "shop", "user_id": "ada", "session_id": "s1"}
            return await store.sessions.archive_session(**place, before=Point.position(6))

    assert asyncio.run(archive()).events == 6
    assert ces("golden", "--local", app.parent / "store", KEY[1], "-").stdout == whole


def test_a_saved_golden_passes_without_a_model_with_what_it_saved(app: Path) -> None:
    """Each agent calls its own tools, each call has its own output, and the session ends."""
    greets = [{"name": "greet", "args": {"name": name}} for name in ("Ada", "Bob")]
    ends = {"text": "Bye.", "calls": [{"name": "end_session", "args": {"reason": "done"}}]}
    write_files(app.parent, {"script.json": [SCRIPT[0], {"calls": greets}, "Hello, both.", ends]})
    after = callback("after_tool", "print(tool_response)")
    desk = {"displayName": "desk", "tools": ["greet", "end_session"]}
    place = "agents/desk/after_tool_callbacks/01/python_code.py"
    write_files(app, {"agents/desk/desk.json": desk, place: after})
    chat(app, "--local", app.parent / "store", *KEY, says="Hi\nBye\n")
    line = (*save(app), "--expected", "--log")
    outputs = app.parent / "evals" / "outputs.yaml"

    runs = ces(*line, "--name", "runs")
    outputs.write_text(outputs.read_text().replace("result: Hello", "result: Mocked"))
    answered = ces(*line, "--name", "s1")

    assert (runs.exit_code, answered.exit_code) == (0, 0), (runs.output, answered.output)
    for name in ("Ada", "Bob"):
        assert f"a secret of {name}" in runs.stderr
        assert f"a secret of {name}" not in answered.stderr
        assert str({"result": f"Mocked {name}"}) in answered.stderr


def test_a_chat_saves_itself_and_never_replaces_a_file(app: Path) -> None:
    """What cannot be saved is reported, and the conversation goes on. Its page ends with the command."""
    file = app.parent / "golden.yaml"

    result = chat(app, says=f"/golden {file}\nHi\n/golden {file}\n/golden {file}\nBye\n")

    assert (result.exit_code, result.stdout) == (0, "desk: Hello, Ada: 12:30 it is.\ndesk: Bye.\n")
    assert "nothing was said in this session" in result.stderr
    assert f"{file} cannot be written: File exists; name a new file" in result.stderr
    assert len(yaml.safe_load(file.read_text())["conversations"][0]["turns"]) == 1

    result = chat(app, *KEY, "--local", str(app.parent / "store"), "--inspect", "0", says="Hi\n")

    assert result.exit_code == 0
    assert "/session?app=shop&user=ada&session=s1&follow=1\n" in result.stderr
    address = next(line for line in result.stderr.splitlines() if line.startswith("http://127.0.0.1:"))
    with pytest.raises(httpx.ConnectError):
        httpx.get(address, timeout=60)


def test_a_turn_that_failed_or_that_a_golden_would_not_check_makes_none(app: Path) -> None:
    """It would expect the failure; of an agent, a golden marks such texts."""
    golden = app.parent / "golden.yaml"
    write_files(app.parent, {"script.json": ["# silent hours\nFrom ten to six."]})
    unchecked = chat(app, says=f"Hi\n/golden {golden}\n")
    code = callback("before_agent", "1 / 0")
    write_files(app, {"agents/root/before_agent_callbacks/01/python_code.py": code})
    failed = chat(app, says=f"Hi\n/golden {golden}\n")

    assert "turn 1: an agent says '# silent'" in unchecked.stderr
    assert "turn 1 failed with CALLBACK_FAILED, so it makes no golden" in failed.stderr
    assert not golden.exists()


def test_the_inspector_shows_the_log_of_code_when_it_is_asked_to(app: Path) -> None:
    """What ran is named, and what it printed, warned of and failed with is masked."""
    loud = GREET.replace(
        "    set_variable", "    ces_requests.get('http://nowhere.test')\n    1 / 0\n    set_variable"
    )
    write_files(app, {"tools/greet/python_function/python_code.py": loud})
    chat(app, "--local", str(app.parent / "store"), *KEY, says="Hi\n")
    masked, shown = asyncio.run(shown_of(app.parent / "store"))

    assert "Log of desk: greet" in masked
    assert "secret" not in masked
    assert re.search(r"a secret of Ada warning: .*nowhere.test.* ZeroDivisionError", shown)


async def shown_of(folder: Path) -> list[str]:
    """Return the text of the session's page, with its content masked and revealed."""
    async with Store.local(folder) as store:
        place = {"app": "shop", "user": "ada", "session": "s1"}
        options: tuple[dict[str, Any], ...] = ({}, {"reveal": "always"})
        apps = [create_app(store, authorize=lambda *_: True, **each) for each in options]
        return [(await seen(each, "session", place)).text for each in apps]

"""The sample is what its documents say: without fault, tested, and a conversation outlives its process."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from examples.ces.api import PORT, account_server
from gcp_adk_store.ces import lint_app, read_app
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.emulators import Emulator
from tests.support.lengths import at_length
from tests.support.ready_programs import ready_programs

ROOT = Path(__file__).parents[3]
APP = ROOT / "examples/ces/app"
CONVERSATION = "python -m examples.ces.conversation"

PAGES = ("docs/ces-commands.md", "docs/ces-evaluations.md", "examples/ces/README.md")

SHOWN = {
    "ces eval": "2 passed",
    "ces lint": "10 tools and callbacks: 0 errors, 0 warnings",
    "ces test": at_length("8 passed", "21 passed"),
    "ces run-callback": '"session_escalated": true',
    "ces run-tool --name arrange_payment": "8217",
    "ces run-tool --args": '"name": "Ada"',
}
"""What each documented command prints, by its words and first option."""

TOOLS_ALONE = at_length(["--only", "tools"], [])
"""For what runs tests: those of callbacks start a pytest each, as test_test_command.py shows."""


def documented() -> list[str]:
    """Return the commands of the documents that a shell would run."""
    text = "\n".join((ROOT / name).read_text() for name in PAGES)
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def of_command(line: str) -> str:
    """Return the key of a command in SHOWN."""
    words = shlex.split(line)[1:]
    options = [word for place, word in enumerate(words) if word.startswith("--")]
    name = words[words.index("--name") + 1] if "--name" in words else ""
    first = f" {options[0]} {name}".rstrip() if words[1] == "run-tool" else ""
    return f"{' '.join(words[:2])}{first}"


CHAT = [line for line in documented() if line.startswith("gcp-adk-store ces chat")]
GOLDEN = [line for line in documented() if line.startswith("gcp-adk-store ces golden")]
OURS = [
    line
    for line in documented()
    if line.startswith("gcp-adk-store ces") and "install" not in line and line not in {*CHAT, *GOLDEN}
]


@pytest.mark.usefixtures("ces_environment")
@pytest.mark.parametrize("line", OURS, ids=of_command)
def test_documented_commands_run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And print what they should, from the root of a clone."""
    monkeypatch.chdir(ROOT)
    with account_server() as url:
        port = url.rpartition(":")[2]
        words = shlex.split(line.replace(str(PORT), port))[1:]
        words += TOOLS_ALONE if words[1] == "test" else []
        result = CliRunner().invoke(command, words, env={"COLUMNS": "150"})

    assert (0, "") == (result.exit_code, result.stderr)
    assert SHOWN[of_command(line)] in result.stdout


@pytest.mark.usefixtures("ces_environment")
def test_the_documented_debugger_stops_in_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And shows its lines and values."""
    monkeypatch.chdir(ROOT)
    (line,) = (each for each in OURS if "inprocess" in each)
    words = shlex.split(line)[1:]
    code = next(word for word in words if word.endswith("python_code.py"))
    stops = (ROOT / code).read_text().replace("    asked = ", "    breakpoint()\n    asked = ", 1)
    assert "breakpoint()" in stops
    (tmp_path / "python_code.py").write_text(stops)
    words[words.index(code)] = str(tmp_path / "python_code.py")
    done = subprocess.run(  # pytest has a debugger of its own in this process
        [ready_programs() / "gcp-adk-store", *words],
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        input="p get_variable('wants_human') + 40\nlist\ncontinue\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "(Pdb) 41\n" in done.stdout
    assert "    breakpoint()\n" in done.stdout
    assert '"session_escalated": true' in done.stdout


@pytest.mark.usefixtures("ces_environment")
def test_the_documented_conversation_is_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what the sample's callbacks say: a farewell where the model gives none."""
    monkeypatch.chdir(ROOT)
    (line,) = CHAT
    (saving,) = GOLDEN
    words = shlex.split(line.replace("support-store", str(tmp_path / "store")))[1:]
    words += ["--session", "shop/ada/s1"]
    result = CliRunner().invoke(command, words, input="In three parts.\n/calls\nThat is all.\n")
    (tmp_path / "goldens").mkdir()
    saving = saving.replace("support-store", str(tmp_path / "store")).replace(
        "goldens/", f"{tmp_path}/goldens/"
    )
    saved = CliRunner().invoke(command, shlex.split(saving)[1:])

    assert 0 == result.exit_code
    assert "support: You pay 82.17 euros" in result.stdout
    assert saved.exit_code == 0, saved.stderr
    assert "user: In three parts." in (tmp_path / "goldens" / "s1.yaml").read_text()
    assert 'arrange_payment {"months": 3} -> {"result": {"status": "ok"' in result.stdout
    assert "support: Goodbye." in result.stdout
    assert result.stderr.endswith("the session has ended\n")


@pytest.mark.usefixtures("ces_environment")
def test_the_server_is_reached_only_where_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the option the tool gets the error that nobody answers, though the server does."""
    monkeypatch.chdir(ROOT)
    (line,) = (each for each in OURS if "--allow-host" in each)
    answers = []
    with account_server() as url:
        place = url.removeprefix("http://")
        words = shlex.split(line.replace(f"127.0.0.1:{PORT}", place))[1:]
        for host in (place, "127.0.0.1:1", "accounts.example.com"):
            # The host asks for code, in whichever sandbox; the documented command runs in the real one.
            asked = [
                *words[: words.index("--allow-host")],
                "--allow-host",
                host,
                "--sandbox",
                "inprocess",
                "--json",
            ]
            result = CliRunner().invoke(command, asked)
            answers.append(json.loads(result.stdout)["response"]["result"]["status"])

    assert ["ok", "error", "error"] == answers


def test_the_server_runs_by_its_command() -> None:
    """On the port that it is given."""
    command_line = [sys.executable, "-m", "examples.ces.api", "0"]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            answer = httpx.get(f"{url}/accounts/12345678", timeout=60).json()
            assert "Ada" == answer["name"]
        finally:
            server.terminate()


def test_every_documented_command_is_run() -> None:
    """By this file; installing is what other tests need first."""
    ours = {*OURS, *CHAT, *GOLDEN}
    others = {line for line in documented() if line not in ours and "ces install" not in line}

    assert {CONVERSATION} == others
    assert set(SHOWN) == {of_command(line) for line in OURS}


def test_the_app_has_one_of_everything_and_no_fault() -> None:
    """Nothing that lint would let pass unseen: all that is there was read."""
    app = read_app(APP)
    names = ("verify_customer", "look_up_account", "arrange_payment", "check_service", "check_services")

    assert set(names) == app.tool_names
    assert ["before_model"] * 3 + ["after_model", "after_tool"] == [each.callback for each in app.callbacks]
    assert [] == lint_app(app)
    assert len(list(APP.rglob("python_code.py"))) == len(app.tools) + len(app.callbacks)


@pytest.mark.usefixtures("ces_environment")
def test_a_conversation_goes_on_in_another_process(firestore_emulator: Emulator) -> None:
    """With what the first one stored: who calls, what was arranged, and that they were greeted."""
    assert firestore_emulator.address
    done = subprocess.run(
        [ready_programs() / "python", *shlex.split(CONVERSATION)[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    first, second = done.stdout.split("-- another process goes on\n")

    assert (0, "") == (done.returncode, done.stderr)
    assert "[8217, 8217, 8216]" in first
    assert "Are you still there?" in second
    assert "Goodbye, Ada. + end_session" in second
    assert "{'service': 'electricity', 'until': '18:00'}" in second

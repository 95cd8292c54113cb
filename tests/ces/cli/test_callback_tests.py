"""Tests of callbacks that end their process, or cannot run, do not pass unseen."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gcp_adk_store.cli.command import command

CODE = "def after_agent_callback(callback_context: CallbackContext) -> None:\n    pass\n"
ENDING_TEST = """import os
import time

from gcp_adk_store.testing.callback_tests import _channels


def test_first():
    pass


def test_second():
    print("so far")
    {ends}


def test_third():
    pass
"""

LARGE = "dict(file=__file__, said=None, state={'a': 'x' * 2_000_000}, tools={}, functions=[], subjects={})"
"""A run whose answer no channel holds that nobody reads."""


def write(app: Path, ends: str) -> None:
    """Make an app of one callback, whose second test does what *ends* says."""
    folder = app / "agents/root/after_agent_callbacks/only"
    folder.mkdir(parents=True)
    (folder / "python_code.py").write_text(CODE)
    (folder / "test.py").write_text(ENDING_TEST.format(ends=ends))


@pytest.mark.usefixtures("ces_environment")
@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("os._exit(0)", "pytest ended with 0:"),
        ("time.sleep(3600)", "did not end within 3 s"),
        ("_channels[0].say(outcome={})", "sent what pytest never sends"),
        ("_channels[0]._socket.sendall(b'[' * 9_000_000)", "sent what pytest never sends"),
        (f"_channels[0].say(callback={LARGE}); time.sleep(3600)", "did not end within 3 s"),
    ],
)
def test_a_test_that_ends_pytest_is_an_error_and_what_was_before_it_stands(
    tmp_path: Path, ends: str, says: str
) -> None:
    """So that none passes unseen."""
    write(tmp_path, ends)
    result = CliRunner().invoke(command, ["ces", "test", str(tmp_path), "--json", "--timeout", "3"])
    first, second = json.loads(result.stdout)

    assert 1 == result.exit_code
    assert ("test_first", "passed") == (first["name"], first["status"])
    assert ("test_second", "error", 11) == (second["name"], second["status"], second["line"])
    assert says in second["says"][0]
    assert "what comes after it was not run" == second["says"][1]


@pytest.mark.usefixtures("ces_environment")
def test_without_bubblewrap_no_test_of_a_callback_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to install, and nothing runs outside."""
    write(tmp_path, "pass")
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(command, ["ces", "test", str(tmp_path), "--only", "callbacks"])

    assert 2 == result.exit_code
    assert "apt-get install --no-install-recommends bubblewrap libseccomp2" in result.stderr

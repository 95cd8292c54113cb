"""Tests of callbacks that end their process, or cannot run, do not pass unseen."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces.testing import callback_checks
from tests.ces.conversation.apps import ces, write_files
from tests.support.clock import PassingTime
from tests.support.ready_programs import ready_programs

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

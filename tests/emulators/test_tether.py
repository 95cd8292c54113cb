"""The tether ends its command whenever its own parent is gone, and else says how the command ended."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gcp_adk_store.testing import tether
from tests.support.ended import has_ended

TETHER = [sys.executable, "-S", str(Path(tether.__file__))]
# Prints its process id, then runs for longer than any test.
LASTING = ["sh", "-c", "echo $$; exec sleep 600"]
DEAF = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True:
    signal.pause()
"""
PARENT = """
import subprocess, sys
subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE).wait()
"""

pytestmark = pytest.mark.linux

Process = subprocess.Popen[bytes]
Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process with pipes; whatever the test left of it ends after the test."""
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> Process:
            pipe = subprocess.PIPE
            process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
            stack.callback(process.kill)
            return process

        yield start


@pytest.mark.parametrize(("command", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_the_status_of_the_command_is_passed_on(start: Start, command: str, status: int) -> None:
    """The tether exits as the command did and adds nothing to its output, though its own input is open."""
    process = start(*TETHER, "sh", "-c", f"echo started; {command}")
    process.wait(60)

    assert (status, b"started\n", b"") == (process.returncode, *process.communicate())


def _close(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _speak(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.parametrize("end", [_close, _speak, Process.terminate])
def test_the_command_ends_with_its_tether(start: Start, end: Callable[[Process], None]) -> None:
    """The command is gone when the tether is: its input closed or spoke, or it was asked to end."""
    process = start(*TETHER, *LASTING)
    command = _pid_printed_by(process)
    end(process)

    assert 128 + signal.SIGTERM == process.wait(60)
    assert has_ended(command, within_s=0)


def test_a_command_that_will_not_end_is_killed(start: Start) -> None:
    """One that ignores SIGTERM has two seconds. It ends, too, when the parent is killed."""
    process = start(*TETHER, sys.executable, "-c", DEAF)
    command = _pid_printed_by(process)
    _close(process)

    assert 128 + signal.SIGKILL == process.wait(60)
    assert has_ended(command, within_s=0)

    parent = start(sys.executable, "-c", PARENT, *TETHER, *LASTING)
    command = _pid_printed_by(parent)
    parent.kill()

    assert has_ended(command, within_s=10)


def _pid_printed_by(process: Process) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())

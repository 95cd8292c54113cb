"""The tether ends its command when it is asked to end; test_launch.py shows what else ends it."""

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


@pytest.mark.parametrize(
    ("program", "number"), [(LASTING, signal.SIGTERM), ([sys.executable, "-c", DEAF], signal.SIGKILL)]
)
def test_the_command_ends_with_its_tether(start: Start, program: list[str], number: signal.Signals) -> None:
    """The command is gone when the tether is; one that ignores SIGTERM has two seconds."""
    process = start(*TETHER, *program)
    assert process.stdout is not None
    command = int(process.stdout.readline())
    process.terminate()

    assert 128 + number == process.wait(60)
    assert has_ended(command, within_s=0)

"""A program that has its modules already behaves as one that starts anew."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.ready_programs import ready_programs

SHOWS = """import signal
for number in (signal.SIGINT, signal.SIGTERM):
    print(signal.getsignal(number) == signal.SIG_IGN)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_ignores_the_signals_that_its_caller_ignores(
    tmp_path: Path, number: signal.Signals
) -> None:
    """And no other, however the tests were started: in the background a shell ignores Ctrl-C for them."""
    script = tmp_path / "shows.py"
    script.write_text(SHOWS)
    before = {each: signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        signal.signal(number, signal.SIG_IGN)
        process = subprocess.Popen([ready_programs() / "python", script], stdout=subprocess.PIPE, text=True)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    with process:
        out, _ = process.communicate()

    shown = dict(zip((signal.SIGINT, signal.SIGTERM), out.split(), strict=True))
    assert {each: f"{each == number}" for each in shown} == shown

"""The list of commands is whole and quick: it needs no import of ADK."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from gcp_adk_store.cli.command import command

SHOW = """
import sys
from gcp_adk_store.cli.command import command
command({words!r}, standalone_mode=False)
print(sorted({{"google.genai", "google.cloud.firestore", "httpx"}} & set(sys.modules)))
"""


@pytest.mark.processes
@pytest.mark.parametrize("words", [["--help"], ["ces", "--help"], ["sessions", "--help"]])
def test_help_loads_neither_adk_nor_a_client(words: list[str]) -> None:
    """Which takes seconds."""
    run = subprocess.run(
        [sys.executable, "-c", SHOW.format(words=words)], capture_output=True, text=True, check=True
    )

    assert "[]" == run.stdout.splitlines()[-1]


def test_the_list_of_commands_says_what_each_is_for() -> None:
    """In whole sentences, in a terminal of 80 columns."""
    shown = CliRunner().invoke(command, ["--help"], terminal_width=80).output
    rows = [line.strip() for line in shown.partition("Commands:\n")[2].splitlines()]

    assert [row.split()[0] for row in rows] == sorted(command.list_commands(None))  # type: ignore[arg-type]
    assert all(row.endswith(".") and not row.endswith("...") for row in rows)

"""The list of commands is whole and quick, and a shell completes it: neither needs an import of ADK."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gcp_adk_store.cli.command import command
from tests.support.documents import command as of_document
from tests.support.programs import ran

SHOW = """
import sys
from gcp_adk_store.cli.command import command
for words in ["--help"], ["ces", "--help"], ["sessions", "--help"]:
    command(words, standalone_mode=False)
    print(words, sorted({"google.genai", "google.cloud.firestore", "httpx"} & set(sys.modules)))
"""


@pytest.mark.processes
def test_help_loads_neither_adk_nor_a_client() -> None:
    """Which takes seconds."""
    run = ran([sys.executable, "-c", SHOW], check=True)

    assert ["['--help'] []", "['ces', '--help'] []", "['sessions', '--help'] []"] == [
        line for line in run.stdout.splitlines() if line.startswith("[")
    ]


def test_the_list_of_commands_says_what_each_is_for() -> None:
    """In whole sentences, in a terminal of 80 columns."""
    shown = CliRunner().invoke(command, ["--help"], terminal_width=80).output
    rows = [line.strip() for line in shown.partition("Commands:\n")[2].splitlines()]

    assert [row.split()[0] for row in rows] == sorted(command.list_commands(None))  # type: ignore[arg-type]
    assert all(row.endswith(".") and not row.endswith("...") for row in rows)


@pytest.mark.parametrize("names", [[], ["sessions"], ["sessions", "turn"], ["ces"]])
def test_a_name_of_commands_alone_lists_them(names: list[str]) -> None:
    """As with --help."""
    alone, helped = (CliRunner().invoke(command, [*names, *option]).output for option in ([], ["--help"]))

    assert alone == helped


INTERRUPT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "MODULE":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start jobs without
sys.meta_path.insert(0, Interrupting())
from gcp_adk_store.cli import main
main()
"""


@pytest.mark.processes
@pytest.mark.parametrize("module", ["cli.command", "cli.screen", "testing.__main__"])
def test_ctrl_c_during_an_import_ends_without_a_traceback(module: str) -> None:
    """As later on, with status 1: of what all commands need, and of what one does."""
    code = INTERRUPT.replace("MODULE", f"gcp_adk_store.{module}")
    run = ran([sys.executable, "-c", code, "emulators", "-h"])

    assert (1, "Aborted!") == (run.returncode, run.stderr.strip())


def options_with_numbers() -> Iterator[Any]:
    """Yield each option of a command that takes a number with a fraction."""
    left: list[tuple[str, click.Command]] = [("", command)]
    while left:
        name, each = left.pop()
        if isinstance(each, click.Group):
            context = click.Context(each)
            found = ((name_, each.get_command(context, name_)) for name_ in each.list_commands(context))
            left += [(f"{name} {name_}", one) for name_, one in found if one is not None]
        for option in each.params:
            if isinstance(option.type, click.types.FloatParamType):
                yield pytest.param(option, id=f"{name.strip()} {option.opts[0]}")


@pytest.mark.parametrize("option", [*options_with_numbers()])
@pytest.mark.parametrize("value", ["nan", "-nan", "inf", "-inf", "1e999"])
def test_an_option_takes_no_number_that_is_none(option: click.Parameter, value: str) -> None:
    """An interval of nan seconds would be none at all."""
    with pytest.raises(click.BadParameter):
        option.type.convert(value, option, None)


COMPLETE = """
COMP_WORDS=({words}) COMPREPLY=()
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_gcp_adk_store_completion gcp-adk-store
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ENVIRON = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


COMPLETIONS = {
    "gcp-adk-store sessions turn ''": {"abort", "repair", "status", "withdraw"},
    "gcp-adk-store sessions list --order ''": {"newest", "oldest"},
    "gcp-adk-store artifacts delete --d": {"--database", "--dry-run"},
}
"""Each is a process of its own: a name below a name, a value, and the beginning of an option."""


def test_bash_completes_with_the_line_of_the_documents() -> None:
    """In a shell that took it."""
    line = of_document("docs/cli.md", "_GCP_ADK_STORE_COMPLETE")
    asked = [COMPLETE.format(words=words) + "echo .\n" for words in COMPLETIONS]
    run = ran(["bash", "-c", line + "".join(asked)], env=ENVIRON, check=True)
    *found, _ = run.stdout.split(".\n")

    assert list(COMPLETIONS.values()) == [set(each.split()) for each in found], run.stderr


def test_a_tab_imports_neither_adk_nor_googles_clients() -> None:
    """The names of all commands are there before a second has passed."""
    asked = {"_GCP_ADK_STORE_COMPLETE": "bash_complete", "COMP_WORDS": "gcp-adk-store ", "COMP_CWORD": "1"}
    run = ran(["gcp-adk-store"], env={**ENVIRON, **asked, "PYTHONPROFILEIMPORTTIME": "1"}, check=True)
    imported = set(re.findall(r"\| +([\w.]+)$", run.stderr, re.MULTILINE))

    assert {"plain,doctor", "plain,sessions"} <= set(run.stdout.split())
    assert "gcp_adk_store.cli.command" in imported
    assert set() == {"google.adk.events", "google.genai", "grpc", "google.cloud.storage"} & imported

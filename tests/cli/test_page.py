"""docs/cli.md has every command with its options, and its examples run.

The list of commands is whole and quick, and a shell completes it: neither needs an import of ADK.
"""

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from google.adk.events import Event
from google.genai import types

from gcp_adk_store.cli.command import command
from tests.cli.conftest import Deployment
from tests.support.documents import ROOT, all_blocks, blocks
from tests.support.documents import command as of_document
from tests.support.programs import ran

PAGE = (ROOT / "docs/cli.md").read_text()
ELSEWHERE = {"adk", "ces"}
"""Commands with pages of their own."""
PLACE = {"project", "database", "bucket", "prefix", "local"}
"""The parameters that name a store."""


def every_command(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands of this page by what leads to them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        if not path and name in ELSEWHERE:
            continue
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from every_command(found, f"{path}{name} ")
        else:
            yield f"{path}{name}", found


def sections() -> dict[str, str]:
    """Return the text below each title of the page."""
    found = re.split(r"^#+ (.+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


async def fill(deployment: Deployment) -> None:
    """Store what the examples are about."""
    user: dict[str, Any] = {"app_name": "support", "user_id": "ada"}
    async with deployment.store() as store:
        session = await store.sessions.create_session(**user, session_id="s1")
        content = types.Content(role="user", parts=[types.Part(text="hello")])
        await store.sessions.append_event(session, Event(id="e1", author="user", content=content))
        await store.memory.add_session_to_memory(session)
        for name in ("plot.png", "user:notes.txt"):
            part = types.Part.from_bytes(data=b"bytes", mime_type="text/plain")
            await store.artifacts.save_artifact(**user, session_id="s1", filename=name, artifact=part)


@pytest.mark.parametrize(
    ("name", "found"), [pytest.param(*each, id=each[0]) for each in every_command(command)]
)
def test_every_option_is_explained(name: str, found: click.Command) -> None:
    """In the section of its command; where a command looks is explained once."""
    place = sections()["How a command finds the store"]
    for parameter in found.params:
        text = place if parameter.name in PLACE else sections()[name]
        for word in (
            parameter.opts
            if isinstance(parameter, click.Option)
            else [parameter.make_metavar(click.Context(found))]
        ):
            assert re.search(rf"`{re.escape(word)}[` ]", text), (name, word)


def test_every_command_with_a_place_is_named() -> None:
    """The section says which commands share its options."""
    shared = {
        name.split()[0]
        for name, found in every_command(command)
        if {parameter.name for parameter in found.params} >= PLACE
    }
    (line,) = re.findall(r"^(`.*) share these options", PAGE, re.MULTILINE)

    assert shared == set(re.findall(r"`([\w-]+)[ `]", line)) - ELSEWHERE


def test_the_examples_of_the_page_run(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, in a folder of the reader's, with the variables of a store."""
    asyncio.run(fill(deployment))
    elsewhere = ("eval ", "gcp-adk-store bulk ")  # tests/beam runs bulk jobs, which need Beam
    shells = [each for each in all_blocks("docs/cli.md") if each.language == "bash" and not each.needs]
    examples = [line for each in shells for line in each.lines if not line.startswith(elsewhere)]
    (folder := tmp_path / "reader").mkdir()
    monkeypatch.chdir(folder)
    (folder / "sessions.db").touch()  # from which the page copies
    shown = ""
    for line in examples:
        program, *arguments = shlex.split(line.replace("$PWD", str(folder)))
        run = deployment.led(*arguments)
        shown += run.stdout
        assert ("gcp-adk-store", 0) == (program, run.exit_code), run.output

    assert "hello" in shown
    of_copies = {"moved.ledger", "sessions.db", "support", "support.jsonl"}
    assert {"plot.png", "session.jsonl"} | of_copies == {each.name for each in folder.iterdir()}
    assert "deleted plot.png\n" in shown
    assert shown.splitlines()[-1].startswith("no fault in ")


def test_the_lines_of_the_page_are_those_of_an_export(deployment: Deployment) -> None:
    """With the same names in each."""
    asyncio.run(fill(deployment))
    named = ("--app", "support", "--user", "ada", "--session", "s1")
    exported = deployment.led("sessions", "export", *named, "-").stdout.splitlines()
    shown = [json.loads(line) for line in blocks("docs/cli.md", "json")[0].splitlines()]
    written = [json.loads(line) for line in exported]

    assert shown[0]["session"].keys() == written[0]["session"].keys()
    assert shown[1]["event"].keys() <= written[1]["event"].keys()
    assert shown[2]["end"].keys() == written[2]["end"].keys()
    assert shown[2]["end"]["events"] == written[2]["end"]["events"]
    assert 3 == len(shown) == len(written)
    assert "hello" == Event.model_validate(shown[1]["event"]).content.parts[0].text  # type: ignore[union-attr,index]  # it has some


SHOW = """
import sys
from gcp_adk_store.cli.command import command
late = {"google.genai", "google.cloud.firestore", "google.adk.sessions", "httpx"}
for words in ["--help"], ["ces", "--help"], ["sessions", "--help"], ["cost", "--help"]:
    command(words, standalone_mode=False)
    print(words, sorted(late & set(sys.modules)))
"""


@pytest.mark.processes
def test_help_loads_neither_adk_nor_a_client() -> None:
    """Which takes seconds."""
    run = ran([sys.executable, "-c", SHOW], check=True)

    assert ["[]"] * 4 == [line.rpartition(" ")[2] for line in run.stdout.splitlines() if line[0:1] == "["]


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

"""docs/cli.md has every command with its options, and its examples run."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store.cli.command import command
from tests.cli.conftest import Deployment
from tests.support.documents import ROOT, all_blocks, blocks

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

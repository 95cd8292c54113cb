"""Show what ``gcp-adk-store sessions turn`` prints, asks, repairs and withdraws."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.testing.conformance.running import read
from tests.cli.conftest import HOSTILE, STEERING, follow

KEY: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
NAMED = ("--app", "app", "--user", "ada", "--session", "s1")


class Folder:
    """A store in a folder, and the command on it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        """Open the store."""
        async with Store.local(self._path) as store:
            yield store

    async def run(self, *arguments: str) -> Result:
        """Run ``sessions turn``."""
        words = ["sessions", "turn", *arguments, *NAMED, "--local", str(self._path)]
        return await asyncio.to_thread(CliRunner().invoke, command, words)

    async def answer_of(self, *arguments: str) -> dict[str, Any]:
        """Run it for programs."""
        found: dict[str, Any] = json.loads((await self.run(*arguments, "--json")).stdout)
        return found


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    """A store with a session."""
    folder = Folder(tmp_path / "store")
    async with folder.store() as store:
        await store.sessions.create_session(**KEY)
    return folder


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_the_turn_that_runs_is_shown_and_asked_to_stop(folder: Folder) -> None:
    """With its holder and its end; its holder hears of it."""
    free = await folder.run("status")
    idle = await folder.answer_of("abort")
    async with folder.store() as store, store.turns.hold(**KEY, lease_s=60) as turn:
        held = await folder.run("status")
        status = await folder.answer_of("status")
        asked = await folder.run("abort")
        await asyncio.wait_for(turn.abort_signal.wait(), 60)
        stopping = await folder.run("status")

    assert "no turn runs; turns held so far: 0\nmessages that wait: 0\n" in free.stdout
    assert idle["asked"] is False
    assert f"turn 1 runs, held by {status['holder']} until 20" in held.stdout
    assert (True, 1, False, []) == tuple(status[name] for name in ("is_running", "fence", "abort", "waiting"))
    assert asked.stdout.endswith("the turn that runs was asked to stop\n")
    assert "; it was asked to stop" in stopping.stdout


async def test_a_message_that_waits_is_withdrawn(folder: Folder) -> None:
    """A dry run leaves it; ids of strangers steer nothing."""
    message = types.Content(role="user", parts=[types.Part(text="secret")])
    async with folder.store() as store, store.turns.hold(**KEY):
        await store.turns.enqueue(**KEY, new_message=message, message_id=HOSTILE)
        shown = await folder.run("status")
        undecided = await folder.run("withdraw", "--message", HOSTILE)
        dry = await folder.run("withdraw", "--message", HOSTILE, "--dry-run")
        gone = await folder.answer_of("withdraw", "--message", HOSTILE, "--yes")
        again = await folder.run("withdraw", "--message", HOSTILE, "--yes")

    assert "messages that wait: 1\n" in shown.stdout
    assert not [mark for mark in (*STEERING, "secret") if mark in shown.stdout + again.stderr]
    assert [0, 2, 0, 1] == [each.exit_code for each in (shown, undecided, dry, again)]
    assert "would withdraw message" in dry.stdout
    assert (HOSTILE, "withdrawn") == (gone["message_id"], gone["outcome"])
    assert ["sessions", "turn", "status"] == follow(again.stderr.rpartition("those that do: ")[2].strip())[:3]


async def test_open_tool_calls_are_answered(folder: Folder) -> None:
    """A dry run counts them; while a turn runs, nothing is changed."""
    call = types.Part(function_call=types.FunctionCall(id="c1", name="look"))
    async with folder.store() as store:
        held = await read(store.sessions, KEY)
        content = types.Content(role="model", parts=[call])
        await store.sessions.append_event(held, Event(author="agent", invocation_id="i", content=content))
        async with store.turns.hold(**KEY):
            busy = await folder.run("repair")
        dry = await folder.run("repair", "--dry-run")
        answers = [await folder.answer_of("repair") for _ in range(2)]
        after = await read(store.sessions, KEY)

    assert (2, "would answer tool calls: 1") == (busy.exit_code, dry.stdout.splitlines()[-1])
    assert "turn 1 of the session runs" in busy.stderr
    assert [(1, "repaired"), (0, "repaired")] == [(each["calls"], each["outcome"]) for each in answers]
    assert "c1" == after.events[-1].get_function_responses()[0].id


async def test_a_missing_session_ends_it_with_1(folder: Folder) -> None:
    """The message has the command that lists those that exist."""
    async with folder.store() as store:
        await store.sessions.delete_session(**KEY)
    for words in (("status",), ("abort",), ("repair",), ("repair", "--dry-run")):
        result = await folder.run(*words)

        assert 1 == result.exit_code, words
        assert "list the sessions: " in result.stderr

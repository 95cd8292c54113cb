"""ADK's servers on a store in a folder: one is killed, and the next goes on with all of it."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import Store
from gcp_adk_store.adk_server import missing_bucket
from tests.adk_server.process import Server
from tests.adk_server.story import NOTES, SESSION, Api, begin, go_on, texts
from tests.support.documents import ROOT, command
from tests.support.ready_programs import ready_path

LOCAL = "firestore+local://"

Start = Callable[[str], Server]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store that does not exist yet."""
    return tmp_path / "store"


@pytest.fixture
def environ(folder: Path, tmp_path: Path) -> dict[str, str]:
    """An environment that names this folder, and neither a cloud nor an emulator."""
    (tmp_path / ".adk").mkdir()
    (tmp_path / ".adk/config.json").write_text(json.dumps({"telemetry": False}))  # or it asks for it first
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_EMULATOR_HOST")}
    return {name: value for name, value in kept.items() if not name.startswith("GOOGLE_")} | {
        "ADK_STORE_LOCAL": str(folder),
        "HOME": str(tmp_path),
        "PATH": ready_path(os.environ),
    }


@pytest.fixture
def start(environ: dict[str, str], tmp_path: Path) -> Start:
    """Start a shell's line as a server."""

    def started(line: str) -> Server:
        log = tmp_path / f"{len([*tmp_path.glob('*.log')])}.log"
        return Server(["bash", "-c", f"{line} --port 0"], environ=environ, cwd=ROOT, log=log)

    return started


def conversation(start: Start, line: str) -> None:
    """Take two turns over REST, kill the server, and go on with the same line."""
    with start(line) as first:
        before = begin(Api(first.url))
        first.kill()
    with start(line) as second:
        story = go_on(before, Api(second.url))

        assert ["Noted. 2 in all."] == texts(story.before.streamed)
        assert story.before.kept == story.kept
        assert ["buy milk", "call Bob"] == story.kept[SESSION]["state"]["notes"]
        assert {"text": "buy milk\ncall Bob"} == story.kept[NOTES]
        assert ["Noted. 3 in all."] == texts(story.after.run("feed the cat"))


async def answers_of(folder: Path) -> list[Any]:
    """Return the sessions' notes and the artifacts that another process finds."""
    async with Store.local(folder) as store:
        found = (await store.sessions.list_sessions(app_name="notes")).sessions
        return [
            [each.state["notes"] for each in found],
            *[
                await store.artifacts.list_artifact_keys(
                    app_name="notes", user_id=each.user_id, session_id=each.id
                )
                for each in found
            ],
        ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("server", ["web", "api_server"])
def test_a_server_that_was_killed_left_all_in_the_folder(server: str, start: Start, folder: Path) -> None:
    """With the document's line; another process finds the session and the artifact, too."""
    line = command("docs/adk-server.md", LOCAL).strip().replace("adk web", f"adk {server}")
    conversation(start, line)

    notes = ["buy milk", "call Bob", "feed the cat"]
    assert [[notes], ["notes.txt"]] == asyncio.run(answers_of(folder))


def test_a_folder_has_no_bucket_to_miss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's start asks no cloud about it."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    uris = {"session_uri": f"{LOCAL}{folder}", "artifact_uri": f"GS+local://{folder}"}

    assert asyncio.run(missing_bucket(**uris)) is None
    assert not folder.exists()

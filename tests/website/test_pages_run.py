"""What the quickstart, the tutorial and the how-to pages ask a reader to write and to run, runs."""

import asyncio
import json
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import requests
from click.testing import CliRunner
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import InvalidInputError, SessionConflictError, Store, UploadMissingError
from gcp_adk_store.cli.command import command as gcp_adk_store
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.simulation import ScheduleError
from tests.adk_server.process import Server
from tests.support.documents import ROOT, all_blocks, blocks, names_of
from tests.support.lengths import at_length
from tests.support.ready_programs import ready_path
from tests.support.repeating_model import RepeatingModel

ADA: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "s1"}


class Reader:
    """Somebody who follows a page in a folder of their own, and in one process, which takes less time."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def writes(self, name: str, code: str) -> None:
        """Save a file."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        for module in [each for each in sys.modules if each.partition(".")[0] in ("notes", "test_notes")]:
            del sys.modules[module]

    def runs(self, line: str) -> str:
        """Run a line of a shell; return what it printed."""
        words = shlex.split(line)
        with pytest.MonkeyPatch.context() as patch:
            while "=" in words[0]:
                name, _, value = words.pop(0).partition("=")
                patch.setenv(name, value)
            program, *arguments = words
            if program == "gcp-adk-store":
                done = CliRunner().invoke(gcp_adk_store, arguments)
                assert 0 == done.exit_code, done.output
                return done.stdout
            assert "python" == program
            self._capsys.readouterr()
            if arguments[0] == "-m":
                patch.setattr(sys, "argv", arguments[1:])
                with pytest.raises(SystemExit) as ended:
                    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
                assert not ended.value.code
            else:
                patch.setattr(sys, "argv", arguments)
                runpy.run_path(arguments[0], run_name="__main__")
        return self._capsys.readouterr().out


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Reader]:
    """A reader in an empty folder."""
    for name in [each for each in os.environ if each.startswith("ADK_STORE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Or a file that changes within a second looks unchanged.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    reader = Reader(tmp_path, capsys)
    yield reader
    reader.writes("end", "")


def lines(page: str) -> list[str]:
    """Return the commands of a page that tests can run, one a line."""
    found = [block for block in all_blocks(page) if block.language == "bash" and not block.needs]
    return [line for block in found for line in block.lines]


def test_the_quickstart_runs(reader: Reader) -> None:
    """It prints what the page shows, and the command shows what is stored."""
    page = "docs/quickstart.md"
    code, cloud = blocks(page, "python")
    reader.writes("quickstart.py", code)
    first, second, show = lines(page)
    (shown,) = [block.text for block in all_blocks(page) if not block.language]

    assert shown == reader.runs(first) + reader.runs(second)
    assert "So far you said: hello, hello" in reader.runs(show)
    assert cloud.startswith("async with Store.connect(")


def test_the_tutorial_runs(reader: Reader, tmp_path: Path) -> None:
    """All six steps, one after the other, in one folder; what needs a project is left out."""
    agent, talk = blocks("docs/tutorial/1-persist.md", "python")
    reader.writes("notes/__init__.py", "")
    reader.writes("notes/agent.py", agent)
    reader.writes("talk.py", talk)
    milk, bob, show = lines("docs/tutorial/1-persist.md")
    assert "Noted. 1 in all.\n" == reader.runs(milk)
    assert "Noted. 2 in all.\n" == reader.runs(bob)
    assert "call Bob" in reader.runs(show)

    (tool,) = blocks("docs/tutorial/2-artifacts.md", "python")
    before, _, rest = agent.partition("async def take_note")
    reader.writes("notes/agent.py", f"{before}{tool}\n\nclass {rest.partition(chr(10) + 'class ')[2]}")
    cat, plants, listed, got = lines("docs/tutorial/2-artifacts.md")
    assert "Noted. 3 in all.\n" == reader.runs(cat)
    assert "Noted. 4 in all.\n" == reader.runs(plants)
    assert "notes.txt" in reader.runs(listed)
    assert "buy milk\ncall Bob\nfeed the cat" == reader.runs(got)

    (tests,) = blocks("docs/tutorial/3-test.md", "python")
    reader.writes("test_notes.py", tests)
    (tested,) = lines("docs/tutorial/3-test.md")
    assert "" == reader.runs(tested)
    assert 2 == len(re.findall(r"^    async def test_", tests, re.MULTILINE))

    web, inspected = [
        block.text for block in all_blocks("docs/tutorial/4-adk-web.md") if block.language == "bash"
    ]
    assert ["notes.txt"] == seen_in(web, tmp_path)
    _, name, *options = shlex.split(inspected)
    inspect = gcp_adk_store.get_command(click.Context(gcp_adk_store), name)
    assert inspect is not None
    assert isinstance(inspect.make_context(name, options), click.Context)

    (two,) = blocks("docs/tutorial/5-one-turn-at-a-time.md", "python")
    reader.writes("two_at_once.py", two)
    (both,) = lines("docs/tutorial/5-one-turn-at-a-time.md")
    assert ["Noted. 5 in all.", "Noted. 6 in all."] == reader.runs(both).splitlines()

    (by_environment,) = blocks("docs/tutorial/6-cloud-run.md", "python")
    line = 'async with Store.local("notes-store") as store:'
    assert line in talk
    reader.writes("talk.py", talk.replace(line, by_environment.strip()))
    (pack,) = lines("docs/tutorial/6-cloud-run.md")
    assert "Noted. 7 in all.\n" == reader.runs(pack)


def seen_in(command: str, folder: Path) -> list[str]:
    """Start ``adk web`` as a page says, and return the artifacts that it lists of the session."""
    consent = folder / ".adk/config.json"
    consent.parent.mkdir()
    consent.write_text(json.dumps({"telemetry": False}))  # or it asks for it first
    environ = os.environ | {
        "HOME": str(folder),
        "PATH": ready_path(os.environ),
        "PYTHONPATH": str(ROOT),
    }
    shell = ["bash", "-c", f"{command.strip()} --port 0"]
    with Server(shell, environ=environ, cwd=folder, log=folder / "web.log") as server:
        at = f"{server.url}/apps/notes/users/ada/sessions/first"
        session = requests.get(at, timeout=60).json()
        assert ["buy milk", "call Bob", "feed the cat", "water the plants"] == session["state"]["notes"]
        found: list[str] = requests.get(f"{at}/artifacts", timeout=60).json()
    return found


async def test_the_configs_of_long_histories_are_what_a_read_takes(tmp_path: Path) -> None:
    """The runner hands on that of a run."""
    names = names_of("docs/how-to/long-histories.md")
    async with Store.local(tmp_path, history="since_compaction") as store:
        await store.sessions.create_session(**ADA)
        for config in (names["fast"].get_session_config, names["whole"]):
            assert await store.sessions.get_session(**ADA, config=config)


async def test_the_code_of_the_how_to_pages_runs(tmp_path: Path) -> None:
    """Each on a session with two turns."""
    names: dict[str, Any] = {}
    for page in ("authenticate", "handle-conflicts", "limit-lifetime", "signed-urls", "fork-and-restore"):
        exec(blocks(f"docs/how-to/{page}.md", "python")[0], names)  # noqa: S102  # the page's
    async with Store.local(tmp_path) as store:
        runner = Runner(
            app_name="support",
            agent=LlmAgent(name="agent", model=RepeatingModel()),
            session_service=store.sessions,
            auto_create_session=True,
        )
        turns = []
        for text in ("hello", "goodbye"):
            message = types.Content(role="user", parts=[types.Part(text=text)])
            events = await names["say_once_more"](runner, "ada", "s1", message)
            turns.append(events[-1].invocation_id)
        session = await read(store.sessions, ADA)
        past = await names["look_back"](store, turns[1])
        fork = await names["branch"](store, turns[1])
        restored = await names["undo"](store, turns[1])
        assert session.events[:2] == past.events == fork.events == restored.events
        assert restored.events

        begun = await names["begin"](store)
        found = await store.sessions.get_session(app_name="support", user_id="ada", session_id=begun)
        assert found is not None
    await names["store"].close()


async def test_the_lists_of_the_page_have_all_sessions() -> None:
    """In pages, the last updated first; a label finds the one that has it."""
    names = names_of("docs/how-to/list-sessions.md", 0)
    async with Store.local(":memory:") as store:
        for id_ in ("s1", "s2", "s3"):
            await store.sessions.create_session(app_name="support", user_id="ada", session_id=id_)
        await names["describe"](store, "s2")
        pages = [await names["first_pages"](store, count, page_size=1) for count in (2, 9)]

        assert [["s3", "s2"], ["s3", "s2", "s1"]] == [[info.session_id for info in found] for found in pages]
        assert [None, "A seat to Zurich", None] == [info.title for info in pages[1]]
        assert (["A seat to Zurich"], []) == tuple([await names["of_team"](store, team) for team in "xy"])


async def test_the_turn_of_the_page_is_taken_again_after_a_conflict() -> None:
    """Three times at most."""
    names = names_of("docs/how-to/handle-conflicts.md", 0)

    class Busy:
        def __init__(self, conflicts: int) -> None:
            self.left = conflicts

        async def run_async(self, **_: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                raise SessionConflictError("another writer was first")
            yield "event"

    assert ["event"] == await names["say_once_more"](Busy(2), "ada", "s1", None)
    with pytest.raises(SessionConflictError):
        await names["say_once_more"](Busy(3), "ada", "s1", None)


def stored_in(folder: Path) -> bytes:
    """Return the content of all files in *folder*."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_store_of_the_page_keeps_nothing_in_the_clear(reader: Reader, tmp_path: Path) -> None:
    """With a key that it creates, and keeps beside its folder."""
    page = "docs/how-to/encrypt.md"
    names = names_of(page, 0)

    async def use() -> Any:
        async with names["store"] as store:
            await store.sessions.create_session(**ADA, state={"seat": "a window seat"})
            return await store.sessions.get_session(**ADA)

    assert "a window seat" == asyncio.run(use()).state["seat"]
    assert [1] == [reader.runs(line).count("1 ") for line in lines(page)]
    assert (tmp_path / "support.key").exists()
    assert b"a window seat" not in stored_in(tmp_path)


async def test_a_folder_refuses_the_urls_of_the_page() -> None:
    """As it says; what they do in the cloud, tests/emulators/storage shows with a key."""
    names = names_of("docs/how-to/signed-urls.md", 0)
    async with Store.local(":memory:") as store:
        await store.artifacts.save_artifact(**names["REPORT"], artifact=types.Part(text="report"))
        for refused in (names["link"], names["begin_upload"]):
            with pytest.raises(InvalidInputError):
                await refused(store)
        with pytest.raises(UploadMissingError):
            await names["end_upload"](store, "0" * 32)


def test_the_agent_of_the_page_remembers(reader: Reader) -> None:
    """What was said in another session, with the tool that the page gives it; a command finds it, too."""
    page = "docs/how-to/remember-across-sessions.md"
    names = names_of(page, 0)
    store, runner = names["store"], names["runner"]
    runner.agent.model = RepeatingModel()

    async def talk() -> Any:
        await store.sessions.create_session(**ADA)
        message = types.Content(role="user", parts=[types.Part(text="a window seat to Zurich")])
        async for _ in runner.run_async(user_id="ada", session_id="s1", new_message=message):
            pass
        await store.sessions.flush()
        found = await store.memory.search_memory(app_name="support", user_id="ada", query="window")
        await store.close()
        return found

    assert "a window seat to Zurich" in str(asyncio.run(talk()))
    assert ["a window seat to Zurich" in reader.runs(line) for line in lines(page)] == [True]


def test_the_test_of_the_page_about_faults_passes() -> None:
    """With a store in memory, as its fixture."""
    names = names_of("docs/how-to/test-with-faults.md", 0)
    store = Store.local(":memory:")
    names["test_a_refused_append_changes_nothing"](store)
    asyncio.run(store.close())


def test_the_simulation_of_the_page_finds_what_it_says(adk_store_simulate: Any) -> None:
    """With a key for each order the tool takes the money once; without, twice in some schedule."""
    names = names_of("docs/how-to/simulate.md")

    def simulate_some(scenario: Any, *, schedules: int, **options: Any) -> None:
        adk_store_simulate(scenario, schedules=at_length(5, schedules), **options)

    names["test_an_order_is_paid_once"](simulate_some)
    with pytest.raises(ScheduleError, match="the money was taken 2 times") as raised:
        adk_store_simulate(names["schedule"](names["CarelessBank"]))

    seed = raised.value.seed
    assert f"--adk-store-seed {seed}" in str(raised.value)


def test_an_export_of_the_page_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a new id where the session exists."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADK_STORE_LOCAL", str(tmp_path / "store"))

    async def fill() -> None:
        async with Store.from_env() as store:
            session = await store.sessions.create_session(**ADA)
            await store.sessions.append_event(session, Event(author="user"))

    asyncio.run(fill())
    for line in lines("docs/how-to/back-up-and-restore.md"):
        done = CliRunner().invoke(gcp_adk_store, shlex.split(line)[1:])
        assert 0 == done.exit_code, done.output


async def test_the_code_of_the_catalogues_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes a runner; the page has the fields that the catalogue reads."""
    monkeypatch.chdir(tmp_path)
    page = "docs/integrations/adk-catalogue.md"
    names = names_of(page, 0)
    head = (ROOT / page).read_text().split("---")[1]

    assert isinstance(names["runner"], Runner)
    assert ["title", "description", "icon", "tags"] == [
        line.partition(":")[0].removeprefix("catalog_") for line in head.strip().splitlines()
    ]
    assert (ROOT / "docs/integrations/gcp-adk-store.png").read_bytes().startswith(b"\x89PNG")
    await names["store"].close()

"""ADK's servers on the store, killed in the middle of a conversation: another one goes on with all of it."""

import json
import os
import re
import signal
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator, create_bucket
from gcp_adk_store.testing.faults import Hold, no_faults, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from tests.adk_server.process import READY_S, Server
from tests.adk_server.story import ARTIFACTS, NOTES, SESSION, Api, Story, begin, go_on, texts
from tests.support.documents import ROOT, command
from tests.support.programs import ran
from tests.support.ready_programs import ready_path

Start = Callable[..., Server]


@pytest.fixture(scope="session")
def start(
    firestore_emulator: Emulator, storage_emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> Start:
    """Start a server with a command of the documents, on a place of this run that the caller names."""
    folder = tmp_path_factory.mktemp("servers")
    run = uuid.uuid4().hex[:20]
    consent = folder / ".adk/config.json"
    consent.parent.mkdir()
    consent.write_text(json.dumps({"telemetry": False}))  # or the page asks for it first
    environ = os.environ | {
        firestore_emulator.variable: firestore_emulator.address,
        storage_emulator.variable: storage_emulator.address,
        "HOME": str(folder),
        "PATH": ready_path(os.environ),
        "PORT": "0",
    }
    buckets: set[str] = set()

    def started(part: str, *, place: str, options: str = "", **changes: str) -> Server:
        bucket = f"{place}-{run}"
        if bucket not in buckets:
            create_bucket(bucket, storage_emulator.address)
            buckets.add(bucket)
        shell = f"{command('docs/adk-server.md', part).strip()} {options}"
        log = folder / f"{uuid.uuid4().hex}.log"
        if "ADK_STORE_LOCAL" not in changes:
            changes |= {"ADK_STORE_PROJECT": f"demo-{run}", "ADK_STORE_DATABASE": "(default)"}
            changes |= {"ADK_STORE_BUCKET": bucket, "ADK_STORE_PREFIX": place}
        return Server(["bash", "-c", shell], environ=environ | changes, cwd=ROOT, log=log)

    return started


def told(start: Start, first_part: str, second_part: str, **options: str) -> Iterator[Story]:
    """Kill the server of a command of the document, and let that of another one go on."""
    with start(first_part, **options) as first:
        before = begin(Api(first.url))
        first.kill()
    with start(second_part, **options) as second:
        yield go_on(before, Api(second.url))


@pytest.fixture(scope="session")
def adk_story(start: Start) -> Iterator[Story]:
    """``adk api_server`` is killed, and ``adk web`` goes on."""
    web = 'adk web \\\n  --session_service_uri "firestore:'
    yield from told(start, "adk api_server", web, place="adk", options="--port 0")


@pytest.fixture(scope="session")
def main_story(start: Start) -> Iterator[Story]:
    """The example for Cloud Run is killed, and runs again."""
    yield from told(start, "main.py", "main.py", place="run")


@pytest.fixture(scope="session")
def local_story(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """``adk web`` on a folder that neither a cloud nor an emulator knows is killed, and runs again."""
    part, folder = '"firestore+local://', str(tmp_path_factory.mktemp("local") / "store")
    yield from told(start, part, part, place="local", options="--port 0", ADK_STORE_LOCAL=folder)


@pytest.mark.parametrize("kind", ["adk_story", "main_story", "local_story"])
def test_all_of_a_server_that_was_killed_is_there_in_the_next(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Events, state, times and artifacts, to the last letter; the conversation goes on there.

    A session was made over REST, two turns were taken, and state was patched without a turn. The probes of
    the example ask ADK's own path.
    """
    story: Story = request.getfixturevalue(kind)
    before = story.before
    about = before.kept[f"{NOTES}/versions/latest/metadata"]

    assert ("s1", "ada") == (before.made["id"], before.made["userId"])
    assert {"topic": "errands", "user:name": "Ada"} == before.made["state"]
    assert (["Noted. 1 in all."], ["Noted. 2 in all."]) == (texts(before.run), texts(before.streamed))
    assert {
        "topic": "chores",
        "user:name": "Ada",
        "app:seen": 1,
        "notes": ["buy milk", "call Bob"],
    } == before.patched["state"]
    assert before.patched == before.kept[SESSION]
    assert 4 + 4 + 1 == len(before.patched["events"])
    assert ["notes.txt"] == before.kept[ARTIFACTS]
    assert [0, 1] == before.kept[f"{NOTES}/versions"]
    assert {"text": "buy milk"} == before.kept[f"{NOTES}/versions/0"]
    assert {"text": "buy milk\ncall Bob"} == before.kept[NOTES]
    assert (1, "text/plain") == (about["version"], about["mimeType"])
    assert about["canonicalUri"].endswith("notes/ada/s1/notes.txt/1")
    assert before.kept == story.kept
    assert ["Noted. 3 in all."] == texts(story.after.run("feed the cat"))
    assert "buy milk\ncall Bob\nfeed the cat" == story.after.get(NOTES)["text"]
    assert {"status": "ok"} == story.after.get("/health")


def test_the_example_answers_errors_by_what_the_client_does_next(main_story: Story) -> None:
    """An artifact that cannot be asked for is the client's mistake."""
    answer = main_story.after.ask("GET", f"{SESSION}/artifacts/a%00b/versions")

    assert 400 == answer.status_code
    assert answer.json()["detail"].startswith("InvalidInputError: ")


def test_the_first_turn_of_the_document_is_taken(main_story: Story, tmp_path: Path) -> None:
    """With the commands of docs/deploying.md, as they stand there, on the server that its command starts."""
    run = ran(
        ["bash", "-e", "-c", command("docs/deploying.md", "URL=")],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "URL": main_story.after.url},
    )
    health, made, turn, session, notes = run.stdout.splitlines()

    assert (0, "") == (run.returncode, run.stderr)
    assert {"status": "ok"} == json.loads(health)
    assert ("first", []) == (json.loads(made)["id"], json.loads(made)["events"])
    assert ["Noted. 1 in all."] == texts(json.loads(turn))
    assert ["buy milk"] == json.loads(session)["state"]["notes"]
    assert "buy milk" == json.loads(notes)["text"]
    assert command("docs/deploying.md", "PORT=") == command("docs/adk-server.md", "PORT=")


def test_a_turn_that_runs_when_sigterm_comes_is_answered(start: Start, firestore_emulator: Emulator) -> None:
    """Then the example closes its connections and ends, in time before Cloud Run kills it."""
    hold = Hold()
    with (
        FirestoreProxy(firestore_emulator.address, no_faults) as proxy,
        start("main.py", place="term", **{FIRESTORE_VARIABLE: proxy.address}) as server,
        ThreadPoolExecutor() as threads,
    ):
        api = Api(server.url)
        api.create({})
        proxy.plan = only("Commit", lambda _: hold)
        turn = threads.submit(api.run, "buy milk")
        assert hold.reached.wait(READY_S)
        server.send(signal.SIGTERM)
        server.says(re.compile("(Shutting down)"))
        hold.release()

        assert ["Noted. 1 in all."] == texts(turn.result())
        assert 128 + signal.SIGTERM == server.ended()
        assert "Application shutdown complete." in server.log
        assert "Traceback" not in server.log

"""README and docs show only what runs: their code is run, their figures and names are looked up."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from google.adk.agents import LlmAgent
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client
from google.genai import types

import gcp_adk_store
from gcp_adk_store import Store, StoreError
from gcp_adk_store.adk_server.app import answer
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.emulators import Emulator
from tests.support.documents import ROOT, blocks, documents, names_of
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs
from tests.support.repeating_model import RepeatingModel
from tools.website.build import configuration, navigation

README = (ROOT / "README.md").read_text()


def test_the_first_program_runs_in_the_cloud_with_one_other_line(
    tmp_path: Path, project: str, storage_emulator: Emulator
) -> None:
    """On emulators, twice, as tests/project/test_without_extras.py runs it on a folder."""
    assert storage_emulator.address
    program, line = blocks("README.md", "python")
    code, changed = re.subn(r"^ *async with Store\.local.*\n", line, program, flags=re.MULTILINE)
    (tmp_path / "hello.py").write_text(code.replace("my-project", project))
    runs = [ran([ready_programs() / "python", "hello.py"], cwd=tmp_path) for _ in range(2)]
    (shown,) = blocks("README.md", "")

    assert 1 == changed
    assert shown == "".join(run.stdout for run in runs), runs[-1].stderr


def test_the_example_of_an_own_test_passes(
    tmp_path: Path, firestore_emulator: Emulator, storage_emulator: Emulator
) -> None:
    """In a folder of its own, with nothing but the installed plugin; one file for blocks that go on."""
    assert firestore_emulator.address
    assert storage_emulator.address
    (tmp_path / "test_own.py").write_text("\n\n".join(blocks("docs/testing.md", "python")[:3]))
    run = ran(
        [ready_programs() / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], cwd=tmp_path
    )

    assert "4 passed" in run.stdout
    assert 0 == run.returncode


async def test_the_copy_of_sessions_keeps_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From ADK's SQLite service, with the code of docs/moving.md; it prints what was lost."""
    monkeypatch.chdir(tmp_path)
    names = names_of("docs/moving.md", 0)
    source = SqliteSessionService(db_path="sessions.db")
    who: dict[str, Any] = {"app_name": "support", "user_id": "u", "session_id": "s"}
    session = await source.create_session(**who, state={"mine": 0})
    for number in range(3):
        delta = {"mine": number, "user:name": "Ada", f"user:{number}": None}
        await source.append_event(session, Event(author="user", actions=EventActions(state_delta=delta)))
    is_complete = await names["move"]("sqlite:///sessions.db", f"firestore+local://{tmp_path}/moved")
    original = await read(source, who)
    async with Store.local(tmp_path / "moved") as store:
        copied = await read(store.sessions, who)

    assert is_complete
    assert (original.state, original.events) == (copied.state, copied.events)
    assert "initial: of 1 sessions" in capsys.readouterr().out


async def test_the_export_of_the_page_is_imported_again(adk_store_local: Store, tmp_path: Path) -> None:
    """With the code of docs/moving.md, into a new store."""
    names = names_of("docs/moving.md", 1)
    who: dict[str, Any] = {"app_name": "support", "user_id": "u", "session_id": "s"}
    await adk_store_local.sessions.create_session(**who, state={"mine": 0})
    count = await names["back_up"](adk_store_local, tmp_path / "support.jsonl")
    async with Store.local(tmp_path / "new") as store:
        is_complete = await names["bring_back"](store, tmp_path / "support.jsonl")
        copied = await read(store.sessions, who)

    assert (1, True) == (count, is_complete)
    assert {"mine": 0} == copied.state


async def test_the_example_of_a_restore_undoes_a_turn(adk_store_local: Store) -> None:
    """The turns before it stay, all of them in the fork that is kept; a look at the past changes nothing."""
    who: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
    session = await adk_store_local.sessions.create_session(**who, state={"n": 0})
    for number, turn in enumerate(("first", "second")):
        actions = EventActions(state_delta={"n": number + 1})
        event = Event(author="user", invocation_id=turn, actions=actions)
        await adk_store_local.sessions.append_event(session, event)
    names = names_of("docs/points.md")
    before = await names["state_before"](adk_store_local, session, "second")
    restored = await names["undo"](adk_store_local, session, "second", keep_as="kept")
    kept = await read(adk_store_local.sessions, {**who, "session_id": "kept"})

    assert {"n": 1} == before == restored.state
    assert session.events[:1] == restored.events
    assert session.events == kept.events


async def test_the_examples_of_templates_run(adk_store: Store) -> None:
    """The instruction says who the agent helps; a job fills the same from storage."""
    names = names_of("docs/templates.md")
    names["agent"].model = RepeatingModel()
    user: dict[str, Any] = {"app_name": "support", "user_id": "u"}
    made = await adk_store.sessions.create_session(**user, session_id="s", state={"user:name": "Ada"})
    runner = Runner(
        app_name="support",
        agent=names["agent"],
        session_service=adk_store.sessions,
        artifact_service=adk_store.artifacts,
    )
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    instructions = [
        event.content.parts[0].text or ""
        async for event in runner.run_async(user_id="u", session_id=made.id, new_message=message)
        if event.content and event.content.parts
    ]

    assert "You help Ada. Rules: " in instructions[-1]
    assert "You help Ada." == await names["instruction_of"](adk_store, **user, session_id="s")


async def test_the_example_of_credentials_runs() -> None:
    """It contacts nothing before the first call."""
    names = names_of("docs/credentials.md", 0)
    assert isinstance(names["store"], Store)
    await names["store"].close()


async def test_a_document_can_be_read_as_it_was(connect: Any, project: str) -> None:
    """With the code of docs/deploying.md, in the path that it has there; the emulator keeps the last hour."""
    names = names_of("docs/deploying.md", -1)
    service = connect()
    user: dict[str, Any] = {"app_name": "support", "user_id": "ada"}
    made = await service.create_session(**user, session_id="s1", state={"n": 1})
    (path,) = re.findall(r"adk_apps/\S+", names["as_it_was"].__doc__)
    client = Client(project=project, credentials=AnonymousCredentials())
    before = client.document(path.rstrip(".")).get().update_time
    await service.append_event(made, Event(author="user", actions=EventActions(state_delta={"n": 2})))
    await service.close()
    was = names["as_it_was"](client, path.rstrip("."), before)
    now = client.document(path.rstrip(".")).get().to_dict()

    assert now is not None
    assert (1, 0) == (was["state"]["n"], was["rev"])
    assert (2, 1) == (now["state"]["n"], now["rev"])


def test_every_promise_names_a_test_that_exists() -> None:
    """In the tables of docs/proofs.md, and wherever else one is named."""
    named = {name for path in documents() for name in re.findall(r"`(test_\w+)`", (ROOT / path).read_text())}
    suites = (ROOT / "gcp_adk_store/testing/conformance").glob("*.py")
    sources = "".join(path.read_text() for path in (*(ROOT / "tests").rglob("test_*.py"), *suites))

    assert named
    assert set() == {name for name in named if f"def {name}(" not in sources}


def test_the_promises_are_short_and_lead_to_their_proofs() -> None:
    """Each section of docs/guarantees.md leads to the section of docs/proofs.md that has its tests."""
    promises, proofs = ((ROOT / f"docs/{page}.md").read_text() for page in ("guarantees", "proofs"))
    sections = re.findall(r"^## (.+)$", promises, re.MULTILINE)
    proven = re.findall(r"^## (.+)$", proofs, re.MULTILINE)
    links = set(re.findall(r"\]\(proofs\.md#([\w-]+)\)", promises))

    assert [section for section in proven if section != "How the tests show this"] == sections
    assert links == titles("\n".join(f"## {section}" for section in sections if section != "Logs"))
    assert len(promises.splitlines()) <= 120
    assert "|" not in promises


def test_every_link_and_path_in_the_documents_exists() -> None:
    """Files and titles that are linked, and paths that are named; ../../issues is a page of GitHub."""
    missing = []
    for document in documents():
        text = (ROOT / document).read_text()
        for link, title in re.findall(
            r"\]\((?!https?:|\.\./\.\./(?:issues|security))([^)#]*)(?:#([^)]+))?\)", text
        ):
            target = (ROOT / document).parent / link if link else ROOT / document
            if not target.exists() or (title and title not in titles(target.read_text())):
                missing.append(f"{document}: {link}#{title}")
        named = re.findall(r"`((?:docs|tests|emulators|tools|examples|terraform)/[\w/.-]+)`", text)
        missing += [
            f"{document}: {name}"
            for name in named
            if not (ROOT / name).exists() and "results" not in name and "logs" not in name
        ]

    assert [] == missing


async def test_the_code_of_the_page_about_points_and_forks_runs() -> None:
    """A message is said differently in a fork, and a guest's conversation goes to the user who logged in."""
    names = names_of("docs/points.md")
    async with Store.local(":memory:") as store:
        agent = LlmAgent(name="agent", model=RepeatingModel())
        runner = Runner(app_name="support", agent=agent, session_service=store.sessions)
        who: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "s1"}
        await store.sessions.create_session(**who)
        for text in ("hello", "good bye"):
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="ada", session_id="s1", new_message=message):
                last = event
        fork_id = await names["say_instead"](store, runner, last, "how are you?")
        fork = await read(store.sessions, {**who, "session_id": fork_id})
        said = [
            event.content.parts[0].text
            for event in fork.events
            if event.author == "user" and event.content and event.content.parts
        ]
        assert ["hello", "how are you?"] == said

        await store.artifacts.save_artifact(**who, filename="f", artifact=types.Part(text="f"))
        taken = await names["log_in"](store, "ada", "bob", "s1")
        kept: dict[str, Any] = {"app_name": "support", "user_id": "bob", "session_id": taken.id}
        found = await store.sessions.get_session(**kept)
        assert taken == found
        assert await store.sessions.get_session(**who) is None
        assert [] == await store.artifacts.list_artifact_keys(**who)
        assert ["f"] == await store.artifacts.list_artifact_keys(**kept)


def titles(text: str) -> set[str]:
    """Return what links to the titles of a document end with."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in found}


def test_the_readme_is_short_and_leads_to_every_part() -> None:
    """Each tab of the site's navigation has a page that it links to; tests/website has the others."""
    linked = set(re.findall(r"\]\(docs/([\w/-]+\.md)", README))
    parts = configuration()["project"]["nav"]

    assert len(README.splitlines()) <= 150
    for part in parts[1:]:
        assert linked & {*navigation({"project": {"nav": [part]}})}, part


def test_every_error_is_on_the_page_of_errors() -> None:
    """With what to do next, and the class of ADK that it is, too."""
    named = {name for name in gcp_adk_store.__all__ if name.endswith("Error")} - {"StoreError"}
    page = (ROOT / "docs/reference/errors.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+Error)`[^|]*\|[^|]*\| ?(.*?) ?\|$", page, re.MULTILINE))

    assert named == rows.keys()
    for name, of_adk in rows.items():
        also = [each.__name__ for each in getattr(gcp_adk_store, name).__bases__ if each is not StoreError]
        shown = [base for base in also if base not in named and base not in ("ValueError", "KeyError")]
        assert [f"`{base}`" for base in shown] == ([of_adk] if of_adk else []), name


async def test_the_status_of_each_error_is_on_the_page_of_servers() -> None:
    """Those that the table does not name get the status of its last row."""
    text = (ROOT / "docs/adk-server.md").read_text()
    rows = re.findall(r"^\| (`\w+Error`.*?) \|.*\| (\d{3})[^|]*\|$", text, re.MULTILINE)
    shown = {name: int(status) for names, status in rows for name in re.findall(r"`(\w+Error)`", names)}
    request = Request({"type": "http", "headers": []})
    answered = {}
    for name in {name for name in gcp_adk_store.__all__ if name.endswith("Error")} - {"StoreError"}:
        kind = getattr(gcp_adk_store, name)
        error = kind.__new__(kind)
        StoreError.__init__(error, "text")  # some kinds take more arguments
        answered[name] = (await answer(request, error)).status_code

    assert {name: shown.get(name, 500) for name in answered} == answered
    assert {*shown} <= {*answered}


def test_the_advice_on_pythons_collector_is_what_the_example_does(tmp_path: Path) -> None:
    """And can be followed as it stands."""
    (advice,) = blocks("docs/performance.md", "python")
    (tmp_path / "advised.py").write_text(
        f"import gc\ngc.unfreeze()\n{advice}\n"
        "print(gc.isenabled(), *gc.get_threshold(), gc.get_freeze_count() > 1000)"
    )
    run = ran([ready_programs() / "python", tmp_path / "advised.py"], check=True)

    assert "True 1000 5 400 True\n" == run.stdout
    assert "tune_gc()" == advice.splitlines()[-1]
    assert "\nadk_server.tune_gc()\n" in (ROOT / "examples/cloud_run/main.py").read_text()

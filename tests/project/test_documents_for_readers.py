"""README and docs show only what runs: their code is run, their figures and names are looked up."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

import gcp_adk_store
from gcp_adk_store import Store, errors
from gcp_adk_store.codec import indexes
from gcp_adk_store.testing.emulators import Emulator
from tests.told import Told

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def code(text: str) -> list[str]:
    """Return the Python of a document, block by block."""
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


async def test_the_first_example_runs(firestore_emulator: Emulator, storage_emulator: Emulator) -> None:
    """It makes a runner whose turns are stored; only the model is another one."""
    assert firestore_emulator.address
    assert storage_emulator.address
    names: dict[str, Any] = {}
    exec(code(README)[0], names)  # noqa: S102  # the README's own code is what is tested
    runner, store = names["runner"], names["store"]
    assert isinstance(runner, Runner)
    assert isinstance(store, Store)
    names["runner"].agent.model = Told()
    made = await store.sessions.create_session(app_name="support", user_id="u", state={"user:name": "Ada"})
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    async for _ in runner.run_async(user_id="u", session_id=made.id, new_message=message):
        pass
    found = await store.sessions.get_session(app_name="support", user_id="u", session_id=made.id)
    await store.close()

    assert found is not None
    said = found.events[1].content
    assert said is not None
    assert said.parts
    assert "You help Ada." in (said.parts[0].text or "")


@pytest.mark.parametrize(("document", "number", "passes"), [("README.md", 1, 1), ("docs/testing.md", 0, 2)])
def test_the_example_of_an_own_test_passes(
    tmp_path: Path,
    firestore_emulator: Emulator,
    storage_emulator: Emulator,
    document: str,
    number: int,
    passes: int,
) -> None:
    """In a folder of its own, with nothing but the installed plugin."""
    assert firestore_emulator.address
    assert storage_emulator.address
    (tmp_path / "test_own.py").write_text(code((ROOT / document).read_text())[number])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"{passes} passed" in run.stdout
    assert 0 == run.returncode


async def test_the_copy_of_sessions_keeps_all_of_them(adk_store: Store) -> None:
    """From ADK's in-memory service, with the code of docs/migrating.md; in whatever order they are copied."""
    names: dict[str, Any] = {}
    exec(code((ROOT / "docs/migrating.md").read_text())[0], names)  # noqa: S102  # as above
    source = InMemorySessionService()
    user: dict[str, Any] = {"app_name": "a", "user_id": "u"}
    for session_id, name in (("old", "Old"), ("new", "New")):
        session = await source.create_session(**user, session_id=session_id, state={"mine": 0})
        for number in range(3):
            delta = {"mine": number, "user:name": name, f"user:{number}": None}
            await source.append_event(session, Event(author="user", actions=EventActions(state_delta=delta)))
    for session_id in ("new", "old", "none"):
        await names["copy_session"](source, adk_store.sessions, **user, session_id=session_id)
    for session_id in ("new", "old"):
        original = await source.get_session(**user, session_id=session_id)
        copied = await adk_store.sessions.get_session(**user, session_id=session_id)

        assert original is not None
        assert copied is not None
        assert original.state == copied.state
        assert [(e.id, e.timestamp) for e in original.events] == [(e.id, e.timestamp) for e in copied.events]


async def test_the_examples_of_templates_run(adk_store: Store) -> None:
    """The agent is told who it helps; a job fills the same from storage."""
    examples = code((ROOT / "docs/templates.md").read_text())
    names: dict[str, Any] = {}
    for example in examples:
        exec(example, names)  # noqa: S102  # as above
    names["agent"].model = Told()
    user: dict[str, Any] = {"app_name": "support", "user_id": "u"}
    made = await adk_store.sessions.create_session(**user, session_id="s", state={"user:name": "Ada"})
    runner = Runner(
        app_name="support",
        agent=names["agent"],
        session_service=adk_store.sessions,
        artifact_service=adk_store.artifacts,
    )
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    told = [
        event.content.parts[0].text or ""
        async for event in runner.run_async(user_id="u", session_id=made.id, new_message=message)
        if event.content and event.content.parts
    ]

    assert "You help Ada. Rules: " in told[-1]
    assert "You help Ada." == await names["instruction_of"](adk_store, **user, session_id="s")


async def test_the_example_of_credentials_runs() -> None:
    """It contacts nothing before the first call."""
    names: dict[str, Any] = {}
    exec(code((ROOT / "docs/credentials.md").read_text())[0], names)  # noqa: S102  # as above
    assert isinstance(names["store"], Store)
    await names["store"].close()


def test_every_promise_names_a_test_that_exists() -> None:
    """The tables of docs/guarantees.md, and the decisions that say how they are checked."""
    told = [
        (ROOT / "docs/guarantees.md").read_text(),
        (ROOT / "docs/credentials.md").read_text(),
        *(path.read_text() for path in (ROOT / "docs/adr").glob("*.md")),
    ]
    named = {name for text in told for name in re.findall(r"`(test_\w+)`", text)}
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))

    assert named
    assert set() == {name for name in named if f"def {name}(" not in sources}


def test_every_link_and_path_in_the_documents_exists() -> None:
    """Files that are linked, and paths that are named."""
    missing = []
    folders = ("docs", "emulators", "terraform", "benchmarks")
    documents = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*.md"))]
    for document in documents:
        text = document.read_text()
        linked = re.findall(r"\]\((?!https?:)([^)#]+)", text)
        missing += [f"{document.name}: {link}" for link in linked if not (document.parent / link).exists()]
        named = re.findall(r"`((?:docs|tests|emulators|benchmarks|examples)/[\w/.-]+)`", text)
        missing += [
            f"{document.name}: {name}"
            for name in named
            if not (ROOT / name).exists() and "results" not in name
        ]

    assert len(documents) > 8
    assert [] == missing


def test_every_error_is_in_the_readme() -> None:
    """With what to do next."""
    assert set(errors.__all__) - {"StoreError"} == set(re.findall(r"^\| `(\w+Error)`", README, re.MULTILINE))


def test_the_data_model_shows_what_the_package_declares_of_indexes() -> None:
    """The commands that make them, those of the TTL policies, and the fields without an index."""
    text = (ROOT / "docs/data-model.md").read_text()
    commands = [
        *(indexes.page_index("adk", descending=descending).command for descending in (True, False)),
        *(
            f"gcloud firestore fields ttls update {field} --collection-group=adk_{collection} --enable-ttl"
            for collection, field in indexes.TTL_FIELDS.items()
        ),
    ]
    rows = re.findall(r"^\| (`\{prefix\}.*) \| (.*) \|$", text, re.MULTILINE)
    unindexed = {
        collection: tuple(re.findall(r"`(\w+)`", fields))
        for collections, fields in rows
        for collection in re.findall(r"`\{prefix\}_(\w+)`", collections)
    }

    assert sorted(commands) == sorted(re.findall(r"^gcloud .*$", text, re.MULTILINE))
    assert unindexed == indexes.UNINDEXED_FIELDS


def test_make_targets_in_the_documents_exist() -> None:
    """What a reader is told to run can be run."""
    documents = "\n".join(
        (ROOT / name).read_text()
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "emulators/README.md",
            "docs/guarantees.md",
            "docs/templates.md",
        )
    )
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", documents, re.MULTILINE))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert {"demo", "test", "check"} <= named
    assert set() == named - targets


@pytest.mark.parametrize("name", sorted(gcp_adk_store.__all__))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    """The package's root is the whole of what a user must know."""
    public = getattr(gcp_adk_store, name)

    assert (public.__doc__ or "").strip()

"""Show what ``gcp-adk-store memory`` prints, deletes and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import MemoryService, Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.model.keys import UserKey
from tests.cli.conftest import HOSTILE, STEERING, done, follow
from tests.support.stored import at_once, change
from tools.benchmarks.memory_embedder import PartsEmbedder

USER: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
OF = ("--app", "app", "--user", "ada")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with the memories of two sessions."""

    async def fill() -> None:
        async with Store.local(tmp_path) as store:
            memory = MemoryService(store.sessions.storage, embedder=PartsEmbedder(8))
            for session, texts in {"s1": ["a window seat", HOSTILE], "s2": ["a" * 300]}.items():
                events = [
                    Event(id=text[:8], author="user", timestamp=1e9, content=types.UserContent(text))
                    for text in texts
                ]
                await memory.add_events_to_memory(events=events, session_id=session, **USER)

    done(fill())
    return tmp_path


def run(folder: Path, name: str, *arguments: str) -> Result:
    """Run the command on the store in *folder*."""
    return CliRunner().invoke(command, ["memory", name, "--local", str(folder), *OF, *arguments])


def ids(result: Result) -> list[str]:
    """Return the ids of a command's JSON."""
    return [each["id"] for each in json.loads(result.stdout)["memories"]]


def test_a_listing_shows_each_memory_in_one_row(folder: Path) -> None:
    """With its id, session, author, time and text, a long one cut; JSON has all of it; pages go on."""
    shown, as_json = run(folder, "list"), run(folder, "list", "--json")

    assert 0 == shown.exit_code, shown.output
    assert 5 == len(shown.stdout.splitlines())
    assert not any(each in shown.stdout for each in STEERING)
    assert "2001-09-09" in shown.stdout
    assert f"{'a' * 200}…" in shown.stdout
    assert {"a window", "aaaaaaaa", HOSTILE[:8]} == set(ids(as_json))
    texts = [each["content"]["parts"][0]["text"] for each in json.loads(as_json.stdout)["memories"]]
    assert {"a window seat", HOSTILE, "a" * 300} == set(texts)
    assert ["aaaaaaaa"] == ids(run(folder, "list", "--session", "s2", "--json"))
    assert "no memories on this page" in run(folder, "list", "--session", "none").stdout


def test_pages_of_a_listing_go_on(folder: Path) -> None:
    """With the command that the page before printed."""
    first = run(folder, "list", "--page-size", "2").stdout
    following = first.splitlines()[-1].removeprefix("next page: ")
    second = CliRunner().invoke(command, follow(following)).stdout

    assert (4, 3) == (len(first.splitlines()) - 1, len(second.splitlines()))
    assert all((each in first) != (each in second) for each in ("a window", "aaaaaaaa"))


def test_a_search_shows_the_best_first(folder: Path) -> None:
    """With its score; what has none of the words is left out."""
    shown, as_json = run(folder, "search", "seats"), run(folder, "search", "seats", "--json")

    assert ["a window"] == ids(as_json)
    assert 0 < json.loads(as_json.stdout)["memories"][0]["score"] < 1
    assert "a window seat" in shown.stdout
    assert (0, "no memory has these words") == (
        (nothing := run(folder, "search", "trains")).exit_code,
        nothing.stdout.splitlines()[-1],
    )


@pytest.mark.parametrize(
    ("which", "gone"),
    [
        (("--id", "a window"), {"a window"}),
        (("--session", "s1"), {"a window", HOSTILE[:8]}),
        (("--all",), {"a window", HOSTILE[:8], "aaaaaaaa"}),
    ],
    ids=["one", "of a session", "all"],
)
def test_what_is_deleted_is_named(folder: Path, which: tuple[str, ...], gone: set[str]) -> None:
    """A dry run deletes nothing; a second deletion finds nothing."""
    dry, sure = run(folder, "delete", *which, "--dry-run"), ("delete", *which, "--yes")
    assert (0, 3) == (dry.exit_code, len(ids(run(folder, "list", "--json"))))
    assert f"would delete {len(gone)}" in dry.stdout
    deleted = run(folder, *sure, "--json")
    again = run(folder, *sure)

    assert (gone, "deleted") == (
        set(json.loads(deleted.stdout)["memories"]),
        json.loads(deleted.stdout)["outcome"],
    )
    assert 3 - len(gone) == len(ids(run(folder, "list", "--json")))
    assert 1 == again.exit_code
    assert "memory list" in again.stderr


@pytest.mark.parametrize(
    ("which", "left"),
    [(("--id", "large"), 3), (("--session", "s3"), 3), (("--all",), 0)],
    ids=["one", "of a session", "all"],
)
def test_what_lost_its_content_is_deleted(folder: Path, which: tuple[str, ...], left: int) -> None:
    """A dry run cannot show it; the deletion says that it could not be read. What is missing stays so."""
    done(_lose_content(folder))
    dry = run(folder, "delete", *which, "--dry-run")
    missing = run(folder, "delete", "--id", "none", "--yes")
    deleted = run(folder, "delete", *which, "--yes", "--json")

    assert (2, 1, 0) == (dry.exit_code, missing.exit_code, deleted.exit_code), deleted.output
    assert "deleted" == json.loads(deleted.stdout)["outcome"]
    assert "large" not in which or ["large"] == json.loads(deleted.stdout)["memories"]
    assert "could not be read" in deleted.stderr
    assert "is missing" in deleted.stderr
    assert left == len(ids(run(folder, "list", "--json")))


def test_memories_that_are_damaged_are_deleted_with_all(folder: Path) -> None:
    """As ``delete_user_memory`` deletes them; one of them cannot be found."""
    head = "adk_apps/app/adk_users/ada/adk_memories/head"
    at_once(folder, lambda store: change(store, head, {"format": 99}))
    one = run(folder, "delete", "--id", "a window", "--yes")
    every = run(folder, "delete", "--all", "--yes")

    assert (2, 0) == (one.exit_code, every.exit_code), every.output
    assert "could not be read" in every.stderr
    assert [] == ids(run(folder, "list", "--json"))


async def _lose_content(folder: Path) -> None:
    async with Store.local(folder) as store:
        memory = store.memory
        large = Event(id="large", author="user", timestamp=2e9, content=types.UserContent("tea " * 20_000))
        await memory.add_events_to_memory(events=[large], session_id="s3", **USER)
        keeper, key = memory._keeper, UserKey(app="app", user="ada")
        found = await keeper.reader.read(key)
        assert found is not None
        (text,) = [each for each in found.texts if '"large"' in each]
        await keeper.reader.remove_payloads(key, [text])


def test_an_unclear_deletion_deletes_nothing(folder: Path) -> None:
    """It ends with 2."""
    for which in (("--yes",), ("--all", "--id", "x", "--yes"), ("--all",), ("--all", "--yes", "--dry-run")):
        assert 2 == run(folder, "delete", *which).exit_code, which
    assert 3 == len(ids(run(folder, "list", "--json")))


def test_reindexing_counts_and_makes_vectors(folder: Path) -> None:
    """Of an embedder that an option names; those that are there stay."""
    named = ("--embedder", "tools.benchmarks.memory_embedder:PartsEmbedder")
    dry = json.loads(run(folder, "reindex", *named, "--dry-run", "--json").stdout)
    made = run(folder, "reindex", *named)
    again = json.loads(run(folder, "reindex", *named, "--json").stdout)

    assert ("parts of words", 256, 3, 3, 0) == tuple(
        dry[name] for name in ("embedder", "dimensions", "memories", "missing", "embedded")
    )
    assert ["3 memories, 3 without a vector of parts of words", "3 got one"] == made.stdout.splitlines()[1:]
    assert (0, 0) == (again["missing"], again["embedded"])


def test_a_model_is_not_asked_by_a_dry_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials it counts; a real run ends with 2 and says what to set."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    counted = run(folder, "reindex", "--dry-run")
    refused = run(folder, "reindex")

    assert "3 without a vector of gemini-embedding-001" in counted.stdout
    assert (2, True) == (refused.exit_code, "GOOGLE_API_KEY" in refused.stderr)


def test_what_names_no_embedder_is_refused(folder: Path) -> None:
    """It ends with 2 and shows the form."""
    for name in ("", ":", "json", "json:none", "missing_module:x", "json:loads"):
        refused = run(folder, "reindex", "--embedder", name)

        assert (2, True) == (refused.exit_code, "MODULE:NAME" in refused.stderr), name
    for ignored in (("--model", "m"), ("--dimensions", "9")):
        refused = run(folder, "reindex", "--embedder", "tools.benchmarks.memory_embedder:Meanings", *ignored)

        assert (2, True) == (refused.exit_code, "leave them out" in refused.stderr), ignored

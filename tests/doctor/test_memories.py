"""The doctor counts memories that have no vector, and names the command that makes them."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import FunctionEmbedder, Store
from gcp_adk_store.cli.command import command
from gcp_adk_store.doctor.findings import MemoryCounts
from gcp_adk_store.doctor.measures import count_memories, vectors
from gcp_adk_store.kernel.ports import Documents


class Weak:
    """An embedder that is slow at times."""

    is_slow = False

    async def embed(self, texts: Sequence[str], _: str) -> list[list[float]]:
        """Return vectors, or fail."""
        if self.is_slow:
            raise TimeoutError
        return [[1.0, float(len(text))] for text in texts]


def of(user: str) -> dict[str, Any]:
    """Return the names of a user."""
    return {"app_name": "my app", "user_id": user}


def entries(count: int) -> list[MemoryEntry]:
    """Return so many memories."""
    return [MemoryEntry(content=types.Content(parts=[types.Part(text=f"m {n}")])) for n in range(count)]


async def fill(path: Path) -> None:
    """Remember something of three users; one of them has no vector, and one lacks some."""
    weak = Weak()
    embedder = FunctionEmbedder(weak.embed, name="weak", dimensions=2)
    async with Store.local(path, embedder=embedder) as store:
        await store.memory.add_memory(**of("ann"), memories=entries(3))
        await store.memory.add_memory(**of("bob"), memories=entries(1))
        weak.is_slow = True
        await store.memory.add_memory(**of("bob"), memories=entries(2))
        await store.memory.add_memory(**of("cy's"), memories=entries(2))


async def test_memories_without_vectors_are_counted(tmp_path: Path) -> None:
    """Of a store in which others have some."""
    await fill(tmp_path)
    async with Store.local(tmp_path) as store:
        documents: Documents = store.sessions.storage.documents
        counts = await count_memories(documents, "adk")
        other = await count_memories(documents, "other")

    lacking = [("my app", "bob"), ("my app", "cy's")]
    assert MemoryCounts(users=3, memories=8, vectors=4, without=4, lacking=lacking) == counts
    assert MemoryCounts(lacking=[]) == other


def test_the_command_says_so(tmp_path: Path) -> None:
    """With the options of the store, and ids as a shell takes them."""
    asyncio.run(fill(tmp_path))
    result = CliRunner().invoke(command, ["doctor", "--local", str(tmp_path), "--json"])
    (found,) = [each for each in json.loads(result.stdout)["findings"] if "vectors" in each["check"]]
    reindex = f"gcp-adk-store memory reindex --local={tmp_path} --prefix=adk --app='my app'"

    assert 0 == result.exit_code
    assert "warn" == found["status"]
    assert found["says"].startswith("4 of 8 memories of 3 users have no vector")
    assert [f"{reindex} --user=bob", f"""{reindex} --user='cy'"'"'s'"""] == found["commands"]


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (MemoryCounts(users=2, memories=5), "have no vectors: the store has no embedder"),
        (MemoryCounts(users=2, memories=5, vectors=5), "5 memories of 2 users have vectors"),
        (MemoryCounts(users=100, memories=5, vectors=5), "of the first 100 users"),
        (MemoryCounts(failure="no answer"), "memories could not be read: no answer"),
    ],
)
def test_what_lacks_nothing_is_no_warning(counts: MemoryCounts, says: str) -> None:
    """Also not a store without an embedder."""
    found = vectors(counts, "")

    assert says in found.says
    assert () == found.commands

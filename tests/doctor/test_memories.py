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
from tests.doctor.conftest import found


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


def of_vectors(path: Path, prefix: str = "adk") -> dict[str, Any]:
    """Return what the command finds of the vectors of memories."""
    result = CliRunner().invoke(command, ["doctor", "--local", str(path), "--prefix", prefix, "--json"])
    assert 0 == result.exit_code
    (one,) = [each for each in json.loads(result.stdout)["findings"] if "vectors" in each["check"]]
    return dict(one)


def test_memories_without_vectors_are_counted(tmp_path: Path) -> None:
    """Of a store in which others have some; with its options, and ids as a shell takes them."""
    asyncio.run(fill(tmp_path))
    one, other = of_vectors(tmp_path), of_vectors(tmp_path, "other")
    reindex = f"gcp-adk-store memory reindex --local={tmp_path} --prefix=adk --app='my app'"

    assert "warn" == one["status"]
    assert one["says"].startswith("4 of 8 memories of 3 users have no vector")
    assert [f"{reindex} --user=bob", f"""{reindex} --user='cy'"'"'s'"""] == one["commands"]
    assert ("ok", True) == (other["status"], other["says"].startswith("0 memories of 0 users"))


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"users": 2, "memories": 5}, "have no vectors: the store has no embedder"),
        ({"users": 2, "memories": 5, "vectors": 5}, "5 memories of 2 users have vectors"),
        ({"users": 100, "memories": 5, "vectors": 5}, "of the first 100 users"),
        ({"failure": "no answer"}, "memories could not be read: no answer"),
    ],
)
def test_what_lacks_nothing_is_no_warning(counts: dict[str, Any], says: str) -> None:
    """Also not a store without an embedder."""
    finding = found(memories=counts)["vectors of memories"]

    assert says in finding.says
    assert () == finding.commands

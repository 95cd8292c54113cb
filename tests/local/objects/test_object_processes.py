"""Processes that share a store's objects, and processes that die."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from tests.local.objects.conftest import FIELDS, Kept, files
from tests.local.objects.object_process import OLD, forked, full
from tests.support.ready_processes import elsewhere

pytestmark = pytest.mark.processes


async def owned(kept: Kept) -> set[str]:
    """Return the contents that objects have."""
    return await kept.database.read(
        lambda connection: {content for (content,) in connection.execute("SELECT content FROM objects")}
    )


async def state(kept: Kept) -> dict[str, bytes]:
    """Return all objects with their bytes."""
    found = {}
    for name in await kept.objects.names("", delimiter=None):
        read = await kept.objects.read(name, generation=None)
        assert read is not None
        found[name] = read[0]
    return found


class TestProcesses:
    """Each has its own connections, threads and locks."""

    def test_a_forked_child_cannot_use_the_objects_of_its_parent(self, folder: Path) -> None:
        assert ["after", "before"] == elsewhere(forked, f"{folder}")

    def test_a_full_disk_is_said_and_leaves_nothing(self, on_disk: Kept, folder: Path) -> None:
        (said,) = elsewhere(full, f"{folder}")
        assert str(folder) in said
        assert "EFBIG" in said
        assert {"small": OLD} == asyncio.run(state(on_disk))
        assert {path.name for path in files(folder)} == asyncio.run(owned(on_disk))

    async def test_a_large_upload_takes_the_memory_of_two_pieces(self, on_disk: Kept) -> None:
        async def read_at(start: int, size: int) -> bytes:
            del start
            return bytes(size)

        piece = 8 * 1024 * 1024
        size = 8 * piece
        tracemalloc.start()
        try:
            await on_disk.uploads.create("a", FIELDS, size=size, read_at=read_at, on_progress=lambda _: None)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2.5 * piece
        found = await on_disk.objects.info("a")
        assert found is not None
        assert size == found.size

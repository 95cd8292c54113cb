"""Processes that share a store's objects, and processes that die."""

import asyncio
import time
import tracemalloc
from pathlib import Path

import pytest

from gcp_adk_store.kernel.ports import CHUNK_BYTES, ObjectExistsError
from gcp_adk_store.local.sweep import sweep_objects
from tests.local.objects.conftest import Kept, kept_at
from tests.local.objects.object_process import (
    CALLS,
    FIELDS,
    NAMES,
    NEW,
    OLD,
    forked,
    full,
    killed,
    race,
    upload,
)
from tests.support.lengths import at_length
from tests.support.ready_processes import ReadyProcess, elsewhere

pytestmark = pytest.mark.processes

TWO_DAYS_S = 48 * 3600.0


def files(folder: Path) -> set[str]:
    """Return the names of all files of a store's contents, without marks."""
    return {path.name for path in (folder / "objects").glob("??/*") if path.is_file()}


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


EVERY = at_length(2, 1)
"""Which steps a process is killed at."""


class TestProcesses:
    """Each has its own connections, threads and locks."""

    def test_of_four_processes_exactly_one_creates_each_object(self, on_disk: Kept, folder: Path) -> None:
        folder.mkdir()
        racing = [ReadyProcess(race, f"{folder}", f"{number}") for number in range(4)]
        try:
            assert ["ready"] * 4 == [process.receive() for process in racing]
            for process in racing:
                process.send("go")
            sweeps = 0
            while any(process.runs() for process in racing):
                # All files are old for it, so their locks alone protect those that are being written.
                asyncio.run(sweep_objects(on_disk.database, on_disk.contents, now=time.time() + TWO_DAYS_S))
                sweeps += 1
            won = [process.receive() for process in racing]
        finally:
            for process in racing:
                process.end()
        assert sweeps
        assert sorted(f"{number}" for number in range(NAMES)) == sorted(name for one in won for name in one)
        found = asyncio.run(state(on_disk))
        assert found == {
            name: f"{number}".encode() * 1000 for number, names in enumerate(won) for name in names
        }
        assert files(folder) == asyncio.run(owned(on_disk))

    @pytest.mark.sample(2)
    @pytest.mark.parametrize("call", CALLS)
    def test_a_process_that_is_killed_at_any_step_leaves_whole_objects(
        self, on_disk: Kept, folder: Path, call: str
    ) -> None:
        after = {"create": {"old": OLD, "new": NEW}, "send": {"old": OLD, "new": NEW}}
        after |= {"copy": {"old": OLD, "new": OLD}, "delete": {}}
        asyncio.run(on_disk.objects.create("old", upload(OLD)))
        asyncio.run(on_disk.objects.close())
        above = folder.parent
        steps = elsewhere(killed, f"{above}", call, EVERY)
        assert steps > 5
        seen = set()

        async def examine(step: int) -> None:
            kept = kept_at(above / f"{step}")
            found = await state(kept)
            assert found in ({"old": OLD}, after[call])
            seen.add(len(found))
            left = files(above / f"{step}")
            # Only what has its final name may be whole, and only it has an object.
            assert await owned(kept) <= left
            await sweep_objects(kept.database, kept.contents, now=time.time())
            assert await owned(kept) == files(above / f"{step}")
            try:
                await CALLS[call](kept)
            except ObjectExistsError:
                assert found == after[call]
            assert after[call] == await state(kept)
            await kept.objects.close()

        for step in range(0, steps + 1, EVERY):
            asyncio.run(examine(step))
        assert {1, len(after[call])} == seen

    def test_a_forked_child_cannot_use_the_objects_of_its_parent(self, folder: Path) -> None:
        assert ["after", "before"] == elsewhere(forked, f"{folder}")

    def test_a_full_disk_is_said_and_leaves_nothing(self, on_disk: Kept, folder: Path) -> None:
        (said,) = elsewhere(full, f"{folder}")
        assert str(folder) in said
        assert "EFBIG" in said
        assert {"small": OLD} == asyncio.run(state(on_disk))
        assert files(folder) == asyncio.run(owned(on_disk))

    async def test_a_large_upload_takes_the_memory_of_two_pieces(self, on_disk: Kept) -> None:
        async def read_at(start: int, size: int) -> bytes:
            del start
            return bytes(size)

        size = 8 * CHUNK_BYTES
        tracemalloc.start()
        try:
            await on_disk.uploads.create("a", FIELDS, size=size, read_at=read_at, on_progress=lambda _: None)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2.5 * CHUNK_BYTES
        found = await on_disk.objects.info("a")
        assert found is not None
        assert size == found.size

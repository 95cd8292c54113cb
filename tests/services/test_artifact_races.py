"""Savers in several processes each get numbers of their own."""

import asyncio

from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.emulators import Emulator
from tests.services.conftest import WHO
from tests.services.racing import race, racing_processes

PROCESSES, SAVES = 4, 12


async def test_processes_that_save_one_artifact_lose_and_share_nothing(
    adk_store: Store, storage_emulator: Emulator
) -> None:
    """Every number once, without a gap, with the bytes of its saver; a reader meanwhile only goes up."""
    assert storage_emulator.address
    bucket = adk_store.artifacts.bucket_name
    seen: list[int] = []

    async def watch() -> None:
        while True:
            latest = await adk_store.artifacts.get_artifact_version(**WHO, filename="shared")
            seen.append(-1 if latest is None else latest.version)

    with racing_processes(PROCESSES) as savers:
        watching = asyncio.create_task(watch())
        answers = await asyncio.to_thread(race, savers, "save", {"bucket": bucket, "count": SAVES})
        watching.cancel()
    saved = {number: words for answer in answers for number, words in answer}
    loaded = {
        number: await adk_store.artifacts.load_artifact(**WHO, filename="shared", version=number)
        for number in saved
    }

    assert list(range(PROCESSES * SAVES)) == sorted(saved)
    assert {number: types.Part(text=words) for number, words in saved.items()} == loaded
    assert sorted(seen) == seen
    assert len(set(seen)) > 1

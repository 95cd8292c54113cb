"""Savers in several processes each get numbers of their own."""

import asyncio
import json
import sys
from pathlib import Path

from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.emulators import Emulator
from tests.services.conftest import WHO

ROOT = Path(__file__).parents[2]
PROCESSES, SAVES = 4, 12


async def test_processes_that_save_one_artifact_lose_and_share_nothing(
    adk_store: Store, storage_emulator: Emulator
) -> None:
    """Every number once, without a gap, with the bytes of its saver; a reader meanwhile only goes up."""
    assert storage_emulator.address
    bucket = adk_store.artifacts.bucket_name
    savers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.services.saving_process", bucket, f"{number}", f"{SAVES}",
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    for saver in savers:
        assert saver.stdout
        assert saver.stdin
        await saver.stdout.readline()  # imported: all begin together
        saver.stdin.write(b"\n")
    seen: list[int] = []

    async def watch() -> None:
        while True:
            latest = await adk_store.artifacts.get_artifact_version(**WHO, filename="shared")
            seen.append(-1 if latest is None else latest.version)

    watching = asyncio.create_task(watch())
    answers = [(await saver.communicate())[0] for saver in savers]
    watching.cancel()
    saved = {number: words for answer in answers for number, words in json.loads(answer)}
    loaded = {
        number: await adk_store.artifacts.load_artifact(**WHO, filename="shared", version=number)
        for number in saved
    }

    assert list(range(PROCESSES * SAVES)) == sorted(saved)
    assert {number: types.Part(text=words) for number, words in saved.items()} == loaded
    assert sorted(seen) == seen
    assert len(set(seen)) > 1

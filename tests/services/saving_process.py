"""Save versions of one artifact in a process of its own, and print their numbers as JSON.

Run as ``python -m tests.services.saving_process BUCKET NAME COUNT`` with the emulator set; it begins
when a line comes in.
"""

import asyncio
import json
import sys

from google.genai import types

from gcp_adk_store import GcsArtifactService
from tests.services.conftest import WHO

TASKS = 4


async def main(bucket: str, name: str, count: int) -> None:
    """Save *count* versions, some at a time."""
    service = GcsArtifactService(bucket)

    async def save(number: int) -> tuple[int, str]:
        words = f"{name}.{number}"
        part = types.Part(text=words)
        return await service.save_artifact(**WHO, filename="shared", artifact=part), words

    saved: list[tuple[int, str]] = []
    for start in range(0, count, TASKS):
        saved += await asyncio.gather(*(save(number) for number in range(start, start + TASKS)))
    await service.close()
    print(json.dumps(saved))  # noqa: T201  # what the caller of this process reads


if __name__ == "__main__":
    print("ready", flush=True)  # noqa: T201  # as above
    sys.stdin.readline()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

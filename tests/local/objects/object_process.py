"""Use the objects of a store in another process: fork, or fill the disk."""

import asyncio
import os
import resource
from pathlib import Path
from typing import Final

from gcp_adk_store import ForkedProcessError, UnavailableError
from tests.local.objects.conftest import kept_at, upload

OLD: Final = b"old" * 1000
NEW: Final = b"new" * 100_000
_LARGEST: Final = 1024 * 1024


def forked(folder: str) -> list[str]:
    """Create objects before a fork, in a child that may not, and afterwards; return their names."""
    kept = kept_at(Path(folder))
    asyncio.run(kept.objects.create("before", upload(OLD)))
    child = os.fork()
    if not child:
        try:
            asyncio.run(kept.objects.create("child", upload(NEW)))
        except ForkedProcessError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert 0 == status
    asyncio.run(kept.objects.create("after", upload(OLD)))
    return asyncio.run(kept.objects.names("", delimiter=None))


def full(folder: str) -> list[str]:
    """Create a small object after a large one that the disk cannot take; return what was said of that."""

    async def run() -> list[str]:
        kept = kept_at(Path(folder))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST, resource.RLIM_INFINITY))
        said = []
        try:
            await kept.objects.create("large", upload(bytes(2 * _LARGEST)))
        except UnavailableError as exc:
            said.append(str(exc))
        await kept.objects.create("small", upload(OLD))
        await kept.objects.close()
        return said

    return asyncio.run(run())

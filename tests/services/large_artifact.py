"""Move a large artifact in a process of its own, and print the memory that it took."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

from gcp_adk_store import GcsArtifactService
from tests.services.conftest import WHO
from tests.services.peak_memory import Peak

PIECE = 1_000_000


def digest(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def move(size: int, bucket: str, folder: Path) -> dict[str, Any]:
    """Save, load and read; a small artifact first, so that only what the size costs is measured."""
    source, target = folder / "in", folder / "out"
    with source.open("wb") as file:
        for _ in range(size // PIECE):
            file.write(os.urandom(PIECE))
    service = GcsArtifactService(bucket)
    await service.save_artifact_file(**WHO, filename="small", source=io.BytesIO(os.urandom(PIECE)))
    await service.load_artifact_to(**WHO, filename="small", target=target)
    with Peak() as save:
        await service.save_artifact_file(**WHO, filename="large", source=source)
    with Peak() as load:
        await service.load_artifact_to(**WHO, filename="large", target=target)
    read_digest = hashlib.sha256()
    with Peak() as read:
        reader = await service.open_artifact(**WHO, filename="large")
        assert reader is not None
        async for piece in reader:
            read_digest.update(piece)
    await service.close()
    equal = {digest(source)} == {digest(target), read_digest.hexdigest()}
    return {"equal": equal, "save": save.bytes, "load": load.bytes, "read": read.bytes}

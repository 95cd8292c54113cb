"""Objects of new stores on this machine."""

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from gcp_adk_store import ArtifactLimits, ArtifactService
from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.kernel.ports import ObjectExistsError
from gcp_adk_store.local.backend import contents_of
from gcp_adk_store.local.contents import Contents
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.objects import LocalObjects, LocalUploads, local_signer
from gcp_adk_store.local.sweep import Sweeper
from tests.support.temporary import temporary_folder

FIELDS: Final = ObjectFields(content_type="text/plain", metadata={"k": "v"})


def upload(data: bytes = b"data", *, until: datetime | None = None) -> ObjectFields:
    """Return an upload of *data*, which may expire."""
    return ObjectFields(data=data, content_type="text/plain", metadata={"k": "v"}, custom_time=until)


def files(folder: Path) -> list[Path]:
    """Return all files of a store's contents, without marks."""
    return sorted(path for path in (folder / "objects").glob("??/*") if path.is_file())


@dataclass(frozen=True, slots=True)
class Kept:
    """A store's objects, and where they are."""

    database: Database
    contents: Contents
    objects: LocalObjects
    uploads: LocalUploads

    def sweeper(self) -> Sweeper:
        """Return what sweeps once an hour, as another process has it."""
        return Sweeper(self.database, self.contents)

    async def sweep(self, at: float) -> int:
        """Remove what has expired *at* a time, and files without objects; return how many."""
        return await self.sweeper().sweep_objects(now=at)

    def swept(self) -> LocalObjects:
        """Return the objects as a store has them, which sweeps."""
        return LocalObjects(self.database, self.contents, ArtifactLimits(), sweeper=self.sweeper())

    async def finds_it_taken(self, creating: Awaitable[None]) -> bool:
        """Return whether *creating* an object is refused because there is one of its name."""
        try:
            await creating
        except ObjectExistsError:
            return True
        return False

    def service(self) -> ArtifactService:
        """Return the service over them."""
        return ArtifactService(self.objects, self.uploads, local_signer(), ArtifactLimits())


def kept_at(path: Path | None) -> Kept:
    """Return the objects of the store in the folder *path*, or of a new one in memory."""
    database = Database(None if path is None else path / "store.sqlite3")
    limits = ArtifactLimits(deadline_s=20)
    contents = contents_of(database, limits)
    objects = LocalObjects(database, contents, limits)
    return Kept(database, contents, objects, LocalUploads(objects, contents))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one store, which does not exist yet."""
    with temporary_folder() as folder:
        yield folder / "store"


@pytest.fixture(params=["files", "memory"])
def kept(request: pytest.FixtureRequest, folder: Path) -> Iterator[Kept]:
    """A new store of each kind."""
    kept = kept_at(folder if request.param == "files" else None)
    yield kept
    asyncio.run(kept.objects.close())


@pytest.fixture
def on_disk(folder: Path) -> Iterator[Kept]:
    """A new store in a folder."""
    kept = kept_at(folder)
    yield kept
    asyncio.run(kept.objects.close())

"""The shipped suite for artifacts, on objects of this machine."""

import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from google.genai import types

from gcp_adk_store import ArtifactService, InvalidInputError, StoredDataError
from tests.local.objects.conftest import Kept

WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session", "filename": "f"}


@pytest.fixture
async def artifact_service(kept: Kept) -> AsyncIterator[ArtifactService]:
    """The service over a new store of each kind."""
    service = kept.service()
    yield service
    await service.close()


class TestFilesOfArtifacts:
    """What ADK's interface lacks."""

    async def test_a_large_file_that_was_changed_on_the_disk_is_an_error(
        self, on_disk: Kept, folder: Path
    ) -> None:
        service = on_disk.service()
        await service.save_artifact_file(**WHO, source=io.BytesIO(bytes(20 * 1024 * 1024)))
        (path,) = [path for path in (folder / "objects").rglob("*") if path.is_file()]
        with path.open("r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"x")
        with pytest.raises(StoredDataError):
            await service.load_artifact_to(**WHO, target=io.BytesIO())
        with pytest.raises(StoredDataError):
            await service.load_artifact(**WHO)

    async def test_a_signed_url_is_refused(self, artifact_service: ArtifactService) -> None:
        await artifact_service.save_artifact(**WHO, artifact=types.Part(text="x"))
        with pytest.raises(InvalidInputError, match=r"no URLs.*load_artifact"):
            await artifact_service.get_signed_url(**WHO)
        with pytest.raises(InvalidInputError, match="no URLs"):
            await artifact_service.create_upload(**WHO)
        with pytest.raises(InvalidInputError, match=r"no URLs, .*read with load_artifact"):
            await artifact_service.get_authenticated_url(**WHO)

    async def test_a_version_is_described_by_a_uri_of_its_own_store(
        self, artifact_service: ArtifactService, kept: Kept
    ) -> None:
        await artifact_service.save_artifact(**WHO, artifact=types.Part(text="x"))
        found = await artifact_service.get_artifact_version(**WHO)
        path = kept.database.path
        start = "memory://" if path is None else f"gs+local://{quote(str(path.parent))}#"
        assert found is not None
        assert f"{start}app/user/session/f/0" == found.canonical_uri

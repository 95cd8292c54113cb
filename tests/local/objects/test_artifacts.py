"""The shipped suite for artifacts, on objects of this machine."""

import asyncio
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from google.genai import types

from gcp_adk_store import ArtifactLimits, ArtifactService, InvalidInputError, StoredDataError
from gcp_adk_store.artifacts.versions import ArtifactVersions
from gcp_adk_store.codec.objects import encode_artifact
from gcp_adk_store.local.objects import local_signer
from gcp_adk_store.model.keys import ArtifactKey
from tests.local.objects.conftest import Kept

WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session", "filename": "f"}


@pytest.fixture
async def artifact_service(kept: Kept) -> AsyncIterator[ArtifactService]:
    """The service over a new store of each kind."""
    service = ArtifactService(kept.objects, kept.uploads, local_signer(), ArtifactLimits())
    yield service
    await service.close()


class TestFilesOfArtifacts:
    """What ADK's interface lacks."""

    async def test_a_large_file_is_saved_and_loaded_in_pieces(
        self, artifact_service: ArtifactService
    ) -> None:
        data = os.urandom(1024) * (20 * 1024 + 1)
        assert 0 == await artifact_service.save_artifact_file(**WHO, source=io.BytesIO(data))
        target = io.BytesIO()
        await artifact_service.load_artifact_to(**WHO, target=target)
        assert data == target.getvalue()

    async def test_an_upload_that_another_call_finalizes_meanwhile_gets_no_second_version(
        self, artifact_service: ArtifactService
    ) -> None:
        """The slower call finds its number taken by a save; the faster one has the number after it."""
        objects, save_id = artifact_service.objects, "a" * 32
        slow, fast = (ArtifactVersions(objects, ArtifactLimits()) for _ in range(2))
        key = ArtifactKey.of(app="app", user="user", session="session", filename="f")
        upload = encode_artifact(types.Part(text="upload"), custom_metadata=None, save_id=save_id)

        async def create(name: str) -> None:
            await objects.create(name, upload)

        async def create_late(name: str) -> None:
            if name.endswith("/0"):
                await artifact_service.save_artifact(**WHO, artifact=types.Part(text="between"))
                assert 1 == await fast.save(key, create, save_id=save_id, again=True)
            await create(name)

        assert 1 == await slow.save(key, create_late, save_id=save_id, again=True)
        assert [0, 1] == await artifact_service.list_versions(**WHO)

    async def test_a_large_file_that_was_changed_on_the_disk_is_an_error(
        self, on_disk: Kept, folder: Path
    ) -> None:
        service = ArtifactService(on_disk.objects, on_disk.uploads, local_signer(), ArtifactLimits())
        await service.save_artifact_file(**WHO, source=io.BytesIO(bytes(20 * 1024 * 1024)))
        (path,) = [path for path in (folder / "objects").rglob("*") if path.is_file()]
        with path.open("r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"x")
        with pytest.raises(StoredDataError):
            await service.load_artifact_to(**WHO, target=io.BytesIO())
        with pytest.raises(StoredDataError):
            await service.load_artifact(**WHO)

    async def test_concurrent_saves_take_consecutive_versions(
        self, artifact_service: ArtifactService
    ) -> None:
        saves = [
            artifact_service.save_artifact(**WHO, artifact=types.Part(text=f"{number}"))
            for number in range(20)
        ]
        assert list(range(20)) == sorted(await asyncio.gather(*saves))

    async def test_a_signed_url_is_refused(self, artifact_service: ArtifactService) -> None:
        await artifact_service.save_artifact(**WHO, artifact=types.Part(text="x"))
        with pytest.raises(InvalidInputError, match="no URLs"):
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

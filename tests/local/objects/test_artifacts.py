"""The shipped suite for artifacts, on objects of this machine."""

from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from google.genai import types

from gcp_adk_store import ArtifactService, InvalidInputError
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
        of = {**WHO, "user_id": "a user", "filename": "user:n#1%.txt"}
        await artifact_service.save_artifact(**of, artifact=types.Part(text="x"))
        found = await artifact_service.get_artifact_version(**of)
        path = kept.database.path
        start = "memory://" if path is None else f"gs+local://{quote(str(path.parent))}#"
        assert found is not None
        assert f"{start}app/a%20user/user/user:n%231%25.txt/0" == found.canonical_uri

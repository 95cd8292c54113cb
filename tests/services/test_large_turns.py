"""Large pictures go through a turn of ADK, and large files through the artifacts, in little memory."""

import hashlib
import io
import os
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import GcsArtifactService, Store
from gcp_adk_store.testing.emulators import Emulator
from tests.services.conftest import APP, SESSION, USER, WHO
from tests.support.lengths import at_length
from tests.support.peak_memory import Peak
from tests.support.repeating_model import StandInModel
from tests.support.temporary import temporary_folder

pytestmark = pytest.mark.linux

MB = 1_000_000
MIB = 2**20


class Looks(StandInModel):
    """A model that says how large the last picture is."""

    def answer(self, request: LlmRequest) -> types.Part:
        """Answer with its size in bytes."""
        parts = request.contents[-1].parts or []
        size = len(parts[0].inline_data.data or b"") if parts and parts[0].inline_data else 0
        return types.Part(text=f"{size} bytes")


async def take_turn(runner: Runner, data: bytes) -> str:
    """Send a picture and return the answer."""
    blob = types.Blob(data=data, mime_type="image/png")
    message = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    answer = ""
    async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
        if event.content and event.content.parts:
            answer = event.content.parts[0].text or ""
    return answer


@pytest.mark.sample(1)
@pytest.mark.parametrize(("size", "with_bucket"), [(5 * MB, False), (20 * MB, True)])
async def test_a_large_picture_goes_through_a_turn(
    firestore_emulator: Emulator,
    project: str,
    adk_store_bucket: str,
    size: int,
    with_bucket: bool,  # noqa: FBT001  # a case
) -> None:
    """The model sees it, it is read back byte by byte, and neither takes more than 4 times its size.

    A small turn comes first, so that only what the size costs is measured.
    """
    assert firestore_emulator.address
    async with Store.connect(project=project, bucket=adk_store_bucket if with_bucket else None) as store:
        agent = LlmAgent(name="agent", model=Looks())
        runner = Runner(app_name=APP, agent=agent, session_service=store.sessions)
        await store.sessions.create_session(**WHO)
        await take_turn(runner, os.urandom(MB // 10))
        await store.sessions.get_session(**WHO)
        data = os.urandom(size)
        with Peak() as turn:
            answer = await take_turn(runner, data)
        with Peak() as read:
            found = await store.sessions.get_session(**WHO)

    content = found.events[2].content if found else None
    blob = content.parts[0].inline_data if content and content.parts else None
    assert f"{size} bytes" == answer
    assert blob is not None
    assert data == blob.data
    assert turn.bytes < 4 * size
    assert read.bytes < 4 * size


def digest(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.long
async def test_large_files_move_in_little_memory(storage_emulator: Emulator, adk_store_bucket: str) -> None:
    """Saved from a file, loaded to a file and read in parts; a small artifact goes first."""
    assert storage_emulator.address
    service = GcsArtifactService(adk_store_bucket)
    read_digest = hashlib.sha256()
    with temporary_folder() as folder:
        source, target = folder / "in", folder / "out"
        with source.open("wb") as file:
            for _ in range(at_length(80, 200)):
                file.write(os.urandom(MB))
        await service.save_artifact_file(**WHO, filename="small", source=io.BytesIO(os.urandom(MB)))
        await service.load_artifact_to(**WHO, filename="small", target=target)
        with Peak() as save:
            await service.save_artifact_file(**WHO, filename="large", source=source)
        with Peak() as load:
            await service.load_artifact_to(**WHO, filename="large", target=target)
        with Peak() as read:
            reader = await service.open_artifact(**WHO, filename="large")
            assert reader is not None
            async for piece in reader:
                read_digest.update(piece)
        await service.close()

        assert digest(source) == digest(target) == read_digest.hexdigest()
    assert max(save.bytes, load.bytes, read.bytes) < 48 * MIB

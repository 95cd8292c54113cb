"""What docs/encryption.md shows is run as it is, and services of servers encrypt, too."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gcp_adk_store import InvalidInputError, Store
from gcp_adk_store.adk_server import artifact_service, memory_service, session_service, task_store
from gcp_adk_store.cli.command import command
from tests.erasure.conftest import said
from tests.support.documents import blocks, commands
from tests.support.server_end import close_services

THERE: Any = {"app_name": "support", "user_id": "ada", "session_id": "s1"}


def test_the_page_of_encryption_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with a key in a file, then the command that rotates it."""
    monkeypatch.chdir(tmp_path)
    (local,) = [
        block for block in blocks("docs/encryption.md", "python") if "needs a real project" not in block
    ]
    named: dict[str, Any] = {}
    exec(local, named)  # noqa: S102  # the page's own code
    store: Store = named["store"]

    async def use() -> None:
        async with store:
            session = await store.sessions.create_session(**THERE)
            await store.sessions.append_event(session, said("hello"))

    asyncio.run(use())
    monkeypatch.setenv("ADK_STORE_LOCAL", str(tmp_path / "support-store"))
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", str(tmp_path / "support.key"))
    (rotate,) = commands("docs/encryption.md")

    ran = CliRunner().invoke(command, rotate.split()[1:])

    assert 0 == ran.exit_code, ran.output
    assert "wrapped anew: 0 of 1 data keys" in ran.output


async def test_services_of_uris_encrypt_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions, memories and tasks: none of them writes plaintext beside the others' ciphertext."""
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", str(tmp_path / "key"))
    folder, cloud = f"firestore+local://{tmp_path / 'store'}", "firestore://project/database"
    services = [
        make(uri) for uri in (folder, cloud) for make in (session_service, memory_service, task_store)
    ]
    await close_services()

    assert 6 == len(services)
    storages = [getattr(each, "_storage", each) for each in services]
    documents = [getattr(each, "documents", None) or getattr(each, "_documents", None) for each in storages]
    assert ["SealedDocuments"] * 6 == [type(each).__name__ for each in documents]


@pytest.mark.parametrize("uri", ["gs://some-bucket", "gs+local://{folder}"])
def test_an_artifact_service_of_a_uri_writes_no_plaintext_where_artifacts_are_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """The URI names neither the keys nor the prefix: the error says which service encrypts."""
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", str(tmp_path / "key"))
    monkeypatch.setenv("ADK_STORE_ENCRYPT_ARTIFACTS", "true")

    with pytest.raises(InvalidInputError, match=r"Store\.from_env\(\)\.artifacts"):
        artifact_service(uri.format(folder=tmp_path))

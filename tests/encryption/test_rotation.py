"""Keys are wrapped anew in steps that can be repeated, and what docs/encryption.md shows is run."""

import asyncio
import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import InvalidInputError, LocalKeyWrapper, RotationReport, Store
from gcp_adk_store.adk_server import artifact_service, memory_service, session_service, task_store
from gcp_adk_store.cli.command import command
from tests.encryption.conftest import envelope
from tests.erasure.conftest import erase, said
from tests.support.documents import blocks, commands
from tests.support.server_end import close_services

OLD, NEW = b"o" * 32, b"n" * 32
USERS = ("one", "two", "three")


async def make(folder: Path, wrapper: LocalKeyWrapper) -> None:
    """Give users keys."""
    async with Store.local(folder, encryption=envelope(wrapper)) as store:
        for user in USERS:
            session = await store.sessions.create_session(app_name="app", user_id=user, session_id="s")
            await store.sessions.append_event(session, said(user))


async def texts(folder: Path, wrapper: LocalKeyWrapper) -> list[str | None]:
    """Return what each user said."""
    found = []
    async with Store.local(folder, encryption=envelope(wrapper)) as store:
        for user in USERS:
            session = await store.sessions.get_session(app_name="app", user_id=user, session_id="s")
            assert session is not None
            content = session.events[0].content
            assert content is not None
            assert content.parts is not None
            found.append(content.parts[0].text)
    return found


async def test_keys_are_wrapped_by_the_newest_key_and_content_stays(tmp_path: Path) -> None:
    """A second call finds nothing to do, and the old key is not needed any more."""
    await make(tmp_path, LocalKeyWrapper(OLD))
    async with Store.local(tmp_path, encryption=envelope(LocalKeyWrapper(NEW, OLD))) as store:
        reports: list[RotationReport] = []
        first = await store.rotate_keys(on_progress=reports.append)
        second = await store.rotate_keys()

    assert RotationReport(keys=3, rewrapped=3) == first == reports[-1]
    assert RotationReport(keys=3) == second
    assert [*USERS] == await texts(tmp_path, LocalKeyWrapper(NEW))


async def test_notes_of_destroyed_keys_are_removed_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then they keep a new key from being made too early."""
    await make(tmp_path, LocalKeyWrapper(OLD))
    async with Store.local(tmp_path, encryption=envelope(LocalKeyWrapper(OLD))) as store:
        await erase(store, "one")
        early = await store.rotate_keys()
        encryption = store.sessions.storage.encryption
        assert encryption is not None
        now = encryption.keys.documents.clock.now()
        monkeypatch.setattr("google.adk.platform.time.get_time", lambda: now + 90_000)
        late = await store.rotate_keys()

    assert (0, 1) == (early.forgotten, late.forgotten)


def run(folder: Path, *words: str) -> Result:
    """Run a command at the store in *folder*."""
    return CliRunner().invoke(command, [*words, "--local", str(folder)])


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "list", "--app", "app", "--local", "store"),
        ("import", "/dev/null", "--local", "new"),
        ("copy", "firestore+local://{}/store", "firestore+local://{}/new", "--app", "app"),
    ],
    ids=itemgetter(0),
)
def test_a_command_makes_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A file of a mistyped name would wrap the keys of new users, and no agent has it."""
    monkeypatch.chdir(tmp_path)
    asyncio.run(make(tmp_path / "store", LocalKeyWrapper.at(tmp_path / "key")))
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", "kye")
    refused = CliRunner().invoke(command, [word.format(tmp_path) for word in words])

    assert (2, "") == (refused.exit_code, refused.stdout)
    assert "the key file 'kye' is not there; name it in ADK_STORE_ENCRYPTION_KEY" in refused.stderr
    assert ["key", "store"] == sorted(each.name for each in tmp_path.iterdir())


def test_the_commands_take_the_key_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new first line in the key's file, then rotate-keys; every other command decrypts as well."""
    folder, key = tmp_path / "store", tmp_path / "key"
    asyncio.run(make(folder, LocalKeyWrapper.at(key)))
    refused = run(folder, "sessions", "show", "--app", "app", "--user", "one", "--session", "s")
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", str(key))
    shown = run(folder, "sessions", "show", "--app", "app", "--user", "one", "--session", "s")
    fresh = tmp_path / "fresh"
    LocalKeyWrapper.at(fresh)
    key.write_bytes(fresh.read_bytes() + key.read_bytes())

    rotated = run(folder, "rotate-keys", "--json")
    again = run(folder, "rotate-keys")
    key.write_bytes(b"A" * 43 + b"=")
    broken = run(folder, "rotate-keys")

    report: Any = json.loads(rotated.stdout)
    assert 0 != refused.exit_code
    assert (0, 0, 0, 1) == (shown.exit_code, rotated.exit_code, again.exit_code, broken.exit_code)
    assert "one" in shown.stdout
    assert (3, 3, 0) == (report["keys"], report["rewrapped"], report["failed"])
    assert "wrapped anew: 0 of 3" in again.stdout
    assert "cannot be unwrapped: 3" in broken.stdout


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

"""Keys are wrapped anew by ``rotate-keys``, in steps that can be repeated."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store import LocalKeyWrapper, RotationReport, Store
from gcp_adk_store.cli.command import command
from tests.encryption.conftest import envelope
from tests.erasure.conftest import erase, said

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


def test_a_command_makes_no_key_of_a_store_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a mistyped name would wrap the keys of new users, and no agent has it."""
    asyncio.run(make(tmp_path / "store", LocalKeyWrapper.at(tmp_path / "key")))
    monkeypatch.setenv("ADK_STORE_ENCRYPTION_KEY", str(tmp_path / "kye"))
    refused = run(tmp_path / "store", "sessions", "list", "--app", "app")

    assert (2, "") == (refused.exit_code, refused.stdout)
    assert f"the key file {str(tmp_path / 'kye')!r} is not there; name it in ADK_STORE_E" in refused.stderr
    assert not (tmp_path / "kye").exists()


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

"""Data keys are made once, found by all processes, kept for minutes, and gone for good when destroyed."""

import asyncio
import base64
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    KeyDestroyedError,
    KmsEnvelope,
    LocalKeyWrapper,
    OutcomeUnknownError,
    Store,
    StoredDataError,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import read
from tests.encryption.conftest import LIMITS, CountingWrapper, envelope
from tests.erasure.conftest import APP, OTHER, OWNER, PLACES, USER, canary, erase, fill, said
from tests.support.clock import PassingTime
from tests.support.stored import overwrite, session_path
from tests.support.temporary import temporary_folder
from tests.support.traces import in_folder, traces

THERE: Any = {"app_name": APP, "user_id": USER, "session_id": "s"}


def keys_of(store: Store) -> Any:
    """Return the documents of the keys of *store*."""
    encryption: Any = store.sessions.storage.encryption
    return encryption.keys.documents


def key_path(user: str = USER) -> str:
    """Return the path of the document of a user's key."""
    named = f"user\0adk_apps/{APP}/adk_users/{user}"  # as docs/encryption.md has it
    return f"adk_keys/{sha256(named.encode()).hexdigest()}"


async def key_of(store: Store, user: str = USER) -> dict[str, Any]:
    """Return the fields of the document of a user's key, which must exist."""
    (found,) = await keys_of(store).get([key_path(user)])
    return dict(found.fields)


def let_meet(store: Store, meet: Callable[[str], Awaitable[None]]) -> None:
    """Await *meet* before and after the calls to the database of keys; it may raise."""
    documents = keys_of(store)
    get, commit = documents.get, documents.commit

    async def met_get(*given: Any, **options: Any) -> Any:
        await meet("get")
        return await get(*given, **options)

    async def met_commit(*given: Any, **options: Any) -> Any:
        await meet("commit")
        written = await commit(*given, **options)
        await meet("answer")
        return written

    documents.get, documents.commit = met_get, met_commit


async def test_a_user_costs_one_operation_and_one_read_a_process_and_cache_time(tmp_path: Path) -> None:
    """The process that makes a key wraps it once; another unwraps it once, however many calls need it."""
    first, second = CountingWrapper(), CountingWrapper()
    async with Store.local(tmp_path, session_limits=LIMITS, encryption=envelope(first)) as store:
        ids = [THERE, *({**THERE, "session_id": f"{number}"} for number in range(49))]
        session, *_ = await asyncio.gather(
            *(store.sessions.create_session(**each, state={"a": 1}) for each in ids)
        )
        for number in range(20):
            await store.sessions.append_event(session, said(f"event {number} " + "x" * 200))
    async with Store.local(tmp_path, session_limits=LIMITS, encryption=envelope(second)) as store:
        reads = Counting(store)
        for _ in range(5):
            await store.sessions.get_session(**THERE)
        await asyncio.gather(*(store.sessions.get_session(**THERE) for _ in range(20)))

    assert (1, 0) == (first.wraps, first.unwraps)
    assert (0, 1) == (second.wraps, second.unwraps)
    assert (1, 0) == (reads.gets, reads.commits)


class Counting:
    """Counts the calls to the database of keys."""

    def __init__(self, store: Store) -> None:
        self.gets = self.commits = 0
        let_meet(store, self.count)

    async def count(self, step: str) -> None:
        """Count one step before it is sent."""
        self.gets += step == "get"
        self.commits += step == "commit"


OF_OTHERS = ("task", "push-config")
"""What belongs to an owner of tasks."""


@pytest.mark.parametrize("failing", ["get", "commit", "answer"])
async def test_a_destruction_that_fails_at_any_step_is_completed_by_the_next_call(
    tmp_path: Path, failing: str
) -> None:
    """It is destroyed or not, and the next erasure says which."""
    left = [failing]

    async def meet(step: str) -> None:
        if left == [step]:
            left.clear()
            raise OutcomeUnknownError("lost")

    async with Store.local(tmp_path, encryption=envelope()) as store:
        await store.sessions.create_session(**THERE, state={"a": 1})
        let_meet(store, meet)
        with pytest.raises(OutcomeUnknownError):
            await erase(store)
        _, receipt = await erase(store)
        _, again = await erase(store)
        key = await key_of(store)

    assert receipt.unreadable_from is not None
    assert receipt.unreadable_from == again.unreadable_from
    assert "wrapped" not in key


async def test_a_key_leaves_the_cache_in_time(tmp_path: Path, passing: PassingTime) -> None:
    """Then a process learns that it was destroyed."""
    async with (
        Store.local(tmp_path, encryption=envelope()) as store,
        Store.local(tmp_path, encryption=envelope()) as other,
    ):
        await store.sessions.create_session(**THERE, state={"a": 1})
        stored: Any = store.sessions.storage.as_stored
        (backup,) = await stored.get([session_path(THERE)])
        await erase(other)
        await overwrite(stored, {backup.path: backup.fields})
        in_time = await store.sessions.get_session(**THERE)
        passing.after(301)

        assert in_time is not None
        with pytest.raises(KeyDestroyedError):
            await store.sessions.get_session(**THERE)


async def test_a_new_key_waits_until_nobody_has_the_destroyed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that still has it would write what nobody else can read."""
    async with Store.local(tmp_path, encryption=envelope()) as store:
        await store.sessions.create_session(**THERE, state={"a": 1})
        before = await key_of(store)
        await erase(store)
        with pytest.raises(UnavailableError, match="erased") as refused:
            await store.sessions.create_session(**THERE, state={"a": 1})
        now = keys_of(store).clock.now()
        monkeypatch.setattr("google.adk.platform.time.get_time", lambda: now + 361)
        await store.sessions.create_session(**THERE, state={"a": 1})
        after = await key_of(store)

    assert refused.value.retry_after_s is not None
    assert 300 < refused.value.retry_after_s <= 360
    assert before["id"] != after["id"]


async def test_a_wrapped_key_that_was_moved_to_another_user_is_refused(tmp_path: Path) -> None:
    """It is bound to its place by the wrapper."""
    theirs = {**THERE, "user_id": OTHER}
    async with Store.local(tmp_path, encryption=envelope()) as store:
        for who in (THERE, theirs):
            await store.sessions.create_session(**who, state={"a": 1})
        await overwrite(keys_of(store), {key_path(OTHER): await key_of(store)})
    async with Store.local(tmp_path, encryption=envelope()) as store:
        with pytest.raises(StoredDataError, match="another place"):
            await store.sessions.get_session(**theirs)


@pytest.fixture(scope="module")
def filled_once() -> Iterator[Path]:
    """A folder with an encrypted store of the user; tests take copies."""

    async def make() -> None:
        async with Store.local(folder, session_limits=LIMITS, encryption=envelope()) as store:
            await fill(store)

    with temporary_folder() as folder:
        asyncio.run(make())
        yield folder


@pytest.fixture
def filled(filled_once: Path, tmp_path: Path) -> Path:
    """A folder with an encrypted store of the user."""
    return shutil.copytree(filled_once, tmp_path / "filled")


async def test_an_erasure_destroys_the_key_first_and_says_from_when_on_nothing_is_readable(
    filled: Path,
) -> None:
    """A copy of the database from before cannot be read any more; other users go on."""
    backup: list[Any] = []
    async with Store.local(filled, session_limits=LIMITS, encryption=envelope()) as store:
        await fill(store, OTHER, "another-owner")
        stored = store.sessions.storage.as_stored
        assert stored is not None
        for root in ("adk_apps/app/adk_users/canary-user", f"adk_owners/{OWNER}"):
            backup += [each for each in await stored.get([root]) if each is not None]
            backup += await stored.query(root, "", all_descendants=True)

        progress, receipt = await erase(store, task_owner=OWNER)

        assert "keys" == progress[0].stage
        assert 2 == receipt.erased["keys"].count
        assert receipt.unreadable_from is not None
        assert receipt.begun_at + 300 < receipt.unreadable_from < receipt.ended_at + 361
        assert receipt.to_dict()["unreadable_from"] == receipt.unreadable_from
        await overwrite(stored, {each.path: each.fields for each in backup})
        with pytest.raises(KeyDestroyedError):
            await store.sessions.get_session(**THERE)
        with pytest.raises(KeyDestroyedError):
            await store.memory.search_memory(app_name=APP, user_id=USER, query=canary("memory"))
        there = await store.sessions.get_session(**{**THERE, "user_id": OTHER})
        assert there is not None
        again, _ = await erase(store, task_owner=OWNER)
        assert [] != again
        assert [] == [each for each in await stored.get([backup[0].path]) if each is not None]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_store_without_encryption_refuses_to_erase_what_is_encrypted(
    tmp_path: Path, *, dry_run: bool
) -> None:
    """The data key would stay, and with it every backup could be read; nothing is removed."""
    async with Store.local(tmp_path, session_limits=LIMITS, encryption=envelope()) as store:
        await store.sessions.create_session(**THERE, state={"seat": "window"})
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        before = await store.sessions.storage.documents.query("", "adk_sessions", all_descendants=True)
        with pytest.raises(InvalidInputError, match="ADK_STORE_ENCRYPTION_KEY"):
            await erase(store, dry_run=dry_run)
        after = await store.sessions.storage.documents.query("", "adk_sessions", all_descendants=True)

    assert before
    assert before == [replace(each, read_time=was.read_time) for was, each in zip(before, after, strict=True)]


async def leave_an_artifact(store: Store) -> None:
    """Store nothing else."""
    assert store.artifacts is not None
    part = types.Part(text="window")
    await store.artifacts.save_artifact(app_name=APP, user_id=USER, filename="user:seat", artifact=part)


async def leave_a_payload(store: Store) -> None:
    """Store an event with large content, and let the documents be lost."""
    session = await store.sessions.create_session(**THERE)
    await store.sessions.append_event(session, said("window", data=b"seat" * 200))
    stored = store.sessions.storage.as_stored
    assert stored is not None
    root = "adk_apps/app/adk_users/canary-user"
    below = await stored.query(root, "", all_descendants=True)
    await overwrite(stored, dict.fromkeys([root, *(each.path for each in below)]))


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("leave", "kind"),
    [(leave_an_artifact, "versions"), (leave_a_payload, "payloads")],
)
async def test_a_store_without_encryption_refuses_to_erase_encrypted_objects(
    leave: Callable[[Store], Awaitable[None]], kind: str, tmp_path: Path, *, dry_run: bool
) -> None:
    """Also those of a user who has no document, and nothing is removed."""
    how: Any = {"session_limits": LIMITS, "encryption": envelope(artifacts=True)}
    async with Store.local(tmp_path, **how) as store:
        await leave(store)
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        with pytest.raises(InvalidInputError, match="ADK_STORE_ENCRYPTION_KEY"):
            await erase(store, dry_run=dry_run)
    async with Store.local(tmp_path, **how) as store:
        _, receipt = await erase(store)

    assert (1, 1) == (receipt.erased["keys"].count, receipt.erased[kind].count)


async def test_metadata_that_a_user_chose_do_not_call_an_artifact_encrypted(tmp_path: Path) -> None:
    """Else whoever saves an artifact could keep its user from being erased."""
    async with Store.local(tmp_path) as store:
        assert store.artifacts is not None
        await store.artifacts.save_artifact(
            app_name=APP,
            user_id=USER,
            filename="user:seat",
            artifact=types.Part(text="window"),
            custom_metadata={"adkStoreSealed": "37", "adkStoreEncrypted": "AAAA"},
        )
        _, receipt = await erase(store)

    assert 1 == receipt.erased["versions"].count


async def test_a_store_without_encryption_says_what_it_lacks(tmp_path: Path) -> None:
    """Not that another release wrote what it cannot read."""
    async with Store.local(tmp_path, session_limits=LIMITS, encryption=envelope()) as store:
        session = await store.sessions.create_session(**THERE, state={"seat": "window"})
        await store.sessions.append_event(session, said("hello"))
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        with pytest.raises(StoredDataError, match=r"encrypted, .*ADK_STORE_ENCRYPTION_KEY"):
            await store.sessions.get_session(**THERE)
        with pytest.raises(InvalidInputError, match="ADK_STORE_ENCRYPTION_KEY"):
            await store.rotate_keys()


@pytest.mark.parametrize("damaged", [False, True], ids=["wrong-key", "damaged-key"])
async def test_an_erasure_needs_no_key(filled: Path, *, damaged: bool) -> None:
    """What nobody can decrypt any more is removed all the same, with the rest of its key."""
    async with Store.local(
        filled, session_limits=LIMITS, encryption=envelope(CountingWrapper(b"x" * 32))
    ) as store:
        if damaged:
            await overwrite(keys_of(store), {key_path(): {"format": 1, "id": "damaged"}})

        _, receipt = await erase(store)
        key = await key_of(store)

    assert 1 == receipt.erased["keys"].count
    assert receipt.unreadable_from is not None
    assert {"format", "kind", "destroyed_at", "free_at", "expire_at"} == key.keys()
    assert [] == [
        name for name in PLACES if traces(in_folder(filled), canary(name)) and name not in OF_OTHERS
    ]


async def test_nothing_of_a_destroyed_key_is_left_in_the_file(tmp_path: Path) -> None:
    """The file of a local store is written anew."""
    async with Store.local(tmp_path, encryption=envelope()) as store:
        await store.sessions.create_session(**THERE, state={"a": 1})
        wrapped = (await key_of(store))["wrapped"]
        await erase(store)

    files = [path.read_bytes() for path in sorted(tmp_path.glob("keys.sqlite3*"))]  # noqa: ASYNC240
    assert files
    assert not any(wrapped in data for data in files)


async def test_a_local_key_lies_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    """It is made once; a file with something else is refused."""
    path = tmp_path / "deep" / "key"
    async with Store.local(tmp_path / "store", encryption=KmsEnvelope(key=path)) as store:
        await store.sessions.create_session(**THERE, state={"a": 1})
    async with Store.local(tmp_path / "store", encryption=KmsEnvelope(key=path)) as store:
        found = await read(store.sessions, THERE)

    assert {"a": 1} == found.state
    assert 0o600 == path.stat().st_mode & 0o777
    assert 32 == len(base64.b64decode(path.read_bytes()))
    assert ["key"] == [each.name for each in path.parent.iterdir()]
    path.write_text("not a key")
    with pytest.raises(InvalidInputError, match="base64"):
        LocalKeyWrapper.at(path)
    key: Any
    for key in ("k" * 32, None, b"k" * 31):
        with pytest.raises(InvalidInputError, match="keys of 32 bytes"):
            LocalKeyWrapper(key)


@pytest.mark.linux
def test_the_name_of_a_new_local_key_is_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the folders that it makes; what the key encrypts is on the disk, too."""
    synchronised: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synchronised.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    LocalKeyWrapper.at(tmp_path / "deep" / "key")

    assert [str(tmp_path / "deep"), str(tmp_path)] == synchronised[1:]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "my-key"},
        {"key": None},
        {"key": b"k"},
        {"key": Path("k"), "per": "app"},
        {"key": Path("k"), "cache_s": 3601},
        {"key": Path("k"), "cache_s": True},
        {"key": Path("k"), "accept_plaintext": "false"},
        {"key": Path("k"), "artifacts": 0},
        {"key": Path("k"), "older_keys": ("projects/p/locations/l/keyRings/r/cryptoKeys/k",)},
    ],
    ids=["name", "none", "bytes", "per", "cache", "flag", "plaintext", "artifacts", "older"],
)
def test_a_malformed_envelope_is_refused(wrong: dict[str, Any]) -> None:
    """Before anything is opened."""
    with pytest.raises(InvalidInputError, match="must be"):
        KmsEnvelope(**wrong)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"ADK_STORE_ENCRYPTION_KEY": "k", "ADK_STORE_ENCRYPT_ARTIFACTS": "yes"}, "'yes', it must be true"),
        ({"ADK_STORE_ENCRYPT_ARTIFACTS": "true"}, "without ADK_STORE_ENCRYPTION_KEY"),
    ],
    ids=["neither true nor false", "no key"],
)
def test_variables_that_would_leave_artifacts_in_the_clear_are_refused(
    env: dict[str, str], says: str
) -> None:
    """Whoever sets one means them to be encrypted."""
    with pytest.raises(InvalidInputError, match=says):
        KmsEnvelope.from_variables(env)


async def test_a_key_that_cannot_be_unwrapped_takes_nobody_else_with_it(tmp_path: Path) -> None:
    """Its user's sessions are named, and all others are listed and checked."""
    lost = {**THERE, "user_id": "lost"}
    async with Store.local(tmp_path, encryption=envelope(artifacts=True)) as store:
        for who in (THERE, lost):
            session = await store.sessions.create_session(**who, state={"a": 1})
            await store.sessions.append_event(session, said("hello"))
            await store.artifacts.save_artifact(**who, filename="f", artifact=types.Part(text="x"))
        broken = {**await key_of(store, "lost"), "wrapped": b"damaged"}
        await overwrite(keys_of(store), {key_path("lost"): broken})

    async with Store.local(tmp_path, encryption=envelope(artifacts=True)) as store:
        listed = (await store.sessions.list_sessions(app_name="app")).sessions
        page = await store.sessions.list_sessions_page(app_name="app", include_state=False)
        faults = [fault async for fault in store.check()]
        with pytest.raises(StoredDataError, match="wrapped by a key"):
            await store.sessions.get_session(**lost)
        with pytest.raises(StoredDataError, match="wrapped by a key"):
            await store.artifacts.load_artifact(**lost, filename="f")

    assert [THERE["user_id"]] == [each.user_id for each in listed] == [each.user_id for each in page.infos]
    assert ["lost"] == [each.user_id for each in page.unreadable]
    assert [True] == ["/lost/" in fault.path for fault in faults]

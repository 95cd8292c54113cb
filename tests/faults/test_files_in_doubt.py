"""Whatever a process was doing when it was killed, nothing of what is removed afterwards is left in a folder.

Each process is killed at a step that changes the disk; another one then erases, redacts or deletes. What is
left is what the files have, byte for byte: nothing of the library takes part in the look. `make test` kills
at each third commit, each removal of a file and each name that a file gets; `make long` at every step.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import Erased, ErasureReceipt, GarbageKind, OutcomeUnknownError, SessionLimits, Store
from tests.faults.folder_world import STEPS, Kill, Step, watch
from tests.support.folder import files_without_object
from tests.support.lengths import at_length
from tests.support.ready_processes import READY
from tests.support.stored import plain_text
from tests.support.temporary import temporary_folder
from tests.support.traces import in_folder, traces

LONGEST_S = 60.0
SECRET = "here-secret-here"  # noqa: S105  # a canary
WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
OTHER: dict[str, Any] = {**WHO, "user_id": "other"}
FILE: dict[str, Any] = {"filename": "f", "artifact": types.Part(text=SECRET * 9)}
CHANGES = at_length({"commit", "unlink", "rename"}, {"commit", "unlink", "rename", "write", "fsync", "mkdir"})
"""Kinds of the steps at which a process is killed."""

pytestmark = pytest.mark.processes


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    """Open a store that keeps all but short texts in files."""
    async with Store.local(folder, session_limits=SessionLimits(inline_bytes=10)) as store:
        yield store


def said(number: int) -> Event:
    """Return an event with the canary in a text and in a payload."""
    picture = types.Blob(data=f"{number} {SECRET}".encode() * 9, mime_type="image/png")
    parts = [types.Part(text=SECRET), types.Part(inline_data=picture)]
    return Event(id=f"e{number}", author="user", content=types.Content(role="user", parts=parts))


async def append(store: Store) -> None:
    """Append an event with a payload."""
    session = await store.sessions.get_session(**WHO)
    assert session is not None
    await store.sessions.append_event(session, said(2))


async def save(store: Store) -> None:
    """Save an artifact."""
    await store.artifacts.save_artifact(**WHO, **FILE)


async def redact(store: Store) -> None:
    """Redact the event with the payload."""
    await store.redact_event(**WHO, event_id="e1", reason="ticket")


async def delete(store: Store) -> None:
    """Delete the session with its artifacts."""
    await store.delete_session(**WHO)


async def erase(store: Store) -> None:
    """Erase the user."""
    await store.erase_user(app_name="app", user_id="user")


CALLS: dict[str, Callable[[Store], Awaitable[None]]] = {
    call.__name__: call for call in (append, save, redact, delete, erase)
}
NAMED = [("append", "erase"), ("save", "erase"), ("delete", "erase"), ("redact", "erase"), ("erase", "erase")]
NAMED += [("append", "delete"), ("save", "delete"), ("delete", "delete"), ("redact", "redact")]


@dataclass(frozen=True)
class Prepared:
    """A folder before a call, and the steps of the call."""

    folder: Path
    steps: list[tuple[Step, bool]]
    """With whether the step is done when the process is killed."""


async def prepared(name: str, above: Path) -> Prepared:
    """Make a store with a user, and find out the steps of a call."""
    folder = above / "store"
    async with opened(folder) as store:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(session, said(1))
        await store.artifacts.save_artifact(**WHO, **FILE)
        await store.sessions.create_session(**OTHER)
        await store.artifacts.save_artifact(**OTHER, filename="f", artifact=types.Part(text="theirs"))
    copied = shutil.copytree(folder, above / "undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        watch(patch)
        async with opened(copied) as store:
            with STEPS.suffering(lambda _: None):
                await CALLS[name](store)
            steps = [step for step in STEPS.taken if step[0] in CHANGES]
    return Prepared(folder, [(step, done) for step in steps for done in {False, step[0] == "commit"}])


async def kill(name: str, folder: Path, step: Step, *, is_done: bool) -> int | None:
    """Let a process call on *folder* that is killed at *step*; return how it ended."""
    process = READY.Process(target=_die, args=(name, str(folder), step, is_done), daemon=True)
    await asyncio.to_thread(process.start)
    await asyncio.to_thread(process.join, LONGEST_S)
    return process.exitcode


def _die(name: str, folder: str, step: Step, is_done: bool) -> None:  # noqa: FBT001  # across processes
    watch(pytest.MonkeyPatch())

    async def act() -> None:
        async with opened(Path(folder)) as store:
            with STEPS.suffering(lambda taken: Kill(is_done) if taken == step else None):
                await CALLS[name](store)

    asyncio.run(act())


def lost_files(folder: Path) -> set[str]:
    """Return the files of contents that no object has, without marks."""
    return {name for name in files_without_object(folder) if "." not in name or name.endswith(".part")}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "then"), NAMED, ids=["-".join(pair) for pair in NAMED])
async def test_what_is_removed_is_in_no_file_wherever_a_process_was_killed_before(
    name: str, then: str
) -> None:
    """Whether it was about to record a file, or to remove it; at each step, or at each third one."""
    with temporary_folder() as above:
        case = await prepared(name, above)
        killed = []
        first, every = at_length((NAMED.index((name, then)) % 3, 3), (0, 1))
        for number, (step, is_done) in enumerate(case.steps[first::every]):
            folder = shutil.copytree(case.folder, above / f"{number}")
            killed.append(await kill(name, folder, step, is_done=is_done))
            async with opened(folder) as store:
                await CALLS[then](store)
                theirs = await store.artifacts.load_artifact(**OTHER, filename="f")
            assert theirs == types.Part(text="theirs")
            assert set() == lost_files(folder)
            left = {path: data for path, data in in_folder(folder).items() if path.startswith("file ")}
            if then == "erase":
                assert [] == traces(left, SECRET)
            if (name, then) == ("redact", "redact"):
                assert [] == traces(left, f"1 {SECRET}")

    assert {-signal.SIGKILL, 0} >= {*killed}
    assert killed.count(-signal.SIGKILL) > len(killed) / 2  # two files may share a folder


async def lose(store: Store, *, is_marked: bool) -> str:
    """Leave a file that no object has; return its name.

    As a process does that is killed between the file and its row; without a mark as releases before the
    marks did, or as a loss of power does.
    """
    with contextlib.suppress(OutcomeUnknownError):
        async with contents_of(store).draft() as draft:
            await draft.write(SECRET.encode())
            content = await draft.finish()
            if is_marked:
                raise OutcomeUnknownError("killed")
    return str(content.id)


def contents_of(store: Store) -> Any:
    """Return what has the files of *store*."""
    objects: Any = store.artifacts.storage.objects
    return objects._contents


@pytest.mark.parametrize("is_marked", [True, False], ids=["marked", "unmarked"])
async def test_a_receipt_counts_files_that_no_object_had(tmp_path: Path, is_marked: bool) -> None:  # noqa: FBT001  # a parameter
    """Whoever they belonged to, since they do not say it; a dry run counts the same."""
    async with opened(tmp_path) as store:
        await store.sessions.create_session(**WHO)  # with the sweep of this hour
        lost = await lose(store, is_marked=is_marked)
        planned = [each async for each in store.erase_user(app_name="app", user_id="nobody", dry_run=True)]
        assert {lost} == lost_files(tmp_path)
        steps = [each async for each in store.erase_user(app_name="app", user_id="nobody")]

    assert set() == files_without_object(tmp_path)
    assert ["files", ""] == [getattr(each, "stage", "") for each in steps]
    for receipt in (planned[-1], steps[-1]):
        assert isinstance(receipt, ErasureReceipt)
        assert Erased(1, len(SECRET)) == receipt.erased["files"]


@pytest.mark.parametrize("is_marked", [True, False], ids=["marked", "unmarked"])
async def test_gc_and_fsck_find_a_file_that_no_object_has(tmp_path: Path, is_marked: bool) -> None:  # noqa: FBT001  # a parameter
    """Once it is old enough; gc removes it."""
    async with opened(tmp_path) as store:
        await store.sessions.create_session(**WHO)
        lost = await lose(store, is_marked=is_marked)
        name = f"objects/{lost[:2]}/{lost}"
        assert [] == [each async for each in store.find_garbage()]
        os.utime(tmp_path / name, (5, 5))
        faults = [fault async for fault in store.check()]
        of_a_user = [fault async for fault in store.check(app_name="app", user_id="user")]
        (garbage,) = [each async for each in store.find_garbage()]

        assert [("FSCK307", name)] == [(fault.code, fault.path) for fault in faults]
        assert [] == of_a_user
        assert (GarbageKind.FILE, name, 5.0, len(SECRET)) == (
            garbage.kind,
            garbage.name,
            garbage.since,
            garbage.size,
        )
        assert [True, True] == [await store.remove_garbage(garbage) for _ in range(2)]
    assert set() == files_without_object(tmp_path)


async def test_a_file_that_a_call_is_writing_stays_and_the_receipt_says_so(tmp_path: Path) -> None:
    """Its lock says that a row may come, also if the call is of another process and its file is old."""
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        objects: Any = store.artifacts.storage.objects
        async with contents_of(store).draft() as draft:
            await draft.write(SECRET.encode())
            content = await draft.finish()
            os.utime(tmp_path / f"objects/{content.id[:2]}/{content.id}", (5, 5))
            receipt = await other.erase_user(app_name="app", user_id="user")
            (garbage,) = [each async for each in other.find_garbage()]
            is_gone = await other.remove_garbage(garbage)
            await objects.insert("name", plain_text(), content)
        read = await other.artifacts.storage.objects.read("name", generation=None)

    assert "files" not in receipt.erased
    assert "1 files that calls are writing now, which do not say whose they are" in receipt.not_covered
    assert not is_gone
    assert read is not None
    assert SECRET.encode() == read[0]


@pytest.mark.parametrize("call", ["erase", "redact", "delete"])
async def test_a_file_that_cannot_be_removed_ends_the_call_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """No receipt is signed over it; the next call removes it."""
    unlink = os.unlink

    def refuse(path: str | Path, **options: Any) -> None:
        if "objects" in str(path) and "pending" not in str(path):
            raise PermissionError(13, "denied")
        unlink(path, **options)

    async with opened(tmp_path) as store:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(session, said(1))
        await store.artifacts.save_artifact(**WHO, **FILE)
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", refuse)
            with pytest.raises(OutcomeUnknownError, match="objects"):
                await CALLS[call](store)
        assert lost_files(tmp_path)
        await CALLS[call](store)
    assert set() == files_without_object(tmp_path)

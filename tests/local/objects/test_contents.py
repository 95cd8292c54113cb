"""Bytes are whole or absent, and only an object keeps them."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.errors import AccessDeniedError, InvalidInputError, OutcomeUnknownError, UnavailableError
from gcp_adk_store.kernel.ports import ObjectExistsError
from gcp_adk_store.local.contents import Contents, FileContents
from gcp_adk_store.local.object_rows import Content
from gcp_adk_store.settings import ArtifactLimits
from tests.local.objects.conftest import Kept, kept_at

DAY_S = 24 * 3600.0


async def put(contents: Contents, *pieces: bytes) -> Content:
    """Keep some pieces as one content."""
    async with contents.draft() as draft:
        for piece in pieces:
            await draft.write(piece)
        return await draft.finish()


def files(folder: Path) -> list[Path]:
    """Return all files of a store's contents, without marks."""
    return sorted(path for path in (folder / "objects").glob("??/*") if path.is_file())


def marks(folder: Path) -> list[str]:
    """Return why files of a store's contents are in doubt."""
    return sorted(path.suffix for path in (folder / "objects/pending").glob("*"))


class TestContents:
    """Of a folder and of memory."""

    async def test_pieces_become_one_content_with_its_checksums(self, kept: Kept) -> None:
        content = await put(kept.contents, b"1234", b"", b"56789")
        # The check values of CRC32C and MD5 for these nine digits.
        assert (9, "4waSgw==", "JfnnlDI7RTiF9RgfG2JNCw==") == (content.size, content.crc32c, content.md5)
        assert b"123456789" == await kept.contents.read(content.id, 0, 9)

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [(0, 0, b""), (0, 1, b"a"), (2, 5, b"cde"), (3, 3, b""), (5, 7, b"fg"), (6, 99, b"g"), (7, 9, b"")],
    )
    async def test_a_range_may_begin_and_end_within_any_piece(
        self, kept: Kept, start: int, end: int, expected: bytes
    ) -> None:
        content = await put(kept.contents, b"abc", b"de", b"fg")
        assert expected == await kept.contents.read(content.id, start, end)

    async def test_content_without_a_byte_is_kept(self, on_disk: Kept, folder: Path) -> None:
        content = await put(on_disk.contents)
        assert 0 == content.size
        assert b"" == await on_disk.contents.read(content.id, 0, 0)
        assert 1 == len(files(folder))

    async def test_removed_content_is_gone_and_may_be_removed_again(self, kept: Kept) -> None:
        content = await put(kept.contents, b"x")
        await kept.contents.remove([content.id])
        await kept.contents.remove([content.id, "0" * 32])
        assert await kept.contents.read(content.id, 0, 1) is None

    @pytest.mark.parametrize("pieces", [0, 1])
    async def test_a_failed_block_leaves_no_bytes(self, kept: Kept, folder: Path, pieces: int) -> None:
        kept_ids: list[str] = []

        async def fail() -> None:
            async with kept.contents.draft() as draft:
                for _ in range(pieces):
                    await draft.write(b"x" * 1000)
                kept_ids.append((await draft.finish()).id)
                raise ObjectExistsError(None)

        with pytest.raises(ObjectExistsError):
            await fail()
        assert not files(folder)
        assert not marks(folder)
        assert await kept.contents.read(kept_ids[0], 0, 1) is None

    @pytest.mark.parametrize(
        "failure", [OutcomeUnknownError("no answer"), RuntimeError(), KeyboardInterrupt()]
    )
    async def test_finished_bytes_stay_if_an_object_may_have_them(
        self, on_disk: Kept, folder: Path, failure: BaseException
    ) -> None:
        async def lose() -> None:
            async with on_disk.contents.draft() as draft:
                await draft.finish()
                assert [".write"] == marks(folder)
                raise failure

        with pytest.raises(type(failure)):
            await lose()
        assert 1 == len(files(folder))
        assert [".write"] == marks(folder)

    async def test_a_cancelled_write_ends_before_its_file_is_removed(
        self, on_disk: Kept, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, goes_on, write = asyncio.Event(), threading.Event(), os.write
        loop = asyncio.get_running_loop()

        def held(descriptor: int, data: bytes) -> int:
            if len(data) != 77_777:  # asyncio writes to its own pipe, too
                return write(descriptor, data)
            loop.call_soon_threadsafe(begun.set)
            assert goes_on.wait(60)
            return write(descriptor, data)

        monkeypatch.setattr(os, "write", held)
        task = asyncio.create_task(put(on_disk.contents, b"x" * 77_777))
        await begun.wait()
        task.cancel()
        task.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not files(folder)

    @pytest.mark.linux
    async def test_names_and_bytes_are_synchronised_before_the_block_ends(
        self, on_disk: Kept, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synchronised: list[str] = []
        fsync = os.fsync

        def noted(descriptor: int) -> None:
            synchronised.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            fsync(descriptor)

        await put(on_disk.contents, b"first")  # which makes the folders above
        monkeypatch.setattr(os, "fsync", noted)
        content = await put(on_disk.contents, b"second")
        place = folder / "objects" / content.id[:2]
        assert [str(place / f"{content.id}.part"), str(place)] == synchronised[-2:]
        assert {str(folder / "objects")} >= {*synchronised[:-2]} - {str(folder)}

    def test_a_path_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "objects").write_bytes(b"")
        contents = FileContents(tmp_path / "objects", ArtifactLimits())
        with pytest.raises(InvalidInputError, match="objects"):
            asyncio.run(put(contents, b"x"))

    @pytest.mark.parametrize(
        ("number", "error"),
        [(28, UnavailableError), (122, UnavailableError), (5, UnavailableError), (13, AccessDeniedError)],
    )
    @pytest.mark.parametrize("step", ["open", "write", "fsync", "rename"])
    async def test_a_refusal_of_the_system_is_typed_and_leaves_nothing(
        self,
        on_disk: Kept,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        error: type[Exception],
        step: str,
    ) -> None:
        await put(on_disk.contents, b"first")
        before, call = files(folder), getattr(os, step)

        def refuse(*arguments: object, **options: object) -> object:
            if threading.current_thread().name.startswith("adk-store-files"):
                raise OSError(number, os.strerror(number))
            return call(*arguments, **options)

        monkeypatch.setattr(os, step, refuse)
        with pytest.raises(error, match="objects"):
            await put(on_disk.contents, b"second")
        monkeypatch.undo()
        assert before == files(folder)
        assert not marks(folder)
        await put(on_disk.contents, b"third")


@pytest.mark.linux
def test_what_a_store_makes_is_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    """Folders, databases with their logs, files and marks; a folder that was there keeps its mode."""
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        for folder in (tmp_path / "above" / "store", there):
            kept = kept_at(folder)
            asyncio.run(
                kept.objects.create("a", ObjectFields(data=b"x", content_type="text/plain", metadata={}))
            )
            with pytest.raises(OutcomeUnknownError):
                asyncio.run(_lose(kept.contents))
            kept_here = [*folder.rglob("*")]
            assert {".sqlite3", ".sqlite3-wal", ".sqlite3-shm", ".write"} <= {
                each.suffix for each in kept_here
            }
            modes = {(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in kept_here}
            assert {(True, 0o700), (False, 0o600)} == modes
            asyncio.run(kept.objects.close())
    finally:
        os.umask(before)
    assert 0o755 == stat.S_IMODE(there.stat().st_mode)
    assert [0o700] * 2 == [
        stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("above", "above/store")
    ]


async def _lose(contents: Contents) -> None:
    async with contents.draft() as draft:
        await draft.finish()
        raise OutcomeUnknownError("no answer")

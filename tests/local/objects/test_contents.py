"""Bytes are whole or absent, and only an object keeps them."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from gcp_adk_store import ArtifactLimits, InvalidInputError, OutcomeUnknownError
from gcp_adk_store.local.contents import Contents, FileContents
from gcp_adk_store.local.object_rows import Content
from tests.local.objects.conftest import Kept, kept_at, upload


async def put(contents: Contents, *pieces: bytes) -> Content:
    """Keep some pieces as one content."""
    async with contents.draft() as draft:
        for piece in pieces:
            await draft.write(piece)
        return await draft.finish()


def marks(folder: Path) -> list[str]:
    """Return why files of a store's contents are in doubt."""
    return sorted(path.suffix for path in (folder / "objects/pending").glob("*"))


class TestContents:
    """Of a folder and of memory."""

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


@pytest.mark.linux
def test_what_a_store_makes_is_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    """Folders, databases with their logs, files and marks; a folder that was there keeps its mode."""
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        for folder in (tmp_path / "above" / "store", there):
            kept = kept_at(folder)
            asyncio.run(kept.objects.create("a", upload()))
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

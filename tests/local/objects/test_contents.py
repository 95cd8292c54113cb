"""Bytes are whole or absent, and only an object keeps them."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from gcp_adk_store import OutcomeUnknownError
from tests.local.objects.conftest import Kept, kept_at, upload


async def put(kept: Kept, data: bytes) -> str:
    """Keep *data*, and return the name of its file."""
    async with kept.contents.draft() as draft:
        await draft.write(data)
        return (await draft.finish()).id


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

        await put(on_disk, b"first")  # which makes the folders above
        monkeypatch.setattr(os, "fsync", noted)
        name = await put(on_disk, b"second")
        place = folder / "objects" / name[:2]
        assert [str(place / f"{name}.part"), str(place)] == synchronised[-2:]
        assert {str(folder / "objects")} >= {*synchronised[:-2]} - {str(folder)}


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
                asyncio.run(_lose(kept))
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


async def _lose(kept: Kept) -> None:
    async with kept.contents.draft() as draft:
        await draft.finish()
        raise OutcomeUnknownError("no answer")

"""What the port of objects promises, in a folder and in memory: whole bytes, or none."""

import asyncio
import os
import sqlite3
import stat
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from google.genai import types

from gcp_adk_store import ArtifactService, InvalidInputError, OutcomeUnknownError, StoredDataError
from tests.local.objects.conftest import FIELDS, Kept, kept_at, upload
from tests.support.clock import Clock
from tests.support.small_pieces import PIECE_BYTES, use_small_pieces


async def put(kept: Kept, *names: str, data: bytes = b"data") -> None:
    """Create objects."""
    for name in names:
        await kept.objects.create(name, upload(data))


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _unlink(path: Path) -> None:
    path.unlink()


class TestObjects:
    """Of a folder and of memory."""

    async def test_the_bytes_of_an_object_that_exists_are_not_written(
        self, kept: Kept, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def read_at(_start: int, _size: int) -> bytes:
            raise AssertionError

        await put(kept, "a")
        monkeypatch.setattr(type(kept.contents), "draft", read_at)
        in_pieces = kept.uploads.create("a", FIELDS, size=1, read_at=read_at, on_progress=print)
        assert await kept.finds_it_taken(kept.objects.create("a", upload(b"other")))
        assert await kept.finds_it_taken(in_pieces)

    @pytest.mark.parametrize("again", ["other process", "same process"])
    async def test_generations_rise_across_removals_and_processes(
        self, on_disk: Kept, folder: Path, again: str, clock: Clock
    ) -> None:
        seen = []
        for _ in range(4):
            kept = on_disk if again == "same process" else kept_at(folder)
            # The clock steps back by a minute each time.
            clock.after(-60)
            await put(kept, "a")
            found = await kept.objects.info("a")
            assert found is not None
            seen.append(found.generation)
            await kept.objects.delete("a", generation=found.generation)
            await kept.objects.close()
        assert seen == sorted(set(seen))

    @pytest.mark.parametrize("part", [(0, 5), (5, 6), (-1, 2), (3, 2)])
    async def test_a_part_outside_of_the_object_is_refused(self, kept: Kept, part: tuple[int, int]) -> None:
        await put(kept, "a")
        with pytest.raises(InvalidInputError, match="the 4 of"):
            await kept.objects.read("a", generation=None, part=part)

    async def test_the_bytes_go_with_the_last_object_that_has_them(self, on_disk: Kept, folder: Path) -> None:
        await put(on_disk, "a")
        source = await on_disk.objects.info("a")
        assert source is not None
        await on_disk.objects.copy(source, "b", FIELDS)
        files = [path for path in (folder / "objects").rglob("*") if path.is_file()]
        assert 1 == len(files)
        await on_disk.objects.delete("a", generation=None)
        assert files[0].exists()
        await on_disk.objects.delete("b", generation=None)
        assert not files[0].exists()

    async def test_a_scan_has_pages(self, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gcp_adk_store.local.objects._SCANNED_AT_ONCE", 20)
        await put(kept, "a")
        source = await kept.objects.info("a")
        assert source is not None
        names = sorted(f"p/{number}" for number in range(40))
        for name in names:
            await kept.objects.copy(source, name, FIELDS)
        pages = [page async for page in kept.objects.scan("p/")]
        assert [20, 20, 0] == [len(page) for page in pages]
        assert names == [each.name for page in pages for each in page]

    async def test_an_upload_in_pieces_is_one_object(
        self, kept: Kept, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_small_pieces(monkeypatch)
        data = os.urandom(2 * PIECE_BYTES + 1000)
        asked: list[tuple[int, int]] = []
        reported: list[int] = []

        async def read_at(start: int, size: int) -> bytes:
            asked.append((start, size))
            return data[start : start + size]

        await kept.uploads.create("a", FIELDS, size=len(data), read_at=read_at, on_progress=reported.append)
        rest = len(data) - 2 * PIECE_BYTES
        assert [(0, PIECE_BYTES), (PIECE_BYTES, PIECE_BYTES), (2 * PIECE_BYTES, rest)] == asked
        assert [PIECE_BYTES, 2 * PIECE_BYTES] == reported
        read = await kept.objects.read("a", generation=None)
        assert read is not None
        assert data == read[0]
        part = await kept.objects.read("a", generation=read[1], part=(PIECE_BYTES - 2, PIECE_BYTES + 2))
        assert (data[PIECE_BYTES - 2 : PIECE_BYTES + 2], read[1]) == part

    @pytest.mark.parametrize("failing", [0, PIECE_BYTES])
    async def test_an_upload_whose_source_fails_leaves_nothing(
        self, on_disk: Kept, folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        use_small_pieces(monkeypatch)

        async def read_at(start: int, size: int) -> bytes:
            if start == failing:
                raise OSError
            return bytes(size)

        with pytest.raises(OSError, match=r"^$"):
            await on_disk.uploads.create(
                "a", FIELDS, size=3 * PIECE_BYTES, read_at=read_at, on_progress=lambda _: None
            )
        assert not [path for path in (folder / "objects").rglob("*") if path.is_file()]
        assert await on_disk.objects.info("a") is None

    async def test_a_large_upload_takes_the_memory_of_two_pieces(self, on_disk: Kept) -> None:
        async def read_at(start: int, size: int) -> bytes:
            del start
            return bytes(size)

        piece = 8 * 1024 * 1024
        size = 8 * piece
        tracemalloc.start()
        try:
            await on_disk.uploads.create("a", FIELDS, size=size, read_at=read_at, on_progress=lambda _: None)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2.5 * piece
        found = await on_disk.objects.info("a")
        assert found is not None
        assert size == found.size

    async def test_an_upload_whose_source_ends_early_is_refused(self, kept: Kept) -> None:
        async def read_at(start: int, size: int) -> bytes:
            return bytes(min(size, 10 - start))

        with pytest.raises(InvalidInputError, match="after 10 of 11 bytes"):
            await kept.uploads.create("a", FIELDS, size=11, read_at=read_at, on_progress=lambda _: None)

    @pytest.mark.parametrize("damage", [_flip, _cut, _unlink])
    async def test_bytes_that_were_changed_on_the_disk_are_an_error(
        self, on_disk: Kept, folder: Path, damage: Callable[[Path], None]
    ) -> None:
        await put(on_disk, "a")
        (path,) = [path for path in (folder / "objects").rglob("*") if path.is_file()]
        damage(path)
        with pytest.raises(StoredDataError, match="object 'a'"):
            await on_disk.objects.read("a", generation=None)
        if damage is not _flip:  # a part has no checksum, as in Cloud Storage
            with pytest.raises(StoredDataError, match="object 'a'"):
                await on_disk.objects.read("a", generation=None, part=(2, 4))

    async def test_a_read_beside_removals_has_the_whole_object_or_none(self, kept: Kept) -> None:
        ended = asyncio.Event()

        async def replace() -> None:
            for number in range(30):
                await put(kept, "a", data=b"%03d" % number * 1000)
                await kept.objects.delete("a", generation=None)
            ended.set()

        async def read() -> Sequence[bytes]:
            seen = []
            while not ended.is_set():
                found = await kept.objects.read("a", generation=None)
                if found is not None:
                    seen.append(found[0])
            return seen

        seen = (await asyncio.gather(replace(), read(), read()))[1]
        assert all(data == data[:3] * 1000 for data in seen)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("metadata", value) for value in ("{", "", "[" * 100_000, "[]", '{"a": 1}', b"\xff")),
        *(("content", value) for value in ("../../other", "/etc/hostname", "", b"x")),
        *((name, "x") for name in ("generation", "metageneration", "size", "create_time", "custom_time")),
    ],
)
async def test_a_damaged_row_of_an_object_is_named(
    on_disk: Kept, folder: Path, column: str, value: object
) -> None:
    """A typed error, without the value."""
    await on_disk.objects.create("one", FIELDS)
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql, sql:
        sql.execute(f"UPDATE objects SET {column} = ?", (value,))  # noqa: S608  # one of these names
    with pytest.raises(StoredDataError, match="'one' is damaged: restore a backup"):
        await on_disk.objects.info("one")


async def test_a_row_leads_to_no_file_outside_of_the_folder(
    on_disk: Kept, folder: Path, tmp_path: Path
) -> None:
    """A folder may be somebody else's: what it names is neither shown nor removed."""
    other = tmp_path / "other"
    other.write_text("secret")
    await on_disk.objects.create("one", FIELDS)
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql, sql:
        sql.execute("UPDATE objects SET content = ?, size = 6", (f"{other}",))
    with pytest.raises(StoredDataError, match="is damaged"):
        await on_disk.objects.read("one", generation=None, part=(0, 6))
    with pytest.raises(StoredDataError, match="is damaged"):
        await on_disk.objects.delete("one", generation=None)

    assert "secret" == other.read_text()


@pytest.mark.parametrize(
    ("linked", "harmless"),
    [("objects/??/*", {"create", "left"}), ("objects/??", set()), ("objects/pending", {"read"})],
)
async def test_a_symbolic_link_leads_to_no_file_outside_of_the_folder(
    on_disk: Kept, folder: Path, linked: str, harmless: set[str]
) -> None:
    """None is read, written or removed, and the error names the link."""
    await put(on_disk, "one")
    (link,) = folder.glob(linked)
    outside = link.rename(folder.parent / "outside")
    before = [*outside.glob("*")]
    for number in range(256 if linked == "objects/??" else 0):
        (folder / f"objects/{number:02x}").symlink_to(outside)
    if not link.is_symlink():
        link.symlink_to(outside)
    calls = {
        "read": on_disk.objects.read("one", generation=None),
        "delete": on_disk.objects.delete("one", generation=None),
        "create": on_disk.objects.create("two", upload()),
        "left": on_disk.objects.left(every=True),
    }
    for name, call in calls.items():
        with nullcontext() if name in harmless else pytest.raises(StoredDataError, match="symbolic link"):
            await call

    assert before == [*outside.glob("*")]


async def test_a_size_beyond_the_file_takes_no_memory(on_disk: Kept, folder: Path) -> None:
    """Only the bytes that are there are read."""
    await on_disk.objects.create("one", FIELDS)
    with closing(sqlite3.connect(folder / "store.sqlite3")) as sql, sql:
        sql.execute("UPDATE objects SET size = ?", (2**62,))
    with pytest.raises(StoredDataError, match="do not match their checksum"):
        await on_disk.objects.read("one", generation=None)


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


async def keep(kept: Kept, data: bytes) -> str:
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

        await keep(on_disk, b"first")  # which makes the folders above
        monkeypatch.setattr(os, "fsync", noted)
        name = await keep(on_disk, b"second")
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

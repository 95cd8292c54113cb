"""Artifacts that move through files: of any size, in little memory, whole or in parts."""

import asyncio
import base64
import hashlib
import io
import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import requests
import urllib3
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import GcsArtifactService, InvalidInputError, StoredDataError
from gcp_adk_store.artifacts.files import opened_target
from tests.services.conftest import WHO
from tests.support.small_pieces import PIECE_BYTES, use_small_pieces

FILM: dict[str, Any] = {**WHO, "filename": "film.mp4"}
LARGE = os.urandom(2 * PIECE_BYTES + 17)
"""In three pieces."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send and read files in small pieces."""
    use_small_pieces(monkeypatch)


def names_in(folder: Path) -> set[str]:
    """Return the names of the files in *folder*."""
    return {found.name for found in folder.iterdir()}


def binary(data: bytes) -> types.Part:
    """Return a film."""
    return types.Part(inline_data=types.Blob(data=data, mime_type="video/mp4"))


@pytest.mark.emulators
@pytest.mark.parametrize("data", [b"", b"short", LARGE], ids=["empty", "short", "large"])
async def test_a_file_is_what_inline_bytes_are(
    artifacts: GcsArtifactService, tmp_path: Path, data: bytes
) -> None:
    """From a path or an open file, to a path or an open file; to this service and to ADK's own."""
    path, opened, written = tmp_path / "in", io.BytesIO(data), io.BytesIO()
    await asyncio.to_thread(path.write_bytes, data)
    opened.seek(len(data))
    versions = [
        await artifacts.save_artifact_file(**FILM, source=path, mime_type="video/mp4"),
        await artifacts.save_artifact_file(**FILM, source=str(path), mime_type="video/mp4"),
        await artifacts.save_artifact_file(**FILM, source=opened, mime_type="video/mp4"),
        await artifacts.save_artifact(**FILM, artifact=binary(data)),
    ]
    adk = AdkGcsArtifactService(artifacts.bucket_name, project="demo", credentials=AnonymousCredentials())
    described = [
        await artifacts.load_artifact_to(**FILM, version=0, target=tmp_path / "out"),
        await artifacts.load_artifact_to(**FILM, target=written),
    ]

    assert [0, 1, 2, 3] == versions
    assert [binary(data)] * 4 == [await artifacts.load_artifact(**FILM, version=n) for n in versions]
    assert binary(data) == await adk.load_artifact(**FILM, version=0)
    assert [data, data] == [(tmp_path / "out").read_bytes(), written.getvalue()]
    assert [(0, len(data)), (3, len(data))] == [(d.version, d.size) for d in described if d]
    assert not opened.closed
    assert {"in", "out"} == names_in(tmp_path)


async def test_a_version_of_a_file_is_described(artifacts: GcsArtifactService) -> None:
    """With size, generation and checksums: enough to compare a file with it."""
    metadata: dict[str, Any] = {"n": [1, None]}
    for _ in range(2):
        source = io.BytesIO(b"bytes")
        await artifacts.save_artifact_file(
            **FILM, source=source, display_name="Ünï", custom_metadata=metadata
        )
    both = await artifacts.list_artifact_versions(**FILM)
    one = await artifacts.get_artifact_version(**FILM, version=0)
    latest = await artifacts.get_artifact_version(**FILM)

    blob = types.Blob(data=b"bytes", mime_type="application/octet-stream", display_name="Ünï")
    assert types.Part(inline_data=blob) == await artifacts.load_artifact(**FILM)
    assert both == [one, latest]
    assert one is not None
    assert latest is not None
    assert one.generation < latest.generation
    assert (5, metadata) == (one.size, one.custom_metadata)
    assert base64.b64encode(hashlib.md5(b"bytes").digest()).decode() == one.md5  # noqa: S324  # GCS's
    assert base64.b64encode(google_crc32c.value(b"bytes").to_bytes(4, "big")).decode() == one.crc32c


async def test_progress_is_reported_in_the_event_loop(artifacts: GcsArtifactService, tmp_path: Path) -> None:
    """Never less than before, and all of it at the end."""
    reported: list[tuple[int, int]] = []
    threads: set[int] = set()

    def progress(done: int, whole: int) -> None:
        reported.append((done, whole))
        threads.add(threading.get_ident())

    await artifacts.save_artifact_file(**FILM, source=io.BytesIO(LARGE), on_progress=progress)
    sent, reported = reported, []
    await artifacts.load_artifact_to(**FILM, target=tmp_path / "out", on_progress=progress)

    for steps in (sent, reported):
        assert len(steps) > 2
        assert sorted(steps) == steps
        assert (len(LARGE), len(LARGE)) == steps[-1]
        assert {len(LARGE)} == {whole for _, whole in steps}
    assert {threading.get_ident()} == threads


async def test_what_is_not_there_leaves_its_target_alone(
    artifacts: GcsArtifactService, tmp_path: Path
) -> None:
    """Nor does a rewind's tombstone become an empty file."""
    target = tmp_path / "kept"
    target.write_text("kept")
    tombstone = types.Part(inline_data=types.Blob(data=b"", mime_type="application/octet-stream"))

    assert None is await artifacts.load_artifact_to(**FILM, target=target)
    assert None is await artifacts.open_artifact(**FILM)
    await artifacts.save_artifact(**FILM, artifact=tombstone)
    assert None is await artifacts.load_artifact_to(**FILM, target=target)
    assert "kept" == target.read_text()
    assert {"kept"} == names_in(tmp_path)


async def test_references_are_followed_into_files(artifacts: GcsArtifactService, tmp_path: Path) -> None:
    """To the version that they name; a file elsewhere is an error that says so."""
    await artifacts.save_artifact(**FILM, artifact=binary(b"film"))
    uri = "artifact://apps/app/users/user/sessions/session/artifacts/film.mp4/versions/0"
    for name, target in (("ref", uri), ("far", "gs://elsewhere/film.mp4")):
        part = types.Part(file_data=types.FileData(file_uri=target))
        await artifacts.save_artifact(**WHO, filename=name, artifact=part)
    described = await artifacts.load_artifact_to(**WHO, filename="ref", target=tmp_path / "out")
    reader = await artifacts.open_artifact(**WHO, filename="ref")

    assert described is not None
    assert described.canonical_uri.endswith("/film.mp4/0")
    assert b"film" == (tmp_path / "out").read_bytes()
    assert reader is not None
    assert b"film" == await reader.read()
    with pytest.raises(InvalidInputError, match="outside of the bucket; load_artifact returns its URI"):
        await artifacts.load_artifact_to(**WHO, filename="far", target=tmp_path / "far")


async def test_parts_are_read_from_anywhere(artifacts: GcsArtifactService) -> None:
    """As from a file, also in a block, which ends nothing; a place that is none moves nothing."""
    await artifacts.save_artifact(**FILM, artifact=binary(LARGE))
    reader = await artifacts.open_artifact(**FILM)
    assert reader is not None
    found = [await reader.read(10), await reader.read(0)]
    reader.seek(-5, os.SEEK_END)
    found += [await reader.read(100), await reader.read(100)]
    reader.seek(300)
    reader.seek(-44, os.SEEK_CUR)

    async def fail_in_a_block() -> None:
        async with reader as entered:
            found.append(await entered.read(3))
            raise KeyError

    with pytest.raises(KeyError):
        await fail_in_a_block()
    wrong: Any
    for wrong in (None, 1.5, "1"):
        with pytest.raises(InvalidInputError, match="size must be a whole number"):
            await reader.read(wrong)
        with pytest.raises(InvalidInputError, match="offset must be a whole number"):
            reader.seek(wrong)
    with pytest.raises(InvalidInputError, match="cannot seek to -1 from 0"):
        reader.seek(-1)
    pieces = [piece async for piece in reader]
    reader.seek(10**6)
    found.append(await reader.read())

    assert [LARGE[:10], b"", LARGE[-5:], b"", LARGE[256:259], b""] == found
    assert LARGE[259:] == b"".join(pieces)
    assert 1 < len(pieces)
    assert (len(LARGE), "video/mp4", 10**6) == (reader.size, reader.mime_type, reader.tell())


class Answers(requests.adapters.HTTPAdapter):
    """Lets *change* look at each answer, and perhaps give another one."""

    def __init__(self, change: Callable[[requests.PreparedRequest, requests.Response], None]) -> None:
        super().__init__()
        self._change = change

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send, and let the answer be changed."""
        response: requests.Response = super().send(request, *args, **kwargs)
        self._change(request, response)
        return response


def through(
    artifacts: GcsArtifactService, change: Callable[[requests.PreparedRequest, requests.Response], None]
) -> GcsArtifactService:
    """Return a service whose answers *change* may change."""
    http = AuthorizedSession(AnonymousCredentials())
    http.mount("http://", Answers(change))
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    return GcsArtifactService(artifacts.bucket_name, client=client)


@pytest.mark.emulators
async def test_parts_that_make_the_whole_are_checked(artifacts: GcsArtifactService) -> None:
    """A range has no checksum of its own, but the object has; after a jump nothing can be said."""
    await artifacts.save_artifact(**FILM, artifact=binary(b"some bytes"))

    def flips(request: requests.PreparedRequest, response: requests.Response) -> None:
        """Change one bit of every ranged download."""
        if "alt=media" in (request.url or "") and "range" in {name.lower() for name in request.headers}:
            content = bytearray(response.content)
            content[0] ^= 1
            spoiled = io.BytesIO(bytes(content))
            response.raw = urllib3.HTTPResponse(spoiled, headers=response.headers, preload_content=False)

    reader = await through(artifacts, flips).open_artifact(**FILM)
    assert reader is not None
    await reader.read(4)
    with pytest.raises(StoredDataError, match="do not match their CRC32C"):
        await reader.read()
    reader.seek(0)
    await reader.read(4)
    reader.seek(6)

    assert b"tes" == (await reader.read())[1:]


def closed(file: io.BytesIO) -> io.BytesIO:
    """Return *file*, closed."""
    file.close()
    return file


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (io.StringIO(), "target must be an open file in binary mode"),
        (closed(io.BytesIO()), "target must be an open file in binary mode"),
        ("no\0file", "is not a path: embedded null"),
    ],
)
async def test_a_target_that_takes_no_bytes_is_refused(
    artifacts: GcsArtifactService, target: Any, message: str
) -> None:
    """Before any of them is read."""
    await artifacts.save_artifact(**FILM, artifact=binary(b"x"))
    with pytest.raises(InvalidInputError, match=message):
        await artifacts.load_artifact_to(**FILM, target=target)


async def test_a_mapped_file_is_a_source(artifacts: GcsArtifactService) -> None:
    """Its seek() returns nothing in some versions of Python."""
    mapped: Any
    with mmap.mmap(-1, 5) as mapped:
        mapped[:] = b"hello"
        await artifacts.save_artifact_file(**FILM, source=mapped, mime_type="video/mp4")

    assert binary(b"hello") == await artifacts.load_artifact(**FILM)


class Shrinks(io.BytesIO):
    """Has fewer bytes than it had when it was measured."""

    def read(self, size: int | None = -1) -> bytes:
        """Leave the last one out."""
        return super().read(size)[:-1] if size else b""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (io.StringIO("text"), "binary mode"),
        (iter([b""]), "source must be a string or a path or a binary file"),
        (closed(io.BytesIO(b"x")), "is closed"),
        ("no\0file", "is not a path: embedded null"),
        ("/dev/null", "is not an ordinary file"),
        (Shrinks(b"x"), "now has fewer"),
    ],
)
async def test_a_source_that_cannot_be_read_again_is_refused(
    artifacts: GcsArtifactService, source: Any, message: str
) -> None:
    """Also one without a size, which would be saved as an empty artifact."""
    with pytest.raises(InvalidInputError, match=message):
        await artifacts.save_artifact_file(**FILM, source=source)
    with pytest.raises(FileNotFoundError):
        await artifacts.save_artifact_file(**FILM, source="no/such/file")
    assert [] == await artifacts.list_versions(**FILM)


async def test_an_upload_that_is_cancelled_stops(artifacts: GcsArtifactService) -> None:
    """With the request that is running: no version comes to be, and the service goes on."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    left = threading.Event()

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                loop.call_soon_threadsafe(begun.set)
                assert left.wait(60)
            return super().read(size)

    saving = asyncio.create_task(artifacts.save_artifact_file(**FILM, source=Slow(LARGE)))
    await begun.wait()
    saving.cancel()
    await asyncio.sleep(0)  # it gets the news, and waits for the read that its file is needed for
    left.set()
    with pytest.raises(asyncio.CancelledError):
        await saving
    await artifacts.close()  # waits for the thread

    assert [] == await artifacts.list_versions(**FILM)
    assert 0 == await artifacts.save_artifact(**FILM, artifact=binary(b"x"))


@pytest.mark.emulators
async def test_what_arrived_of_a_piece_is_not_sent_again(artifacts: GcsArtifactService) -> None:
    """Cloud Storage may keep less of a piece than it was sent, in steps of 256 KiB."""
    asked: list[str] = []

    def less(request: requests.PreparedRequest, response: requests.Response) -> None:
        if request.method == "PUT":
            asked.append(request.headers["Content-Range"].split("-")[0])
            if response.status_code == 308 and len(asked) == 1:
                response.status_code = 503  # the answer is lost: the next request asks how much there is

    await through(artifacts, less).save_artifact_file(**FILM, source=io.BytesIO(LARGE))
    reader = await artifacts.open_artifact(**FILM)

    assert reader is not None
    assert LARGE == await reader.read()
    assert ["bytes 0", f"bytes */{len(LARGE)}", f"bytes {PIECE_BYTES}", f"bytes {2 * PIECE_BYTES}"] == asked


@pytest.mark.emulators
async def test_a_version_that_goes_while_it_is_read_is_never_mixed_with_another(
    artifacts: GcsArtifactService, tmp_path: Path
) -> None:
    """Nor taken for one that is absent: what was written of it is a part."""
    await artifacts.save_artifact(**FILM, artifact=binary(LARGE))
    loop = asyncio.get_running_loop()

    def goes(request: requests.PreparedRequest, response: requests.Response) -> None:
        assert response is not None
        if "alt=media" in (request.url or ""):
            asyncio.run_coroutine_threadsafe(artifacts.delete_artifact(**FILM), loop).result(30)

    target = tmp_path / "film"
    await asyncio.to_thread(target.write_bytes, b"old")
    with pytest.raises(StoredDataError, match="was deleted while it was read"):
        await through(artifacts, goes).load_artifact_to(**FILM, target=target)

    assert {"film"} == names_in(tmp_path)
    assert b"old" == await asyncio.to_thread(target.read_bytes)


class Dribbles(io.BytesIO):
    """Takes some bytes at a time, as raw files may."""

    def write(self, data: Any) -> int:
        """Take a part."""
        return super().write(bytes(data[:100_000]))


async def test_a_target_that_takes_little_at_a_time_gets_all(artifacts: GcsArtifactService) -> None:
    """One that takes nothing is an error."""
    await artifacts.save_artifact(**FILM, artifact=binary(LARGE))
    target = Dribbles()
    await artifacts.load_artifact_to(**FILM, target=target)

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            return 0 * len(data)

    assert LARGE == target.getvalue()
    with pytest.raises(OSError, match="accepts no more bytes"):
        await artifacts.load_artifact_to(**FILM, target=Full())


async def test_a_replaced_file_keeps_its_mode_and_its_links(
    artifacts: GcsArtifactService, tmp_path: Path
) -> None:
    """A new one has the mode of any other new file."""
    await artifacts.save_artifact(**FILM, artifact=binary(b"new"))
    kept, link, plain = tmp_path / "kept", tmp_path / "link", tmp_path / "plain"
    for path in (kept, plain):
        await asyncio.to_thread(path.write_bytes, b"old")
    kept.chmod(0o640)
    link.symlink_to(kept)
    for target in (link, tmp_path / "made"):
        await artifacts.load_artifact_to(**FILM, target=target)

    assert link.is_symlink()
    assert b"new" == await asyncio.to_thread(kept.read_bytes)
    assert 0o640 == kept.stat().st_mode & 0o777
    assert plain.stat().st_mode == (tmp_path / "made").stat().st_mode


async def test_a_target_that_is_cancelled_while_it_is_opened_leaves_nothing(tmp_path: Path) -> None:
    """Not even the file that would have replaced it."""

    async def write() -> None:
        async with opened_target(tmp_path / "film") as file:
            file.write(LARGE)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0)  # it begins, and waits for its thread
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing

    assert set() == names_in(tmp_path)


@pytest.mark.emulators
async def test_a_download_that_is_cancelled_writes_no_more(
    artifacts: GcsArtifactService, tmp_path: Path
) -> None:
    """Neither into a caller's file nor beside a path."""
    await artifacts.save_artifact(**FILM, artifact=binary(LARGE))
    begun, left = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stalls(request: requests.PreparedRequest, response: requests.Response) -> None:
        assert response is not None
        if "alt=media" in (request.url or ""):
            loop.call_soon_threadsafe(begun.set)
            assert left.wait(60)

    service = through(artifacts, stalls)
    written = io.BytesIO()
    for target in (written, tmp_path / "out"):
        begun.clear()
        loading = asyncio.create_task(service.load_artifact_to(**FILM, target=target))
        await begun.wait()
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
    left.set()
    await service.close()  # waits for the threads

    assert b"" == written.getvalue()
    assert set() == names_in(tmp_path)


async def test_a_progress_callback_that_fails_fails_nothing(
    artifacts: GcsArtifactService, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and not called again."""
    calls: list[int] = []

    def broken(done: int, whole: int) -> None:
        calls.append(done)
        raise RuntimeError(f"{done} of {whole}")

    assert 0 == await artifacts.save_artifact_file(**FILM, source=io.BytesIO(LARGE), on_progress=broken)
    assert 1 == len(calls)
    assert 1 == sum("on_progress failed" in record.message for record in caplog.records)

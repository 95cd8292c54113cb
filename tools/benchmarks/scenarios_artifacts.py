"""Measure artifacts: saves and loads by size and by how many versions there are, listings, deletions."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.adk.artifacts import BaseArtifactService
from google.cloud.storage import Blob
from google.genai import types

from gcp_adk_store import GcsArtifactService
from tools.benchmarks.lines import Line
from tools.benchmarks.scenario import Begin, Scenario, Step
from tools.benchmarks.stock import APP, USER, Stock, who
from tools.benchmarks.subjects import ADKS, FLOOR, OURS, RAW_DOWNLOAD, RAW_UPLOAD

_MIME: Final = "application/octet-stream"
_LARGE_BYTES: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class On:
    """A subject's artifacts over one line."""

    line: Line
    subject: str
    service: BaseArtifactService


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How far scenarios go."""

    bodies: dict[str, int]
    """Name of a size -> bytes."""
    versions: tuple[int, ...]
    keys: int


FULL: Final = Sizes(
    bodies={"1 KB": 1_000, "1 MB": 1_000_000, "100 MB": 100_000_000}, versions=(1, 100, 1000), keys=1000
)
QUICK: Final = Sizes(bodies={"1 KB": 1_000, "1 MB": 1_000_000}, versions=(1, 20), keys=20)

Make: TypeAlias = Callable[[On], Awaitable[Step]]
Request: TypeAlias = Callable[[], None]
"""Uses Google's client, and waits."""


def artifact_scenarios(stock: Stock, sizes: Sizes) -> Iterable[Scenario]:
    """Return all of them."""
    for name, size in sizes.bodies.items():
        yield _save_size(name, size)
        yield _load_size(stock, name, size)
    for versions in sizes.versions:
        for known in (False, True):
            yield _save_version(stock, versions, known=known)
            yield _load_latest(stock, versions, known=known)
    yield _list_keys(stock, sizes.keys)
    yield _delete(stock)


def _both(make: Make) -> dict[str, Begin]:
    async def ours(line: Line) -> Step:
        return await make(On(line, OURS, line.artifacts))

    async def adks(line: Line) -> Step:
        return await make(On(line, ADKS, line.adk_artifacts))

    return {OURS: ours, ADKS: adks}


def _part(size: int) -> types.Part:
    return types.Part.from_bytes(data=b"x" * size, mime_type=_MIME)


def _share(size: int) -> float:
    return 0.25 if size < _LARGE_BYTES else 0.02


def _upload(line: Line, size: int) -> Request:
    data, bucket = b"x" * size, line.storage.bucket(line.place.bucket)

    def upload() -> None:
        blob = bucket.blob(f"floor/{uuid.uuid4().hex}")
        blob.upload_from_string(data, content_type=_MIME, if_generation_match=0)

    return upload


def _names(line: Line, filename: str) -> Request:
    """List the names of this store's versions."""
    prefix = f"{APP}/{USER}/s/{filename}/"
    asked = {"prefix": prefix, "delimiter": "/", "fields": "items(name),nextPageToken"}

    def names() -> None:
        for page in line.storage.list_blobs(line.place.bucket, **asked).pages:
            assert page.raw_page["items"]

    return names


def _raw_upload(size: int) -> Begin:
    async def begin(line: Line) -> Step:
        upload = _upload(line, size)
        return Step(lambda: asyncio.to_thread(upload))

    return begin


def _newest(line: Line, filename: str, versions: int) -> Blob:
    return line.storage.bucket(line.place.bucket).blob(f"{APP}/{USER}/s/{filename}/{versions - 1}")


def _raw_download(stock: Stock, filename: str, *, versions: int, size: int) -> Begin:
    """Load the newest of so many versions."""

    async def begin(line: Line) -> Step:
        await stock.loadable(line, OURS, filename, versions=versions, size=size)
        blob = _newest(line, filename, versions)
        return Step(lambda: asyncio.to_thread(blob.download_as_bytes))

    return begin


def _save_size(name: str, size: int) -> Scenario:
    """Save a new version of an artifact that this process saved before."""

    async def make(on: On) -> Step:
        artifact = {**who("s"), "filename": uuid.uuid4().hex}
        await on.service.save_artifact(**artifact, artifact=_part(1))
        part = _part(size)
        return Step(lambda: on.service.save_artifact(**artifact, artifact=part))

    return Scenario(
        name=f"save {name}",
        subjects={**_both(make), RAW_UPLOAD: _raw_upload(size)},
        share=_share(size),
        at_least=3 if size < _LARGE_BYTES else 2,
        large=size >= _LARGE_BYTES,
    )


def _load_size(stock: Stock, name: str, size: int) -> Scenario:
    filename = f"body-{size}"

    async def make(on: On) -> Step:
        await stock.loadable(on.line, on.subject, filename, versions=1, size=size)
        return Step(lambda: on.service.load_artifact(**who("s"), filename=filename, version=0))

    return Scenario(
        name=f"load {name} by number",
        subjects={**_both(make), RAW_DOWNLOAD: _raw_download(stock, filename, versions=1, size=size)},
        share=_share(size),
        at_least=3 if size < _LARGE_BYTES else 2,
        large=size >= _LARGE_BYTES,
    )


def _save_version(stock: Stock, versions: int, *, known: bool) -> Scenario:
    """Save one more version, by a process that met the artifact before or by one that did not."""
    filename = f"saved-{versions}-{_known(known)}"

    async def make(on: On) -> Step:
        await stock.versions(on.subject, filename, versions)
        artifact: dict[str, Any] = {**who("s"), "filename": filename}
        part = _part(1000)
        return await _asked(on, lambda asked: asked.save_artifact(**artifact, artifact=part), known=known)

    async def floor(line: Line) -> Step:
        names, upload = _names(line, filename), _upload(line, 1000)

        def one_after_the_other() -> None:
            names()
            upload()

        return Step(lambda: asyncio.to_thread(one_after_the_other))

    floors = {RAW_UPLOAD: _raw_upload(1000)} if known else {RAW_UPLOAD: _raw_upload(1000), FLOOR: floor}
    return Scenario(
        name=f"save at {versions:,} versions, {_known(known)}",
        subjects={**_both(make), **floors},
        share=0.25 if versions < 1000 else 0.1,  # noqa: PLR2004  # ADK's lists them each time
    )


def _load_latest(stock: Stock, versions: int, *, known: bool) -> Scenario:
    filename = f"loaded-{versions}"

    async def make(on: On) -> Step:
        await stock.loadable(on.line, on.subject, filename, versions=versions, size=1000)
        artifact: dict[str, Any] = {**who("s"), "filename": filename}
        return await _asked(on, lambda asked: asked.load_artifact(**artifact), known=known)

    download = _raw_download(stock, filename, versions=versions, size=1000)

    async def floor(line: Line) -> Step:
        """Load the body beside its metadata, which no answer with the body has."""
        await stock.loadable(line, OURS, filename, versions=versions, size=1000)
        names, body, metadata = _names(line, filename), *(_newest(line, filename, versions) for _ in range(2))

        async def work() -> None:
            await asyncio.to_thread(names)
            await asyncio.gather(
                asyncio.to_thread(body.download_as_bytes), asyncio.to_thread(metadata.reload)
            )

        return Step(work)

    floors = {RAW_DOWNLOAD: download} if known else {RAW_DOWNLOAD: download, FLOOR: floor}
    return Scenario(
        name=f"load the latest of {versions:,} versions, {_known(known)}",
        subjects={**_both(make), **floors},
        share=0.1,
    )


def _known(known: bool) -> str:  # noqa: FBT001  # the one thing that it says
    return "known" if known else "unknown"


async def _asked(on: On, ask: Callable[[BaseArtifactService], Awaitable[object]], *, known: bool) -> Step:
    """Ask a service that met the artifact a moment ago, or each time one that never did."""
    asked = on.service

    async def work() -> None:
        await ask(asked)

    async def forget() -> None:
        nonlocal asked
        if isinstance(asked, GcsArtifactService):
            if asked is not on.service:
                await asked.close()
            asked = GcsArtifactService(on.line.place.bucket, client=on.line.storage)
            # Its threads start, as those of whoever is beside it have.
            other = {**who("s"), "filename": "none"}
            await asyncio.gather(asked.load_artifact(**other), asked.load_artifact(**other))

    if known:
        await work()
    return Step(work, None if known else forget)


def _list_keys(stock: Stock, keys: int) -> Scenario:
    async def make(on: On) -> Step:
        await stock.keys(on.subject, keys)

        async def work() -> None:
            found = await on.service.list_artifact_keys(app_name=APP, user_id=USER, session_id="keys")
            assert len(found) == keys

        return Step(work)

    return Scenario(name=f"list {keys:,} keys", subjects=_both(make), share=0.1)


def _delete(stock: Stock) -> Scenario:
    async def make(on: On) -> Step:
        artifact: dict[str, Any] = who("s")

        async def before() -> None:
            artifact["filename"] = uuid.uuid4().hex
            await stock.versions(on.subject, artifact["filename"], 10)

        return Step(lambda: on.service.delete_artifact(**artifact), before)

    return Scenario(name="delete an artifact of 10 versions", subjects=_both(make), share=0.1)

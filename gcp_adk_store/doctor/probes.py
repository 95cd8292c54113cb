"""Write, read, list and delete one document and one object outside of all data of a store."""

import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.documents import Documents
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.cloud.storage.objects import Objects
from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.codec.writes import Delete, Page, Write
from gcp_adk_store.doctor.facts import Probe
from gcp_adk_store.errors import OutcomeUnknownError, StoreError
from gcp_adk_store.ports.refusals import ObjectExistsError, RefusedError
from gcp_adk_store.settings import ArtifactLimits

_FOLDER = "adk-store-doctor"
_DIFFERS = "what was read is not what was written"
_NOT_LISTED = "what was written is not in the listing"


async def probe_document(documents: Documents, prefix: str, *, samples: int) -> Probe:
    """Write a document below ``{prefix}_doctor``, read it *samples* times, and always remove it."""
    collection = f"{prefix}_doctor"
    path = f"{collection}/{secrets.token_hex(16)}"
    song = secrets.token_hex(16)

    async def read() -> bool:
        (found,) = await documents.get([path])
        return found is not None and found.fields.get("song") == song

    async def write() -> None:
        await documents.commit([Write(path=path, fields={"song": ""})], repeatable_when_unanswered=True)

    async def live() -> str:
        await documents.commit(
            [Write(path=path, fields={"song": song}, mask=[("song",)])], repeatable_when_unanswered=True
        )
        name = path.rpartition("/")[2]
        page = Page(field=None, descending=False, limit=1, after=(0.0, f"{collection}/{name[:-1]}"))
        listed = await documents.query("", collection, page=page)
        return "" if [path] == [found.path for found in listed] else _NOT_LISTED

    async def remove() -> bool:
        await documents.commit([Delete(path=path)], repeatable_when_unanswered=True)
        return (await documents.get([path])) == [None]

    probe = await _probe(path, write, live, read, remove, samples=samples)
    clock = documents.clock
    return replace(probe, clock_ahead_s=clock.ahead_s if clock.is_set else None)


def object_calls(
    bucket: str, *, project: str, credentials: StoreCredentials | None, deadline_s: float
) -> StorageCalls:
    """Return calls to *bucket* for :func:`probe_object`.

    They run one at a time: an abandoned request continues, and a concurrent deletion could overtake it.
    """
    limits = ArtifactLimits(deadline_s=deadline_s, request_timeout_s=deadline_s, max_workers=1)
    return StorageCalls(bucket, project=project, client=None, credentials=credentials, limits=limits)


async def probe_object(objects: Objects, *, samples: int) -> Probe:
    """Write an object below ``adk-store-doctor/``, read it *samples* times, and always remove it."""
    name = f"{_FOLDER}/{secrets.token_hex(16)}"
    song = secrets.token_bytes(16)

    async def read() -> bool:
        found = await objects.read(name, generation=None)
        return found is not None and found[0] == song

    async def write() -> None:
        upload = ObjectFields(data=song, content_type="application/octet-stream", metadata={})
        with suppress(ObjectExistsError):  # from an unanswered request of this probe: the name is random
            await objects.create(name, upload)

    async def live() -> str:
        await objects.mark(name, {"probe": "yes"})
        return "" if [name] == await objects.names(name, delimiter=None) else _NOT_LISTED

    async def remove() -> bool:
        await objects.delete(name, generation=None)
        return await objects.info(name) is None

    return await _probe(name, write, live, read, remove, samples=samples)


async def _probe(
    name: str,
    write: Callable[[], Awaitable[None]],
    live: Callable[[], Awaitable[str]],
    read: Callable[[], Awaitable[bool]],
    remove: Callable[[], Awaitable[bool]],
    *,
    samples: int,
) -> Probe:
    taken_ms: list[float] = []
    failure = left = ""
    may_be_there = True
    try:
        try:
            await write()
        except OutcomeUnknownError:
            raise
        except (StoreError, RefusedError):
            may_be_there = False
            raise
        failure = await live()
        for _ in range(samples):
            begun = time.perf_counter()
            same = await read()
            taken_ms.append((time.perf_counter() - begun) * 1000)
            failure = failure or ("" if same else _DIFFERS)
    except (StoreError, RefusedError) as exc:
        failure = _told(exc)
    finally:
        # Also after a failed write, which may have arrived.
        try:
            gone = await remove()
        except (StoreError, RefusedError) as exc:
            gone, failure = False, failure or _told(exc)
        left = name if may_be_there and not gone else ""
    return Probe(samples_ms=taken_ms, failure=failure, left=left)


def _told(exc: Exception) -> str:
    return str(exc) or type(exc).__name__

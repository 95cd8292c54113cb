"""Write, read, list and delete one document and one object outside of all data of a store."""

import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.codec.writes import Delete, Page, Write
from gcp_adk_store.doctor.findings import Probe
from gcp_adk_store.errors import OutcomeUnknownError, StoreError
from gcp_adk_store.kernel.ports import Documents, ObjectExistsError, Objects, RefusedError

_DIFFERS = "what was read is not what was written"
_NOT_LISTED = "what was written is not in the listing"


async def probe_document(documents: Documents, prefix: str, *, samples: int) -> Probe:
    """Write a document below ``{prefix}_doctor``, read it *samples* times, and always remove it."""
    collection = f"{prefix}_doctor"
    path = f"{collection}/{secrets.token_hex(16)}"
    content = secrets.token_hex(16)

    async def read() -> bool:
        (found,) = await documents.get([path])
        return found is not None and found.fields.get("content") == content

    async def write() -> None:
        await documents.commit([Write(path=path, fields={"content": ""})])

    async def change() -> str:
        await documents.commit([Write(path=path, fields={"content": content}, mask=[("content",)])])
        name = path.rpartition("/")[2]
        page = Page(field=None, descending=False, limit=1, after=(0.0, f"{collection}/{name[:-1]}"))
        listed = await documents.query("", collection, page=page)
        return "" if [path] == [found.path for found in listed] else _NOT_LISTED

    async def remove() -> bool:
        await documents.commit([Delete(path=path)])
        return (await documents.get([path])) == [None]

    return await _probe(path, write, change, read, remove, samples=samples)


async def probe_object(objects: Objects, *, samples: int) -> Probe:
    """Write an object below ``adk-store-doctor/``, read it *samples* times, and always remove it."""
    name = f"adk-store-doctor/{secrets.token_hex(16)}"
    content = secrets.token_bytes(16)

    async def read() -> bool:
        found = await objects.read(name, generation=None)
        return found is not None and found[0] == content

    async def write() -> None:
        upload = ObjectFields(data=content, content_type="application/octet-stream", metadata={})
        with suppress(ObjectExistsError):  # from an unanswered request of this probe: the name is random
            await objects.create(name, upload)

    async def change() -> str:
        await objects.mark(name, {"probe": "yes"})
        return "" if [name] == await objects.names(name, delimiter=None) else _NOT_LISTED

    async def remove() -> bool:
        await objects.delete(name, generation=None)
        return await objects.info(name) is None

    return await _probe(name, write, change, read, remove, samples=samples)


async def _probe(
    name: str,
    write: Callable[[], Awaitable[None]],
    change: Callable[[], Awaitable[str]],
    read: Callable[[], Awaitable[bool]],
    remove: Callable[[], Awaitable[bool]],
    *,
    samples: int,
) -> Probe:
    taken_ms: list[float] = []
    failure, written = "", False
    try:
        await write()
        written = True
        failure = await change()
        for _ in range(samples):
            begun = time.perf_counter()
            same = await read()
            taken_ms.append((time.perf_counter() - begun) * 1000)
            failure = failure or ("" if same else _DIFFERS)
    except (StoreError, RefusedError) as exc:
        written = written or isinstance(exc, OutcomeUnknownError)
        failure = _described(exc)
    finally:
        # Also after a failed write, which may have arrived.
        try:
            gone = await remove()
        except (StoreError, RefusedError) as exc:
            gone, failure = False, failure or _described(exc)
    return Probe(samples_ms=taken_ms, failure=failure, left=name if written and not gone else "")


def _described(exc: Exception) -> str:
    return str(exc) or type(exc).__name__

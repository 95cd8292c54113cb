"""Read and write large content of sessions apart from their documents.

The name of a payload is its digest, so a repeated write changes nothing. A read compares the bytes with the
digest.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

from google.adk.platform import time as platform_time

from gcp_adk_store.codec.documents import OWNER, PUT_TIME, Layout, chunk_owner, object_owner, owner_digest
from gcp_adk_store.codec.objects import DEFAULT_CONTENT_TYPE, SEALED, ObjectFields, ScannedObject
from gcp_adk_store.codec.stored import read_chunk
from gcp_adk_store.codec.writes import EVERY_NAME, Delete, Document, Filter, NameRange, Page, kept_until
from gcp_adk_store.errors import NotProvisionedError, PayloadMissingError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.kernel.ports import (
    Documents,
    ObjectExistsError,
    ObjectGoneError,
    Objects,
    Reads,
    remove_interrupted,
)
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, commit_all, commit_once, transact
from gcp_adk_store.model.payloads import (
    Payload,
    PayloadOwner,
    PayloadPlace,
    PayloadRef,
    StoredPayload,
    Versions,
)

_SCANNED_AT_ONCE: Final = 1000
"""Documents of one page of a scan: names, or small notes."""


async def pages(
    documents: Reads,
    collection: str,
    *,
    parent: str = "",
    all_descendants: bool = True,
    fields: Sequence[str] | None = None,
    limit: int = _SCANNED_AT_ONCE,
    within: NameRange = EVERY_NAME,
    filters: Sequence[Filter] = (),
) -> AsyncIterator[tuple[list[Document], bool]]:
    """Yield all documents of a *collection*, by name: each page, and whether it is the last.

    These are those below *parent*, or of the whole database; of any depth, or directly below it. A page has
    *limit* documents at most. *within* bounds their names, *filters* their fields.
    """
    page = Page(field=None, descending=False, limit=limit, after=None, filters=filters, within=within)
    while True:
        found = await documents.query(
            parent, collection, all_descendants=all_descendants, fields=fields, page=page
        )
        is_last = len(found) < page.limit
        yield found, is_last
        if is_last:
            return
        page = replace(page, after=(0.0, found[-1].path))


async def renew(
    documents: Documents, layout: Layout, read: Callable[[], Awaitable[Sequence[Document]]], *, parts_at: int
) -> None:
    """Keep what *read* returns until *parts_at* at least.

    Each write requires the document as it was read. If another call renewed or removed it, this one reads
    again and leaves it alone. A document that is kept long enough already costs no write.

    Raises:
        UnavailableError: others changed it until the deadline.
    """

    def decide(found: Sequence[Document], _: Attempts) -> Decision[None]:
        return Commit(layout.renewals(found, parts_at=parts_at), lambda _: None, in_parts=True)

    await transact(documents, read, decide)


_CHUNKS_PER_COMMIT: Final = 3
"""Keeps commits below 4 MiB, beyond which the emulator hangs its client; production allows 10 MiB."""


class BucketPayloads:
    """Payloads as objects ``{prefix}-payloads/{owner}/{life}/{sha256}``.

    A digest stands for the owner's path: ids can be longer than an object's name may be.
    """

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix

    async def put(self, owner: PayloadOwner, payload: Payload, *, parts_at: int | None) -> None:
        """Write *payload* to be kept until *parts_at* at least; durable on return, harmless when repeated."""
        name = f"{self.folder(owner)}{payload.ref.sha256}"
        time = None if parts_at is None else kept_until(parts_at)
        upload = ObjectFields(
            data=payload.data,
            content_type=DEFAULT_CONTENT_TYPE,
            metadata={OWNER: owner.path},
            custom_time=time,
        )
        # The same content may be there already, perhaps since an append that failed: a collector that found
        # it then must not remove it now.
        marks = {OWNER: owner.path, PUT_TIME: f"{platform_time.get_time()}"}
        try:
            await self._objects.create(name, upload, marks=marks)
        except ObjectExistsError:
            if time is not None:
                await self._objects.keep_until(name, time)

    async def get(self, owner: PayloadOwner, ref: PayloadRef) -> bytes | None:
        """Return the bytes that were put, unchecked; ``None`` if they are gone.

        Raises:
            PayloadMissingError: they do not match the object's checksum.
        """
        try:
            read = await self._objects.read(f"{self.folder(owner)}{ref.sha256}", generation=None)
        except StoredDataError as exc:
            raise _unreadable(owner, ref, "damaged") from exc
        return None if read is None else read[0]

    async def copy(
        self,
        source: PayloadOwner,
        target: PayloadOwner,
        refs: Collection[PayloadRef],
        *,
        parts_at: int | None,
    ) -> set[PayloadRef]:
        """Copy payloads of *source* to *target*, within the bucket; return those that are gone.

        *target* is a life of its own that nothing else writes to. Takes 1 listing of the payloads of
        *source*, and 1 request a payload.
        """
        found = {
            stored.name: stored for stored in await self._objects.infos(self.folder(source), delimiter=None)
        }
        fields = ObjectFields(
            content_type=DEFAULT_CONTENT_TYPE,
            metadata={OWNER: target.path},
            custom_time=None if parts_at is None else kept_until(parts_at),
        )
        gone: set[PayloadRef] = set()

        async def copy(ref: PayloadRef) -> None:
            stored = found.get(f"{self.folder(source)}{ref.sha256}")
            if stored is None:
                gone.add(ref)
                return
            try:
                await self._objects.copy(stored, f"{self.folder(target)}{ref.sha256}", fields)
            except ObjectGoneError:
                gone.add(ref)
            except ObjectExistsError:
                pass  # only the answer to an earlier attempt was lost

        await gather(copy(ref) for ref in refs)
        return gone

    async def renew_all(self, owner: PayloadOwner, *, parts_at: int) -> None:
        """Keep all payloads of *owner* until *parts_at* at least; harmless when repeated."""
        await self._objects.keep_until(self.folder(owner), kept_until(parts_at))

    async def remove_all(self, owner: PayloadOwner) -> None:
        """Remove all payloads of *owner*, in parallel; harmless when repeated."""
        names = await self._objects.names(self.folder(owner), delimiter=None)
        await gather(self._objects.delete(name, generation=None) for name in names)

    async def scan(self) -> AsyncIterator[Sequence[StoredPayload]]:
        """Yield the payloads of all owners, a page at a time."""
        async for objects in self._objects.scan(f"{self._prefix}-payloads/"):
            yield [_scanned(found) for found in objects]

    async def of(self, owner: PayloadOwner) -> list[StoredPayload]:
        """Return the payloads of *owner*."""
        pages_of = self._objects.scan(self.folder(owner))
        return [_scanned(found) async for objects in pages_of for found in objects]

    async def remove(self, payloads: Sequence[StoredPayload]) -> None:
        """Remove *payloads*, also those that were put again; harmless when repeated."""
        await gather(self._objects.delete(payload.name, generation=None) for payload in payloads)

    async def remove_unchanged(self, versions: Versions) -> bool:
        """Remove a payload unless it was put again since the scan; return whether it is gone."""
        ((name, version),) = versions
        return await self._objects.delete_unchanged(name, version)

    def folder(self, owner: PayloadOwner) -> str:
        """Return the start of the names of the objects of *owner*."""
        return f"{self._prefix}-payloads/{owner_digest(owner.path)}/{owner.life}/"


class ChunkPayloads:
    """Payloads as documents of at most 900 KiB each, below the one that refers to them."""

    def __init__(self, documents: Documents, layout: Layout) -> None:
        self._documents = documents
        self._layout = layout

    async def put(self, owner: PayloadOwner, payload: Payload, *, parts_at: int | None) -> None:
        """As in a bucket, a few chunks in each commit."""
        writes = self._layout.put_chunks(owner, payload, now=platform_time.get_time(), parts_at=parts_at)
        for start in range(0, len(writes), _CHUNKS_PER_COMMIT):
            some = writes[start : start + _CHUNKS_PER_COMMIT]
            if await commit_once(self._documents, some) is None:
                raise NotProvisionedError.of_database()

    async def get(self, owner: PayloadOwner, ref: PayloadRef) -> bytes | None:
        """As in a bucket."""
        documents = await self._documents.get(self._layout.chunks(owner, ref))
        bodies = [read_chunk(document) for document in documents if document is not None]
        return b"".join(bodies) if len(bodies) == len(documents) else None

    async def copy(
        self,
        source: PayloadOwner,
        target: PayloadOwner,
        refs: Collection[PayloadRef],
        *,
        parts_at: int | None,
    ) -> set[PayloadRef]:
        """As in a bucket, but read and written again: Firestore copies nothing by itself."""
        gone: set[PayloadRef] = set()

        async def copy(ref: PayloadRef) -> None:
            data = await self.get(source, ref)
            if data is None or not ref.fits(data):
                gone.add(ref)
            else:
                await self.put(target, Payload(ref=ref, data=data), parts_at=parts_at)

        await gather(copy(ref) for ref in refs)
        return gone

    async def renew_all(self, owner: PayloadOwner, *, parts_at: int) -> None:
        """As in a bucket."""
        await renew(
            self._documents, self._layout, lambda: self._chunks(owner, "expire_at"), parts_at=parts_at
        )

    async def remove_all(self, owner: PayloadOwner) -> None:
        """As in a bucket, in commits of several chunks."""
        chunks = await self._chunks(owner, "__name__")
        await commit_all(self._documents, [Delete(path=chunk.path) for chunk in chunks])

    async def scan(self) -> AsyncIterator[Sequence[StoredPayload]]:
        """As in a bucket, by the paths of the chunks alone."""
        rest: list[Document] = []
        collection = self._layout.chunks_collection
        async for chunks, is_last in pages(self._documents, collection, fields=("__name__",)):
            groups = _by_payload([*rest, *chunks])
            rest = [] if is_last else groups.pop()[1]  # a payload may go on in the next page
            yield [_joined(*group) for group in groups]

    async def of(self, owner: PayloadOwner) -> list[StoredPayload]:
        """As in a bucket, by the paths of the chunks alone."""
        return [_joined(*group) for group in _by_payload(await self._chunks(owner, "__name__"))]

    async def remove_unchanged(self, versions: Versions) -> bool:
        """As in a bucket, all chunks in one commit."""
        deletes = [Delete(path=path, must=update_time) for path, update_time in versions]
        paths = [path for path, _ in versions]

        def decide(found: Sequence[Document | None], attempts: Attempts) -> Decision[bool]:
            if attempts.refused:  # it was put again, or removed, perhaps by an earlier attempt of this call
                return Done(not any(found))
            return Commit(deletes, lambda _: True)

        look = partial(self._documents.get, paths, fields=("__name__",))
        unread: tuple[Sequence[Document | None]] = ((),)
        return await transact(self._documents, look, decide, known=unread, advice="call it again")

    async def _chunks(self, owner: PayloadOwner, field: str) -> list[Document]:
        found = await self._documents.query(owner.path, self._layout.chunks_collection, fields=(field,))
        mine = self._layout.chunks_of(owner)
        return [chunk for chunk in found if chunk.path.startswith(mine)]


class Payloads:
    """Payloads of both places: new ones go to the bucket if there is one."""

    def __init__(self, documents: Documents, objects: Objects | None, layout: Layout) -> None:
        self.objects: Final = objects
        """The objects of the bucket, ``None`` without one."""
        self._layout = layout
        self._chunks = ChunkPayloads(documents, layout)
        self.in_bucket: Final = None if objects is None else BucketPayloads(objects, layout.prefix)
        """The payloads in the bucket, ``None`` without one."""

    def over(self, documents: Documents) -> "Payloads":
        """Return the payloads of the same bucket, and of other *documents*."""
        return Payloads(documents, self.objects, self._layout)

    @property
    def place(self) -> PayloadPlace:
        """The place of new payloads."""
        return PayloadPlace.CHUNKS if self.in_bucket is None else PayloadPlace.BUCKET

    def at(self, place: PayloadPlace) -> BucketPayloads | ChunkPayloads:
        """Return the payloads of one place.

        Raises:
            StoredDataError: they are in a bucket that was not given.
        """
        if place is PayloadPlace.CHUNKS:
            return self._chunks
        if self.in_bucket is None:
            raise StoredDataError("payloads lie in a bucket; give the session service its bucket=")
        return self.in_bucket

    async def put(self, owner: PayloadOwner, payloads: Sequence[Payload], *, parts_at: int | None) -> None:
        """Write *payloads*, side by side, to be kept until *parts_at* at least; durable on return."""
        await gather(
            self.at(payload.ref.place).put(owner, payload, parts_at=parts_at) for payload in payloads
        )
        for payload in payloads:
            telemetry.count_spilled(payload.ref.size, payload.ref.place.value)

    async def copy(
        self,
        source: PayloadOwner,
        target: PayloadOwner,
        refs: AbstractSet[PayloadRef],
        *,
        parts_at: int | None,
        skip_missing: bool,
    ) -> None:
        """Copy payloads, side by side, to be kept until *parts_at* at least; durable on return.

        Raises:
            PayloadMissingError: one is gone or damaged, and *skip_missing* is false.
            StoredDataError: they are in a bucket that was not given.
        """
        ordered = sorted(refs, key=lambda ref: ref.sha256)
        for place in PayloadPlace:
            mine = [ref for ref in ordered if ref.place is place]
            gone = await self.at(place).copy(source, target, mine, parts_at=parts_at) if mine else ()
            if gone and not skip_missing:
                raise _unreadable(source, min(gone, key=lambda ref: ref.sha256), "missing or damaged")

    async def get(self, owner: PayloadOwner, ref: PayloadRef) -> bytes:
        """Return the bytes that *ref* names.

        Raises:
            PayloadMissingError: they are gone or damaged.
            StoredDataError: they are in a bucket that was not given.
        """
        data = await self.at(ref.place).get(owner, ref)
        if data is None or not ref.fits(data):
            raise _unreadable(owner, ref, "missing" if data is None else "damaged")
        return data

    async def found(self, owner: PayloadOwner, refs: Collection[PayloadRef]) -> list[StoredPayload]:
        """Return those of *refs* that *owner* has, as they are now."""
        there: list[StoredPayload] = []
        for place in {ref.place for ref in refs}:
            there += await self.at(place).of(owner)
        wanted = {(ref.place, ref.sha256) for ref in refs}
        return [payload for payload in there if (payload.place, payload.sha256) in wanted]

    async def scan(self) -> AsyncIterator[Sequence[StoredPayload]]:
        """Yield the payloads of all owners in both places, a page at a time."""
        for place in (self._chunks, self.in_bucket):
            if place is not None:
                async for found in place.scan():
                    yield found

    async def remove_interrupted(self) -> None:
        """Remove the files of a folder that a killed process was about to remove, or to record."""
        if self.objects is not None:
            await remove_interrupted(self.objects)

    async def scrub(self) -> None:
        """Leave no file in a folder that no object has, and make all removals durable; as with documents."""
        if self.objects is not None:
            await self.objects.remove_left(await self.objects.left(every=True))

    async def close(self) -> None:
        """Close what was opened for the bucket."""
        if self.objects is not None:
            await self.objects.close()


def _unreadable(owner: PayloadOwner, ref: PayloadRef, how: str) -> PayloadMissingError:
    return PayloadMissingError(
        f"payload {ref} of {owner.path} is {how}; restore it, or read events without it: "
        'on_missing_payload="placeholder"'
    )


def _by_payload(chunks: Sequence[Document]) -> list[tuple[tuple[PayloadOwner, str] | None, list[Document]]]:
    """Return *chunks*, which are in the order of their names, payload by payload."""
    grouped = groupby(chunks, key=lambda chunk: chunk_owner(chunk.path))
    return [(whose, list(group)) for whose, group in grouped]


def _joined(whose: tuple[PayloadOwner, str] | None, chunks: Sequence[Document]) -> StoredPayload:
    return StoredPayload(
        owner=whose and whose[0],
        sha256=whose[1] if whose else "",
        place=PayloadPlace.CHUNKS,
        name=chunks[0].path,
        put_at=max(float(chunk.update_time) for chunk in chunks),
        size=None,
        versions=[(chunk.path, chunk.update_time) for chunk in chunks],
    )


def _scanned(found: ScannedObject) -> StoredPayload:
    whose = object_owner(found.name, found.metadata.get(OWNER))
    return StoredPayload(
        owner=whose and whose[0],
        sha256=whose[1] if whose else "",
        place=PayloadPlace.BUCKET,
        name=found.name,
        put_at=found.update_time,
        size=found.size,
        versions=[(found.name, found.version)],
        is_encrypted=SEALED in found.metadata,
    )

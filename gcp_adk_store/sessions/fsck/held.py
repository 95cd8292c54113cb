"""Read what is stored at and below the documents of apps, users and sessions, one owner at a time."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.memory_documents import MemoryLayout
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.kernel.ports import Reads
from gcp_adk_store.sessions.fsck.parts import CHUNK_FIELDS
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.restore.format import restores_collection

_WHOLE_AT_ONCE: Final = 16
"""Documents of one page that are read whole: 16 MiB at most."""
_LISTED_AT_ONCE: Final = 1000
"""Documents of one page that are read with few fields."""


@dataclass(slots=True)
class Held:
    """What is stored at and below the document of one app, user or session, or the head of memories."""

    document: Document | None = None
    segments: list[Document] = field(default_factory=list)
    """Its segments, without their bodies."""
    notes: list[Document] = field(default_factory=list)
    """Its notes of deletions and forks."""
    restores: list[Document] = field(default_factory=list)
    """Its notes of restores."""
    chunks: list[Document] = field(default_factory=list)
    """Its chunks, without their bodies."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """One query: a collection, what is read of its documents, and where they belong in :class:`Held`."""

    collection: str
    kind: str
    fields: Sequence[str] | None
    limit: int


class Holdings:
    """What is stored below one prefix of a database, owner by owner."""

    def __init__(self, documents: Reads, layout: Layout) -> None:
        self._documents = documents
        self._layout = layout
        self._memories = MemoryLayout(layout)
        self._parts = (
            # Notes come before what they name, which the commit that removes them removes.
            _Listing(layout.deletions_collection, "notes", None, _LISTED_AT_ONCE),
            _Listing(restores_collection(layout), "restores", None, _WHOLE_AT_ONCE),
            _Listing(layout.segments_collection, "segments", ("expire_at",), _LISTED_AT_ONCE),
            _Listing(layout.chunks_collection, "chunks", CHUNK_FIELDS, _LISTED_AT_ONCE),
        )

    async def of(self, path: str) -> Held:
        """Return what is stored at and below one document.

        The document is read first: parts that are read later are never older than it.
        """
        held = Held()
        (held.document,) = await self._documents.get([path])
        for listing in self._parts:
            async for found, _ in pages(
                self._documents,
                listing.collection,
                parent=path,
                all_descendants=False,
                fields=listing.fields,
            ):
                getattr(held, listing.kind).extend(found)
        return held

    async def within(self, start: str) -> AsyncIterator[tuple[str, Held]]:
        """Yield all owners at and below the path *start*, by their paths, with what is stored of each.

        The queries go forward side by side, in the order of names, so that memory holds a page of each and
        the names of one owner. What writers do meanwhile may show in one of them and not in another.
        """
        layout = self._layout
        levels = [layout.apps_collection, layout.users_collection, layout.sessions_collection]
        depth = len(start.split("/")) // 2 if start else 0
        owners = [*levels[depth:], self._memories.collection] if depth < len(levels) else []
        listings = [*(_Listing(each, "document", None, _WHOLE_AT_ONCE) for each in owners), *self._parts]
        streams = [self._itself(start)] if start else []
        streams += [self._all(start, listing) for listing in listings]
        heads: list[tuple[tuple[bytes, ...], int, _Head]] = []
        """The next document of each query, by the order of their owners and of the queries."""

        async def move(number: int) -> None:
            if (head := await anext(streams[number], None)) is not None:
                heappush(heads, (head.order, number, head))

        for number in range(len(streams)):
            await move(number)
        while heads:
            (first, _, head), held = heads[0], Held()
            path = head.owner
            while heads and heads[0][0] == first:
                _, number, head = heappop(heads)
                if head.kind == "document":
                    held.document = head.document
                else:
                    getattr(held, head.kind).append(head.document)
                await move(number)
            yield path, held

    async def _itself(self, path: str) -> AsyncIterator["_Head"]:
        (document,) = await self._documents.get([path])
        if document is not None:
            yield _Head(document, "document")

    async def _all(self, parent: str, listing: _Listing) -> AsyncIterator["_Head"]:
        async for found, _ in pages(
            self._documents,
            listing.collection,
            parent=parent,
            all_descendants=listing.collection != self._layout.apps_collection,
            fields=listing.fields,
            limit=listing.limit,
        ):
            for document in found:
                yield _Head(document, listing.kind)


class _Head(NamedTuple):
    """The next document of a query, and where it belongs in :class:`Held`."""

    document: Document
    kind: str

    @property
    def owner(self) -> str:
        path = self.document.path
        return path if self.kind == "document" else path.rsplit("/", 2)[0]

    @property
    def order(self) -> tuple[bytes, ...]:
        """Sorts as Firestore sorts the owner's path."""
        return tuple(name.encode() for name in self.owner.split("/"))

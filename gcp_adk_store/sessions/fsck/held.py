"""Read what is stored at and below the documents of apps, users and sessions, one owner at a time."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

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
        streams = [_Stream(self._itself(start))] if start else []
        levels = [
            self._layout.apps_collection,
            self._layout.users_collection,
            self._layout.sessions_collection,
        ]
        depth = 0 if not start else len(start.split("/")) // 2
        for collection in levels[depth:]:
            listing = _Listing(collection, "document", None, _WHOLE_AT_ONCE)
            streams.append(_Stream(self._all(start, listing, all_descendants=collection != levels[0])))
        if depth < len(levels):
            heads_of_memories = _Listing(self._memories.collection, "document", None, _WHOLE_AT_ONCE)
            streams.append(_Stream(self._all(start, heads_of_memories, all_descendants=True)))
        streams += [_Stream(self._all(start, listing, all_descendants=True)) for listing in self._parts]
        for stream in streams:
            await stream.move()
        while heads := [stream.head for stream in streams if stream.head is not None]:
            first = min(head.order for head in heads)
            held = Held()
            path = ""
            for stream in streams:
                while (head := stream.head) is not None and head.order == first:
                    path = head.owner
                    if head.kind == "document":
                        held.document = head.document
                    else:
                        getattr(held, head.kind).append(head.document)
                    await stream.move()
            yield path, held

    async def _itself(self, path: str) -> AsyncIterator["_Head"]:
        (document,) = await self._documents.get([path])
        if document is not None:
            yield _Head.of(document, "document")

    async def _all(self, parent: str, listing: _Listing, *, all_descendants: bool) -> AsyncIterator["_Head"]:
        async for found, _ in pages(
            self._documents,
            listing.collection,
            parent=parent,
            all_descendants=all_descendants,
            fields=listing.fields,
            limit=listing.limit,
        ):
            for document in found:
                yield _Head.of(document, listing.kind)


@dataclass(frozen=True, slots=True)
class _Head:
    """The next document of a query."""

    order: tuple[bytes, ...]
    """Sorts as Firestore sorts the owner's path."""
    owner: str
    kind: str
    document: Document

    @classmethod
    def of(cls, document: Document, kind: str) -> "_Head":
        owner = document.path if kind == "document" else document.path.rsplit("/", 2)[0]
        return cls(tuple(name.encode() for name in owner.split("/")), owner, kind, document)


class _Stream:
    """A query that shows its next document."""

    def __init__(self, found: AsyncIterator[_Head]) -> None:
        self._found = found
        self.head: _Head | None = None

    async def move(self) -> None:
        """Go to the next document."""
        self.head = await anext(self._found, None)

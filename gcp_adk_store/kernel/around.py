"""Stand around another backend's documents: each method passes on, and a subclass replaces some."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.kernel.ports import Clock, Documents, Reads

Inner = TypeVar("Inner", bound=Reads)


class ReadsAround(Generic[Inner]):
    """The reads of *inner*."""

    def __init__(self, inner: Inner) -> None:
        self.inner = inner
        """What this stands around."""

    @property
    def clock(self) -> Clock:
        """As the port."""
        return self.inner.clock

    @property
    def deadline_s(self) -> float:
        """As the port."""
        return self.inner.deadline_s

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port."""
        return await self.inner.get(paths, fields=fields)

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """As the port."""
        return await self.inner.query(
            parent, collection, fields=fields, all_descendants=all_descendants, page=page
        )


class DocumentsAround(ReadsAround[Documents]):
    """The documents of *inner*, which :meth:`close` closes."""

    async def commit(
        self, writes: Sequence[Write | Delete], *, repeatable_when_unanswered: bool
    ) -> list[Written]:
        """As the port."""
        return await self.inner.commit(writes, repeatable_when_unanswered=repeatable_when_unanswered)

    def snapshot(self) -> AbstractAsyncContextManager[Reads]:
        """As the port."""
        return self.inner.snapshot()

    async def split_points(self, collection: str, *, most: int) -> list[str] | None:
        """As the port."""
        return await self.inner.split_points(collection, most=most)

    def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port."""
        return self.inner.watch(path)

    async def scrub(self) -> None:
        """As the port."""
        await self.inner.scrub()

    async def close(self) -> None:
        """As the port."""
        await self.inner.close()

"""Extend the lives of sessions with a time to live, and of their parts."""

from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.model.sessions import Marker, StoredSession
from gcp_adk_store.sessions.read.payloads import renew
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage


class Lifetimes:
    """Extends the lives of the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader

    async def new_part(self, key: SessionKey, base: Marker) -> int | None:
        """Return when a part that is written now expires, in Unix seconds; ``None`` without an expiry.

        Raises:
            SessionMissingError: the session has expired.
        """
        if base.expiry is None:
            return None
        await self._require_alive(key, base)
        return base.expiry.of_new_part(self._storage.documents.clock.now())

    async def extend(
        self, key: SessionKey, base: Marker, *, spilled: frozenset[PayloadPlace], new_part: int | None
    ) -> Expiry | None:
        """Return the expiry that a write gives the session; first renew parts that would expire before it.

        *new_part* is the expiry of a part that the write adds, in Unix seconds; *spilled* says where the
        payloads are that it refers to.

        Raises:
            SessionMissingError: the session has expired, and no append of others has extended it.
            StoredDataError: a segment is missing.
        """
        if base.expiry is None:
            return None
        await self._require_alive(key, base)
        now = self._storage.documents.clock.now()
        expiry = base.expiry.refreshed(now).with_part_until(new_part)
        if not expiry.outlives_its_parts:
            return expiry
        parts_at = expiry.of_new_part(now)
        await self._renew(key, base, spilled, parts_at=parts_at)
        await self._require_alive(key, base)  # a renewal of many parts may take as long as they live
        return expiry.renewed_until(parts_at)

    async def _require_alive(self, key: SessionKey, base: Marker) -> None:
        if base.has_expired(self._storage.documents.clock.now()):
            seen = await self._reader.header(key)
            if seen is None or seen.has_expired:
                raise SessionMissingError

    async def _renew(
        self, key: SessionKey, base: Marker, spilled: frozenset[PayloadPlace], *, parts_at: int
    ) -> None:
        stored = await self._reader.header(key)
        if stored is None or stored.update_time != base.update_time:
            return  # the commit that follows is refused
        documents, payloads, layout = self._storage.documents, self._storage.payloads, self._storage.layout
        paths = layout.segments(key, stored.epoch, stored.live)

        async def segments() -> list[Document]:
            found = await documents.get(paths, fields=("expire_at",)) if paths else []
            there = [document for document in found if document is not None]
            if len(there) < len(paths) and not await self._has_changed(stored):
                raise segment_missing(stored)
            return there

        await renew(documents, layout, segments, parts_at=parts_at)
        owner = layout.session_payloads(key, stored.epoch)
        for place in stored.spilled | spilled:
            await payloads.at(place).renew_all(owner, parts_at=parts_at)

    async def _has_changed(self, stored: StoredSession) -> bool:
        now = await self._reader.header(stored.key)
        return now is None or now.update_time != stored.update_time

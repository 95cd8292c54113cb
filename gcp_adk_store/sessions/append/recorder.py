"""Read what an append has to know of its session, and move old events into segments."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.segments import sealed_tail
from gcp_adk_store.errors import StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Lru
from gcp_adk_store.kernel.transact import CHANGED, Changed, commit_once, read_whole
from gcp_adk_store.model.appends import Append, Marker, holds
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.lifecycle.run import SessionLifecycle
from gcp_adk_store.sessions.read.completion import Found
from gcp_adk_store.sessions.read.reader import SessionReader, segment_missing
from gcp_adk_store.sessions.read.storage import SessionStorage

logger = logging.getLogger(__name__)

_MOST_REFUSED: Final = 1_000
"""Sessions whose conflicts wait for their next append; those of the oldest are not counted."""


class SessionRecorder:
    """What the appends to all sessions below one prefix of a database share."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self.storage = storage
        self.reader = reader
        self.lifecycle = SessionLifecycle(storage, reader)
        self.refused: Lru[SessionKey, int] = Lru(_MOST_REFUSED)
        """Conflicts of appends that were refused, which the next append of the session counts."""

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Return whether exactly these events are stored, since any time before."""
        stored, newest = await self.newest(key, lambda _: None)
        return stored is not None and all(holds({*newest}, text) for text in append.texts)

    async def newest(
        self, key: SessionKey, at_least: Callable[[StoredSession], int | None]
    ) -> tuple[StoredSession | None, Sequence[str]]:
        """Return the session as it is now, ``None`` if it is gone, and its newest events as texts.

        Raises:
            StoredDataError: a segment is missing.
        """

        async def look() -> tuple[StoredSession | None, Sequence[str]] | Changed:
            stored = await self.reader.stored(key)
            if stored is None or stored.has_expired:
                return None, ()
            newest = await self.reader.newest(stored, at_least=at_least(stored))
            if newest is not None:
                return stored, newest
            # Without these events, nobody can say that one is not stored.
            if await self.reader.lost(stored) is None:
                raise segment_missing(stored)
            return CHANGED

        return await read_whole(self.storage.documents.deadline_s, look)

    async def missed(self, key: SessionKey, marker: Marker) -> Found | None:
        """Return what others wrote since *marker*; ``None`` if it cannot be read."""
        try:
            return await self.reader.since(key, marker)
        except StoreError as exc:
            # The event is stored, so the append succeeds. The next append conflicts and learns.
            telemetry.warn(logger, "merged, but what others wrote is not read yet", exc)
            return None

    async def seal(self, key: SessionKey, marker: Marker | None) -> Marker | None:
        """Move the tail into a segment, and return the new *marker*.

        Sealing never fails: a later append moves a tail that cannot be moved now.
        """
        now = self.storage.documents.clock.now()
        try:
            stored = await self.reader.stored(key)
            if stored is None or not stored.tail:
                return marker
            segment = sealed_tail(stored, await self.reader.windows.before_tail(stored))
            writes = self.storage.layout.seal(stored, segment, now=now)
            written = await commit_once(self.storage.documents, writes)
        except StoreError as exc:
            # The append before it is stored, so it must not fail.
            telemetry.warn(logger, "sealing is put off", exc)
            return marker
        if written is None:
            return marker  # the handle's next append learns the new update time
        self.reader.tails.sealed(stored.marker)
        self.reader.followed.committed(writes, written)
        if marker != stored.marker:
            return marker
        expiry = stored.expiry and stored.expiry.with_part_until(stored.expiry.of_new_part(now))
        return replace(stored.marker, update_time=written[0].update_time, expiry=expiry)

"""Read the sessions of a range of users, and the rows of each, without Beam."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, Literal

from gcp_adk_store.bulk.ranges import first_characters, user_ranges
from gcp_adk_store.codec.stored import read_header
from gcp_adk_store.codec.writes import NameRange
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.moving.canonical import Digest, canonical_event
from gcp_adk_store.moving.own import OwnStore
from gcp_adk_store.moving.parquet import event_row, session_row
from gcp_adk_store.sessions.describe.decide import SessionInfo
from gcp_adk_store.sessions.describe.format import HEADER_OF_INFO, read_info
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.sessions.service import SessionService

_PER_PAGE: Final = 300
"""Sessions that one query lists, without their events and state."""

Row = tuple[Literal["events", "sessions"], dict[str, Any]]
"""The table of a row, and the row, with the columns of :mod:`gcp_adk_store.moving.parquet`."""


def key_of(info: SessionInfo) -> SessionKey:
    """Return the key of a session."""
    return SessionKey(app=info.app_name, user=info.user_id, session=info.session_id)


async def ranges_of(storage: SessionStorage, app: str, *, most: int) -> list[NameRange]:
    """Return at most *most* ranges that have each user of *app* once, with sessions of like numbers.

    Firestore tells where they lie by ``PartitionQuery``. A database without it, such as the emulator, gets
    ranges by the first characters of the ids.
    """
    layout = storage.layout
    points = (
        await storage.documents.split_points(layout.sessions_collection, most=most - 1) if most > 1 else []
    )
    if points is None:
        points = first_characters(layout, app, most=most - 1)
    return user_ranges(layout, app, points)


async def sessions_within(
    storage: SessionStorage, app: str, within: NameRange, on_unreadable: Callable[[StoredDataError], object]
) -> AsyncGenerator[SessionInfo]:
    """Yield the sessions of the users *within*, by name; 1 query for 300 of them. Expired ones are left out.

    *on_unreadable* is called for each session whose document cannot be read.
    """
    async for documents, _ in pages(
        storage.documents,
        storage.layout.sessions_collection,
        parent=storage.layout.app(app),
        fields=HEADER_OF_INFO,
        limit=_PER_PAGE,
        within=within,
    ):
        for document in documents:
            try:
                stored = read_header(document, with_state=False)
                info = read_info(document, stored)
            except StoredDataError as exc:
                on_unreadable(exc)
                continue
            if not stored.has_expired:
                yield info


async def rows_of(service: SessionService, info: SessionInfo) -> AsyncGenerator[Row]:
    """Yield the rows of the events of a session, then that of the session, all of one moment.

    A session that is gone has none.

    Raises:
        StoredDataError, PayloadMissingError: something of it is damaged or missing.
    """
    async with OwnStore(service, closes=False).open(key_of(info)) as record:
        if record is None:
            return
        digest = Digest()
        events: AsyncIterator[Any] = aiter(record.events)
        async for event in events:
            encoded = canonical_event(event)
            yield "events", event_row(record, digest.events, event, encoded.decode())
            digest.add(encoded)
        yield "sessions", session_row(record, digest)

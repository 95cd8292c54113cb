"""Read what a simulated service stores, and require that it is whole."""

import asyncio
from typing import Final

from gcp_adk_store import PayloadMissingError, Store, StoredDataError
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.testing.simulation import Service
from tests.simulation.journal import Journal

HOUR_S: Final = 3_600.0
_AT_ONCE: Final = 1_000


async def documents_below(service: Service, root: str) -> list[Document]:
    """Return all documents below the document *root*, also below those that are gone."""
    found: list[Document] = []
    while True:
        after = (0.0, found[-1].path) if found else None
        page = Page(field=None, descending=False, limit=_AT_ONCE, after=after)
        more = await service.backend.documents.query(root, "", all_descendants=True, page=page)
        found += more
        if len(more) < _AT_ONCE:
            return found


async def objects_of(service: Service) -> list[str]:
    """Return the names of all objects."""
    return [each.name async for page in service.backend.objects.scan("") for each in page]


def require_whole(journal: Journal) -> None:
    """Require that no call found damaged data, or a reference to what is gone."""
    damage = {PayloadMissingError.__name__, StoredDataError.__name__}
    found = [f"{call.kind} of {call.process}: {call.error}" for call in journal.calls if call.error in damage]
    assert not found, found


async def require_sound(store: Store, *, older_than_s: float = 10**9) -> None:
    """Require that a check finds no fault; garbage is one if it is so old."""
    faults = [fault async for fault in store.check(older_than_s=older_than_s, full=True)]
    assert not faults, faults


async def collect(store: Store) -> None:
    """Remove all garbage that is older than an hour."""
    async for garbage in store.find_garbage(older_than_s=HOUR_S):
        await store.remove_garbage(garbage)


async def require_collected(store: Store) -> None:
    """Let two days pass, collect, and require that nothing is left to collect, and no fault."""
    await asyncio.sleep(48 * HOUR_S)
    async for garbage in store.find_garbage():
        await store.remove_garbage(garbage)
    left = [garbage async for garbage in store.find_garbage()]
    assert not left, left
    await require_sound(store, older_than_s=24 * HOUR_S)

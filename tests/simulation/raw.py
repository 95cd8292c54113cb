"""Read what a simulated service stores, without the library's sessions and artifacts."""

from typing import Final

from gcp_adk_store import PayloadMissingError, StoredDataError
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.testing.simulation import Service
from tests.simulation.journal import Journal

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

"""Scan and renew documents below a session or another owner."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import EVERY_NAME, Document, NameRange, Page
from gcp_adk_store.errors import NotProvisionedError
from gcp_adk_store.kernel.ports import Documents, Reads
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, transact

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
) -> AsyncIterator[tuple[list[Document], bool]]:
    """Yield all documents of a *collection*, by name: each page, and whether it is the last.

    These are those below *parent*, or of the whole database; of any depth, or directly below it. A page has
    *limit* documents at most. *within* bounds their names.
    """
    page = Page(field=None, descending=False, limit=limit, after=None, within=within)
    while True:
        found = await documents.query(
            parent, collection, all_descendants=all_descendants, fields=fields, page=page
        )
        is_last = len(found) < page.limit
        yield found, is_last
        if is_last:
            return
        page = replace(page, after=(0.0, found[-1].path))


def not_provisioned() -> NotProvisionedError:
    """Return the error for a database that refuses a new document which requires nothing."""
    return NotProvisionedError(
        "the Firestore database does not exist or is not in native mode; create it, or correct project "
        "and database"
    )


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

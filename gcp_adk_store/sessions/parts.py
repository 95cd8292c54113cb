"""Scan, create and renew documents below a session or another owner."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import EVERY_NAME, Document, NameRange, Page, Write, Written
from gcp_adk_store.errors import NotProvisionedError
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.documents import Documents, Reads
from gcp_adk_store.ports.refusals import RefusedError, TargetExistsError

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


async def create(documents: Documents, writes: Sequence[Write]) -> list[Written]:
    """Commit *writes* that require no more than that their documents are absent.

    Raises:
        TargetExistsError: a document exists.
        NotProvisionedError: the database takes no documents.
    """
    try:
        return await documents.commit(writes, repeatable_when_unanswered=True)
    except TargetExistsError:
        raise
    except RefusedError as exc:
        raise NotProvisionedError(
            "the Firestore database does not exist or is not in native mode; create it, or correct project "
            "and database"
        ) from exc


async def renew(
    documents: Documents, layout: Layout, read: Callable[[], Awaitable[Sequence[Document]]], *, parts_at: int
) -> None:
    """Keep what *read* returns until *parts_at* at least.

    Each write requires the document as it was read. If another call renewed or removed it, this one reads
    again and leaves it alone. A document that is kept long enough already costs no write.

    Raises:
        UnavailableError: others changed it until the deadline.
    """
    rereads = Rereads(documents.deadline_s)
    while True:
        try:
            return await documents.commit_all(layout.renewals(await read(), parts_at=parts_at))
        except RefusedError as refused:
            await rereads.again(refused)

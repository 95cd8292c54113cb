"""Erase the documents of one owner, page by page, while others may write them."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import OutcomeUnknownError, StoreError
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.kernel.transact import CHANGED, Changed, Writes, commit_once, read_whole

_AT_ONCE: Final = 500


async def erase(
    documents: Documents,
    parent: str,
    collection: str,
    *,
    fields: Sequence[str],
    removals: Callable[[Sequence[Document]], AsyncIterator[Writes]],
) -> None:
    """Commit what *removals* yields for all documents of a collection, 500 at a time.

    These commits require the update times of the documents. If one is refused, its page is read again, so
    what other writers changed meanwhile is removed too. Documents that they add to earlier pages stay.

    Raises:
        OutcomeUnknownError: some may be removed, and some not; calling again removes the rest.
        UnavailableError: nothing was removed.
    """
    page = Page(field=None, descending=False, limit=_AT_ONCE, after=None)
    has_begun = False

    async def removed() -> Sequence[Document] | Changed:
        nonlocal has_begun
        found = await documents.query(parent, collection, fields=fields, page=page)
        if not found:
            return found
        has_begun = True
        async for deletes in removals(found):
            if await commit_once(documents, deletes) is None:
                return CHANGED
        return found

    try:
        while len(found := await read_whole(documents.deadline_s, removed)) == page.limit:
            page = replace(page, after=(0.0, found[-1].path))
    except StoreError as exc:
        if not has_begun:
            raise
        raise OutcomeUnknownError.since(
            exc, f"some may be removed, and some not; call it again: {exc}"
        ) from exc

"""Erase the documents of one owner, page by page, while others may write them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import OutcomeUnknownError, StoreError
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.ports.refusals import RefusedError

_AT_ONCE: Final = 500


async def erase(
    documents: Documents,
    parent: str,
    collection: str,
    *,
    fields: Sequence[str],
    remove: Callable[[Sequence[Document]], Awaitable[None]],
) -> None:
    """Let *remove* remove all documents of a collection, 500 at a time.

    *remove* requires the update times that it gets. A page of which it is refused one is read again, so what
    other writers changed meanwhile is removed too. Documents that they add to earlier pages stay.

    Raises:
        OutcomeUnknownError: some may be removed, and some not; calling again removes the rest.
        UnavailableError: nothing was removed.
    """
    page = Page(field=None, descending=False, limit=_AT_ONCE, after=None)
    has_begun = False
    rereads = Rereads(documents.deadline_s)
    try:
        while True:
            found = await documents.query(parent, collection, fields=fields, page=page)
            if not found:
                return
            try:
                has_begun = True
                await remove(found)
            except RefusedError as exc:
                await rereads.again(exc)
                continue
            if len(found) < page.limit:
                return
            page = replace(page, after=(0.0, found[-1].path))
            rereads = Rereads(documents.deadline_s)
    except StoreError as exc:
        if not has_begun:
            raise
        raise OutcomeUnknownError.since(
            exc, f"some may be removed, and some not; call it again: {exc}"
        ) from exc

"""Bring stored sessions to the form that this release writes."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from gcp_adk_store.codec.fields import first_heads, update
from gcp_adk_store.codec.stored import HEADER_WITHOUT_STATE, read_header
from gcp_adk_store.codec.writes import NameRange, Write
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.transact import commit_once
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.parts import pages
from gcp_adk_store.sessions.storage import SessionStorage

_PER_PAGE: Final = 300


def reencoded(path: str, stored: StoredSession) -> Sequence[Write]:
    """Return what brings the session at *path* to the newest form; nothing if it has it.

    Format 1 becomes 2, as an append makes it. Each write requires the session as it is *stored*. Whatever
    else is to be written anew, such as content under another key, adds its writes here.
    """
    if stored.chain is not None:
        return []
    marker = stored.marker
    return [update(path, {**first_heads(marker), "chain": marker.head}, must=stored.update_time)]


async def reencode(
    storage: SessionStorage,
    app: str,
    within: NameRange,
    *,
    dry_run: bool,
    count: Callable[[str, int], object],
    on_unreadable: Callable[[StoredDataError], object],
) -> AsyncGenerator[SessionKey]:
    """Yield the sessions of users *within* that were brought to the newest form, or would be.

    Takes 1 read a session, and 1 write for each that changes. One that others write meanwhile is left to
    them, or to a later call; *count* gets its number as ``in_use``, and that of those looked at as
    ``sessions``.
    """
    async for documents, _ in pages(
        storage.documents,
        storage.layout.sessions_collection,
        parent=storage.layout.app(app),
        fields=HEADER_WITHOUT_STATE,
        limit=_PER_PAGE,
        within=within,
    ):
        for document in documents:
            try:
                stored = read_header(document, with_state=False)
                writes = [] if stored.has_expired else reencoded(document.path, stored)
            except StoredDataError as exc:
                on_unreadable(exc)
                continue
            count("sessions", 1)
            if not writes:
                continue
            if not dry_run and await commit_once(storage.documents, writes) is None:
                count("in_use", 1)
                continue
            yield stored.key

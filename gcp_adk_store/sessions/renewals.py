"""Keep documents that expire by themselves for longer."""

from collections.abc import Awaitable, Callable, Sequence

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.ports.refusals import RefusedError


async def renew(
    documents: Documents, layout: Layout, read: Callable[[], Awaitable[Sequence[Document]]], *, parts_at: int
) -> None:
    """Keep what *read* returns until *parts_at* at least.

    Each write stands on the document as it was read: what another call has moved further, or removed, is read
    again and left alone. What is kept long enough already costs no write.

    Raises:
        UnavailableError: others changed it until the deadline.
    """
    rereads = Rereads(documents.deadline_s)
    while True:
        try:
            await documents.commit_all(layout.renewals(await read(), parts_at=parts_at))
        except RefusedError as refused:
            await rereads.again(refused)
        else:
            return

"""Delete sessions, and finish deletions that were interrupted."""

import logging
from collections.abc import Sequence

from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.codec.stored import read_deletions
from gcp_adk_store.errors import (
    AccessDeniedError,
    NotProvisionedError,
    OutcomeUnknownError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.fan_out import beside
from gcp_adk_store.operations.operation import label
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.ports.refusals import RefusedError, settling
from gcp_adk_store.sessions.reader import SessionReader
from gcp_adk_store.sessions.storage import SessionStorage

logger = logging.getLogger(__name__)


class SessionRemover:
    """Deletes the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader

    async def delete(self, key: SessionKey) -> None:
        """Remove a session, and the remains of interrupted deletions of its id; harmless when repeated.

        Raises:
            OutcomeUnknownError: not answered, or some parts may be left.
        """
        await self.finish_deletions(key, await self._end(key, if_expired=False))

    async def make_way(self, key: SessionKey) -> None:
        """Remove an expired session, so that its id is free; log it if some of its parts stay."""
        ended = await self._end(key, if_expired=True)
        try:
            await self.finish_deletions(key, ended)
        except StoreError as exc:
            # The id is free. A note names the parts that are left, for the next deletion of the id.
            logger.warning(
                "%sparts of an expired session are left: %s",
                label(),
                type(exc).__name__,
                extra=telemetry.log_fields(exc),
            )

    async def finish_deletions(self, key: SessionKey, ended: Sequence[Deletion]) -> None:
        """Remove the parts of sessions that ended; harmless when repeated.

        Raises:
            OutcomeUnknownError: some of them may be left; their notes stay then, too.
        """
        layout = self._storage.layout
        try:
            for deletion in ended:
                owner = layout.session_payloads(key, deletion.epoch)
                for place in deletion.spilled:
                    await self._storage.payloads.at(place).remove_all(owner)
                await self._storage.documents.commit_all(layout.finish_deletion(key, deletion))
        except (UnavailableError, AccessDeniedError, NotProvisionedError) as exc:
            raise OutcomeUnknownError.since(
                exc, f"the session is gone, but not all of its parts; delete it again: {exc}"
            ) from exc

    async def _end(self, key: SessionKey, *, if_expired: bool) -> list[Deletion]:
        """Delete the session document; return the deletions of it and of earlier sessions to finish."""
        documents, layout = self._storage.documents, self._storage.layout
        refused = RefusedError()
        rereads = Rereads(documents.deadline_s)
        while True:
            with settling(refused):
                stored, notes = await beside(
                    self._reader.stored(key),
                    documents.query(layout.session(key), layout.deletions_collection),
                )
            unfinished = read_deletions(notes)
            if stored is None or (if_expired and not stored.has_expired):
                return unfinished
            try:
                await documents.commit(layout.delete(stored), repeatable_when_unanswered=True)
            except RefusedError as exc:
                refused = exc  # an append came between, or the answer to an earlier attempt was lost
                with settling(refused):
                    await rereads.again(refused)
                continue
            mine = Deletion(epoch=stored.epoch, sealed=stored.sealed, spilled=stored.spilled)
            return [*unfinished, mine] if stored.sealed or stored.spilled else unfinished

"""Keep heads of chains as objects that nobody can change, and read them back."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Final

from gcp_adk_store.codec.objects import ObjectFields
from gcp_adk_store.codec.stored import HEADER_WITHOUT_STATE, read_header
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, operation
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.kernel.ports import ObjectExistsError, Objects
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.sessions.verify.decide import Anchor, AnchorReport, binding_of

OnAnchored = Callable[[AnchorReport], object]
"""Called with the counts so far."""

_AT_ONCE: Final = 100
_NAME: Final = re.compile(r"(?P<revision>[0-9]{18})-(?P<head>[0-9a-f]{64})(?:-(?P<binding>[0-9a-f]{64}))?")


class Anchors:
    """The anchors of one store in one bucket.

    Their names and their bytes have a session's epoch, which is random, its ``rev``, its head, and a hash of
    the epoch and the ids: they name neither the session nor the user, so an erasure can leave them.
    """

    def __init__(self, sessions: SessionService, objects: Objects) -> None:
        """Prepare; *objects* is the bucket of anchors."""
        self._storage = sessions.storage
        self._objects = objects
        ready = sessions._appender.ready  # noqa: SLF001  # of one store
        self._bounds = Bounds(Anchors, system=telemetry.STORAGE, ready=ready)

    async def of(self, epoch: str) -> list[Anchor]:
        """Return the anchors of the session that *epoch* identifies; 1 listing.

        Raises:
            StoredDataError: this release cannot read the name of an anchor.
        """
        folder = self._folder(epoch)
        found = []
        for name in await self._objects.names(folder, delimiter=None):
            each = _NAME.fullmatch(name.removeprefix(folder))
            if each is None:
                raise StoredDataError(
                    f"this release cannot read the anchor {name[:300]}; upgrade gcp-adk-store, and check who "
                    "may write to the bucket"
                )
            found.append(
                Anchor(
                    epoch=epoch,
                    revision=int(each["revision"]),
                    head=each["head"],
                    binding=each["binding"],
                )
            )
        return found

    @operation
    async def anchor(
        self,
        *,
        app_name: str,
        user_id: str | None,
        session_id: str | None,
        on_progress: OnAnchored | None,
    ) -> AnchorReport:
        """As :meth:`gcp_adk_store.Store.anchor`."""
        report = AnchorReport(sessions=0, written=0, unreadable=0)
        async for headers in self._listed(app_name, user_id, session_id):
            are_written = await gather(self._anchor(stored) for stored in headers if stored is not None)
            report = AnchorReport(
                sessions=report.sessions + len(headers),
                written=report.written + sum(are_written),
                unreadable=report.unreadable + headers.count(None),
            )
            if on_progress is not None:
                on_progress(report)
        return report

    async def _listed(
        self, app: str, user: str | None, session: str | None
    ) -> AsyncIterator[list[StoredSession | None]]:
        """Yield the headers of sessions that have not ended; ``None`` for one that cannot be read."""
        layout, documents = self._storage.layout, self._storage.documents
        if user is not None and session is not None:
            key = SessionKey(app=app, user=user, session=session)
            (document,) = await documents.get([layout.session(key)], fields=HEADER_WITHOUT_STATE)
            found = [] if document is None else _living([document])
            if not found:
                raise SessionMissingError
            yield found
            return
        parent = layout.app(app) if user is None else layout.user(UserKey(app=app, user=user))
        async for page, _ in pages(
            documents,
            layout.sessions_collection,
            parent=parent,
            fields=HEADER_WITHOUT_STATE,
            limit=_AT_ONCE,
        ):
            yield _living(page)

    async def _anchor(self, stored: StoredSession) -> bool:
        """Keep the head of a session; return whether it was not kept before."""
        head = stored.chain.hex()
        binding = binding_of(stored.key, stored.epoch)
        described = {
            "format": 2,
            "epoch": stored.epoch,
            "rev": stored.revision,
            "head": head,
            "binding": binding,
        }
        fields = ObjectFields(
            content_type="application/json", metadata={}, data=json.dumps(described, sort_keys=True).encode()
        )
        with suppress(ObjectExistsError):
            name = f"{self._folder(stored.epoch)}{stored.revision:018d}-{head}-{binding}"
            await self._objects.create(name, fields)
            return True
        return False

    def _folder(self, epoch: str) -> str:
        return f"{self._storage.layout.prefix}-anchors/{epoch}/"


def _living(documents: Iterable[Document]) -> list[StoredSession | None]:
    """Return the headers of sessions that have not ended; ``None`` for one that cannot be read."""
    headers: list[StoredSession | None] = []
    for document in documents:
        try:
            stored = read_header(document, with_state=False)
        except StoredDataError:
            headers.append(None)
        else:
            headers += [] if stored.has_expired else [stored]
    return headers

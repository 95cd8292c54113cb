"""Hold where the sessions of one prefix are stored."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.spilling import Spilled
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.sessions.read.payloads import Payloads

if TYPE_CHECKING:
    from gcp_adk_store.encryption.encryption import Encryption


@dataclass(frozen=True, slots=True)
class SessionStorage:
    """The documents, the payloads, and the layout that names both."""

    documents: Documents
    payloads: Payloads
    layout: Layout
    encryption: "Encryption | None" = None
    """What encrypts both; ``None`` for a store in the clear."""
    as_stored: Documents | None = None
    """With *encryption*, the documents with their content as it is stored."""

    def begun(self, ttl_seconds: float | None) -> tuple[Expiry | None, int | None]:
        """Return when a session that begins now ends, and when its parts do, in Unix seconds."""
        if ttl_seconds is None:
            return None, None
        now = self.documents.clock.now()
        expiry = Expiry.begin(ttl_seconds, now=now)
        return expiry, expiry.of_new_part(now)

    async def put(self, key: SessionKey, epoch: str, spilled: Spilled, *, parts_at: int | None) -> None:
        """Write payloads before what refers to them; those of the session expire at *parts_at*, if at all."""
        for owner, payloads, kept_until in (
            (self.layout.session_payloads(key, epoch), spilled.session, parts_at),
            (self.layout.app_payloads(key.app), spilled.app, None),
            (self.layout.user_payloads(key.owner), spilled.user, None),
        ):
            await self.payloads.put(owner, payloads, parts_at=kept_until)

    async def close(self) -> None:
        """Close the connections that were opened here, not the borrowed ones."""
        await self.documents.close()
        await self.payloads.close()

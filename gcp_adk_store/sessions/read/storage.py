"""Open and hold where the sessions of one prefix are stored; their content may be encrypted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.encode import Spilled
from gcp_adk_store.kernel.ports import Documents, Objects
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.settings.envelope import KmsEnvelope

if TYPE_CHECKING:
    from gcp_adk_store.cloud.auth.credentials import StoreCredentials
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


def storage_over(
    documents: Documents,
    objects: Objects | None,
    prefix: str,
    envelope: KmsEnvelope | None,
    *,
    open_keys: Callable[[str], Documents],
    credentials: "StoreCredentials | None" = None,
) -> SessionStorage:
    """Return the storage in *documents* and *objects*; with *envelope*, it encrypts.

    *open_keys* returns the database of the data keys, by its name.

    Raises:
        InvalidInputError: the file with a local key cannot be read or made.
    """
    layout = Layout(prefix)
    if envelope is None:
        return SessionStorage(documents, Payloads(documents, objects, layout), layout)
    # Imported here: they bring ciphers.
    from gcp_adk_store.encryption.encryption import Encryption  # noqa: PLC0415
    from gcp_adk_store.encryption.wrapping import wrapper_of  # noqa: PLC0415

    encryption = Encryption.of(
        envelope, wrapper_of(envelope, credentials), open_keys(envelope.keys_database), prefix
    )
    sealed = encryption.documents(documents)
    payloads = Payloads(sealed, None if objects is None else encryption.payloads(objects), layout)
    return SessionStorage(sealed, payloads, layout, encryption, documents)

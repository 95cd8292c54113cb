"""Open the storage of sessions, whose content may be encrypted."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.kernel.ports import Documents, Objects
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings.envelope import KmsEnvelope

if TYPE_CHECKING:
    from gcp_adk_store.cloud.auth.credentials import StoreCredentials


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

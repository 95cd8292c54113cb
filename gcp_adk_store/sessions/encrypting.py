"""Open the storage of sessions whose content is encrypted."""

from collections.abc import Callable

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.encryption.encryption import Encryption
from gcp_adk_store.encryption.wrapping import wrapper_of
from gcp_adk_store.kernel.ports import Documents, Objects
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings.envelope import KmsEnvelope


def encrypted_storage(
    documents: Documents,
    objects: Objects | None,
    layout: Layout,
    envelope: KmsEnvelope,
    *,
    open_keys: Callable[[str], Documents],
    credentials: StoreCredentials | None = None,
) -> SessionStorage:
    """Return the storage in *documents* and *objects*, encrypted as *envelope* says.

    *open_keys* returns the database of the data keys, by its name.

    Raises:
        InvalidInputError: the file with a local key cannot be read or made.
    """
    encryption = Encryption.of(
        envelope, wrapper_of(envelope, credentials), open_keys(envelope.keys_database), layout.prefix
    )
    sealed = encryption.documents(documents)
    payloads = Payloads(sealed, None if objects is None else encryption.payloads(objects), layout)
    return SessionStorage(sealed, payloads, layout, encryption, documents)

"""Make what wraps the data keys of an envelope."""

import os

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.kms import KmsKeyWrapper
from gcp_adk_store.encryption.local_keys import LocalKeyWrapper
from gcp_adk_store.settings.envelope import KeyWrapper, KmsEnvelope


def wrapper_of(envelope: KmsEnvelope, credentials: StoreCredentials | None) -> KeyWrapper:
    """Return what wraps the data keys of *envelope*, under the identity of *credentials*; without I/O.

    A file with a key is read, or made.

    Raises:
        InvalidInputError: the file cannot be read or made.
    """
    match envelope.key:
        case str() as name:
            return KmsKeyWrapper(name, *envelope.older_keys, credentials=credentials)
        case os.PathLike() as path:
            return LocalKeyWrapper.at(path)
        case wrapper:
            return wrapper

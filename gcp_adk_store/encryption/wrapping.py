"""Wrap data keys with a key in a local file, or in Cloud KMS."""

import base64
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gcp_adk_store import machine
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.kms import KmsKeyWrapper
from gcp_adk_store.encryption.sealing import NONCE_BYTES
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.local.opening import synchronise
from gcp_adk_store.settings.envelope import KeyWrapper, KmsEnvelope, Wrapped

KEY_BYTES: Final = 32
_VERSION_BYTES: Final = 4


class LocalKeyWrapper:
    """Wraps data keys with keys that this process holds; whoever has them can read everything.

    In a cloud use a key of Cloud KMS, which never leaves it.
    """

    def __init__(self, *keys: bytes) -> None:
        """Wrap with the first of *keys*, 32 random bytes each; unwrap with any.

        Raises:
            InvalidInputError: no key is given, or one is not bytes or has another length.
        """
        given: tuple[object, ...] = keys
        if not keys or not all(isinstance(key, bytes | bytearray) and len(key) == KEY_BYTES for key in given):
            raise InvalidInputError(f"LocalKeyWrapper takes one or more keys of {KEY_BYTES} bytes")
        self._keys = {_version(key): AESGCM(key) for key in reversed(keys)}
        self._newest = _version(keys[0])

    @classmethod
    def at(cls, path: "str | os.PathLike[str]") -> Self:
        """Return the wrapper of a file with a key in base64 in each line, the newest first; it may be made.

        Only its owner may read a file that it makes. To rotate, put a new key in the first line, for example
        of ``openssl rand -base64 32``, and run ``gcp-adk-store rotate-keys``.

        Raises:
            InvalidInputError: the file cannot be read or made, or it holds something else.
        """
        file = Path(path)
        try:
            if not file.exists():
                _make(file)
            lines = file.read_bytes().split()
            return cls(*(base64.b64decode(line, validate=True) for line in lines))
        except OSError as exc:
            raise InvalidInputError(
                f"the key file {str(path)!r} cannot be read or made: {exc.strerror}"
            ) from exc
        except ValueError as exc:
            raise InvalidInputError(
                f"the key file {str(path)!r} must hold {KEY_BYTES} bytes in base64 in each line"
            ) from exc

    async def wrap(self, data_key: bytes, context: bytes) -> Wrapped:
        """As :class:`~gcp_adk_store.settings.envelope.KeyWrapper`."""
        nonce = machine.random_bytes(NONCE_BYTES)
        data = self._newest + nonce + self._keys[self._newest].encrypt(nonce, data_key, context)
        return Wrapped(data, f"local/{self._newest.hex()}")

    async def unwrap(self, wrapped: Wrapped, context: bytes) -> bytes:
        """As :class:`~gcp_adk_store.settings.envelope.KeyWrapper`."""
        key = self._keys.get(wrapped.data[:_VERSION_BYTES])
        if key is None:
            raise StoredDataError("a data key was wrapped by a key that the key file does not have")
        rest = wrapped.data[_VERSION_BYTES:]
        try:
            return key.decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], context)
        except (InvalidTag, ValueError) as exc:
            raise StoredDataError("a wrapped data key was changed, or made for another place") from exc

    async def close(self) -> None:
        """Close nothing."""


def _version(key: bytes) -> bytes:
    return hashlib.sha256(b"gcp-adk-store/local-key" + key).digest()[:_VERSION_BYTES]


def _make(file: Path) -> None:
    """Write a new key to *file*, as a whole or not at all, durably; another process may be first."""
    missing = [above for above in file.parents if not above.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{machine.random_bytes(8).hex()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(base64.b64encode(machine.random_bytes(KEY_BYTES)) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()
    # What it encrypts is durable: without its name, a loss of power would take the key alone.
    for folder in (file.parent, *(above.parent for above in missing)):
        synchronise(folder)


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

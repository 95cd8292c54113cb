"""Say how a store encrypts content before it leaves the process."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from gcp_adk_store.errors import InvalidInputError, require_number, shown
from gcp_adk_store.settings.names import fields_only

MAX_CACHE_S: Final = 3600.0
"""The longest time for which a process may keep data keys: so long a destroyed key can still be in use."""

_KEYS_DATABASE: Final = "adk-keys"
_DATABASE: Final = re.compile(r"[a-z][a-z0-9-]{2,61}[a-z0-9]")
_KMS_KEY: Final = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")


class Wrapped(NamedTuple):
    """A data key, encrypted by the key that wraps data keys."""

    data: bytes
    version: str
    """The version of the key that wrapped it; rotation wraps those of other versions anew."""


class KeyWrapper(Protocol):
    """Wraps data keys: encrypts them with a key that never leaves its place."""

    async def wrap(self, data_key: bytes, context: bytes) -> Wrapped:
        """Return *data_key*, encrypted by the newest version of the key and bound to *context*.

        Raises:
            UnavailableError: the key's place does not answer for now.
            AccessDeniedError: the identity may not use the key.
            NotProvisionedError: the key does not exist.
        """
        ...

    async def unwrap(self, wrapped: Wrapped, context: bytes) -> bytes:
        """Return the data key that :meth:`wrap` wrapped with the same *context*.

        Raises:
            UnavailableError, AccessDeniedError, NotProvisionedError: as :meth:`wrap`.
            StoredDataError: *wrapped* is not what this key wrapped for *context*, or its version is gone.
        """
        ...

    async def close(self) -> None:
        """Close what was opened; a later call opens it again."""
        ...


@fields_only
@dataclass(frozen=True, slots=True, kw_only=True)
class KmsEnvelope:
    """Encrypts what users put into a store, with a data key for each user, which one key wraps.

    docs/encryption.md says what is encrypted, and against whom it helps.

    Raises:
        InvalidInputError: a setting is malformed.
    """

    key: "str | os.PathLike[str] | KeyWrapper"
    """The key of Cloud KMS, ``projects/P/locations/L/keyRings/R/cryptoKeys/K``; for a local store also the
    path of a file with a key, which is made if it is missing; or another :class:`KeyWrapper`."""
    per: Literal["user"] = "user"
    """What has a data key of its own: each user of an app, and beside them each app, for its own state, and
    each owner of A2A tasks."""
    older_keys: tuple[str, ...] = ()
    """Keys of Cloud KMS that wrapped data keys before *key* did, until ``rotate-keys`` has run."""
    keys_database: str = _KEYS_DATABASE
    """Firestore database of the same project with the wrapped data keys. It must have no backups and no
    point-in-time recovery: they would keep the keys of erased users. A local store keeps them in the file
    ``keys.sqlite3`` of its folder instead."""
    cache_s: float = 300.0
    """Seconds for which a process keeps a data key; all processes of a store must have the same value."""
    accept_plaintext: bool = False
    """Whether content that is not encrypted is read, too, as during a migration; otherwise it is refused."""
    artifacts: bool = False
    """Whether the bytes of artifacts are encrypted, too. Then only stores with this setting read them: models
    and browsers cannot, and URLs of artifacts are refused."""

    def __post_init__(self) -> None:
        given: Any = self
        key, older, database, cache_s = given.key, given.older_keys, given.keys_database, given.cache_s
        if not isinstance(key, str | os.PathLike) and not hasattr(key, "unwrap"):
            raise InvalidInputError(
                "key must be the name of a key of Cloud KMS, a pathlib.Path or a KeyWrapper, not "
                f"{type(key).__name__}"
            )
        if not isinstance(older, tuple) or not all(isinstance(key, str) for key in older):
            raise InvalidInputError("older_keys must be a tuple of names of keys")
        if older and not isinstance(key, str):
            raise InvalidInputError(
                "older_keys must be empty if key is none of Cloud KMS; a file has older keys in further lines"
            )
        wrong = [key for key in (self.key, *self.older_keys) if isinstance(key, str) and not is_kms_key(key)]
        if wrong:
            raise InvalidInputError(
                f"key {wrong[0][:80]!r} must be a key of Cloud KMS, "
                "projects/P/locations/L/keyRings/R/cryptoKeys/K; for a file pass pathlib.Path(...)"
            )
        if not isinstance(given.per, str) or given.per != "user":
            raise InvalidInputError(f"per is {shown(self.per)}, it must be 'user'")
        if not isinstance(database, str) or not _DATABASE.fullmatch(self.keys_database):
            raise InvalidInputError(
                f"keys_database {shown(database)} must be the id of a database other than "
                "the default: 4 to 63 lower-case letters, digits or '-'"
            )
        require_number("cache_s", cache_s)
        is_number = isinstance(cache_s, int | float) and not isinstance(cache_s, bool)
        if not is_number or not 0 <= self.cache_s <= MAX_CACHE_S:
            raise InvalidInputError(f"cache_s is {shown(cache_s)}, it must be from 0 to {MAX_CACHE_S:.0f}")
        for name, value in (("accept_plaintext", given.accept_plaintext), ("artifacts", given.artifacts)):
            if not isinstance(value, bool):
                raise InvalidInputError(f"{name} is {shown(value)}, it must be True or False")

    @classmethod
    def from_variables(cls, env: Mapping[str, str]) -> "KmsEnvelope | None":
        """Return the envelope that ``ADK_STORE_ENCRYPTION_KEY`` names in *env*; ``None`` if it names none.

        That is a key of Cloud KMS, or else the path of a file. ``ADK_STORE_KEYS_DATABASE`` names the database
        of keys. ``ADK_STORE_ACCEPT_PLAINTEXT`` is ``true`` or ``1`` during a migration, and
        ``ADK_STORE_ENCRYPT_ARTIFACTS`` if artifacts are encrypted, too.

        Raises:
            InvalidInputError: a variable is malformed, or artifacts are to be encrypted without a key.
        """
        key = env.get("ADK_STORE_ENCRYPTION_KEY")
        encrypts_artifacts = is_on(env, "ADK_STORE_ENCRYPT_ARTIFACTS")
        if not key:
            if encrypts_artifacts:
                raise InvalidInputError(
                    "ADK_STORE_ENCRYPT_ARTIFACTS is set without ADK_STORE_ENCRYPTION_KEY, so that nothing "
                    "would be encrypted: name the key, or unset it"
                )
            return None
        return cls(
            key=key if key.startswith("projects/") else Path(key),
            keys_database=env.get("ADK_STORE_KEYS_DATABASE") or _KEYS_DATABASE,
            accept_plaintext=is_on(env, "ADK_STORE_ACCEPT_PLAINTEXT"),
            artifacts=encrypts_artifacts,
        )


def is_kms_key(name: str) -> bool:
    """Return whether *name* has the form of a key of Cloud KMS."""
    return _KMS_KEY.fullmatch(name) is not None


def is_on(env: Mapping[str, str], name: str) -> bool:
    """Return whether a variable is ``true`` or ``1``.

    Raises:
        InvalidInputError: it is something else: nobody may take for on what is off.
    """
    value = env.get(name, "").lower()
    if value not in ("", "true", "1", "false", "0"):
        raise InvalidInputError(f"{name} is {env[name][:80]!r}, it must be true or false")
    return value in ("true", "1")

"""Destroy the data keys of a user, and report from when on nothing can be read."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from gcp_adk_store.codec.writes import Document
from gcp_adk_store.encryption.encryption import Encryption
from gcp_adk_store.encryption.fields import Places, Scope, is_sealed
from gcp_adk_store.encryption.keyring import UNDER_WAY_S, Destroyed, StoredKey
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.erasures import Recovery


class KeyErasure:
    """The data keys of what one erasure removes; each exists at most once."""

    def __init__(
        self,
        encryption: Encryption | None,
        paths: Sequence[str],
        recovery: Callable[[float], Awaitable[Recovery]],
        prefix: str,
    ) -> None:
        """Take the keys of what lies below the documents at *paths*; without *encryption* none."""
        self._keys = None if encryption is None else encryption.keys
        self._places = Places(prefix)
        self._scopes = [] if encryption is None else [encryption.places.scope(path) for path in paths]
        self._recovery = recovery

    def is_encrypted(self, document: Document) -> bool:
        """Return whether *document*, as it is stored, is encrypted."""
        place = self._places.at(document.path)
        return place is not None and is_sealed(document, place.forms)

    def require_known(self, are_encrypted: Iterable[bool]) -> None:
        """Require that this store has the keys of what is to be removed, if any of it is encrypted.

        Raises:
            InvalidInputError: the store has no encryption, so the key would outlive what it encrypts.
        """
        if self._keys is None and any(are_encrypted):
            raise InvalidInputError(
                "the user's data is encrypted, and this store has no keys to destroy with it: pass "
                "encryption=, or set ADK_STORE_ENCRYPTION_KEY"
            )

    async def find(self) -> list[Scope]:
        """Return the scopes that have a key now."""
        if self._keys is None:
            return []
        states = {scope: await self._keys.state(scope) for scope in self._scopes}
        return [scope for scope, state in states.items() if isinstance(state, StoredKey)]

    async def destroy(self, scopes: Sequence[Scope]) -> None:
        """Destroy the keys of *scopes*; harmless when repeated.

        Raises:
            OutcomeUnknownError, UnavailableError: call it again.
        """
        if self._keys is not None:
            for scope in scopes:
                await self._keys.destroy(scope)

    async def scrub(self) -> None:
        """Leave nothing of destroyed keys in the files of a database of keys on this machine.

        Raises:
            OutcomeUnknownError, UnavailableError: as :meth:`gcp_adk_store.kernel.ports.Documents.scrub`.
        """
        if self._keys is not None:
            await self._keys.scrub()

    async def judge(self, recovery: Recovery) -> tuple[float | None, Recovery]:
        """Return from when on nothing can be read, in Unix seconds, and *recovery* with what is unknown.

        By then no process has a key in its cache, and no history or backup of the keys' database has it.
        Without a destroyed key it is ``None``.
        """
        if self._keys is None:
            return None, recovery
        states = [await self._keys.state(scope) for scope in self._scopes]
        times = [state.at for state in states if isinstance(state, Destroyed)]
        if not times:
            return None, recovery
        of_keys = await self._recovery(max(times))
        unknown = tuple(f"keys: {each}" for each in of_keys.unknown)
        until = (of_keys.firestore_history_until, of_keys.backups_until)
        gone = max(times) + self._keys.cache_s + UNDER_WAY_S
        safe = max([gone, *(time for time in until if time is not None)])
        return safe, replace(recovery, unknown=(*recovery.unknown, *unknown))

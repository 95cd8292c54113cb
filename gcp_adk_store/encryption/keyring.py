"""Make, find, keep and destroy the data keys of users, apps and owners of tasks."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from gcp_adk_store import machine
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.encryption.key_documents import Destroyed, KeyLayout, StoredKey, read_key_document
from gcp_adk_store.encryption.places import Scope
from gcp_adk_store.encryption.sealing import DATA_KEY_BYTES, KEY_ID_BYTES, DataKey
from gcp_adk_store.errors import StoredDataError, StoreError, UnavailableError
from gcp_adk_store.kernel.concurrency import Lru, fan_out
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact
from gcp_adk_store.settings.envelope import KeyWrapper, Wrapped

_KNOWN: Final = 10_000
"""Data keys that a process keeps, of about 1 kB each."""

UNDER_WAY_S: Final = 60.0
"""How long a write may go on that was encrypted just before its key left the cache."""


class _Known(NamedTuple):
    key: DataKey
    until: float
    """On the clock of ``machine.monotonic``."""


class Keyring:
    """The data keys of one store; safe from any thread and event loop."""

    def __init__(self, documents: Documents, wrapper: KeyWrapper, prefix: str, *, cache_s: float) -> None:
        self.documents = documents
        """The database of the wrapped keys."""
        self.layout = KeyLayout(prefix)
        self.wrapper = wrapper
        """What wraps them."""
        self.cache_s = cache_s
        self._known: Lru[Scope, _Known] = Lru(_KNOWN)
        self._loading: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[tuple[Scope, bool], asyncio.Task[DataKey | None]]
        ] = WeakKeyDictionary()

    async def to_read(self, scopes: Sequence[Scope]) -> dict[Scope, DataKey | None]:
        """Return the keys of *scopes*; ``None`` for one that does not exist, or was destroyed."""
        known = {scope: self._in_cache(scope) for scope in scopes}
        missing = [scope for scope, key in known.items() if key is None]
        if missing:
            found = await fan_out(self._shared(scope, makes=False) for scope in missing)
            known |= dict(zip(missing, found, strict=True))
        return known

    async def to_write(self, scopes: Sequence[Scope]) -> dict[Scope, DataKey]:
        """Return the keys of *scopes*, and make those that do not exist.

        Raises:
            UnavailableError: a key was destroyed so short a time ago that others may still have it.
        """
        known = {scope: key for scope in scopes if (key := self._in_cache(scope)) is not None}
        missing = [scope for scope in scopes if scope not in known]
        if missing:
            made = await fan_out(self._shared(scope, makes=True) for scope in missing)
            known |= {scope: key for scope, key in zip(missing, made, strict=True) if key is not None}
        return known

    async def destroy(self, scope: Scope) -> float | None:
        """Destroy the key of *scope*; return since when it is, in Unix seconds, ``None`` if none ever was.

        From then on processes that do not have it cannot read anything of the scope, nor write to it until
        ``cache_s`` and a minute have passed: then nobody has it, and a write makes another one.

        Raises:
            OutcomeUnknownError: not answered; call it again.
        """

        def decide(found: StoredKey | Destroyed | None, _: Attempts) -> Decision[float | None]:
            if found is None:
                return Done(None)
            if isinstance(found, Destroyed):
                return Done(found.at)
            now = self.documents.clock.now()
            note = Destroyed(at=now, free_at=now + self.cache_s + UNDER_WAY_S)
            return Commit([self.layout.destroy(scope, found, note)], lambda _: note.at)

        try:
            return await transact(self.documents, partial(self.state, scope), decide, advice="call it again")
        finally:
            self._known.forget(lambda known: known == scope)

    async def state(self, scope: Scope) -> StoredKey | Destroyed | None:
        """Return the key of *scope* as it is stored, perhaps damaged, or when it was destroyed; 1 read."""
        (document,) = await self.documents.get([self.layout.path(scope)])
        if document is None:
            return None
        try:
            return read_key_document(document)
        except StoredDataError:
            return StoredKey(id=b"", wrapped=Wrapped(b"", ""), update_time=document.update_time)

    async def scrub(self) -> None:
        """Leave nothing of destroyed keys in the files of a local database."""
        await self.documents.scrub()

    async def close(self) -> None:
        """Close the connections to the keys' database, and forget the keys."""
        self._known.forget(lambda _: True)
        await self.documents.close()
        await self.wrapper.close()

    def _in_cache(self, scope: Scope) -> DataKey | None:
        known = self._known.get(scope)
        return known.key if known is not None and machine.monotonic() < known.until else None

    async def _shared(self, scope: Scope, *, makes: bool) -> DataKey | None:
        """Load a key once for all calls of this event loop that wait for it."""
        loading = self._loading.setdefault(asyncio.get_running_loop(), {})
        what = (scope, makes)
        task = loading.get(what)
        if task is not None:
            try:
                return await asyncio.shield(task)
            except StoreError:
                pass  # perhaps by the deadline of the call that began it
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise  # this call is cancelled, and not the one that began
            task = loading.get(what)
        if task is None:
            work: Coroutine[Any, Any, DataKey | None] = self._made(scope) if makes else self._read(scope)
            task = loading[what] = asyncio.ensure_future(work)
            task.add_done_callback(lambda done: _forget(loading, what, done))
        return await asyncio.shield(task)

    async def _read(self, scope: Scope) -> DataKey | None:
        """Return a key as it is stored; 1 read, and 1 operation of the wrapping key."""
        since = machine.monotonic()
        found = await self._find(scope)
        return await self._unwrapped(scope, found, since) if isinstance(found, StoredKey) else None

    async def _made(self, scope: Scope) -> DataKey:
        """Return the key of *scope*; make it if it does not exist, which takes 1 write more."""
        secret, key_id = machine.random_bytes(DATA_KEY_BYTES), machine.random_bytes(KEY_ID_BYTES)
        since = machine.monotonic()

        async def look() -> StoredKey | Destroyed | None:
            nonlocal since
            since = machine.monotonic()
            return await self._find(scope)

        def decide(found: StoredKey | Destroyed | None, _: Attempts) -> Decision[StoredKey | None]:
            if isinstance(found, StoredKey):
                return Done(found)
            now = self.documents.clock.now()
            if found is not None and now < found.free_at:
                raise UnavailableError(
                    f"the {scope.kind}'s data were erased, and other processes may still have the destroyed "
                    f"key: new data can be stored in {found.free_at - now:.0f} s",
                    retry_after_s=found.free_at - now,
                )

            async def put() -> list[Write]:
                wrapped = await self.wrapper.wrap(secret, self.layout.context(self.layout.path(scope)))
                return [self.layout.put(scope, key_id, wrapped, now=now, before=found)]

            # A key that was made and not read back holds nothing: what needed it has written nothing.
            return Commit(put, lambda _: None, is_first=True)

        # What is stored counts: a key that is used before would be lost with its writer.
        stored = await transact(self.documents, look, decide)
        if stored is not None:  # another process made it, or this one, whose answer was lost
            return await self._unwrapped(scope, stored, since)
        return self._keep(scope, DataKey(key_id, secret), since)

    async def _unwrapped(self, scope: Scope, stored: StoredKey, since: float) -> DataKey:
        secret = await self.wrapper.unwrap(stored.wrapped, self.layout.context(self.layout.path(scope)))
        return self._keep(scope, DataKey(stored.id, secret), since)

    def _keep(self, scope: Scope, key: DataKey, since: float) -> DataKey:
        """Remember *key*, counted from the begin of its read: a destruction after that is learned in time."""
        self._known.put(scope, _Known(key, since + self.cache_s))
        return key

    async def _find(self, scope: Scope) -> StoredKey | Destroyed | None:
        (document,) = await self.documents.get([self.layout.path(scope)])
        return None if document is None else read_key_document(document)


def _forget(
    loading: dict[tuple[Scope, bool], "asyncio.Task[DataKey | None]"],
    what: tuple[Scope, bool],
    done: "asyncio.Task[DataKey | None]",
) -> None:
    if loading.get(what) is done:
        del loading[what]
    if not done.cancelled():
        done.exception()  # every caller got it, or was cancelled

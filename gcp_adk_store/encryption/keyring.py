"""Make, find, cache and destroy data keys, and store them wrapped.

::

    {prefix}_keys/{SHA-256 of the scope}      a wrapped data key, or the note that one was destroyed

docs/encryption.md lists every field.
"""

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from pydantic import Field

from gcp_adk_store import machine
from gcp_adk_store.codec.documents import UNCHANGED_FORMAT
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.stored import DocumentFields, Number, read_fields
from gcp_adk_store.codec.writes import Delete, Document, Must, Write, update
from gcp_adk_store.encryption.fields import Scope
from gcp_adk_store.encryption.sealing import DATA_KEY_BYTES, KEY_ID_BYTES, DataKey, LostKey
from gcp_adk_store.errors import StoredDataError, StoreError, UnavailableError
from gcp_adk_store.kernel.concurrency import Lru, gather
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact
from gcp_adk_store.settings.envelope import KeyWrapper, Wrapped

_NOTED_S: Final = 24 * 3600
"""How long the note of a destroyed key is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A wrapped data key as it is stored."""

    id: bytes
    wrapped: Wrapped
    update_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroyed:
    """The note that a data key was destroyed."""

    at: float
    """Unix time by the database's clock, in seconds."""
    free_at: float
    """From then on no process has the key any more, so another one can take its place."""
    update_time: str = ""

    @property
    def is_over_at(self) -> float:
        """When nobody needs the note any more."""
        return max(self.at + _NOTED_S, self.free_at)


class _Key(DocumentFields):
    id: Annotated[bytes, Field(min_length=KEY_ID_BYTES, max_length=KEY_ID_BYTES)]
    wrapped: Annotated[bytes, Field(max_length=10_000)]
    version: Annotated[str, Field(max_length=1000)]


class _Destroyed(DocumentFields):
    destroyed_at: Number
    free_at: Number


class KeyLayout:
    """Paths and writes of the data keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.collection = f"{prefix}_keys"
        """Id of the collection."""

    def path(self, scope: Scope) -> str:
        """Path of the document of a scope's key."""
        return f"{self.collection}/{scope.name}"

    def context(self, path: str) -> bytes:
        """Return what the wrapped key at *path* is bound to: it unwraps nowhere else."""
        return f"gcp-adk-store/1/{path}".encode()

    def put(
        self, scope: Scope, key_id: bytes, wrapped: Wrapped, *, now: float, before: Destroyed | None
    ) -> Write:
        """Return the write of a new key, which requires that none is there but *before*."""
        return Write(
            path=self.path(scope),
            fields={
                "format": UNCHANGED_FORMAT,
                "kind": scope.kind,
                "id": key_id,
                "wrapped": wrapped.data,
                "version": wrapped.version,
                "create_time": now,
            },
            must=Must.BE_ABSENT if before is None else before.update_time,
        )

    def rewrap(self, path: str, stored: StoredKey, wrapped: Wrapped) -> Write:
        """Return the write that wraps the key at *path* anew, if it is as *stored*."""
        fields: dict[str, FieldValue] = {"wrapped": wrapped.data, "version": wrapped.version}
        return update(path, fields, must=stored.update_time)

    def destroy(self, scope: Scope, stored: StoredKey, destroyed: Destroyed) -> Write:
        """Return the write that puts a note in the place of a key, if it is as *stored*."""
        return Write(
            path=self.path(scope),
            fields={
                "format": UNCHANGED_FORMAT,
                "kind": scope.kind,
                "destroyed_at": destroyed.at,
                "free_at": destroyed.free_at,
                "expire_at": datetime.fromtimestamp(destroyed.is_over_at, UTC),
            },
            must=stored.update_time,
        )

    def forget(self, path: str, destroyed: Destroyed) -> Delete:
        """Return the delete of a note that nobody needs any more, if it is as it was read."""
        return Delete(path=path, must=destroyed.update_time)


def read_key_document(document: Document) -> StoredKey | Destroyed:
    """Return the key in *document*, or the note that it was destroyed.

    Raises:
        StoredDataError: it has another format, lacks a field or is damaged.
    """
    if "destroyed_at" in document.fields:
        note = read_fields(_Destroyed, document)
        return Destroyed(at=note.destroyed_at, free_at=note.free_at, update_time=document.update_time)
    key = read_fields(_Key, document)
    wrapped = Wrapped(key.wrapped, key.version)
    return StoredKey(id=key.id, wrapped=wrapped, update_time=document.update_time)


_KNOWN: Final = 10_000
"""Data keys that a process keeps, of about 1 kB each."""

UNDER_WAY_S: Final = 60.0
"""How long a write may go on that was encrypted just before its key left the cache."""


_Loaded = DataKey | LostKey | None


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
            asyncio.AbstractEventLoop, dict[tuple[Scope, bool], asyncio.Task[_Loaded]]
        ] = WeakKeyDictionary()

    async def to_read(self, scopes: Sequence[Scope]) -> dict[Scope, DataKey | LostKey | None]:
        """Return the keys of *scopes*; ``None`` for one that does not exist, or was destroyed.

        One that cannot be unwrapped is a :class:`LostKey`, so that others are read beside it.
        """
        known: dict[Scope, _Loaded] = {scope: self._in_cache(scope) for scope in scopes}
        missing = [scope for scope, key in known.items() if key is None]
        if missing:
            found = await gather(self._shared(scope, makes=False) for scope in missing)
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
            made = await gather(self._shared(scope, makes=True) for scope in missing)
            known |= {
                scope: key for scope, key in zip(missing, made, strict=True) if isinstance(key, DataKey)
            }
        return known

    async def destroy(self, scope: Scope) -> float | None:
        """Destroy the key of *scope*; return when, in Unix seconds, ``None`` if none ever was.

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
        known = self._known.lookup(scope)
        return known.key if known is not None and machine.monotonic() < known.until else None

    async def _shared(self, scope: Scope, *, makes: bool) -> _Loaded:
        """Load a key once for all calls of this event loop that wait for it."""
        loading = self._loading.setdefault(asyncio.get_running_loop(), {})
        what = (scope, makes)

        def forget(done: asyncio.Task[_Loaded]) -> None:
            if loading.get(what) is done:
                del loading[what]
            if not done.cancelled():
                done.exception()  # every caller got it, or was cancelled

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
            work: Coroutine[Any, Any, _Loaded] = self._made(scope) if makes else self._read(scope)
            task = loading[what] = asyncio.ensure_future(work)
            task.add_done_callback(forget)
        return await asyncio.shield(task)

    async def _read(self, scope: Scope) -> _Loaded:
        """Return a key as it is stored; 1 read, and 1 operation of the wrapping key."""
        since = machine.monotonic()
        try:
            found = await self._find(scope)
            return await self._unwrapped(scope, found, since) if isinstance(found, StoredKey) else None
        except StoredDataError as exc:
            return LostKey(str(exc))

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
                    f"data of the {scope.kind} was erased, and other processes may still have the destroyed "
                    f"key; store new data after {math.ceil(found.free_at - now)} s",
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

"""Encrypt the content of documents around another backend's port."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Final

from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.encryption.fields import OF_ONE_LIFE, Place, Places, has_content, opened, sealed
from gcp_adk_store.encryption.keyring import Keyring
from gcp_adk_store.encryption.sealing import DataKey, LostKey
from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.kernel.around import OF_READS, Around, Inner
from gcp_adk_store.kernel.concurrency import Pauses, offload
from gcp_adk_store.kernel.operation import running
from gcp_adk_store.kernel.ports import Documents, Reads

_EPOCH: Final = "epoch"

_LIGHT_BYTES: Final = 256 * 1024
"""AES-GCM takes 0.05 ms for so much."""


class SealedReads(Around[Inner]):
    """Reads that decrypt what *inner* finds."""

    passed_on = OF_READS

    def __init__(
        self, inner: Inner, places: Places, keys: Keyring, *, accept_plaintext: bool = False
    ) -> None:
        super().__init__(inner)
        self._places = places
        self._keys = keys
        self._accept_plaintext = accept_plaintext

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port; takes 1 read and 1 operation of the wrapping key for each unknown data key."""
        asked = self._asked({self._places.collection(path) for path in paths}, fields)
        found = await self.inner.get(paths, fields=asked)
        documents = iter(await self._opened([each for each in found if each is not None], fields, asked))
        return [None if each is None else next(documents) for each in found]

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """As the port, at the price of :meth:`get`; filters and orders see what is stored."""
        asked = self._asked({self._places.collection(f"{collection}/")}, fields)
        found = await self.inner.query(
            parent, collection, fields=asked, all_descendants=all_descendants, page=page
        )
        return await self._opened(found, fields, asked)

    def _asked(self, collections: Iterable[str], fields: Sequence[str] | None) -> Sequence[str] | None:
        """Return the fields to ask for: with content comes the epoch that it is bound to."""
        if fields is None or _EPOCH in fields:
            return fields
        needed = any(
            not self._places.forms(collection).keys().isdisjoint(fields)
            for collection in collections
            if collection in OF_ONE_LIFE
        )
        return (*fields, _EPOCH) if needed else fields

    async def _opened(
        self, found: Sequence[Document], fields: Sequence[str] | None, asked: Sequence[str] | None
    ) -> list[Document]:
        places = [self._place_of(document) for document in found]
        keys = await self._keys.to_read([*{place.scope: None for place in places if place is not None}])
        pauses = Pauses()
        documents = []
        for document, place in zip(found, places, strict=True):
            opening = document if place is None else await self._open(document, place, keys[place.scope])
            if fields is not asked:
                kept = {name: value for name, value in opening.fields.items() if name != _EPOCH}
                opening = replace(opening, fields=kept)
            documents.append(opening)
            if pauses.is_due:
                await pauses.pause()
        return documents

    async def _open(self, document: Document, place: Place, key: DataKey | LostKey | None) -> Document:
        epoch = document.fields.get(_EPOCH)
        life = epoch if place.is_of_one_life and isinstance(epoch, str) else ""

        def decrypt() -> Document:
            return opened(document, place.forms, key, life, accept_plaintext=self._accept_plaintext)

        return await offload(decrypt, light=_is_light(document.fields))

    def _place_of(self, document: Document) -> Place | None:
        """Return the place of a document that has content."""
        place = self._places.at(document.path)
        if place is None:
            return None
        fields = document.fields
        return place if any(fields.get(name) not in (None, {}, []) for name in place.forms) else None


class SealedDocuments(SealedReads[Documents]):
    """The documents of *inner*, whose content is encrypted there and plain here."""

    passed_on = OF_READS | {"split_points"}

    async def commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        """As the port; the first content of a user takes 1 write and 1 operation of the wrapping key more.

        Raises:
            UnavailableError: also if the user's key was destroyed a moment ago, or after the running
                operation stored payloads with it; nothing was written.
        """
        content: dict[int, tuple[Write, Place]] = {}
        for number, item in enumerate(writes):
            place = self._places.at(item.path) if isinstance(item, Write) else None
            if isinstance(item, Write) and place is not None and has_content(item, place.forms):
                content[number] = item, place
        keys = await self._keys.to_write([*{place.scope: None for _, place in content.values()}])
        operation = running()
        payload_keys = {} if operation is None else operation.payload_keys
        for scope, key in keys.items():
            if payload_keys.get(scope, key.id) != key.id:
                raise UnavailableError(
                    f"data of the {scope.kind} was erased meanwhile, and large content was stored with the "
                    "destroyed key; call it again"
                )
        ready = [*writes]
        for number, (item, place) in content.items():
            ready[number] = await _sealed(item, place, keys[place.scope])
        written = await self.inner.commit(ready)
        for scope in keys:
            payload_keys.pop(scope, None)
        return written

    async def before(self, path: str, time: str, *, fields: Sequence[str]) -> Document | None:
        """As the port, at the price of :meth:`get`."""
        asked = self._asked({self._places.collection(path)}, fields) or fields
        found = await self.inner.before(path, time, fields=asked)
        return None if found is None else (await self._opened([found], fields, asked))[0]

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port; keys are read as they are now."""
        async with self.inner.snapshot() as inner:
            yield SealedReads(inner, self._places, self._keys, accept_plaintext=self._accept_plaintext)

    async def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port."""
        async with aclosing(self.inner.watch(path)) as documents:
            async for document in documents:
                if document is None:
                    yield None
                else:
                    (found,) = await self._opened([document], None, None)
                    yield found

    async def scrub(self) -> None:
        """As the port, and of the removed keys too."""
        await self.inner.scrub()
        await self._keys.scrub()

    async def close(self) -> None:
        """As the port."""
        await self.inner.close()
        await self._keys.close()


async def _sealed(item: Write, place: Place, key: DataKey) -> Write:
    life = item.life if place.is_of_one_life else ""
    if place.is_of_one_life and not life:
        raise TypeError(f"a write of content of {item.path} does not name its epoch")
    return await offload(lambda: sealed(item, place.forms, key, life), light=_is_light(item.fields))


def _is_light(fields: Mapping[str, object]) -> bool:
    body = fields.get("body")
    return not isinstance(body, bytes) or len(body) <= _LIGHT_BYTES

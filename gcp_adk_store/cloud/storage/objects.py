"""Objects of a bucket, as the port of objects says."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar

import requests
from google.api_core import exceptions as api
from google.cloud.storage.exceptions import DataCorruption

from gcp_adk_store.cloud.storage.calls import Once, Permission, StorageCalls
from gcp_adk_store.codec.objects import ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.codec.packing import CHANGED_BYTES
from gcp_adk_store.errors import (
    AccessDeniedError,
    InvalidInputError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.kernel.ports import ConditionFailedError, ObjectGoneError, RefusedError
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.payloads import LeftFile

T = TypeVar("T")


def stored(blob: Any) -> StoredObject:
    """Return an object from a listing or a read.

    Raises:
        StoredDataError: its resource lacks a field that every object has.
    """
    return StoredObject(
        name=blob.name,
        generation=_required(blob, "generation"),
        content_type=blob.content_type,
        metadata=blob.metadata or {},
        create_time=_required(blob, "time_created").timestamp(),
        size=_required(blob, "size"),
        content_encoding=blob.content_encoding,
        crc32c=blob.crc32c,
        md5=blob.md5_hash,
    )


def scanned(blob: Any) -> ScannedObject:
    """Return an object from a scan.

    Raises:
        StoredDataError: as :func:`stored`.
    """
    return ScannedObject(
        name=blob.name,
        version=f"{_required(blob, 'generation')}/{_required(blob, 'metageneration')}",
        size=_required(blob, "size"),
        metadata=blob.metadata or {},
        update_time=_required(blob, "updated").timestamp(),
    )


def _required(blob: Any, field: str) -> Any:
    try:
        value = getattr(blob, field)
    except (TypeError, ValueError) as exc:
        raise StoredDataError(f"the {field} of object {blob.name!r} cannot be read") from exc
    if value is None:
        raise StoredDataError(f"object {blob.name!r} has no {field}")
    return value


_CONVERTED: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "name": ("name", str),
    "generation": ("generation", int),
    "metageneration": ("metageneration", int),
    "size": ("size", int),
    "content_type": ("contentType", str),
    "content_encoding": ("contentEncoding", str),
    "metadata": ("metadata", dict),
    "crc32c": ("crc32c", str),
    "md5_hash": ("md5Hash", str),
    "time_created": ("timeCreated", datetime.fromisoformat),
    "updated": ("updated", datetime.fromisoformat),
    "custom_time": ("customTime", datetime.fromisoformat),
}
"""Attribute of the client's ``Blob`` -> name in the resource, and what converts it."""


def _resources_of(listing: Any) -> Iterator[Mapping[str, Any]]:
    for page in listing.pages:
        yield from page.raw_page.get("items", ())


class _Listed:
    """An object of a listing, with the attributes of the client's ``Blob``, read when they are asked for.

    A ``Blob`` copies the metadata at each look, and parses times with ``strptime``.
    """

    def __init__(self, resource: Mapping[str, Any]) -> None:
        self._resource = resource

    def __getattr__(self, attribute: str) -> Any:
        name, convert = _CONVERTED[attribute]
        value = self._resource.get(name)
        return None if value is None else convert(value)


OTHER_BYTES: Final = "other bytes arrived than were sent, and none of them are stored; save again"

LONGEST_STALL: Final = 5
"""The limit of consecutive requests without progress, of one upload or copy."""

_NAMES: Final = "items(name),nextPageToken"
_TIMES: Final = "items(name,generation,metageneration,customTime),nextPageToken"
_INFO: Final = "name,generation,contentType,contentEncoding,metadata,timeCreated,size"
_INFOS: Final = f"items({_INFO}),nextPageToken"
_SCANNED: Final = "items(name,generation,metageneration,size,metadata,updated),nextPageToken"
_SCANNED_AT_ONCE: Final = 1000
_INFOS_WITH_HASHES: Final = f"items({_INFO},crc32c,md5Hash),nextPageToken"


class Objects:
    """The objects of a bucket in Cloud Storage, as :class:`gcp_adk_store.kernel.ports.Objects` says."""

    def __init__(self, calls: StorageCalls, *, kms_key_name: str | None = None) -> None:
        self.bucket = calls.bucket
        self.kms_key_name = kms_key_name
        self._calls = calls

    def uri_of(self, name: str) -> str:
        """As the port: ``gs://BUCKET/NAME``."""
        return f"gs://{self.bucket}/{name}"

    async def create(
        self, name: str, upload: ObjectFields, *, marks: Mapping[str, str] | None = None
    ) -> None:
        """As the port, in one request; an existing object, and bytes that are refused, take one more."""

        def send(bucket: Any, once: Once) -> None:
            self.blob_of(bucket, name, upload).upload_from_string(
                upload.data,
                content_type=upload.content_type,
                if_generation_match=0,
                checksum="crc32c",
                **once,
            )

        async def look() -> object:
            if marks is None:
                return await self.info(name)
            return await self.mark(name, marks)

        try:
            await self._calls.make(lambda: self._calls.write(send, Permission.CREATE, conditional=True), look)
        except (AccessDeniedError, InvalidInputError) as refused:
            is_answer_to_bytes = isinstance(refused, InvalidInputError) or isinstance(
                refused.__cause__, ConditionFailedError
            )
            if is_answer_to_bytes and await self._takes_without_bytes(name, upload):
                raise UnavailableError(OTHER_BYTES) from refused
            raise
        telemetry.count_content(sent=len(upload.data))

    async def _takes_without_bytes(self, name: str, upload: ObjectFields) -> bool:
        """Return whether Cloud Storage takes the request for an object before its bytes.

        Cloud Storage refuses bytes that do not match their CRC32C with 400, other servers of its API with
        412, and a wrong field, or a policy that forbids the object, has the same answers.
        """
        try:
            await self.begin(name, upload, size=len(upload.data))
        except (StoreError, RefusedError):
            return False
        return True

    async def begin(self, name: str, fields: ObjectFields, *, size: int) -> str:
        """Begin a resumable upload of an object that must not exist; return its URL.

        Cloud Storage drops an upload that is not finished after a week.
        """

        def begin(bucket: Any, once: Once) -> str:
            blob = self.blob_of(bucket, name, fields)
            url: str = blob.create_resumable_upload_session(
                content_type=fields.content_type,
                size=size,
                if_generation_match=0,
                **once,
            )
            return url

        return await self._calls.write(begin, Permission.CREATE, conditional=True)

    async def copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        """As the port, in one request; a large object may take several.

        Raises:
            UnavailableError: also if 5 requests in a row copy nothing.
        """
        await self._calls.make(lambda: self._copy(source, name, fields), lambda: self.info(name))

    async def _copy(self, source: StoredObject, name: str, fields: ObjectFields) -> None:
        token: str | None = None
        copied = stalled = 0

        def rewrite(bucket: Any, once: Once) -> tuple[str | None, int]:
            blob = self.blob_of(bucket, name, fields)
            blob.content_type = fields.content_type
            if source.content_encoding is not None:
                blob.content_encoding = source.content_encoding
            try:
                following, done, _ = blob.rewrite(
                    bucket.blob(source.name, generation=source.generation),
                    token=token,
                    if_generation_match=0,
                    **once,
                )
            except api.NotFound as exc:
                raise ObjectGoneError from exc
            return following, done

        while stalled < LONGEST_STALL:
            try:
                token, done = await self._calls.write(rewrite, Permission.CREATE, conditional=True)
            except ObjectGoneError:
                await self._calls.require_bucket()
                raise
            if token is None:
                return
            stalled = 0 if done > copied else stalled + 1
            copied = max(copied, done)
        raise UnavailableError("Cloud Storage made no progress with the copy; try again later")

    async def names(self, prefix: str, *, delimiter: str | None) -> list[str]:
        """As the port, in one request for each 1,000 names."""
        return await self._list(
            prefix, delimiter=delimiter, fields=_NAMES, of=lambda each: f"{each.get('name')}"
        )

    async def infos(self, prefix: str, *, delimiter: str | None, hashes: bool = False) -> list[StoredObject]:
        """As the port, in the requests of :meth:`names`."""
        fields = _INFOS_WITH_HASHES if hashes else _INFOS
        return await self._list(
            prefix, delimiter=delimiter, fields=fields, of=lambda each: stored(_Listed(each))
        )

    async def info(self, name: str) -> StoredObject | None:
        """As the port, in one request."""
        blob = await self._calls.find(name)
        return None if blob is None else stored(blob)

    async def read(
        self, name: str, *, generation: int | None, part: tuple[int, int] | None = None
    ) -> tuple[bytes, int] | None:
        """As the port, in one request; CRC32C checks the bytes, and the length those of a *part*."""

        def download(bucket: Any, once: Once) -> tuple[bytes, int] | None:
            blob = bucket.blob(name, generation=generation)
            asked: dict[str, Any] = {"checksum": "crc32c"}
            if part is not None:
                # A part counts stored bytes, regardless of their encoding.
                asked = {"checksum": None, "raw_download": True, "start": part[0], "end": part[1] - 1}
            try:
                data = blob.download_as_bytes(**asked, **once)
            except api.NotFound:
                return None
            except DataCorruption as exc:
                # A proxy that cuts or replaces a body changes its length.
                if f"{exc.response.raw.tell()}" != exc.response.headers.get("X-Goog-Stored-Content-Length"):
                    raise
                raise StoredDataError(CHANGED_BYTES) from exc
            # A proxy's answer lacks the header, and a cut part lacks a checksum.
            if blob.generation is None or (part is not None and len(data) != part[1] - part[0]):
                raise requests.exceptions.ContentDecodingError("the answer does not fit the request")
            return data, blob.generation

        found = await self._calls.read(download, Permission.GET)
        if found is None:
            await self._calls.require_bucket()
        else:
            telemetry.count_content(received=len(found[0]))
        return found

    async def keep_until(self, prefix: str, time: datetime) -> None:
        """As the port, in one listing and one request for each object; again if others change them.

        Raises:
            UnavailableError: also if others change them until the deadline of a request.
        """

        async def look() -> Changed | None:
            blobs = await self._list(
                prefix,
                delimiter=None,
                fields=_TIMES,
                of=lambda each: (blob := _Listed(each), blob.custom_time),
            )
            earlier = [blob for blob, custom_time in blobs if custom_time is not None and custom_time < time]
            if not earlier:
                return None
            await gather(self._set_custom_time(blob, time) for blob in earlier)
            return CHANGED

        await read_whole(self._calls.deadline_s, look)

    async def scan(self, prefix: str) -> AsyncIterator[list[ScannedObject]]:
        """As the port, in one request for each page of 1,000."""
        after: str | None = None

        def page(bucket: Any, once: Once) -> list[ScannedObject]:
            found = bucket.client.list_blobs(
                bucket,
                prefix=prefix,
                start_offset=after,
                # The first object of a page is the last one of the page before.
                max_results=_SCANNED_AT_ONCE + 1,
                fields=_SCANNED,
                **once,
            )
            return [scanned(listed) for listed in map(_Listed, _resources_of(found)) if listed.name != after]

        while True:
            objects = await self._calls.read(page, Permission.LIST)
            yield objects
            if len(objects) < _SCANNED_AT_ONCE:
                return
            after = objects[-1].name

    async def mark(self, name: str, metadata: Mapping[str, str]) -> bool:
        """As the port, in one request."""

        def patch(bucket: Any, once: Once) -> bool:
            blob = bucket.blob(name)
            blob.metadata = dict(metadata)
            try:
                blob.patch(**once)
            except api.NotFound:
                return False
            return True

        there = await self._calls.write(patch, Permission.UPDATE, conditional=False)
        if not there:
            await self._calls.require_bucket()
        return there

    async def delete_unchanged(self, name: str, version: str) -> bool:
        """As the port, in one request; a refusal takes one more."""
        generation, metageneration = (int(number) for number in version.split("/"))
        return await self._delete(name, generation, metageneration)

    async def delete(self, name: str, *, generation: int | None) -> None:
        """As the port, in one request; a refusal takes one more."""
        await self._delete(name, generation, None)

    async def _delete(self, name: str, generation: int | None, metageneration: int | None) -> bool:
        """Remove an object of this version, where ``None`` stands for any; return whether it is gone."""

        def remove(bucket: Any, once: Once) -> bool:
            with suppress(api.NotFound):  # removed before
                bucket.delete_blob(
                    name, if_generation_match=generation, if_metageneration_match=metageneration, **once
                )
            return True

        try:
            return await self._calls.write(remove, Permission.DELETE, conditional=generation is not None)
        except ConditionFailedError as refused:
            # The generation is gone if the existing object is newer.
            found = await self._calls.explained(refused, name, generation, metageneration)
            return found is None

    async def left(self, *, every: bool) -> list[LeftFile]:  # noqa: ARG002  # of the port
        """As the port: none, without a request."""
        return []

    async def remove_left(self, files: Sequence[LeftFile]) -> list[LeftFile]:  # noqa: ARG002  # of the port
        """As the port: a bucket has no such files."""
        return []

    async def close(self) -> None:
        """As the port."""
        await self._calls.close()

    def blob_of(self, bucket: Any, name: str, fields: ObjectFields) -> Any:
        """Return the client's handle of an object to create."""
        blob = bucket.blob(name, kms_key_name=self.kms_key_name)
        blob.metadata = dict(fields.metadata)
        if fields.custom_time is not None:
            blob.custom_time = fields.custom_time
        if fields.storage_class is not None:
            blob.storage_class = fields.storage_class
        return blob

    async def _set_custom_time(self, seen: Any, time: datetime) -> None:
        def patch(bucket: Any, once: Once) -> None:
            blob = bucket.blob(seen.name)
            blob.custom_time = time
            with suppress(api.NotFound):
                blob.patch(if_metageneration_match=seen.metageneration, **once)

        try:
            await self._calls.write(patch, Permission.UPDATE, conditional=True)
        except ConditionFailedError as refused:
            # Moved by another call, or by an unanswered attempt of this one.
            await self._calls.explained(refused, seen.name, seen.generation, seen.metageneration)

    async def _list(
        self, prefix: str, *, delimiter: str | None, fields: str, of: Callable[[Mapping[str, Any]], T]
    ) -> list[T]:
        def pages(bucket: Any, once: Once) -> list[T]:
            asked = {"prefix": prefix, "delimiter": delimiter, "fields": fields}
            # In the thread of the request: of a thousand objects, it would hold the event loop.
            return [of(each) for each in _resources_of(bucket.client.list_blobs(bucket, **asked, **once))]

        return await self._calls.read(pages, Permission.LIST)

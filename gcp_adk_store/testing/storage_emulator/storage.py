"""Keep buckets, objects and uploads in memory, and list them."""

import base64
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from gcp_storage_emulator.storage import Storage

from gcp_adk_store.testing.storage_emulator.exchange import JsonObject, bad_request, not_found
from gcp_adk_store.testing.storage_emulator.resources import ContentRange, Hashes, Preconditions, new_resource

CHUNK_UNIT: Final = 256 * 1024  # Every chunk but the last is a multiple of this.


@dataclass(slots=True, kw_only=True)
class UploadSession:
    """One resumable upload between its start and its end."""

    bucket: str
    name: str
    fields: JsonObject
    hashes: Hashes
    preconditions: Preconditions
    declared_size: int | None
    received: bytearray = field(default_factory=bytearray)
    finished: JsonObject | None = None
    """The resource it became: a sender that lost the last answer may ask again."""

    def accept(self, chunk: bytes, place: ContentRange) -> bool:
        """Keep *chunk* at *place* and return whether the upload is now complete.

        Bytes that arrived before are skipped, so a chunk may be sent twice.

        Raises:
            ApiError: 400 for a gap, for a chunk that is neither the last nor a multiple of
                256 KiB, and for a size other than the one declared. Nothing was kept.
        """
        total = place.total
        if total is not None and self.declared_size not in {None, total}:
            raise bad_request(f"The upload was declared with {self.declared_size} bytes, not {total}")
        have = len(self.received)
        if place.start is None:
            return total is not None and have == total
        if place.start > have:
            raise bad_request(f"Content-Range starts at {place.start}, but {have} bytes are stored")
        complete = total is not None and place.start + len(chunk) == total
        if not complete and len(chunk) % CHUNK_UNIT:
            raise bad_request(f"A chunk of {len(chunk)} bytes is not a multiple of {CHUNK_UNIT}")
        self.received += chunk[have - place.start :]
        return total is not None and len(self.received) == total

    def finish(self, resource: JsonObject) -> None:
        """Remember the outcome and let go of the bytes."""
        self.finished = resource
        self.received = bytearray()


MAX_SOFT_DELETED_BYTES: Final = 64 * 1024 * 1024
MAX_SOFT_DELETED_OBJECTS: Final = 10_000
MAX_UPLOADS: Final = 1000  # Running and finished; the oldest is forgotten.


class StrictStorage(Storage):  # type: ignore[misc]  # untyped base
    """Storage whose writes cost the same with any amount of data.

    Not safe for threads: the server holds one lock around every call, which is also what
    makes a precondition and the write it guards one step.
    """

    buckets: dict[str, JsonObject]
    objects: dict[str, dict[str, JsonObject]]

    def __init__(self) -> None:
        super().__init__(use_memory_fs=True)
        self.uploads: dict[str, UploadSession] = {}
        self._last_generation = 0
        self._soft_deletions: deque[tuple[str, str, str, int]] = deque()
        self._soft_deleted_bytes = 0

    def next_generation(self) -> int:
        """Return the time in microseconds, but always more than the last time."""
        self._last_generation = max(time.time_ns() // 1000, self._last_generation + 1)
        return self._last_generation

    def check_bucket(self, bucket: str) -> None:
        """Return if *bucket* exists, or answer 404."""
        if bucket not in self.buckets:
            raise not_found("The specified bucket does not exist.", code="NoSuchBucket")

    def find(self, bucket: str, name: str, *, generation: str | None = None) -> JsonObject | None:
        """Return the live object's resource, or None if it or that generation is not there.

        Raises:
            ApiError: 404 when the bucket does not exist.
        """
        self.check_bucket(bucket)
        resource = self.objects.get(bucket, {}).get(name)
        if resource is None or generation not in {None, resource["generation"]}:
            return None
        return resource

    def get(self, bucket: str, name: str, *, generation: str | None = None) -> JsonObject:
        """Return the live object's resource, or answer 404."""
        resource = self.find(bucket, name, generation=generation)
        if resource is None:
            suffix = f"#{generation}" if generation is not None else ""
            raise not_found(f"No such object: {bucket}/{name}{suffix}")
        return resource

    def read(self, resource: JsonObject) -> bytes:
        """Return the bytes of a live object."""
        content: bytes = self.get_file(resource["bucket"], resource["name"])
        return content

    def write(
        self, bucket: str, name: str, content: bytes, *, base_url: str, hashes: Hashes, fields: JsonObject
    ) -> JsonObject:
        """Make *content* the live object, and return its resource; what it replaces is soft-deleted."""
        resource = new_resource(
            base_url=base_url,
            bucket=bucket,
            name=name,
            generation=self.next_generation(),
            hashes=hashes,
            size=len(content),
            storage_class=self.buckets[bucket]["storageClass"],
            fields=fields,
        )
        if self.find(bucket, name) is not None:
            self.delete_file(bucket, name)
        self.create_file(bucket, name, content, resource)
        return resource

    def open_upload(self, upload_id: str, session: UploadSession) -> None:
        """Remember a new resumable upload."""
        self.uploads[upload_id] = session
        if len(self.uploads) > MAX_UPLOADS:
            del self.uploads[next(iter(self.uploads))]

    def delete_file(self, bucket_name: str, file_name: str) -> None:
        """Delete a live object, softly if its bucket says so.

        Soft-deleted bytes are bounded: past the limits the oldest are gone for good, for a
        test run lasts minutes and the retention period days.
        """
        resource = self.get(bucket_name, file_name)
        super().delete_file(bucket_name, file_name)
        generation, size = resource["generation"], int(resource["size"])
        if generation not in self.soft_deleted.get(bucket_name, {}).get(file_name, {}):
            return
        self._soft_deletions.append((bucket_name, file_name, generation, size))
        self._soft_deleted_bytes += size
        while (
            self._soft_deleted_bytes > MAX_SOFT_DELETED_BYTES
            or len(self._soft_deletions) > MAX_SOFT_DELETED_OBJECTS
        ):
            bucket, name, oldest, freed = self._soft_deletions.popleft()
            self._soft_deleted_bytes -= freed
            self._remove_soft_deleted_generation(bucket, name, oldest)

    def delete_bucket(self, bucket_name: str) -> None:
        """Delete an empty bucket; its unfinished uploads go with it."""
        super().delete_bucket(bucket_name)
        self.uploads = {key: upload for key, upload in self.uploads.items() if upload.bucket != bucket_name}

    def wipe(self, keep_buckets: bool = False) -> None:  # noqa: FBT001, FBT002  # gse's signature
        """Forget everything, or everything but the buckets."""
        super().wipe(keep_buckets)
        self.uploads = {}
        self._soft_deletions.clear()
        self._soft_deleted_bytes = 0

    def _write_config_to_file(self) -> None:
        # The base class serialises the index of all objects on every write, even in memory
        # where nothing ever reads it back.
        pass

    def _object_path(self, bucket_name: str, file_name: str) -> str:
        # The base class treats an object name as a path: it strips leading slashes, turns
        # backslashes round, folds "//" and raises on "..". Names are opaque, so quote them.
        return f"{bucket_name}/{quote(file_name, safe='')}"


MAX_PAGE: Final = 1000  # Also the default; larger requests are cut to it.


class Key(NamedTuple):
    """The place of one entry in a listing.

    Compares as the service orders: by the UTF-8 bytes of the name.
    """

    name: bytes
    is_prefix: bool
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What a list request asks for."""

    prefix: str = ""
    delimiter: str = ""
    start: bytes = b""
    """Inclusive."""
    end: bytes = b""
    """Exclusive; empty means no bound."""
    trailing_delimiter: bool = False
    limit: int = MAX_PAGE
    after: Key | None = None

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Self:
        """Read the parameters of a list request, or refuse them with 400."""
        try:
            limit = int(args.get("maxResults") or MAX_PAGE)
        except ValueError as exc:
            raise bad_request(f"Invalid value for maxResults: {args['maxResults']!r}") from exc
        if limit < 1:
            raise bad_request(f"Invalid value for maxResults: {limit}")
        token = args.get("pageToken")
        return cls(
            prefix=args.get("prefix", ""),
            delimiter=args.get("delimiter", ""),
            start=args.get("startOffset", "").encode(),
            end=args.get("endOffset", "").encode(),
            trailing_delimiter=args.get("includeTrailingDelimiter", "").lower() == "true",
            limit=min(limit, MAX_PAGE),
            after=_decode(token) if token else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page, in order."""

    items: list[tuple[str, int]]
    """Name and generation, as they were given."""
    prefixes: list[str]
    next_token: str | None


def select_page(
    names: Iterable[tuple[str, int]], query: ListQuery, *, matches: Callable[[str], bool]
) -> Page:
    """Return the page of *names* that *query* asks for.

    A page counts items and prefixes together. Offsets bound object names, so a prefix is
    listed when one of its objects lies inside them even if the prefix itself does not.

    Args:
        names: name and generation of every object; give 0 where a name has one generation,
            so that an object overwritten between two pages is not listed twice.
        query: what was asked for.
        matches: whether a name or a prefix satisfies the request's glob.
    """
    keys: set[Key] = set()
    for name, generation in names:
        if not name.startswith(query.prefix):
            continue
        encoded = name.encode()
        if encoded < query.start or (query.end and encoded >= query.end):
            continue
        keys.update(key for key in _entries(name, generation, query) if matches(key.name.decode()))
    ordered = sorted(key for key in keys if query.after is None or key > query.after)
    page = ordered[: query.limit]
    return Page(
        items=[(key.name.decode(), key.generation) for key in page if not key.is_prefix],
        prefixes=[key.name.decode() for key in page if key.is_prefix],
        next_token=_encode(page[-1]) if len(ordered) > len(page) else None,
    )


def _entries(name: str, generation: int, query: ListQuery) -> Iterable[Key]:
    found = name.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
    end = found + len(query.delimiter)
    if found >= 0:
        yield Key(name[:end].encode(), is_prefix=True, generation=0)
    if found < 0 or (query.trailing_delimiter and end == len(name)):
        yield Key(name.encode(), is_prefix=False, generation=generation)


def _encode(key: Key) -> str:
    text = json.dumps([key.name.decode(), key.is_prefix, key.generation])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decode(token: str) -> Key:
    try:
        name, is_prefix, generation = json.loads(base64.urlsafe_b64decode(token.encode()))
        return Key(name.encode(), bool(is_prefix), int(generation))
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as exc:
        raise bad_request("Invalid value for pageToken") from exc

"""Keep buckets, objects and uploads in memory, on top of gcp-storage-emulator's Storage."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from gcp_storage_emulator.storage import Storage

from .errors import not_found

if TYPE_CHECKING:
    from .exchange import JsonObject
    from .sessions import UploadSession

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

    def write(self, resource: JsonObject, content: bytes) -> None:
        """Make *resource* and *content* the live object; what they replace is soft-deleted."""
        bucket, name = resource["bucket"], resource["name"]
        if self.find(bucket, name) is not None:
            self.delete_file(bucket, name)
        self.create_file(bucket, name, content, resource)

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

"""Read and write objects of one bucket, on threads of this library's own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar

import google.auth
import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.auth.credentials import AnonymousCredentials, Credentials, with_scopes_if_required
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from requests.adapters import HTTPAdapter

from gcp_adk_store import settings
from gcp_adk_store.backends import retry, translate
from gcp_adk_store.codec.objects import StoredObject, Upload
from gcp_adk_store.settings import ArtifactLimits

T = TypeVar("T")

StorageClient: TypeAlias = Client
"""A client that a caller may lend."""

_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)
_NAMES: Final = "items(name),nextPageToken"
_TIMES: Final = "items(name,metageneration,customTime),nextPageToken"
_INFOS: Final = "items(name,generation,contentType,metadata,timeCreated),nextPageToken"

# What a request can fail with; everything else is a bug and passes through untouched.
_FAILURES: Final = (
    api.GoogleAPICallError,
    requests.RequestException,
    auth.GoogleAuthError,
    DataCorruption,
    InvalidResponse,
)


class Objects:
    """The objects of one bucket.

    The storage client blocks; it runs on this service's own bounded threads, never on asyncio's default
    ones, with a connection for each. Its own retries are off: :mod:`gcp_adk_store.backends.retry` acts.
    """

    def __init__(
        self,
        bucket: str,
        *,
        project: str | None,
        client: StorageClient | None,
        credentials: Credentials | None,
        limits: ArtifactLimits,
    ) -> None:
        self.bucket = bucket
        self._project = project
        self._credentials = credentials
        self._limits = limits
        self._policy = retry.RetryPolicy(attempt_s=limits.request_timeout_s, deadline_s=limits.deadline_s)
        self._threads: ThreadPoolExecutor | None = None
        self._borrowed = client is not None
        self._client: StorageClient | None = client
        self._opening = threading.Lock()

    async def create(self, name: str, upload: Upload, *, what: str) -> None:
        """Write an object that must not exist yet; durable on return.

        Raises:
            ConditionFailedError: it exists; it may be this call's own, whose answer was lost.
            OutcomeUnknownError: sent and not answered before the deadline.
            UnavailableError, NotProvisionedError, AccessDeniedError: nothing was written.
        """

        def send(bucket: Any, timeout_s: float) -> None:
            blob = bucket.blob(name)
            blob.metadata = dict(upload.metadata)
            if upload.custom_time is not None:
                blob.custom_time = upload.custom_time
            blob.upload_from_string(
                upload.data,
                content_type=upload.content_type,
                if_generation_match=0,
                checksum="crc32c",
                timeout=timeout_s,
                retry=None,
            )

        await self._call(send, what=what, error=translate.storage_write_error)

    async def names(self, prefix: str, *, delimiter: str | None, what: str) -> list[str]:
        """Return the names that start with *prefix*, without those that have *delimiter* after it."""
        blobs = await self._list(prefix, delimiter=delimiter, fields=_NAMES, what=what)
        return [blob.name for blob in blobs]

    async def infos(self, prefix: str, *, delimiter: str | None, what: str) -> list[StoredObject]:
        """Return the objects that :meth:`names` names, with their metadata."""
        blobs = await self._list(prefix, delimiter=delimiter, fields=_INFOS, what=what)
        return [_stored(blob) for blob in blobs]

    async def info(self, name: str, *, what: str) -> StoredObject | None:
        """Return one object, ``None`` if there is none of that name."""

        def stat(bucket: Any, timeout_s: float) -> StoredObject | None:
            blob = bucket.get_blob(name, timeout=timeout_s, retry=None)
            return None if blob is None else _stored(blob)

        return await self._call(stat, what=what, error=translate.storage_read_error)

    async def read(self, name: str, *, generation: int | None, what: str) -> tuple[bytes, int] | None:
        """Return an object's bytes, checked against its CRC32C, and their generation; ``None`` if gone."""

        def download(bucket: Any, timeout_s: float) -> tuple[bytes, int] | None:
            blob = bucket.blob(name, generation=generation)
            try:
                data = blob.download_as_bytes(checksum="crc32c", timeout=timeout_s, retry=None)
            except api.NotFound:
                return None
            return data, blob.generation

        return await self._call(download, what=what, error=translate.storage_read_error)

    async def keep_until(self, prefix: str, time: datetime, *, what: str) -> None:
        """Move the custom time of the objects that start with *prefix* to *time*, unless it is later."""
        for blob in await self._list(prefix, delimiter=None, fields=_TIMES, what=what):
            if blob.custom_time is None or blob.custom_time < time:
                await self._set_custom_time(blob.name, blob.metageneration, time, what=what)

    async def delete(self, name: str, *, generation: int | None, what: str) -> None:
        """Remove an object of this *generation*, of any if ``None``; what is gone already is no error."""

        def remove(bucket: Any, timeout_s: float) -> None:
            try:
                bucket.delete_blob(name, if_generation_match=generation, timeout=timeout_s, retry=None)
            except (api.NotFound, api.PreconditionFailed):
                return  # removed already; what stands there now was made later

        await self._call(remove, what=what, error=translate.storage_write_error)

    async def close(self) -> None:
        """Let running requests finish, then close what was opened here; a later call opens it anew."""
        with self._opening:
            threads, self._threads = self._threads, None
            client = self._client
            if not self._borrowed:
                self._client = None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        if client is not None and not self._borrowed:
            client.close()

    async def _set_custom_time(self, name: str, metageneration: int, time: datetime, *, what: str) -> None:
        def patch(bucket: Any, timeout_s: float) -> None:
            blob = bucket.blob(name)
            blob.custom_time = time
            try:
                blob.patch(if_metageneration_match=metageneration, timeout=timeout_s, retry=None)
            except (api.NotFound, api.PreconditionFailed):
                return  # removed, or moved by another call, whose own answer may have been lost

        await self._call(patch, what=what, error=translate.storage_write_error)

    async def _list(self, prefix: str, *, delimiter: str | None, fields: str, what: str) -> list[Any]:
        def pages(bucket: Any, timeout_s: float) -> list[Any]:
            return list(
                bucket.client.list_blobs(
                    bucket,
                    prefix=prefix,
                    delimiter=delimiter,
                    fields=fields,
                    timeout=timeout_s,
                    retry=None,
                )
            )

        return await self._call(pages, what=what, error=translate.storage_read_error)

    async def _call(
        self, work: Callable[[Any, float], T], *, what: str, error: Callable[[Exception, str, str], Exception]
    ) -> T:
        loop = asyncio.get_running_loop()

        def run(timeout_s: float) -> T:
            try:
                return work(self._open().bucket(self.bucket), timeout_s)
            except _FAILURES as exc:
                raise error(exc, f"{what}{_on_emulator()}", self.bucket) from exc

        async def attempt(timeout_s: float) -> T:
            return await loop.run_in_executor(self._executor(), run, timeout_s)

        # A repeated create meets its own object as a conflict that carries its save id; everything else
        # reads or deletes.
        return await retry.call(attempt, policy=self._policy, repeatable_when_unanswered=True)

    def _executor(self) -> ThreadPoolExecutor:
        with self._opening:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self._limits.max_workers, thread_name_prefix="adk-store-gcs"
                )
            return self._threads

    def _open(self) -> StorageClient:
        with self._opening:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> StorageClient:
        url = settings.storage_emulator_url()
        if url is not None:
            credentials: Any = AnonymousCredentials()
            project: str | None = self._project or settings.default_project() or settings.EMULATOR_PROJECT
            options = {"api_endpoint": url if "://" in url else f"http://{url}"}
        else:
            found = None
            credentials = self._credentials
            if credentials is None:
                credentials, found = google.auth.default(scopes=_SCOPES)
            project = self._project or settings.default_project() or found
            options = {}
        credentials = with_scopes_if_required(credentials, _SCOPES)
        session = AuthorizedSession(credentials)
        adapter = HTTPAdapter(pool_maxsize=self._limits.max_workers)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        return Client(project=project, credentials=credentials, _http=session, client_options=options)


def _on_emulator() -> str:
    url = settings.storage_emulator_url()
    return f": on the emulator at {url} (STORAGE_EMULATOR_HOST)" if url else ""


def _stored(blob: Any) -> StoredObject:
    return StoredObject(
        name=blob.name,
        generation=blob.generation,
        content_type=blob.content_type,
        metadata=blob.metadata or {},
        create_time=blob.time_created.timestamp(),
    )

"""Send requests to Cloud Storage, with conditions, on threads.

Cloud Storage answers 412 to both, with the reason ``conditionNotMet``. Only the object distinguishes them:
after a failed condition it differs from what the condition requires.
"""

import asyncio
import enum
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

import requests
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client
from requests.adapters import HTTPAdapter

from gcp_adk_store import settings
from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.errors import (
    STORAGE_FAILURES,
    storage_condition_error,
    storage_read_error,
    storage_write_error,
    unexplained,
)
from gcp_adk_store.cloud.translation import translated
from gcp_adk_store.errors import OverloadedError, StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import at_most, part_of
from gcp_adk_store.kernel.ports import ConditionFailedError, ObjectExistsError, RefusedError
from gcp_adk_store.kernel.threads import Threads
from gcp_adk_store.kernel.transact import resolving
from gcp_adk_store.settings import ArtifactLimits

T = TypeVar("T")

StorageClient: TypeAlias = Client
"""A client that a caller may lend."""


class Once(TypedDict):
    """The options by which the client sends a request once: :mod:`gcp_adk_store.cloud.retry` repeats it."""

    timeout: float
    """Longest silence of the server, in seconds."""
    retry: None


class Permission(enum.Enum):
    """Permission on the bucket's objects, by IAM's name."""

    CREATE = "storage.objects.create"
    DELETE = "storage.objects.delete"
    GET = "storage.objects.get"
    LIST = "storage.objects.list"
    UPDATE = "storage.objects.update"


_TRIES_TO_MAKE: Final = 2
"""Between a refusal and the check another writer may remove its object, but hardly twice in a row."""


class StorageCalls:
    """Calls to one bucket.

    The storage client blocks, so it runs on a bounded number of own threads, each with a connection, never on
    asyncio's default threads. Its retries are off: :mod:`gcp_adk_store.cloud.retry` repeats. A caller
    stops waiting at its cancellation or deadline; the thread is free again when the server answers or is
    silent for ``request_timeout_s``.
    """

    def __init__(
        self,
        bucket: str,
        *,
        project: str | None,
        client: StorageClient | None,
        credentials: StoreCredentials | Credentials | None,
        limits: ArtifactLimits,
    ) -> None:
        self.bucket = bucket
        self.deadline_s = limits.deadline_s
        """The longest time of one request, its retries included."""
        self._project = project
        self._credentials = StoreCredentials.of(credentials)
        self._limits = limits
        self._policy = retry.RetryPolicy(attempt_s=limits.request_timeout_s, deadline_s=limits.deadline_s)
        self._threads = Threads("adk-store-gcs", limits)
        self._lent = client
        self._seen = False  # whether the bucket has answered before
        self._opening = threading.Lock()
        self._own: StorageClient | None = None

    @property
    def is_borrowed(self) -> bool:
        """Whether the caller lent the client."""
        return self._lent is not None

    async def read(self, work: Callable[[Any, Once], T], permission: Permission) -> T:
        """Run *work*, which only reads, with the bucket and the options of its request.

        Raises:
            UnavailableError: not answered before the deadline.
            NotProvisionedError: the bucket does not exist.
            AccessDeniedError: no credentials, or not allowed.
        """
        return await self._call(work, permission, storage_read_error)

    async def work(self, work: Callable[[Any, Once], T], permission: Permission) -> T:
        """Run *work* as :meth:`read` does, but without a token: it sends nothing to the bucket."""
        return await self._call(work, permission, storage_read_error, needs_token=False)

    async def write(self, work: Callable[[Any, Once], T], permission: Permission, *, conditional: bool) -> T:
        """Run *work* as :meth:`read` does; a second run of it must be harmless or recognised.

        *conditional* says that it requires an object to be absent, or to have a certain version.

        Raises:
            OutcomeUnknownError: the request was sent and not answered before the deadline.
            ConditionFailedError: the answer to a *conditional* request is 412.
            UnavailableError, NotProvisionedError, AccessDeniedError: nothing was written.
        """
        return await self._call(
            work, permission, storage_condition_error if conditional else storage_write_error
        )

    async def require_bucket(self) -> None:
        """Distinguish a missing bucket from a missing object, which answer alike; ask until it answers.

        Raises:
            NotProvisionedError: the bucket does not exist.
        """

        def look(bucket: Any, once: Once) -> bool:
            found = bucket.client.list_blobs(
                bucket,
                max_results=1,
                fields="kind",
                **once,
            )
            return next(found.pages) is not None

        if not self._seen:
            await self.read(look, Permission.LIST)

    async def make(self, write: Callable[[], Awaitable[T]], look: Callable[[], Awaitable[object]]) -> T:
        """Run *write*, which requires that the object is absent; *look* returns a true value if it exists.

        Raises:
            ObjectExistsError: the object exists.
            AccessDeniedError: the object is absent, and *write* is refused nevertheless.
            OutcomeUnknownError: the same, but an earlier attempt of *write* was not answered.
        """
        unsure = False
        tries_left = _TRIES_TO_MAKE
        while True:
            tries_left -= 1
            try:
                return await write()
            except RefusedError as exc:
                refused = exc
                unsure = refused.maybe_applied = unsure or refused.maybe_applied
                if not isinstance(refused, ConditionFailedError):
                    raise
            with resolving(refused.maybe_applied):
                found = await look()
            if found:
                exists = ObjectExistsError(found)
                exists.maybe_applied = unsure
                raise exists from refused
            if not tries_left:
                raise unexplained(refused, self.bucket) from refused

    async def explained(
        self, refused: ConditionFailedError, name: str, generation: int | None, metageneration: int | None
    ) -> Any:
        """Return the object whose version differs from that of a *refused* write; ``None`` if it is gone.

        Raises:
            AccessDeniedError: it has the required version, where ``None`` stands for any.
            OutcomeUnknownError: the same, but an earlier attempt of the write was not answered.
        """
        with resolving(refused.maybe_applied):
            found = await self.find(name)
        if (
            found is not None
            and generation in (None, found.generation)
            and metageneration in (None, found.metageneration)
        ):
            raise unexplained(refused, self.bucket) from refused
        return found

    async def find(self, name: str) -> Any:
        """Return the client's handle of the object *name* with its metadata; ``None`` if it is missing."""

        def stat(bucket: Any, once: Once) -> Any:
            return bucket.get_blob(name, **once)

        found = await self.read(stat, Permission.GET)
        if found is None:
            await self.require_bucket()
        return found

    async def close(self) -> None:
        """Let running requests finish, then close own connections; a later call opens them again."""
        with self._opening:
            own, self._own = self._own, None
        await self._threads.close()
        if own is not None:
            own.close()

    def client(self) -> StorageClient:
        """Return the client, created at its first use; blocks."""
        if self._lent is not None:
            return self._lent
        with self._opening:
            if self._own is None:
                self._own = self._connect()
            return self._own

    def session(self) -> requests.Session:
        """Return the HTTP session of :meth:`client`, with its credentials; blocks."""
        client: Any = self.client()  # which cannot send a single piece of an upload
        session: requests.Session = client._http  # noqa: SLF001
        return session

    async def _call(
        self,
        work: Callable[[Any, Once], T],
        permission: Permission,
        error: Callable[..., Exception],
        *,
        needs_token: bool = True,
    ) -> T:
        begun = 0

        def begin(timeout_s: float) -> T:
            nonlocal begun
            begun += 1
            if self.is_borrowed:
                telemetry.count_storage_request()
            return self._send(work, permission, error, timeout_s)

        async def attempt(timeout_s: float) -> T:
            return await self._threads.run(partial(begin, timeout_s), to_its_end=False)

        with part_of(self.deadline_s):
            if needs_token and not self.is_borrowed and settings.storage_emulator_url() is None:
                # Here, so that threads do not wait for the token, and a refused one is not requested again.
                await self._credentials.ready()
            try:
                # Limits also a server that sends a byte now and then and so is never silent.
                async with asyncio.timeout(at_most(self.deadline_s)):
                    # A second run is recognised or harmless: a create or a copy finds its own object by
                    # its save id or its content, a piece of an upload asks how much arrived.
                    return await retry.call(attempt, policy=self._policy)
            except TimeoutError as exc:
                where = _where(self.bucket)
                if not begun:
                    raise OverloadedError(
                        f"{where}: all {self._limits.max_workers} threads (max_workers) were busy until the "
                        "deadline; nothing was sent"
                    ) from exc
                failure = error(exc, where, self.bucket, permission.value)
                if isinstance(failure, StoreError):
                    failure.attempts = begun
                raise failure from exc

    def _send(
        self,
        work: Callable[[Any, Once], T],
        permission: Permission,
        error: Callable[..., Exception],
        timeout_s: float,
    ) -> T:
        """Run *work* once, on a thread."""
        with translated(STORAGE_FAILURES, error, _where(self.bucket), self.bucket, permission.value):
            result = work(self.client().bucket(self.bucket), Once(timeout=timeout_s, retry=None))
        self._seen = self._seen or result is not None
        return result

    def _connect(self) -> StorageClient:
        url = settings.storage_emulator_url()
        project = self._project or settings.default_project()
        if url is not None:
            credentials: Any = AnonymousCredentials()
            project = project or settings.EMULATOR_PROJECT
            options = {"api_endpoint": url if "://" in url else f"http://{url}"}
        else:
            credentials = self._credentials.find().token
            # The bucket alone identifies objects, so the client's project is not worth a request.
            project = project or self._credentials.find().project
            options = {"universe_domain": credentials.universe_domain}
        session = _CountedSession(credentials)  # type: ignore[no-untyped-call]  # google-auth types half
        adapter = HTTPAdapter(pool_maxsize=self._limits.max_workers)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        client = Client(project=project, credentials=credentials, _http=session, client_options=options)
        # From 3.11 on it asks for the bucket's place on a thread, to label its own traces: a request that no
        # operation counts. Besides this, only a variable of the whole process turns that off.
        client._bucket_metadata_cache = None  # noqa: SLF001
        return client


class _CountedSession(AuthorizedSession):
    """Counts each request when it is sent: one call of the client may send several.

    Refuses answers that are not JSON objects, which the client would accept.
    """

    def request(self, method: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # passed on
        telemetry.count_storage_request()
        answer = super().request(method, *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half
        # Bytes of objects are streamed and checked by their reader; a started upload answers with a location.
        is_json = not kwargs.get("stream") and "Location" not in answer.headers
        if answer.status_code == HTTPStatus.OK and is_json and not _is_complete(method, answer.content):
            raise requests.exceptions.InvalidJSONError("the answer is not a JSON object", response=answer)
        return answer


def _is_complete(method: str, body: bytes) -> bool:
    """Return whether *body* is one of an answer: an object, or what some servers answer to a deletion."""
    return body.lstrip().startswith(b"{") or (method == "DELETE" and not body)


def _where(bucket: str) -> str:
    url = settings.storage_emulator_url()
    return f"bucket {bucket!r}" + (f" on the emulator at {url} (STORAGE_EMULATOR_HOST)" if url else "")

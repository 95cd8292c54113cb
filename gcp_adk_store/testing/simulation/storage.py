"""The simulated service: documents and objects behind a network."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial, wraps
from typing import Any, Final, TypeVar, cast

from google.adk.platform import time as platform_time
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store import machine
from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.firestore.documents import ServerClock
from gcp_adk_store.codec.objects import ObjectFields, ScannedObject
from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.errors import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.ports import Backend, Documents, Objects, ReadAt, Reads
from gcp_adk_store.model.payloads import LeftFile
from gcp_adk_store.settings import ArtifactLimits, SessionLimits
from gcp_adk_store.testing.simulation.network import Link

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

_AGAIN_S: Final = (0.025, 0.05)
"""The pause before a stream that broke is opened again."""


class SimulatedReads:
    """Reads of the service's documents."""

    def __init__(
        self,
        link: Link,
        inner: Callable[[], Awaitable[Reads]],
        policy: retry.RetryPolicy,
        clock: ServerClock,
    ) -> None:
        self.clock = clock
        self.deadline_s = policy.deadline_s
        self._link = link
        self._inner = inner
        self._policy = policy

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port, in one request."""

        async def work() -> list[Document | None]:
            return await (await self._inner()).get(paths, fields=fields)

        return await self._call("get", work, " ".join(paths))

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """As the port, in one request."""

        async def work() -> list[Document]:
            return await (await self._inner()).query(
                parent, collection, fields=fields, all_descendants=all_descendants, page=page
            )

        return await self._call("query", work, f"{parent}/{collection}")

    async def _call(
        self,
        what: str,
        work: Callable[[], Awaitable[T]],
        about: str,
        *,
        unanswered: type[StoreError] = UnavailableError,
    ) -> T:
        async def timed() -> tuple[T, float]:
            result = await work()
            return result, platform_time.get_time()

        async def attempt(timeout_s: float) -> T:
            asked_at = platform_time.get_time()
            result, time = await self._link.request(
                what, timed, about=about, timeout_s=timeout_s, unanswered=unanswered
            )
            timestamp = Timestamp()
            timestamp.FromNanoseconds(int(time * 1e6) * 1000)
            self.clock.learn(timestamp, asked_at=asked_at)
            return result

        with part_of(self.deadline_s):
            return await retry.call(attempt, policy=self._policy)


class SimulatedDocuments(SimulatedReads):
    """The service's documents, as :class:`gcp_adk_store.kernel.ports.Documents` says."""

    def __init__(self, link: Link, served: Documents, limits: SessionLimits) -> None:
        policy = retry.RetryPolicy(attempt_s=limits.rpc_timeout_s, deadline_s=limits.deadline_s)

        async def inner() -> Reads:
            return served

        super().__init__(link, inner, policy, ServerClock())
        self._served = served

    async def commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        """As the port, in one request."""
        return await self._call(
            "commit",
            lambda: self._served.commit(writes),
            f"{' '.join(item.path for item in writes)}",
            unanswered=OutcomeUnknownError,
        )

    async def split_points(self, collection: str, *, most: int) -> list[str] | None:
        """As the port."""
        return await self._call("split", lambda: self._served.split_points(collection, most=most), collection)

    async def before(self, path: str, time: str, *, fields: Sequence[str]) -> Document | None:
        """As the port, in one request."""
        return await self._call("get", lambda: self._served.before(path, time, fields=fields), path)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port: the first read makes it."""
        async with AsyncExitStack() as stack:
            made: list[Reads] = []

            async def begun() -> Reads:
                if not made:
                    made.append(await stack.enter_async_context(self._served.snapshot()))
                return made[0]

            yield SimulatedReads(self._link, begun, self._policy, self.clock)

    async def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port: a stream that is opened again when it breaks."""
        seen: str | None = None
        is_first = True
        while True:
            versions: asyncio.Queue[Document | StoreError | None] = asyncio.Queue()
            stream = _Stream(self._link, self._served, path, versions)
            await self._call("listen", stream.open, f"{path}")
            try:
                while True:
                    version = await versions.get()
                    if isinstance(version, StoreError):
                        break
                    time = None if version is None else version.update_time
                    if is_first or time != seen:
                        is_first, seen = False, time
                        yield version
            finally:
                stream.close()
            await asyncio.sleep(machine.uniform(*_AGAIN_S))

    async def scrub(self) -> None:
        """As the port: it does nothing."""

    async def close(self) -> None:
        """As the port: there is nothing to close."""


class _Stream:
    """What the service sends to one who watches a document."""

    def __init__(
        self,
        link: Link,
        served: Documents,
        path: str,
        versions: "asyncio.Queue[Document | StoreError | None]",
    ) -> None:
        self._link = link
        self._served = served
        self._path = path
        self._versions = versions
        self._loop = asyncio.get_running_loop()
        self._arrives_at = 0.0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to send; it runs in the service."""
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        fates = self._link.network.world.fates
        async for document in self._served.watch(self._path):
            after_s = fates.message(self._link.process.name, "listen", self._path)
            if after_s is None:
                self._deliver(UnavailableError("the stream broke"), 0.0)
                return
            self._deliver(document, after_s)

    def _deliver(self, version: Document | StoreError | None, after_s: float) -> None:
        """Let *version* arrive after those before it."""
        link = self._link
        self._arrives_at = max(self._arrives_at, link.network.world.now + after_s)

        def receive() -> None:
            lost = not link.network.reaches(link.process)
            self._versions.put_nowait(UnavailableError("the stream was cut off") if lost else version)

        link.deliver(self._loop, receive, self._arrives_at)

    def close(self) -> None:
        """Send nothing more."""
        if self._task is not None:
            task, self._task = self._task, None
            task.get_loop().call_soon(task.cancel)


def _request(what: str, method: Method, unanswered: type[StoreError]) -> Method:
    """Return the *method* of the port in one request, about the first name among its arguments."""

    @wraps(method)
    async def call(self: "SimulatedObjects", *args: Any, **given: Any) -> Any:
        work = partial(getattr(self.served, method.__name__), *args, **given)
        about = next(arg for arg in args if isinstance(arg, str))
        return await self.request(what, work, about, unanswered)

    return cast("Method", call)


class SimulatedObjects:
    """The service's objects, as :class:`gcp_adk_store.kernel.ports.Objects` says."""

    kms_key_name: Final = None

    def __init__(self, link: Link, backend: Backend, limits: ArtifactLimits) -> None:
        self._link = link
        self.served = backend.objects
        self._policy = retry.RetryPolicy(attempt_s=limits.request_timeout_s, deadline_s=limits.deadline_s)
        self.uploads = SimulatedUploads(self, backend)

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return "simulated"

    def uri_of(self, name: str) -> str:
        """Return the URI of an object."""
        return self.served.uri_of(name)

    async def request(
        self, what: str, work: Callable[[], Awaitable[T]], about: str, unanswered: type[StoreError]
    ) -> T:
        """Send a request, again if it is not answered; at the end it raises *unanswered*."""

        async def attempt(timeout_s: float) -> T:
            return await self._link.request(
                what, work, about=about, timeout_s=timeout_s, unanswered=unanswered
            )

        with part_of(self._policy.deadline_s):
            return await retry.call(attempt, policy=self._policy)

    create = _request("create object", Objects.create, OutcomeUnknownError)
    copy = _request("copy object", Objects.copy, OutcomeUnknownError)
    names = _request("list objects", Objects.names, UnavailableError)
    infos = _request("list objects", Objects.infos, UnavailableError)
    info = _request("stat object", Objects.info, UnavailableError)
    read = _request("read object", Objects.read, UnavailableError)
    keep_until = _request("patch object", Objects.keep_until, OutcomeUnknownError)
    mark = _request("patch object", Objects.mark, OutcomeUnknownError)
    delete_unchanged = _request("delete object", Objects.delete_unchanged, OutcomeUnknownError)
    delete = _request("delete object", Objects.delete, OutcomeUnknownError)

    async def scan(self, prefix: str) -> AsyncIterator[list[ScannedObject]]:
        """As the port; one request lists all."""

        async def pages() -> list[list[ScannedObject]]:
            return [page async for page in self.served.scan(prefix)]

        for page in await self.request("list objects", pages, prefix, UnavailableError):
            yield page

    async def left(self, *, every: bool) -> list[LeftFile]:  # noqa: ARG002  # of the port
        """As the port: none, without a request."""
        return []

    async def remove_left(self, files: Sequence[LeftFile]) -> list[LeftFile]:  # noqa: ARG002  # of the port
        """As the port: a bucket has no such files."""
        return []

    async def close(self) -> None:
        """As the port: there is nothing to close."""


class SimulatedUploads:
    """Uploads to the service, as :class:`gcp_adk_store.kernel.ports.Uploads` says."""

    def __init__(self, objects: SimulatedObjects, backend: Backend) -> None:
        self._objects = objects
        self._served = backend.uploads

    async def create(
        self,
        name: str,
        fields: ObjectFields,
        *,
        size: int,
        read_at: ReadAt,
        on_progress: Callable[[int], None],
    ) -> None:
        """As the port, in one request."""
        data = await read_at(0, size)

        async def piece(start: int, count: int) -> bytes:
            return data[start : start + count]

        await self._objects.request(
            "upload object",
            lambda: self._served.create(name, fields, size=size, read_at=piece, on_progress=on_progress),
            name,
            OutcomeUnknownError,
        )

"""The simulated service: documents and objects behind a network."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from typing import Any, Final, TypeVar, cast

from google.adk.platform import time as platform_time
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store import machine
from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.firestore.listening import ServerClock
from gcp_adk_store.codec.objects import ObjectFields, ScannedObject
from gcp_adk_store.codec.writes import Document
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


class _Sender:
    """Sends requests of one process, again until they are answered."""

    def __init__(self, link: Link, *, attempt_s: float, deadline_s: float) -> None:
        self.link = link
        self.policy = retry.RetryPolicy(attempt_s=attempt_s, deadline_s=deadline_s)
        self.clock = ServerClock()
        """The time of the service, as its answers say it."""

    async def request(
        self, what: str, work: Callable[[], Awaitable[T]], about: str, unanswered: type[StoreError]
    ) -> T:
        """Let the service do *work*; without an answer at the end it raises *unanswered*."""

        async def timed() -> tuple[T, float]:
            result = await work()
            return result, platform_time.get_time()

        async def attempt(timeout_s: float) -> T:
            asked_at = platform_time.get_time()
            result, time = await self.link.request(
                what, timed, about=about, timeout_s=timeout_s, unanswered=unanswered
            )
            timestamp = Timestamp()
            timestamp.FromNanoseconds(int(time * 1e6) * 1000)
            self.clock.learn(timestamp, asked_at=asked_at)
            return result

        with part_of(self.policy.deadline_s):
            return await retry.call(attempt, policy=self.policy)


def _first_name(*args: Any) -> str:
    return next(arg for arg in args if isinstance(arg, str))


def _request(
    what: str, method: Method, unanswered: type[StoreError], about: Callable[..., str] = _first_name
) -> Method:
    """Return the *method* of the port in one request, which is *about* what its arguments say."""

    @wraps(method)
    async def call(self: Any, *args: Any, **given: Any) -> Any:
        async def work() -> Any:
            return await getattr(await self.serving(), method.__name__)(*args, **given)

        return await self.sender.request(what, work, about(*args), unanswered)

    return cast("Method", call)


class SimulatedReads:
    """Reads of the service's documents."""

    def __init__(self, sender: _Sender, serving: Callable[[], Awaitable[Reads]]) -> None:
        self.sender = sender
        self.serving = serving
        """Returns what serves the reads, within a request."""
        self.clock = sender.clock
        self.deadline_s = sender.policy.deadline_s

    get = _request("get", Reads.get, UnavailableError, " ".join)
    query = _request("query", Reads.query, UnavailableError, "{}/{}".format)


class SimulatedDocuments(SimulatedReads):
    """The service's documents, as :class:`gcp_adk_store.kernel.ports.Documents` says."""

    def __init__(self, link: Link, served: Documents, limits: SessionLimits) -> None:
        async def serving() -> Reads:
            return served

        sender = _Sender(link, attempt_s=limits.rpc_timeout_s, deadline_s=limits.deadline_s)
        super().__init__(sender, serving)
        self._served = served

    commit = _request(
        "commit",
        Documents.commit,
        OutcomeUnknownError,
        lambda writes: " ".join(item.path for item in writes),
    )
    split_points = _request("split", Documents.split_points, UnavailableError)
    before = _request("get", Documents.before, UnavailableError)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port: the first read makes it."""
        async with AsyncExitStack() as stack:
            made: list[Reads] = []

            async def begun() -> Reads:
                if not made:
                    made.append(await stack.enter_async_context(self._served.snapshot()))
                return made[0]

            yield SimulatedReads(self.sender, begun)

    async def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port: a stream that is opened again when it breaks."""
        seen: str | None = None
        is_first = True
        while True:
            versions: asyncio.Queue[Document | StoreError | None] = asyncio.Queue()
            stream = _Stream(self.sender.link, self._served, path, versions)
            await self.sender.request("listen", stream.open, path, UnavailableError)
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


class SimulatedObjects:
    """The service's objects, as :class:`gcp_adk_store.kernel.ports.Objects` says."""

    kms_key_name: Final = None

    def __init__(self, link: Link, backend: Backend, limits: ArtifactLimits) -> None:
        self.sender = _Sender(link, attempt_s=limits.request_timeout_s, deadline_s=limits.deadline_s)
        self._served = backend.objects
        self.uploads = SimulatedUploads(self.sender, backend)

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return "simulated"

    def uri_of(self, name: str) -> str:
        """Return the URI of an object."""
        return self._served.uri_of(name)

    async def serving(self) -> Objects:
        """Return what serves the requests."""
        return self._served

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
            return [page async for page in self._served.scan(prefix)]

        for page in await self.sender.request("list objects", pages, prefix, UnavailableError):
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

    def __init__(self, sender: _Sender, backend: Backend) -> None:
        self._sender = sender
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

        await self._sender.request(
            "upload object",
            lambda: self._served.create(name, fields, size=size, read_at=piece, on_progress=on_progress),
            name,
            OutcomeUnknownError,
        )

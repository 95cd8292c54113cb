"""Read and write documents as plain values, with one RPC per call."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from google.adk.platform import time as platform_time
from google.auth.credentials import Credentials
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.errors import (
    FIRESTORE_FAILURES,
    firestore_read_error,
    firestore_write_error,
)
from gcp_adk_store.cloud.firestore import values
from gcp_adk_store.cloud.firestore.channels import (
    BorrowedChannel,
    Channels,
    ClientInterceptor,
    Connection,
    FirestoreClient,
)
from gcp_adk_store.cloud.translation import translated
from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written, has_few_keys
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.operation import part_of
from gcp_adk_store.operations.pauses import Pauses, apart
from gcp_adk_store.settings import SessionLimits

_WRITES_PER_COMMIT: Final = 500
"""Keeps each commit of a deletion far below 4 MiB, with paths of up to 6 kB."""

_LARGE_BYTES: Final = 128 * 1024
"""A document over this size may hold so many fields that its conversion blocks for several milliseconds."""


class ServerClock:
    """Firestore's time without a request: this machine's clock, corrected by Firestore's answers.

    An answer contains a time between its request and its arrival, so a wrong clock becomes right to within
    the time of a request, and a right one stays as it is. Safe for threads: the last answer counts.
    """

    def __init__(self) -> None:
        self.is_set = False
        """Whether an answer has set the time."""
        self.ahead_s = 0.0
        """Seconds that Firestore's clock is ahead of this machine's."""

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return platform_time.get_time() + self.ahead_s

    def learn(self, told: Timestamp, *, asked_at: float) -> float:
        """Correct the clock by the time of an answer that just arrived; return that time in seconds."""
        time = values.to_seconds(told)
        self.ahead_s = min(max(self.ahead_s, time - platform_time.get_time()), time - asked_at)
        self.is_set = True
        return time


class Documents:
    """The documents of a Firestore database, as :class:`gcp_adk_store.ports.documents.Documents` says."""

    def __init__(
        self,
        connects: Channels | BorrowedChannel,
        limits: SessionLimits,
        *,
        read_time: Timestamp | None = None,
    ) -> None:
        """Prepare; with *read_time*, all reads are of the documents of that moment."""
        self.clock = ServerClock()
        self.deadline_s = limits.deadline_s
        self._limits = limits
        self._read_time = read_time
        self._connects = connects
        self._policy = retry.RetryPolicy(attempt_s=limits.rpc_timeout_s, deadline_s=limits.deadline_s)

    async def commit(
        self, writes: Sequence[Write | Delete], *, repeatable_when_unanswered: bool
    ) -> list[Written]:
        """As the port, in one RPC."""
        with part_of(self.deadline_s):  # its token and all attempts
            connection = await self._connects.connection()
            request = values.PbCommitRequest(database=connection.database)

            def fill() -> None:
                for item in writes:
                    values.put_write(request.writes.add(), item, root=connection.root)

            light = all(has_few_keys(item.fields) for item in writes if isinstance(item, Write))
            await apart(fill, light=light)

            async def attempt(timeout_s: float) -> list[Written]:
                telemetry.count_rpc(request.ByteSize)
                asked_at = platform_time.get_time()
                with translated(FIRESTORE_FAILURES, firestore_write_error, connection.where):
                    answer = await connection.commit(request, metadata=connection.metadata, timeout=timeout_s)
                telemetry.count_answer(answer.ByteSize)
                self.clock.learn(answer.commit_time, asked_at=asked_at)
                return [
                    _written(item, result) for item, result in zip(writes, answer.write_results, strict=True)
                ]

            return await retry.call(
                attempt, policy=self._policy, repeatable_when_unanswered=repeatable_when_unanswered
            )

    async def commit_all(self, writes: Sequence[Write | Delete]) -> None:
        """As the port, with 500 writes a commit."""
        for start in range(0, len(writes), _WRITES_PER_COMMIT):
            await self.commit(writes[start : start + _WRITES_PER_COMMIT], repeatable_when_unanswered=True)

    async def get(
        self, paths: Sequence[str], *, fields: Sequence[str] | None = None
    ) -> list[Document | None]:
        """As the port, in one RPC."""
        with part_of(self.deadline_s):  # its token and all attempts
            connection = await self._connects.connection()
            request = values.PbBatchGetRequest(
                database=connection.database,
                documents=[f"{connection.root}/{path}" for path in paths],
                mask=None if fields is None else values.PbDocumentMask(field_paths=fields),
                read_time=self._read_time,
            )
            documents = await self._stream(connection, connection.batch_get, request, result="found")
            found = {document.path: document for document in documents}
            return [found.get(path) for path in paths]

    async def query(
        self,
        parent: str,
        collection: str,
        *,
        fields: Sequence[str] | None = None,
        all_descendants: bool = False,
        page: Page | None = None,
    ) -> list[Document]:
        """As the port, in one RPC."""
        with part_of(self.deadline_s):  # its token and all attempts
            connection = await self._connects.connection()
            root = connection.root
            select = None if fields is None else {"fields": [{"field_path": field} for field in fields]}
            request = values.PbRunQueryRequest(
                parent=f"{root}/{parent}" if parent else root,
                structured_query={
                    "from_": [{"collection_id": collection, "all_descendants": all_descendants}],
                    "select": select,
                    **({} if page is None else values.to_page(page, root=root)),
                },
                read_time=self._read_time,
            )
            return await self._stream(connection, connection.run_query, request, result="document")

    async def snapshot(self, path: str) -> "Documents":
        """As the port; the time is that of the read."""
        with part_of(self.deadline_s):
            connection = await self._connects.connection()
            names = [f"{connection.root}/{path}"]
            request = values.PbBatchGetRequest(database=connection.database, documents=names)
            _, told = await self._answers(connection, connection.batch_get, request, result="found")
        # Firestore takes microseconds.
        read_time = Timestamp(seconds=told.seconds, nanos=told.nanos // 1000 * 1000)
        return _Snapshot(self._connects, self._limits, read_time=read_time)

    async def _stream(self, connection: Connection, rpc: Any, request: Any, *, result: str) -> list[Document]:
        """Return the documents that *rpc* answers with, each in the field *result* of a message."""
        found, _ = await self._answers(connection, rpc, request, result=result)
        return found

    async def _answers(
        self, connection: Connection, rpc: Any, request: Any, *, result: str
    ) -> tuple[list[Document], Timestamp]:
        """Return the documents of :meth:`_stream`, and the time of the read."""

        async def attempt(timeout_s: float) -> tuple[list[Document], Timestamp]:
            found: list[Document] = []
            pauses = Pauses()
            telemetry.count_rpc(request.ByteSize)
            asked_at = platform_time.get_time()
            told = Timestamp()
            read_time = None
            with translated(FIRESTORE_FAILURES, firestore_read_error, connection.where):
                async for message in rpc(request, metadata=connection.metadata, timeout=timeout_s):
                    telemetry.count_answer(message.ByteSize)
                    if read_time is None:  # one time for all of them: they are from one snapshot
                        told = message.read_time
                        read_time = self._learn(told, asked_at=asked_at)
                    if message.HasField(result):
                        found.append(
                            await _read(getattr(message, result), root=connection.root, read_time=read_time)
                        )
                    if pauses.is_due:
                        await pauses.take()
            return found, told

        return await retry.call(attempt, policy=self._policy, repeatable_when_unanswered=True)

    def _learn(self, told: Timestamp, *, asked_at: float) -> float:
        return self.clock.learn(told, asked_at=asked_at)

    async def close(self) -> None:
        """As the port."""
        await self._connects.close()


class _Snapshot(Documents):
    """The documents of one moment; the connection is that of the others."""

    def _learn(self, told: Timestamp, *, asked_at: float) -> float:  # noqa: ARG002  # the time is over
        return values.to_seconds(told)

    async def close(self) -> None:
        """As the port; the connection stays open."""


def open_documents(
    *,
    project: str | None,
    database: str,
    credentials: StoreCredentials | Credentials | None,
    client: FirestoreClient | None,
    interceptors: Sequence[ClientInterceptor],
    limits: SessionLimits,
) -> Documents:
    """Return the documents of a database, over own channels or those of a borrowed *client*; without I/O."""
    connects = (
        Channels(project=project, database=database, credentials=credentials, interceptors=interceptors)
        if client is None
        else BorrowedChannel(client)
    )
    return Documents(connects, limits)


async def _read(message: Any, *, root: str, read_time: float) -> Document:
    light = message.ByteSize() <= _LARGE_BYTES
    return await apart(partial(values.from_document, message, root=root, read_time=read_time), light=light)


def _written(item: Write | Delete, result: Any) -> Written:
    incremented = {}
    if isinstance(item, Write) and item.increment:
        # Results come in the order of the sent transforms: unions first.
        results = result.transform_results[len(item.union) :]
        incremented = {
            name: answer.integer_value for name, answer in zip(item.increment, results, strict=True)
        }
    return Written(update_time=values.from_timestamp(result.update_time), incremented=incremented)

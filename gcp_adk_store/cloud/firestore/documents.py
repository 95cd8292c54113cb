"""Read and write documents as plain values, with one RPC per call."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
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
    is_unknown_rpc,
)
from gcp_adk_store.cloud.firestore import values
from gcp_adk_store.cloud.firestore.channels import (
    BorrowedChannel,
    Channels,
    ClientInterceptor,
    Connection,
    FirestoreClient,
    received,
)
from gcp_adk_store.cloud.firestore.listening import ServerClock, listen
from gcp_adk_store.cloud.translation import translated
from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written, has_few_keys, in_order_of_names
from gcp_adk_store.errors import StoreError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Pauses, offload
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.settings import SessionLimits

_SNAPSHOT_S: Final = 3600
"""Firestore answers reads at a time within the last hour."""

_MARGIN_S: Final = 60
"""The time of a read with its retries, after which it still is within the hour."""


class Reads:
    """Reads of the documents of a database, as :class:`gcp_adk_store.kernel.ports.Reads` says."""

    def __init__(
        self, connects: Channels | BorrowedChannel, policy: retry.RetryPolicy, clock: ServerClock
    ) -> None:
        self.clock = clock
        self.deadline_s = policy.deadline_s
        self._connects = connects
        self._policy = policy

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
            )
            documents = await self._read(connection, connection.batch_get, request, result="found")
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
                    # An empty id is that of every collection.
                    "from_": [{"collection_id": collection, "all_descendants": all_descendants}],
                    "select": select,
                    **({} if page is None else values.to_page(page, root=root)),
                },
            )
            return await self._read(connection, connection.run_query, request, result="document")

    async def _read(self, connection: Connection, rpc: Any, request: Any, *, result: str) -> list[Document]:
        found, _ = await self._stream(connection, rpc, request, result=result)
        return found

    async def _stream(
        self, connection: Connection, rpc: Any, request: Any, *, result: str
    ) -> tuple[list[Document], Timestamp | None]:
        """Return the documents that *rpc* answers with, in the field *result* of messages, and their time.

        That is one for all of them: they are from one snapshot.
        """

        async def attempt(timeout_s: float) -> tuple[list[Document], Timestamp | None]:
            found: list[Document] = []
            pauses = Pauses()
            time: Timestamp | None = None
            read_time = 0.0
            with translated(FIRESTORE_FAILURES, firestore_read_error, connection.where):
                timeout_s = await connection.reached(timeout_s)
                telemetry.count_rpc(request.ByteSize)
                asked_at = platform_time.get_time()
                async for answer in rpc(request, metadata=connection.metadata, timeout=timeout_s):
                    message = received(answer)
                    if time is None:
                        time = message.read_time
                        read_time = self.clock.learn(time, asked_at=asked_at)
                    if message.HasField(result):
                        found.append(
                            await _document(
                                getattr(message, result), root=connection.root, read_time=read_time
                            )
                        )
                    if pauses.is_due:
                        await pauses.pause()
            return found, time

        return await retry.call(attempt, policy=self._policy)


class Documents(Reads):
    """The documents of a Firestore database, as :class:`gcp_adk_store.kernel.ports.Documents` says."""

    def __init__(self, connects: Channels | BorrowedChannel, limits: SessionLimits) -> None:
        policy = retry.RetryPolicy(attempt_s=limits.rpc_timeout_s, deadline_s=limits.deadline_s)
        super().__init__(connects, policy, ServerClock())
        self._closings = 0

    async def commit(self, writes: Sequence[Write | Delete]) -> list[Written]:
        """As the port, in one RPC."""
        with part_of(self.deadline_s):  # its token and all attempts
            connection = await self._connects.connection()
            request = values.PbCommitRequest(database=connection.database)

            def fill() -> None:
                for item in writes:
                    values.put_write(request.writes.add(), item, root=connection.root)

            light = all(has_few_keys(item.fields) for item in writes if isinstance(item, Write))
            await offload(fill, light=light)

            async def attempt(timeout_s: float) -> list[Written]:
                with translated(FIRESTORE_FAILURES, firestore_write_error, connection.where):
                    timeout_s = await connection.reached(timeout_s)
                    telemetry.count_rpc(request.ByteSize)
                    asked_at = platform_time.get_time()
                    answer = received(
                        await connection.commit(request, metadata=connection.metadata, timeout=timeout_s)
                    )
                self.clock.learn(answer.commit_time, asked_at=asked_at)
                return [
                    _written(item, result) for item, result in zip(writes, answer.write_results, strict=True)
                ]

            return await retry.call(attempt, policy=self._policy)

    async def split_points(self, collection: str, *, most: int) -> list[str] | None:
        """As the port, in one RPC for 1,000 paths."""
        with part_of(self.deadline_s):
            connection = await self._connects.connection()
            request = values.to_partition_query(connection.root, collection, most=most)
            found: list[str] = []
            while True:
                answer = await self._partitions(connection, request)
                if answer is None:
                    return None
                found += values.from_partitions(answer, root=connection.root)
                if not answer.next_page_token:
                    return sorted(found, key=in_order_of_names)
                request.page_token = answer.next_page_token

    async def _partitions(self, connection: Connection, request: Any) -> Any:
        """Return the answer to *request*; ``None`` if this server does not know the RPC."""

        async def attempt(timeout_s: float) -> Any:
            try:
                with translated(FIRESTORE_FAILURES, firestore_read_error, connection.where):
                    timeout_s = await connection.reached(timeout_s)
                    telemetry.count_rpc(request.ByteSize)
                    return received(
                        await connection.partition_query(
                            request, metadata=connection.metadata, timeout=timeout_s
                        )
                    )
            except StoreError as exc:
                if is_unknown_rpc(exc.__cause__):
                    return None
                raise

        return await retry.call(attempt, policy=self._policy)

    async def before(self, path: str, time: str, *, fields: Sequence[str]) -> Document | None:
        """As the port, in one RPC."""
        stamp = Timestamp()
        values.put_timestamp(stamp, time)
        if self.clock.now() - values.to_seconds(stamp) > _SNAPSHOT_S - _MARGIN_S:
            return None
        stamp.FromMicroseconds(stamp.ToMicroseconds() - 1)  # the precision of Firestore's times
        reads = _Snapshot(self._connects, self._policy, self.clock, stamp)
        (found,) = await reads.get([path], fields=fields)
        return found

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reads]:
        """As the port: the first answer has the time that the next reads ask for."""
        yield _Snapshot(self._connects, self._policy, self.clock)

    def watch(self, path: str) -> AsyncGenerator[Document | None]:
        """As the port, in one RPC that stays open."""
        return listen(
            self._connects,
            path,
            clock=self.clock,
            policy=self._policy,
            closings=lambda: self._closings,
        )

    async def scrub(self) -> None:
        """As the port: it does nothing."""

    async def close(self) -> None:
        """As the port."""
        self._closings += 1
        await self._connects.close()


class _Snapshot(Reads):
    """Reads that find the documents as they were at a time, by default at that of the first one."""

    def __init__(
        self,
        connects: Channels | BorrowedChannel,
        policy: retry.RetryPolicy,
        clock: ServerClock,
        time: Timestamp | None = None,
    ) -> None:
        super().__init__(connects, policy, clock)
        self._first = asyncio.Lock()
        self._time = time

    async def _read(self, connection: Connection, rpc: Any, request: Any, *, result: str) -> list[Document]:
        async with self._first:
            if self._time is None:
                found, self._time = await self._stream(connection, rpc, request, result=result)
                return found
        # Check first: the error of an old snapshot has the status of a missing index.
        if self.clock.now() - values.to_seconds(self._time) > _SNAPSHOT_S:
            raise StoreError(
                f"{connection.where}: the snapshot is more than {_SNAPSHOT_S} s old, and Firestore no longer "
                "knows it; read less at a time"
            )
        request.read_time.CopyFrom(self._time)
        return await super()._read(connection, rpc, request, result=result)


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


async def _document(message: Any, *, root: str, read_time: float) -> Document:
    light = message.ByteSize() <= values.LARGE_BYTES
    return await offload(partial(values.from_document, message, root=root, read_time=read_time), light=light)


def _written(item: Write | Delete, result: Any) -> Written:
    incremented = {}
    if isinstance(item, Write) and item.increment:
        # Results come in the order of the sent transforms: unions first.
        results = result.transform_results[len(item.union) :]
        incremented = {
            name: answer.integer_value for name, answer in zip(item.increment, results, strict=True)
        }
    return Written(update_time=values.from_timestamp(result.update_time), incremented=incremented)

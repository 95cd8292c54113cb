"""Listen to one document: a stream on which Firestore sends its changes, opened again when it is lost.

Firestore's ``AsyncClient`` has no ``on_snapshot``; this is the RPC ``Listen`` that the other client uses.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final

import grpc
from google.adk.platform import time as platform_time
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store import machine
from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.errors import FIRESTORE_FAILURES, firestore_read_error
from gcp_adk_store.cloud.firestore import values
from gcp_adk_store.cloud.firestore.channels import BorrowedChannel, Channels, Connection, failed, received
from gcp_adk_store.cloud.translation import translated
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoreError, UnavailableError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.operation import part_of

logger = logging.getLogger(__name__)

_TARGET: Final = 1
"""The number of the one target of a stream."""

_LASTING_S: Final = 60.0
"""After a stream that lasted so long, the waits between streams begin anew."""

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 60.0
"""Bounds of the waits between streams that do not last: each opened one bills a read."""


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

    def learn(self, server_time: Timestamp, *, asked_at: float) -> float:
        """Correct the clock by the time of an answer that just arrived; return that time in seconds."""
        time = values.to_seconds(server_time)
        self.ahead_s = min(max(self.ahead_s, time - platform_time.get_time()), time - asked_at)
        self.is_set = True
        return time


async def listen(
    connects: Channels | BorrowedChannel,
    path: str,
    *,
    clock: ServerClock,
    policy: retry.RetryPolicy,
    closings: Callable[[], int],
) -> AsyncGenerator[Document | None]:
    """Yield the document at *path* as it is, and again after each change; ``None`` while it is missing.

    Versions that follow each other faster than they are reported become one. Firestore bills 1 read for each
    version that it sends, and for each stream that is opened. *closings* counts how often the connections
    were closed.

    Raises:
        UnavailableError: no stream could be opened before the deadline of *policy*.
        NotProvisionedError, AccessDeniedError: as for a read.
        StoreError: the connections were closed.
    """
    closed = closings()
    yielded: str | None = None
    is_first = True
    longest_wait_s = _FIRST_WAIT_S

    async def open_stream(timeout_s: float) -> "_Stream":
        connection = await connects.connection()
        with translated(FIRESTORE_FAILURES, firestore_read_error, connection.where):
            timeout_s = await connection.reached(timeout_s)
        stream = _Stream(connection, path, clock)
        try:
            async with asyncio.timeout(timeout_s):
                await stream.next()
        except TimeoutError as exc:
            stream.close()
            raise UnavailableError(
                f"{stream.where}: no answer of the stream of changes in {timeout_s:.3g} s; try again later"
            ) from exc
        except BaseException:
            stream.close()
            raise
        return stream

    while True:
        with part_of(policy.deadline_s):  # its token and all attempts
            stream = await retry.call(open_stream, policy=policy)
        opened_at = machine.monotonic()
        try:
            while True:
                document = stream.document
                update_time = None if document is None else document.update_time
                if is_first or update_time != yielded:
                    is_first, yielded = False, update_time
                    yield document
                try:
                    await stream.next()
                except StoreError as exc:
                    if closings() != closed:
                        raise StoreError("the store was closed while a session was followed") from exc
                    # What lasts fails again as the next one is opened; a token that ran out is fetched anew.
                    logger.info(
                        "%s%s; listening again", telemetry.label(), exc, extra=telemetry.log_fields(exc)
                    )
                    break
        finally:
            stream.close()
        if machine.monotonic() - opened_at >= _LASTING_S:
            longest_wait_s = _FIRST_WAIT_S
        await asyncio.sleep(machine.uniform(longest_wait_s / 2, longest_wait_s))
        longest_wait_s = min(2 * longest_wait_s, _LONGEST_WAIT_S)


class _Stream:
    """One call of ``Listen``, which ends when it is closed or lost."""

    def __init__(self, connection: Connection, path: str, clock: ServerClock) -> None:
        self.document: Document | None = None
        """The document as the last snapshot has it."""
        self.where = connection.where
        self._root = connection.root
        self._clock = clock
        self._asked_at = platform_time.get_time()
        self._newest: Any = None
        self._request = values.PbListenRequest(
            database=connection.database,
            add_target={"documents": {"documents": [f"{self._root}/{path}"]}, "target_id": _TARGET},
        )
        self._is_asked = False
        self._call = connection.listen(metadata=connection.metadata)

    async def next(self) -> None:
        """Wait for the next snapshot, a consistent state that Firestore sends with its time.

        Raises:
            StoreError: the stream was lost, or Firestore refused it.
        """
        with translated(FIRESTORE_FAILURES, firestore_read_error, self.where):
            if not self._is_asked:
                self._is_asked = True
                telemetry.count_rpc(self._request.ByteSize)
                await self._call.write(self._request)
            while True:
                message = await self._call.read()
                if message is grpc.aio.EOF:
                    raise UnavailableError(f"{self.where}: the stream of changes ended; try again later")
                if self._is_snapshot(received(message)):
                    break
        self.document = None
        if self._newest is not None:
            read_time = self._clock.learn(message.target_change.read_time, asked_at=self._asked_at)
            self.document = await offload(
                lambda: values.from_document(self._newest, root=self._root, read_time=read_time),
                light=self._newest.ByteSize() <= values.LARGE_BYTES,
            )

    def _is_snapshot(self, message: Any) -> bool:
        """Take in *message*; return whether it completes a snapshot."""
        match message.WhichOneof("response_type"):
            case "document_change":
                self._newest = message.document_change.document
            case "document_delete" | "document_remove":
                self._newest = None
            case "filter" if message.filter.count != (self._newest is not None):
                raise UnavailableError(f"{self.where}: the stream of changes left out a change")
            case "target_change":
                change = message.target_change
                if change.target_change_type == values.TARGET_REMOVED:
                    raise _refusal(change.cause.code)
                if change.target_change_type == values.TARGET_RESET:
                    self._newest = None
                return not change.target_ids and change.HasField("read_time")
        return False

    def close(self) -> None:
        """End the call."""
        with suppress(RuntimeError):  # its loop is closed
            self._call.cancel()


def _refusal(number: int) -> grpc.aio.AioRpcError:
    """Return the failure with the status code *number*, as a call that Firestore refuses raises it."""
    return failed(
        next((code for code in grpc.StatusCode if code.value[0] == number), grpc.StatusCode.UNKNOWN)
    )

"""Count what reaches a Firestore emulator: RPCs, billed operations, bytes.

A proxy in front of the emulator, so that any client is measured by the same meter: ours, ADK's, a user's.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.cloud.firestore_v1.types import firestore

_UNBOUNDED: Final = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
_START_S: Final = 30.0
_STOP_S: Final = 5.0

_REQUESTS: Final = {"Commit": firestore.CommitRequest.pb(), "BatchWrite": firestore.BatchWriteRequest.pb()}
_ANSWERS: Final = {
    "BatchGetDocuments": firestore.BatchGetDocumentsResponse.pb(),
    "RunQuery": firestore.RunQueryResponse.pb(),
}


@dataclass(slots=True)
class FirestoreFigures:
    """What was asked of Firestore, counted as Google bills it."""

    rpcs: Counter[str] = field(default_factory=Counter)
    """RPC's name -> how often."""
    reads: int = 0
    """Documents read, missing ones included; a query that finds none counts one."""
    writes: int = 0
    deletes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    @property
    def rpc_count(self) -> int:
        """All RPCs together."""
        return self.rpcs.total()


class FirestoreMeter:
    """A metering proxy; ``with`` starts and stops it.

    Point ``FIRESTORE_EMULATOR_HOST`` at :attr:`address` for the clients to be measured.
    """

    def __init__(self, upstream: str) -> None:
        self.address = ""
        """``host:port`` of the proxy, once it runs."""
        self._upstream = upstream
        self._figures = FirestoreFigures()
        self._guard = threading.Lock()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def take(self) -> FirestoreFigures:
        """Return what was counted since the last call, and start again at zero."""
        with self._guard:
            taken, self._figures = self._figures, FirestoreFigures()
        return taken

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise RuntimeError("the Firestore meter did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = grpc.aio.server(options=_UNBOUNDED)
        async with grpc.aio.insecure_channel(self._upstream, options=_UNBOUNDED) as channel:
            server.add_generic_rpc_handlers((_Forwarder(channel, self._count),))
            self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            self._ready.set()
            await self._stopping.wait()
            await server.stop(grace=_STOP_S)  # as soon as its last call ends

    def _count(self, rpc: str, requests: list[bytes], answers: list[bytes]) -> None:
        reads, writes, deletes = _billed(rpc, requests, answers)
        with self._guard:
            figures = self._figures
            figures.rpcs[rpc] += 1
            figures.reads += reads
            figures.writes += writes
            figures.deletes += deletes
            figures.sent_bytes += sum(map(len, requests))
            figures.received_bytes += sum(map(len, answers))


class _Forwarder(grpc.GenericRpcHandler):
    """Passes every RPC on as bytes: one handler serves unary and streaming ones alike."""

    def __init__(self, channel: grpc.aio.Channel, count: Any) -> None:
        self._channel = channel
        self._count = count

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method
        open_call: Any = self._channel.stream_stream(method)

        async def forward(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            sent: list[bytes] = []
            received: list[bytes] = []

            async def watched() -> AsyncIterator[bytes]:
                async for request in requests:
                    sent.append(request)
                    yield request

            metadata = [pair for pair in context.invocation_metadata() if not pair[0].startswith("grpc-")]
            call = open_call(watched(), metadata=metadata)
            try:
                async for answer in call:
                    received.append(answer)
                    yield answer
            except grpc.aio.AioRpcError as exc:
                await context.abort(exc.code(), exc.details() or "", exc.trailing_metadata() or ())
            finally:
                self._count(method.rpartition("/")[2], sent, received)

        return grpc.stream_stream_rpc_method_handler(forward)


def _billed(rpc: str, requests: list[bytes], answers: list[bytes]) -> tuple[int, int, int]:
    """Return reads, writes and deletes; an RPC that was refused (no answer) bills nothing."""
    if not answers:
        return 0, 0, 0
    if rpc in _REQUESTS:
        kinds = [
            write.WhichOneof("operation")
            for raw in requests
            for write in _REQUESTS[rpc].FromString(raw).writes
        ]
        return 0, len(kinds) - kinds.count("delete"), kinds.count("delete")
    if rpc in _ANSWERS:
        messages = [_ANSWERS[rpc].FromString(raw) for raw in answers]
        if rpc == "RunQuery":
            return max(1, sum(message.HasField("document") for message in messages)), 0, 0
        return sum(message.WhichOneof("result") is not None for message in messages), 0, 0
    return 0, 0, 0

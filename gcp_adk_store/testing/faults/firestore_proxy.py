"""A proxy for a Firestore emulator that injects faults into chosen RPCs.

Messages pass as bytes, so that any client can be tested: ours, ADK's, a user's.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qs

import grpc
from google.cloud.firestore_v1.types import firestore
from google.rpc import code_pb2, error_details_pb2, status_pb2

from gcp_adk_store.testing.faults.plans import (
    Cut,
    Delay,
    Fault,
    Garble,
    Hang,
    Hold,
    Lose,
    Plan,
    Refuse,
    no_faults,
)
from gcp_adk_store.testing.faults.proxy import Proxy, TcpForwarder

Observe: TypeAlias = Callable[[str, list[bytes], list[bytes]], None]
"""Called for every RPC that reached the emulator: its name, what was asked and what the emulator answered.

Of a conversation it gets each answer, with what was asked since the one before.
"""

_UNBOUNDED: Final = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
_STOP_S: Final = 5.0
_DETAILS: Final = "grpc-status-details-bin"
_ON_PURPOSE: Final = "on purpose: a test's proxy"

_CONVERSATIONS: Final = frozenset({"Listen", "Write"})
"""RPCs whose requests never end: they pass as they are."""

_TIMED: Final[dict[str, tuple[Any, str]]] = {
    "BatchGetDocuments": (firestore.BatchGetDocumentsResponse.pb(), "read_time"),
    "RunQuery": (firestore.RunQueryResponse.pb(), "read_time"),
    "Commit": (firestore.CommitResponse.pb(), "commit_time"),
}
"""RPCs whose answers have Firestore's time, and in which field."""

Clock: TypeAlias = Callable[[str], float]
"""Returns the Unix time in seconds for a project; the proxy calls it from its own thread."""

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]


class FirestoreProxy(Proxy):
    """A proxy whose *plan* says which RPCs go wrong; ``with`` starts and stops it.

    Point ``FIRESTORE_EMULATOR_HOST`` at :attr:`address` for the clients that are to suffer. Calls are
    numbered by project; a plan never applies to ``Listen`` and ``Write``.
    """

    def __init__(self, upstream: str, plan: Plan = no_faults, *, observe: Observe | None = None) -> None:
        """Prepare it; *upstream* is the emulator's ``host:port``."""
        super().__init__("firestore", plan)
        self.clock: Clock | None = None
        """What answers give as Firestore's time, by which sessions with a time to live end; by default that
        of the emulator. The times of documents stay the emulator's."""
        self._upstream = upstream
        self.observe = observe
        """Hears of the RPCs that reach the emulator."""
        self._running: _Running | None = None

    @property
    def address(self) -> str:
        """``host:port`` of the proxy, once it runs; empty before."""
        return "" if self._running is None else f"127.0.0.1:{self._running.front.port}"

    def cut_connections(self) -> int:
        """End the connections, as :meth:`Proxy.cut_connections`."""
        running = self._require_running()

        async def cut() -> int:
            return running.front.cut()

        return asyncio.run_coroutine_threadsafe(cut(), running.loop).result()

    def _serve(self) -> None:
        asyncio.run(self._pass_on())

    def _stop(self) -> None:
        running = self._require_running()
        running.loop.call_soon_threadsafe(running.stopping.set)

    def _require_running(self) -> "_Running":
        if self._running is None:
            raise RuntimeError("the Firestore proxy does not run")
        return self._running

    def timed(self, rpc: str, answer: bytes, owner: str) -> bytes:
        """Return *answer* with the time of :attr:`clock`."""
        clock = self.clock
        if clock is None or rpc not in _TIMED:
            return answer
        kind, field = _TIMED[rpc]
        message = kind.FromString(answer)
        getattr(message, field).FromNanoseconds(round(clock(owner) * 1e6) * 1000)
        timed: bytes = message.SerializeToString()
        return timed

    async def _pass_on(self) -> None:
        stopping = asyncio.Event()
        server = grpc.aio.server(options=_UNBOUNDED)
        async with grpc.aio.insecure_channel(self._upstream, options=_UNBOUNDED) as channel:
            server.add_generic_rpc_handlers((_Handler(channel, self, stopping),))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            async with TcpForwarder(port) as front:
                self._running = _Running(asyncio.get_running_loop(), front, stopping)
                self._serves.set()
                await stopping.wait()
                self.drop_held()
                await server.stop(grace=_STOP_S)  # as soon as its last call ends


def _failure(code: str, *, retry_after_s: float | None = None) -> grpc.aio.AioRpcError:
    """Return what a client is answered, with a ``google.rpc.RetryInfo`` where *retry_after_s* asks for it."""
    trailing: tuple[tuple[str, bytes], ...] = ()
    if retry_after_s is not None:
        whole = math.floor(retry_after_s)
        info = error_details_pb2.RetryInfo()
        info.retry_delay.seconds = whole
        info.retry_delay.nanos = int((retry_after_s - whole) * 1e9)
        status = status_pb2.Status(code=code_pb2.Code.Value(code), message=_ON_PURPOSE)
        status.details.add().Pack(info)
        trailing = ((_DETAILS, status.SerializeToString()),)
    return grpc.aio.AioRpcError(
        grpc.StatusCode[code], grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=_ON_PURPOSE
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a client is answered."""

    answers: list[bytes]
    failure: grpc.aio.AioRpcError | None


_Arrive: TypeAlias = Callable[[], Coroutine[Any, Any, _Outcome]]
"""Lets the emulator do what was asked."""

_DROPPED: Final = _Outcome([], _failure("UNAVAILABLE"))

_UNREADABLE: Final = _Outcome([b"\xff"], None)
"""Bytes that no kind of message can be read from. A part of a message might be read as another message."""


@dataclass(frozen=True, slots=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    front: TcpForwarder
    stopping: asyncio.Event


class _Handler(grpc.GenericRpcHandler):
    """Passes every RPC on as bytes, as one request with any number of answers, or as a conversation."""

    def __init__(self, channel: grpc.aio.Channel, proxy: FirestoreProxy, stopping: asyncio.Event) -> None:
        self._channel = channel
        self._proxy = proxy
        self._stopping = stopping
        self._detached: set[asyncio.Task[Any]] = set()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method
        rpc = method.rpartition("/")[2]

        async def converse(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            answers = self._converse(method, requests, _passed_on(context))
            async for answer in _answered(context, answers):
                yield answer

        async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
            metadata = _passed_on(context)
            fault = self._proxy.next(_owner(metadata), rpc)
            answers = (
                self._forward(method, request, metadata)
                if fault is None
                else self._suffer(fault, method, request, metadata)
            )
            async for answer in _answered(context, answers):
                yield answer

        if rpc in _CONVERSATIONS:
            return grpc.stream_stream_rpc_method_handler(converse)
        return grpc.unary_stream_rpc_method_handler(serve)

    async def _converse(
        self, method: str, requests: AsyncIterator[bytes], metadata: Metadata
    ) -> AsyncIterator[bytes]:
        sent: list[bytes] = []
        observe = self._proxy.observe
        rpc = method.rpartition("/")[2]

        async def watched() -> AsyncIterator[bytes]:
            async for request in requests:
                if observe is not None:
                    sent.append(request)
                yield request

        open_call: Any = self._channel.stream_stream(method)
        async for answer in open_call(watched(), metadata=metadata):
            if observe is not None:  # before the client has it, as of other RPCs
                observe(rpc, sent.copy(), [answer])
                sent.clear()
            yield answer

    async def _forward(self, method: str, request: bytes, metadata: Metadata) -> AsyncIterator[bytes]:
        received: list[bytes] = []
        # A client may take the last answer for the end. The observer hears before the client has it, and so
        # knows of every call that a client has done with.
        failure: grpc.aio.AioRpcError | None = None
        rpc = method.rpartition("/")[2]
        open_call: Any = self._channel.unary_stream(method)
        try:
            async for answer in open_call(request, metadata=metadata):
                received.append(self._proxy.timed(rpc, answer, _owner(metadata)))
                if len(received) > 1:
                    yield received[-2]
        except grpc.aio.AioRpcError as exc:
            failure = exc
        finally:
            if self._proxy.observe is not None:
                self._proxy.observe(rpc, [request], received)
        if received:
            yield received[-1]
        if failure is not None:
            raise failure

    async def _suffer(
        self, fault: Fault, method: str, request: bytes, metadata: Metadata
    ) -> AsyncIterator[bytes]:
        async def arrive() -> _Outcome:
            return await self._collect(method, request, metadata)

        outcome = await self._outcome(fault, arrive)
        for answer in outcome.answers:
            yield answer
        if outcome.failure is not None:
            raise outcome.failure

    async def _outcome(self, fault: Fault, arrive: _Arrive) -> _Outcome:
        """Return what the client is answered, after *arrive* let the emulator do it or did not."""
        match fault:
            case Refuse():
                return _Outcome([], _failure(fault.grpc_code, retry_after_s=fault.retry_after_s))
            case Hang() | Cut(part="request"):
                if isinstance(fault, Hang):
                    await self._stopping.wait()
                return _DROPPED
            case Garble():
                await self._see_through(arrive())
                return _UNREADABLE
            case Lose() | Cut():
                whole = await self._see_through(arrive())
                return _Outcome(whole.answers[:-1][:1] if isinstance(fault, Cut) else [], _DROPPED.failure)
            case Delay(seconds):
                return await self._see_through(_later(seconds, arrive))
            case Hold(stage):
                return await self._see_through(self._hold(fault, stage, arrive))

    async def _collect(self, method: str, request: bytes, metadata: Metadata) -> _Outcome:
        answers: list[bytes] = []
        try:
            async for answer in self._forward(method, request, metadata):
                answers.append(answer)  # noqa: PERF401  # what came before a failure counts
        except grpc.aio.AioRpcError as exc:
            return _Outcome(answers, exc)
        return _Outcome(answers, None)

    async def _hold(self, hold: Hold, stage: Literal["before", "after"], arrive: _Arrive) -> _Outcome:
        outcome = await arrive() if stage == "after" else None
        with self._proxy.holding(hold):
            # Shielded: a loop that ends must not decide for the test.
            forward = await asyncio.shield(asyncio.wrap_future(hold.decision))
        if not forward:
            return _DROPPED
        return await arrive() if outcome is None else outcome

    async def _see_through(self, work: Coroutine[Any, Any, _Outcome]) -> _Outcome:
        """Await *work*; a client that goes does not end it, as a request that is on its way arrives."""
        task = asyncio.create_task(work)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        return await asyncio.shield(task)


def _passed_on(context: Any) -> Metadata:
    """Return what a client sent beside its request, without gRPC's own."""
    return [pair for pair in context.invocation_metadata() if not pair[0].startswith("grpc-")]


async def _answered(context: Any, answers: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield *answers*, and end the call as they end."""
    try:
        async for answer in answers:
            yield answer
    except grpc.aio.AioRpcError as exc:
        await context.abort(exc.code(), exc.details() or "", tuple(exc.trailing_metadata() or ()))


async def _later(seconds: float, arrive: _Arrive) -> _Outcome:
    await asyncio.sleep(seconds)
    return await arrive()


def _owner(metadata: Metadata) -> str:
    """Return the project that a request is for, as its headers say; empty where they do not."""
    given = {name: value for name, value in metadata if isinstance(value, str)}
    name = given.get("google-cloud-resource-prefix", "")
    if not name:
        routed = parse_qs(given.get("x-goog-request-params", ""))
        name = routed.get("database", routed.get("parent", [""]))[0]
        if not name and "project_id" in routed:
            return routed["project_id"][0]
    parts = name.split("/")
    return parts[1] if parts[0] == "projects" and len(parts) > 1 else ""

"""Open a gRPC channel to Firestore for each event loop, and call methods on it.

gRPC reports a refused connection and a lost answer alike: the status UNAVAILABLE, with a text that differs
from release to release. The state of the channel before the call is certain: what is not handed to gRPC was
not sent. What is handed to it while the channel is READY counts as sent, even if it ends just then.
"""

import asyncio
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import grpc
from google.api_core.gapic_v1 import routing_header
from google.auth.credentials import Credentials
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcAsyncIOTransport
from grpc import ChannelConnectivity as State

from gcp_adk_store import machine, settings
from gcp_adk_store.cloud.auth.credentials import StoreCredentials, in_time
from gcp_adk_store.cloud.auth.tokens import SharedToken
from gcp_adk_store.cloud.errors import project_error
from gcp_adk_store.cloud.firestore import values
from gcp_adk_store.cloud.forked_grpc import require_grpc
from gcp_adk_store.errors import EmulatorMissingError, UnavailableError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.process import OwnProcess


async def _refuses(address: str) -> bool:
    """Return whether a connection to *address* is refused now: a channel in its pause does not report it."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    is_refused = False
    try:
        places = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, place in places:
        with socket.socket(family, kind, protocol) as probe:
            probe.settimeout(0)
            try:
                await loop.sock_connect(probe, place)
            except ConnectionRefusedError:
                is_refused = True
            except OSError:  # such as ::1 of a machine without IPv6
                continue
            else:
                return False
    return is_refused


_SERVICE: Final = "/google.firestore.v1.Firestore"
_RESOURCE: Final = "google-cloud-resource-prefix"

# A long history or a full listing is larger than gRPC's 4 MiB default.
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 60_000),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """The RPCs of one channel, with the metadata that routes them to one database."""

    commit: Any
    batch_get: Any
    run_query: Any
    partition_query: Any
    listen: Any
    database: str
    """``projects/{project}/databases/{database}``."""
    metadata: Sequence[tuple[str, str]]
    where: str
    """The database, and the emulator if any, for messages."""
    channel: grpc.aio.Channel
    emulator: str | None
    """The address of the emulator, if it is one."""
    token: SharedToken | None
    """What the channel sends, for a caller to wait for; ``None`` of an emulator, and of a lent client."""

    @property
    def root(self) -> str:
        """The name prefix of all documents of the database."""
        return f"{self.database}/documents"

    async def reached(self, timeout_s: float) -> float:
        """Wait until the channel has a connection; return the seconds that are left of *timeout_s*.

        Raises:
            EmulatorMissingError: nothing listens at the address of the emulator; nothing was sent.
            UnavailableError: no connection for now; nothing was sent.
            grpc.aio.UsageError: the channel is closed.
        """
        state = self.channel.get_state(try_to_connect=True)
        if state is State.READY:
            return timeout_s
        ends_at = machine.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while state in (State.IDLE, State.CONNECTING):
                    await self.channel.wait_for_state_change(state)
                    state = self.channel.get_state(try_to_connect=True)
                if (
                    state is State.TRANSIENT_FAILURE
                    and self.emulator is not None
                    and await _refuses(self.emulator)
                ):
                    raise EmulatorMissingError.at(self.emulator, "FIRESTORE_EMULATOR_HOST")
        except TimeoutError as exc:
            raise UnavailableError(
                f"{self.where}: no connection in time; nothing was sent; try again later"
            ) from exc
        if state is State.TRANSIENT_FAILURE:
            raise UnavailableError(f"{self.where}: no connection; nothing was sent; try again later")
        return max(ends_at - machine.monotonic(), 0.001)


FirestoreClient: TypeAlias = AsyncClient
"""A client that a caller may lend."""

ClientInterceptor: TypeAlias = grpc.aio.ClientInterceptor
"""Interceptors that see every RPC of a service, for tracing and metering."""


class Channels:
    """Gives every event loop a channel of its own.

    A gRPC channel works only in its own loop, while ADK runs one service from several: each
    ``Runner.run()`` starts a new loop. When the next loop connects, it drops the channels of closed loops.
    All loops share the credentials.
    """

    def __init__(
        self,
        *,
        project: str | None,
        database: str,
        credentials: StoreCredentials | Credentials | None,
        interceptors: Sequence[ClientInterceptor],
    ) -> None:
        self._project = project
        self._database = database
        self._credentials = StoreCredentials.of(credentials)
        self._interceptors = list(interceptors)
        # By id: a channel keeps its loop alive, so a weak key would never end. While the channel is here,
        # the loop lives and its id is unique.
        self._open: dict[int, tuple[asyncio.AbstractEventLoop, Connection]] = {}
        self._guard = threading.Lock()
        self._process = OwnProcess(self)

    async def connection(self) -> Connection:
        """Return the running loop's connection, opened at its first use, with a valid token.

        Raises:
            CredentialsError: the credentials are missing or refused.
            UnavailableError: the credentials yield no token for now.
            NotProvisionedError: neither the settings nor the credentials name a project.
            ForkedProcessError: a parent of this process used it, or gRPC cannot run in this process.
        """
        self._process.require_own()
        require_grpc()
        loop = asyncio.get_running_loop()
        known = self._open.get(id(loop))
        connection = await self._make(loop) if known is None else known[1]
        if connection.token is not None:
            # Here, so that refused credentials do not look like a silent server.
            await connection.token.ready()
        return connection

    async def _make(self, loop: asyncio.AbstractEventLoop) -> Connection:
        emulator = settings.firestore_emulator_host()
        project = self._project or settings.default_project()
        if emulator is None:
            await self._credentials.ready()
            project = project or await in_time(self._credentials.find_project)
            if project is None:
                raise project_error()
        with self._guard:
            self._drop_ended()
            # Another task of this loop may have connected while this one looked for the credentials.
            if id(loop) not in self._open:
                made = self._connect(project or settings.EMULATOR_PROJECT, emulator)
                self._open[id(loop)] = (loop, made)
            return self._open[id(loop)][1]

    def _drop_ended(self) -> None:
        for ended in [key for key, (loop, _) in self._open.items() if loop.is_closed()]:
            del self._open[ended]

    async def close(self) -> None:
        """Close the running loop's channel, and drop those of other loops; a child leaves its parent's."""
        if not self._process.is_this():
            return
        with self._guard:
            mine = self._open.pop(id(asyncio.get_running_loop()), None)
            self._open.clear()
        if mine is not None:
            await mine[1].channel.close()

    def _connect(self, project: str, emulator: str | None) -> Connection:
        if emulator is not None:
            token = None
            channel = grpc.aio.insecure_channel(emulator, options=_OPTIONS, interceptors=self._interceptors)
            # "owner" is the emulator's name for a caller with all permissions.
            extra = [("authorization", "Bearer owner")]
        else:
            token = self._credentials.find().token
            channel = FirestoreGrpcAsyncIOTransport.create_channel(
                f"firestore.{token.universe_domain}:443",
                credentials=token,
                options=_OPTIONS,
                interceptors=self._interceptors,
            )
            extra = []
        return connect(
            channel,
            project=project,
            database=self._database,
            extra_metadata=extra,
            emulator=emulator,
            token=token,
        )


class BorrowedChannel:
    """Uses the channel of a client that the caller owns and closes, in that client's loop."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._connection: Connection | None = None
        self._process = OwnProcess(self)

    async def connection(self) -> Connection:
        """Return the connection of the borrowed client.

        Raises:
            ForkedProcessError: a parent of this process used it, or gRPC cannot run in this process.
        """
        self._process.require_own()
        require_grpc()
        if self._connection is None:
            lent: Any = self._client  # a second channel would lack its credentials, interceptors and endpoint
            self._connection = connect(
                lent._firestore_api.transport.grpc_channel,  # noqa: SLF001
                project=lent.project,
                database=lent._database,  # noqa: SLF001
                extra_metadata=[pair for pair in lent._rpc_metadata if pair[0] != _RESOURCE],  # noqa: SLF001
                emulator=lent._emulator_host or None,  # noqa: SLF001
            )
        return self._connection

    async def close(self) -> None:
        """Leave the borrowed client open."""


def failed(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    """Return the failure of an RPC with a status *code*, as a call raises it."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())


def received(message: Any) -> Any:
    """Return *message*, with which an RPC was answered, and count it.

    gRPC gives ``None`` for an answer that is missing, or that it cannot read.

    Raises:
        grpc.aio.AioRpcError: Firestore did not answer; the RPC may have been executed.
    """
    if message is None:
        raise failed(grpc.StatusCode.INTERNAL)
    telemetry.count_answer(message.ByteSize)
    return message


def connect(
    channel: grpc.aio.Channel,
    *,
    project: str,
    database: str,
    extra_metadata: Sequence[tuple[str, str]],
    emulator: str | None,
    token: SharedToken | None = None,
) -> Connection:
    """Return the RPCs of *channel* that the store uses."""
    name = f"projects/{project}/databases/{database}"

    def rpc(kind: Any, method: str, request: Any, response: Any) -> Any:
        return kind(
            f"{_SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )

    unary, stream = channel.unary_unary, channel.unary_stream
    return Connection(
        commit=rpc(unary, "Commit", values.PbCommitRequest, values.PbCommitResponse),
        batch_get=rpc(stream, "BatchGetDocuments", values.PbBatchGetRequest, values.PbBatchGetResponse),
        run_query=rpc(stream, "RunQuery", values.PbRunQueryRequest, values.PbRunQueryResponse),
        partition_query=rpc(
            unary, "PartitionQuery", values.PbPartitionQueryRequest, values.PbPartitionQueryResponse
        ),
        listen=rpc(channel.stream_stream, "Listen", values.PbListenRequest, values.PbListenResponse),
        database=name,
        # Both headers route a request to its database; without them Firestore finds only the default one.
        metadata=[
            (_RESOURCE, name),
            routing_header.to_grpc_metadata((("project_id", project), ("database_id", database))),
            *extra_metadata,
        ],
        where=f"{name} on the emulator at {emulator} (FIRESTORE_EMULATOR_HOST)" if emulator else name,
        channel=channel,
        emulator=emulator,
        token=token,
    )


async def close_client(client: AsyncClient) -> None:
    """Close the channel of a client that this library made, if it was used; Google's client has no method."""
    api: Any = client._firestore_api_internal  # noqa: SLF001
    if api is not None:
        await api.transport.close()


def new_client(*, project: str | None, database: str, credentials: StoreCredentials) -> AsyncClient:
    """Return a client of the database that :class:`Channels` of these arguments connect to; blocks.

    Raises:
        CredentialsError: the credentials are missing.
        UnavailableError: their source is unreachable for now.
        NotProvisionedError: neither the settings nor the credentials name a project.
    """
    project = project or settings.default_project()
    if settings.firestore_emulator_host() is not None:
        return AsyncClient(project=project or settings.EMULATOR_PROJECT, database=database)
    token = credentials.find().token
    project = project or credentials.find_project()
    if project is None:
        raise project_error()
    return AsyncClient(project=project, database=database, credentials=token)

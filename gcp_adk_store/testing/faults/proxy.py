"""Forward bytes between a client and a server, and serve HTTP and gRPC before one."""

import asyncio
import contextlib
import http.client
import logging
import re
import socket
import socketserver
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from gcp_adk_store.testing.faults.plans import Hold, Injector, Plan, Service

logger = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 256 * 1024
_LINE_BYTES: Final = 1024


class TcpForwarder:
    """Listens on a port of its own; ``async with`` opens and ends it, in the running event loop."""

    def __init__(self, port: int) -> None:
        """Prepare it; *port* is on 127.0.0.1, as its own is."""
        self.port = 0
        """Where it listens, once it does."""
        self._to = port
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def cut(self) -> int:
        """End every connection without a word; return how many there were."""
        clients = len(self._serving)
        for writer in self._open:
            writer.transport.abort()
        return clients

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._serving:
            await asyncio.wait(self._serving)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        ends = {writer}
        self._open.add(writer)
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
            ends.add(to_server)
            self._open.add(to_server)
            await asyncio.gather(_pump(reader, to_server), _pump(from_server, writer))
        except OSError:
            pass  # the server does not listen: its client sees a connection that ends
        finally:
            self._serving.discard(task)
            self._open -= ends
            for end in ends:
                end.transport.abort()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):  # one of the two has gone
        while data := await source.read(_BLOCK_BYTES):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        if target.can_write_eof():
            target.write_eof()


class HttpServer(ThreadingHTTPServer):
    """Speaks HTTP with many clients at once, each from a thread of its own."""

    # The default backlog of 5 refuses connections when fifty clients start at once.
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen; port 0 takes a free one."""
        self._connections: set[socket.socket] = set()
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without asking DNS for the host's name, which can take seconds offline."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a new connection."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut(self) -> int:
        """End every connection, also those kept alive for a next request; return how many there were."""
        connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return len(connections)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # inherited name
        """Log what ended a connection: a client that went away is not an error."""
        if isinstance(sys.exception(), (OSError, http.client.HTTPException)):
            logger.debug("connection of %s ended", client_address)
        else:
            # socketserver calls this inside its except clause.
            logger.exception("connection of %s failed", client_address)  # noqa: LOG004


class HttpHandler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout: ClassVar[float] = 600.0  # A connection that says nothing gives up its thread.

    @property
    def is_chunked(self) -> bool:
        """Whether the body of the request comes in chunks.

        Raises:
            ValueError: it is encoded in another way.
        """
        encoding = self.headers.get("Transfer-Encoding")
        if encoding is not None and encoding.lower() != "chunked":
            raise ValueError(f"Invalid Transfer-Encoding: {encoding!r}")
        return encoding is not None

    @property
    def length(self) -> int:
        """The announced length of the body.

        Raises:
            ValueError: it is not a number, or above all that a server takes.
        """
        length = self.headers.get("Content-Length", "0")
        if not re.fullmatch("[0-9]{1,15}", length):
            raise ValueError(f"Invalid Content-Length: {length!r}")
        return int(length)

    def body(self) -> Iterator[bytes]:
        """Yield the body of the request, block by block as it comes.

        Raises:
            ValueError: its length, or that of a chunk, is malformed.
            ConnectionAbortedError: the client closed the connection inside it.
        """
        if not self.is_chunked:
            yield from self.exactly(self.length)
            return
        while size := self._size_of_chunk():
            yield from self.exactly(size)
            self.rfile.readline(_LINE_BYTES)
        # Trailers, up to the empty line that ends them.
        while self.rfile.readline(_BLOCK_BYTES).strip():
            pass

    def exactly(self, size: int) -> Iterator[bytes]:
        """Yield the next *size* bytes of the body; errors as of :meth:`body`."""
        while size:
            block = self.rfile.read(min(size, _BLOCK_BYTES))
            if not block:
                raise ConnectionAbortedError("the client closed the connection inside a request")
            size -= len(block)
            yield block

    def _size_of_chunk(self) -> int:
        digits = self.rfile.readline(_LINE_BYTES).split(b";")[0].strip()
        if not re.fullmatch(b"[0-9A-Fa-f]{1,12}", digits):
            raise ValueError("Invalid chunk size")
        return int(digits, 16)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # inherited name
        """Log to the module's logger, not to stderr."""
        logger.debug(format, *args)


_START_S: Final = 30.0


class Proxy(Injector, ABC):
    """A proxy for an emulator, on a thread of its own; ``with`` starts and stops it."""

    def __init__(self, service: Service, plan: Plan) -> None:
        super().__init__(service, plan)
        self._serves = threading.Event()
        self._held: set[Hold] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    @abstractmethod
    def address(self) -> str:
        """The address for the emulator's variable, once the proxy runs."""

    @abstractmethod
    def cut_connections(self) -> int:
        """End every client's connection at once, calls and all; return how many there were.

        Clients may connect again at once, to the same address.
        """

    @abstractmethod
    def _serve(self) -> None:
        """Set ``_serves`` and serve until :meth:`_stop`; then drop the held calls and the connections."""

    @abstractmethod
    def _stop(self) -> None:
        """End :meth:`_serve`, from another thread."""

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._serves.wait(_START_S):
            raise RuntimeError(f"the {type(self).__name__} did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        self._thread.join()

    @contextmanager
    def holding(self, hold: Hold) -> Iterator[None]:
        """Hold a call during the block, which waits for the test's decision."""
        self._held.add(hold)
        hold.reached.set()
        try:
            yield
        finally:
            self._held.discard(hold)

    def drop_held(self) -> None:
        """Drop the calls that are held."""
        for hold in self._held.copy():
            hold.release(forward=False)

"""Forward TCP connections to one local port, and cut them all at once."""

import asyncio
import contextlib
from types import TracebackType
from typing import Final, Self

_BLOCK_BYTES: Final = 256 * 1024


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

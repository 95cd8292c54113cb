"""Servers that gRPC's channels connect to, and that answer no RPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_PREFACE_BYTES: Final = 24
_HEAD_BYTES: Final = 9
_HEADERS: Final = 1
_SETTINGS: Final = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""An empty frame of settings, with which a server completes a connection (RFC 9113, 3.4)."""


@asynccontextmanager
async def silent_http2(
    on_rpc: Callable[[asyncio.Server], None] | None = None,
    *,
    on_connection: Callable[[], None] = lambda: None,
) -> AsyncIterator[str]:
    """Serve connections on which RPCs are sent; *on_rpc* gets the server at each, and its connection ends.

    *on_connection* is called before a client knows that it has one. If that lets the deadline of the client's
    call pass, gRPC gives the RPC up at once: its own timers know no other time than the machine's.
    """
    servers: list[asyncio.Server] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        on_connection()
        writer.write(_SETTINGS)
        try:
            await reader.readexactly(_PREFACE_BYTES)
            while True:
                head = await reader.readexactly(_HEAD_BYTES)
                await reader.readexactly(int.from_bytes(head[:3]))
                if head[3] == _HEADERS and on_rpc is not None:
                    on_rpc(servers[0])
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    servers.append(server)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()

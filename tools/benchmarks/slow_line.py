"""Put a network's distance before a local server: whatever is sent arrives some milliseconds later.

Bytes are delayed, not calls: what follows on one connection travels behind what went before, so a long answer
pays for the distance once, and a client that asks again pays again. It runs as a process of its own, so that
its work is in no measure of the client's.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_BLOCK_BYTES = 256 * 1024


@contextmanager
def slow_line(address: str, delay_ms: float) -> Iterator[str]:
    """Return ``host:port`` of a line to *address* that adds *delay_ms* to a round trip."""
    command = [sys.executable, str(Path(__file__)), address, f"{delay_ms}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None  # as asked for above
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()  # what it waits for


class _Line:
    """Forwards connections to one address."""

    def __init__(self, address: str, delay_s: float) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._delay_s = delay_s
        self._tasks: set[asyncio.Task[None]] = set()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client: its requests are late, the answers are not."""
        from_server, to_server = await asyncio.open_connection(self._host, int(self._port))
        for work in (self._pump(reader, to_server, self._delay_s), self._pump(from_server, writer, 0)):
            self._keep(work)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            data = b"-"
            while data:
                due, data = await on_the_way.get()
                if (left := due - loop.time()) > 0:
                    await asyncio.sleep(left)
                target.write(data)
                await target.drain()
            target.close()

        arriving = asyncio.create_task(arrive())
        with suppress(ConnectionError):  # one of the two has gone
            while data := await source.read(_BLOCK_BYTES):
                on_the_way.put_nowait((loop.time() + delay_s, data))
            on_the_way.put_nowait((loop.time() + delay_s, b""))
            await arriving
        arriving.cancel()


async def _serve(address: str, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def await_the_parent() -> None:
        sys.stdin.buffer.read()  # its end of the pipe closes however it ends
        loop.call_soon_threadsafe(over.set)

    server = await asyncio.start_server(_Line(address, delay_s).forward, "127.0.0.1", 0)
    threading.Thread(target=await_the_parent, daemon=True).start()
    print(server.sockets[0].getsockname()[1], flush=True)
    await over.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], float(sys.argv[2]) / 1000))

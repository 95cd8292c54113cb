"""Read and write a file descriptor without blocking, in whichever event loop runs."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final, Self

_READ_BYTES: Final = 256 * 1024


class Channel:
    """One end of a socket or pipe, closed with its block; one reader and one writer at a time."""

    def __init__(self, handle: int) -> None:
        """Own the descriptor *handle*."""
        self._handle = handle
        self._is_open = True
        os.set_blocking(handle, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it, once."""
        if self._is_open:
            self._is_open = False
            os.close(self._handle)

    async def read(self) -> bytes:
        """Return the next bytes, at least one; empty when the other end is closed."""
        while True:
            try:
                return os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(self._handle, loop.add_reader, loop.remove_reader)
            except ConnectionResetError:  # closed with something unread
                return b""

    async def write(self, data: bytes) -> bool:
        """Write all of *data*; tell whether the other end was there for it."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._handle, rest) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(self._handle, loop.add_writer, loop.remove_writer)
            except (BrokenPipeError, ConnectionResetError):
                return False
        return True


async def _ready(handle: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(handle, lambda: None if came.done() else came.set_result(None))
    try:
        await came
    finally:
        with contextlib.suppress(RuntimeError):  # the event loop was closed
            remove(handle)

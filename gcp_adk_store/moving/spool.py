"""Hold the events of one session until all of them are read and checked."""

import json
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import BinaryIO

from google.adk.events import Event

from gcp_adk_store.codec.events import decode_event
from gcp_adk_store.moving.canonical import plain_event


@asynccontextmanager
async def spooled(events: AsyncIterable[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    """Read *events* to their end, and give them again within the block.

    A temporary file holds them, so that one event is in memory. Only this user can open it (mode 0600), and
    on POSIX it has no name. A second read of an input would not do: a pipe has none, and a file may change
    between both.
    """
    with TemporaryFile() as file:
        async for event in events:
            file.write(json.dumps(plain_event(event)).encode() + b"\n")
        file.seek(0)
        yield _events(file)


async def _events(file: BinaryIO) -> AsyncIterator[Event]:
    for line in file:
        yield decode_event(line.decode()).event

"""A long run of stored events is read beside other work."""

import asyncio

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store.kernel.concurrency import Pauses
from gcp_adk_store.sessions.read.completion import decode_events


@pytest.mark.parametrize(("count", "parts", "pauses"), [(3000, 0, 3), (6, 3000, 5)], ids=["many", "large"])
async def test_others_have_their_turn_while_events_are_read(count: int, parts: int, pauses: int) -> None:
    """Far more often than once, and after each that is large: a reader of a long history holds nobody up."""
    content = types.Content(parts=[types.Part()] * parts)
    made = [Event(author="a", timestamp=number, content=content) for number in range(count)]
    texts = [one.model_dump_json(exclude_none=True) for one in made]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.create_task(other())
    await decode_events(texts, where="", pauses=Pauses())
    busy.cancel()

    assert turns >= pauses

"""An append to a file writes what it changes, and not the events before it."""

import contextlib
import sqlite3
import statistics
from pathlib import Path
from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import Store

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
EVENTS = 60
FRAME = 24
"""Bytes that SQLite's log has beside each page."""
MOST = 5
"""Pages: the row's first, the one where the array ends, what follows it, and the time of the commit."""


def event(number: int) -> Event:
    """Return an event of some 700 bytes that changes state."""
    content = types.Content(role="model", parts=[types.Part(text=f"{number} " + "word " * 80)])
    return Event(author="agent", content=content, actions=EventActions(state_delta={"step": number}))


async def test_an_append_writes_few_pages_however_long_the_tail_is(tmp_path: Path) -> None:
    """Of 18 that the session's row takes."""
    written = []
    async with Store.local(tmp_path) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(EVENTS):
            await store.sessions.append_event(session, event(number))
        file = tmp_path / "store.sqlite3"
        with contextlib.closing(sqlite3.connect(file)) as beside:
            (page,) = beside.execute("PRAGMA page_size").fetchone()
            for number in range(10):
                beside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                await store.sessions.append_event(session, event(EVENTS + number))
                written.append(file.with_name("store.sqlite3-wal").stat().st_size // (page + FRAME))
            (row,) = beside.execute("SELECT max(length(content)) FROM documents").fetchone()

    assert row > 10 * page
    assert 0 < statistics.median(written) <= MOST

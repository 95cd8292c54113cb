"""Show that the services work in uvloop's event loops as they do in asyncio's own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import Store

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


def in_uvloop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run *work* in an event loop of uvloop, on a thread of its own."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            uvloop.run(work())
        except BaseException as exc:  # noqa: BLE001  # raised again below, in the thread of the test
            failures.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@pytest.mark.usefixtures("firestore_emulator")
def test_a_session_and_an_artifact_come_back(project: str, adk_store_bucket: str) -> None:
    """Appends that come at once take turns, one that is cancelled before its turn is not sent."""
    texts: list[str] = []

    async def work() -> None:
        async with Store.connect(project=project, bucket=adk_store_bucket) as store:
            session = await store.sessions.create_session(**WHO)
            events = [Event(author=f"{n}", actions=EventActions(state_delta={"n": n})) for n in range(20)]
            appends = [asyncio.create_task(store.sessions.append_event(session, event)) for event in events]
            appends[-1].cancel()
            await asyncio.gather(*appends, return_exceptions=True)
            read = await store.sessions.get_session(**WHO)
            assert read is not None
            assert read.events == session.events
            texts.extend(event.author for event in read.events)
            part = types.Part(text="kept")
            await store.artifacts.save_artifact(**WHO, filename="f", artifact=part)
            assert part == await store.artifacts.load_artifact(**WHO, filename="f")

    in_uvloop(work)

    assert [f"{n}" for n in range(19)] == texts

"""Stores that share a place, as processes do, and a time that passes when a test lets it."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.conformance.running import read
from tests.services.conftest import texts

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}

Passes = Callable[[float], None]


def event(text: str, *, delta: dict[str, Any] | None = None) -> Event:
    """Return an event of an agent."""
    return Event(
        author="agent",
        invocation_id="invocation",
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta or {}),
    )


async def history(store: Store) -> list[str | None]:
    """Return what the stored session says."""
    return texts((await read(store.sessions, WHO)).events)


@pytest.fixture
def passes() -> Iterator[Passes]:
    """Let so many seconds pass, for the stores of the running test."""
    passed = [0.0]
    platform_time.set_time_provider(lambda: time.time() + passed[0])

    def let_pass(seconds: float) -> None:
        passed[0] += seconds

    yield let_pass
    platform_time.reset_time_provider()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the stores of the test."""
    return tmp_path / uuid.uuid4().hex


@pytest.fixture
async def store(folder: Path) -> Store:
    """One process' store, which has the session."""
    store = Store.local(folder)
    await store.sessions.create_session(**WHO)
    return store


@pytest.fixture
def other(folder: Path) -> Store:
    """Another process' store in the same place."""
    return Store.local(folder)


class Calls:
    """The calls of a store's documents since the last look."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = self.commits = 0
        documents = store.sessions.storage.documents
        get, commit = documents.get, documents.commit

        async def counted_get(*args: Any, **kwargs: Any) -> Any:
            self.reads += 1
            return await get(*args, **kwargs)

        async def counted_commit(*args: Any, **kwargs: Any) -> Any:
            self.commits += 1
            return await commit(*args, **kwargs)

        monkeypatch.setattr(documents, "get", counted_get)
        monkeypatch.setattr(documents, "commit", counted_commit)

    def take(self) -> tuple[int, int]:
        """Return reads and commits since the last look."""
        taken = self.reads, self.commits
        self.reads = self.commits = 0
        return taken


@pytest.fixture
def calls(store: Store, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls of ``store``, which reach its documents as ever."""
    return Calls(store, monkeypatch)

"""Build events, services on a folder or on the emulators, and those whose network misbehaves on purpose.

A test of a service's behaviour runs on a folder; one with the mark ``emulators`` runs on the emulators.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store import ArtifactService, SessionLimits, SessionService, Store
from gcp_adk_store.testing.conformance.running import event
from tests.golden.raw import take_documents
from tests.support.clock import Clock
from tests.support.folder import read_documents
from tests.support.stores import sessions_in
from tests.support.temporary import temporary_folder

APP, USER, SESSION = "app", "user", "session"
WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": SESSION}


def picture(data: bytes) -> Event:
    """Return a user's upload."""
    made = event()
    blob = types.Blob(data=data, mime_type="image/png", display_name="picture.png")
    made.content = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    return made


def texts(events: list[Event]) -> list[str | None]:
    """Return what was said, in order."""
    return [made.content.parts[0].text for made in events if made.content and made.content.parts]


Connect = Callable[..., SessionService]


def on_emulators(request: pytest.FixtureRequest) -> bool:
    """Return whether the test runs on the emulators."""
    return request.node.get_closest_marker("emulators") is not None


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder of a store that no other test has seen."""
    with temporary_folder() as folder:
        yield folder


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Make services of one database, or of one folder: as many processes would."""
    if on_emulators(request):
        yield request.getfixturevalue("connect")
        return
    folder, opened = request.getfixturevalue("folder"), []

    def service(**options: Any) -> SessionService:
        opened.append(sessions_in(folder, **options))
        return opened[-1]

    yield service
    for one in opened:
        asyncio.run(one.close())


@pytest.fixture
def adk_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store that no other test has seen."""
    if on_emulators(request):
        yield request.getfixturevalue("adk_store")
        return
    store = Store.local(request.getfixturevalue("folder"))
    yield store
    asyncio.run(store.close())


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Iterator[Clock]:
    """The time of everything in the test: it stands still until the test lets it pass."""
    if on_emulators(request):
        yield request.getfixturevalue("clock")
        return
    clock = Clock()
    platform_time.set_time_provider(lambda: clock.now)
    yield clock
    platform_time.reset_time_provider()


@pytest.fixture
def raw_documents(request: pytest.FixtureRequest) -> Callable[[], dict[str, dict[str, Any]]]:
    """Read all documents past the library: path -> fields."""
    if not on_emulators(request):
        folder = request.getfixturevalue("folder")
        return lambda: read_documents(folder)
    project = request.getfixturevalue("project")
    return lambda: take_documents(project)


@pytest.fixture
def small_segments() -> SessionLimits:
    """Limits that seal after every few events."""
    return SessionLimits(seal_tail_bytes=1000)


@pytest.fixture
def sessions(connect: Connect) -> SessionService:
    """A session service with the default settings."""
    return connect()


@pytest.fixture
def artifacts(adk_store: Store) -> ArtifactService:
    """The artifact service on a folder, or a bucket, of its own."""
    return adk_store.artifacts

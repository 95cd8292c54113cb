"""Stores with a story, and the inspector on them."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from fastapi import FastAPI
from google.adk.sessions import Session

from gcp_adk_store import Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.settings import MEMORY
from tests.inspector.story import LIMITS, fill_calm, fill_hostile

STORIES: Final[dict[str, Callable[[Store], Awaitable[Session]]]] = {
    "calm": fill_calm,
    "hostile": fill_hostile,
}
"""What fills a store for the fixture of that name."""

Filled = tuple[Path, dict[str, Session]]
"""A folder with stories, and their sessions."""


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Filled]:
    """Make a folder with stories, once; tests take copies."""

    @cache
    def folder_with(*names: str) -> Filled:
        folder = tmp_path_factory.mktemp("filled")

        async def fill() -> dict[str, Session]:
            async with Store.local(folder, session_limits=LIMITS) as store:
                return {name: await STORIES[name](store) for name in names}

        return folder, asyncio.run(fill())

    return folder_with


@pytest.fixture
def stories(request: pytest.FixtureRequest, filled: Callable[..., Filled]) -> Filled | None:
    """Those that the test asks for."""
    names = [name for name in STORIES if name in request.fixturenames]
    return filled(*names) if names else None


@pytest.fixture
async def store(stories: Filled | None, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store in memory; one in a folder for a test that asks for stories."""
    place = shutil.copytree(stories[0], tmp_path / "filled") if stories else MEMORY
    async with Store.local(place, session_limits=LIMITS) as store:
        yield store


@pytest.fixture
def calm(stories: Filled) -> Session:
    """A session of an agent."""
    return stories[1]["calm"].model_copy(deep=True)


@pytest.fixture
def hostile(stories: Filled) -> Session:
    """A session of a stranger."""
    return stories[1]["hostile"].model_copy(deep=True)


@pytest.fixture
def app(store: Store) -> FastAPI:
    """An inspector that shows content."""
    return create_app(store, authorize=lambda request, app, user: True, reveal="always")  # noqa: ARG005


@pytest.fixture
def masked(store: Store) -> FastAPI:
    """An inspector that masks content until a reader asks for it."""
    return create_app(store, authorize=lambda request, app, user: True)  # noqa: ARG005

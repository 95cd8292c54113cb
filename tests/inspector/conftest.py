"""Stores in memory with a story, and the inspector on them."""

from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI
from google.adk.sessions import Session

from gcp_adk_store import Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.settings import MEMORY
from tests.inspector.story import LIMITS, fill_calm, fill_hostile


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """An empty store in memory."""
    async with Store.local(MEMORY, session_limits=LIMITS) as store:
        yield store


@pytest.fixture
async def calm(store: Store) -> Session:
    """A session of an agent."""
    return await fill_calm(store)


@pytest.fixture
async def hostile(store: Store) -> Session:
    """A session of a stranger."""
    return await fill_hostile(store)


@pytest.fixture
def app(store: Store) -> FastAPI:
    """An inspector that shows content."""
    return create_app(store, authorize=lambda request, app, user: True, reveal="always")  # noqa: ARG005


@pytest.fixture
def masked(store: Store) -> FastAPI:
    """An inspector that masks content until a reader asks for it."""
    return create_app(store, authorize=lambda request, app, user: True)  # noqa: ARG005

"""Make runtimes on sessions in memory, and one on the sandbox that all tests share."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from google.adk.sessions import BaseSessionService, InMemorySessionService

from gcp_adk_store.ces.sandbox import BubblewrapSandbox
from tests.ces.host.runs import Make
from tests.ces.host.web import Web, serving


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    """A server on 127.0.0.1 that notes what it is asked."""
    with serving() as made:
        yield made


@pytest.fixture
async def sessions() -> BaseSessionService:
    """Sessions in memory, of which there is one."""
    service = InMemorySessionService()
    await service.create_session(app_name="shop", user_id="ada", session_id="s1", state={"name": "Ada"})
    return service


@pytest.fixture
async def make(sessions: BaseSessionService) -> AsyncIterator[Make]:
    """Make runtimes."""
    made = Make(sessions)
    yield made
    for each in made.made:
        await each.close()


@pytest.fixture(scope="session")
def bubblewrap(working_environment: Path) -> Iterator[BubblewrapSandbox]:
    """The sandbox; as many runs as a runtime wants."""
    made = BubblewrapSandbox(environment=working_environment, runs_at_once=48)
    asyncio.run(made.start())
    yield made
    asyncio.run(made.close())

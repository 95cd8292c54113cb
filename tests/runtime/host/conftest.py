"""Make runtimes on sessions in memory, and one on the sandbox that all tests share."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService, InMemorySessionService

from gcp_adk_store.runtime import PythonRuntime
from gcp_adk_store.runtime.sandbox import (
    BubblewrapSandbox,
    InProcessSandbox,
    SandboxUnavailableError,
    UnsafeSandboxWarning,
    install_environment,
    open_environment,
)
from tests.runtime.host.runs import MakeRuntime
from tests.runtime.host.web import Web, serving


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
async def make(sessions: BaseSessionService) -> AsyncIterator[MakeRuntime]:
    """Make runtimes that run the tests' own code in this process."""
    made: list[PythonRuntime] = []

    def runtime(**options: Any) -> PythonRuntime:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsafeSandboxWarning)
            sandbox = InProcessSandbox()
        made.append(PythonRuntime(options.pop("sessions", sessions), **{"sandbox": sandbox, **options}))
        return made[-1]

    yield runtime
    for each in made:
        await each.close()


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder that has what code runs in, installed where it is not yet."""
    folder = Path(__file__).parents[3] / ".cache" / "ces"
    try:
        open_environment(folder)
    except SandboxUnavailableError:
        install_environment(folder)
    return folder


@pytest.fixture(scope="session")
def bubblewrap(installed: Path) -> Iterator[BubblewrapSandbox]:
    """The sandbox; as many runs as a runtime wants."""
    made = BubblewrapSandbox(environment=installed, runs_at_once=48)
    try:
        asyncio.run(made.start())
    except SandboxUnavailableError as exc:
        pytest.skip(f"the sandbox cannot run here: {exc}")
    yield made
    asyncio.run(made.close())

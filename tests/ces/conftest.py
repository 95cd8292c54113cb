"""Let commands and other processes find what user code runs in."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxUnavailableError
from tools.setup.machine import CES
from tools.setup.tools import ROOT

_FOLDER = ROOT / CES
_IGNORED = "ignore::gcp_adk_store.ces.sandbox.UnsafeSandboxWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests run code in this process without a warning; those of the warning look for it."""
    for each in items:
        if each.path.is_relative_to(Path(__file__).parent):
            each.add_marker(pytest.mark.filterwarnings(_IGNORED))


@pytest.fixture(scope="session")
def working_environment() -> Path:
    """The environment of this clone; a failure where no sandbox runs.

    A test that waits for code would wait for ever, and any other would say something else.
    """
    if missing := asyncio.run(_missing()):
        pytest.fail(
            f"the sandbox cannot run here; `make ready` installs what it needs: {missing}", pytrace=False
        )
    return _FOLDER


async def _missing() -> str | None:
    """Return what keeps the sandbox from its start, or None."""
    sandbox = BubblewrapSandbox(environment=_FOLDER, preload=())
    try:
        await sandbox.start()
    except SandboxUnavailableError as exc:
        return str(exc)
    finally:
        await sandbox.close()
    return None


@pytest.fixture(scope="session")
def ces_environment(working_environment: Path) -> Iterator[Path]:
    """That environment, which processes find by a variable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADK_STORE_CES_ENVIRONMENT", str(working_environment))
        yield working_environment

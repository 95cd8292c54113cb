"""Let commands and other processes find what user code runs in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gcp_adk_store.runtime.sandbox import SandboxUnavailableError, install_environment, open_environment

_FOLDER = Path(__file__).parents[2] / ".cache" / "ces"


@pytest.fixture(scope="session")
def ces_environment() -> Iterator[Path]:
    """The environment of this clone, installed where it is not yet; processes find it by a variable."""
    try:
        open_environment(_FOLDER)
    except SandboxUnavailableError:
        install_environment(_FOLDER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADK_STORE_CES_ENVIRONMENT", str(_FOLDER))
        yield _FOLDER

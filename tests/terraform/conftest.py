"""Give tests terraform with stand-ins for its providers, and copies of what it runs on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.environments import STAND_IN
from setup.tools import ROOT
from tests.terraform.command import Terraform, copied, offline


@pytest.fixture(scope="session")
def terraform() -> Iterator[Terraform]:
    """The command; its stand-ins run as long as the tests do."""
    if shutil.which("terraform") is None or not STAND_IN.is_ready(ROOT):
        # A message to act on, not a traceback; and a failure, since a skipped test shows nothing.
        pytest.fail(
            "Terraform, or what stands in for its providers, is missing; `make ready` installs it",
            pytrace=False,
        )
    with offline() as command:
        yield command


@pytest.fixture
def configurations(tmp_path: Path) -> Path:
    """A copy of the folder ``terraform``."""
    return copied(tmp_path)


@pytest.fixture
def module(configurations: Path) -> Path:
    """A copy of the module."""
    return configurations / "modules/adk_store"

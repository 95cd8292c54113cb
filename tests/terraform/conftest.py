"""Give tests terraform with stand-ins for its providers, and copies of what it runs on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terraform.command import Terraform, copied, missing, offline


@pytest.fixture(scope="session")
def terraform() -> Iterator[Terraform]:
    """The command; its stand-ins run as long as the tests do."""
    told = missing()
    if told is not None:
        # A message to act on, not a traceback; and a failure, since a skipped test shows nothing.
        pytest.fail(told, pytrace=False)
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

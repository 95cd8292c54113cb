"""Run the calls of a test in one event loop."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all calls of a test."""
    with asyncio.Runner() as runner:
        yield runner

"""Give the tests of encryption stores, and what they keep."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gcp_adk_store import KmsEnvelope, LocalKeyWrapper, SessionLimits, Store
from gcp_adk_store.settings.envelope import Wrapped

LIMITS = SessionLimits(seal_tail_bytes=1000, inline_bytes=100, state_value_bytes=100, event_text_bytes=2000)


class CountingWrapper(LocalKeyWrapper):
    """Counts its operations."""

    def __init__(self, *keys: bytes) -> None:
        super().__init__(*(keys or (b"k" * 32,)))
        self.wraps = 0
        self.unwraps = 0

    async def wrap(self, data_key: bytes, context: bytes) -> Wrapped:
        self.wraps += 1
        return await super().wrap(data_key, context)

    async def unwrap(self, wrapped: Wrapped, context: bytes) -> bytes:
        self.unwraps += 1
        return await super().unwrap(wrapped, context)


def envelope(wrapper: LocalKeyWrapper | None = None, **more: Any) -> KmsEnvelope:
    """Return an envelope of a local key."""
    return KmsEnvelope(key=wrapper or CountingWrapper(), **more)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """An encrypted store in memory that seals often and spills early."""
    async with Store.local(":memory:", session_limits=LIMITS, encryption=envelope()) as store:
        yield store

"""A history that is read again costs no more than the first time, and leaves little behind."""

import gc
import sys
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest
from pydantic import BaseModel

from gcp_adk_store import SessionService
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import APP, USER, WHO, Connect

EVENTS = 200


@pytest.fixture
async def reader(connect: Connect) -> SessionService:
    """A service with an open connection, and a long session that it has not read."""
    writer = connect()
    held = await writer.create_session(**WHO)
    for number in range(EVENTS):
        await writer.append_event(held, event(f"{number} " * 100, delta={"n": number}))
    service = connect()
    await service.get_user_state(app_name=APP, user_id=USER)
    return service


async def steps(work: Awaitable[object]) -> int:
    """Return how many functions are called in this thread to do *work*."""
    count = 0

    def called(_frame: Any, what: str, _argument: Any) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    gc.disable()  # finalizers of earlier tests
    sys.setprofile(called)
    try:
        await work
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


async def test_no_read_costs_more_than_the_first(reader: SessionService) -> None:
    """The second one, and those after it."""
    first, *later = [await steps(reader.get_session(**WHO)) for _ in range(4)]

    assert first > EVENTS
    assert max(later) <= first


def models() -> int:
    """Return how many events, parts and other models live."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    return sum(count for kind, count in kinds.items() if issubclass(kind, BaseModel))


async def test_what_is_remembered_of_a_history_is_nothing_for_the_collector_to_look_through(
    reader: SessionService,
) -> None:
    """It looks through every object that lives: what a process keeps is texts, which are not among them."""
    before = models()
    for _ in range(3):
        found = await read(reader, WHO)
        assert len(found.events) == EVENTS
        del found

    assert models() - before < EVENTS  # a cache of events would keep several for each

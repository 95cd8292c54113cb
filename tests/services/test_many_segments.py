"""Read sessions of more segments than one request names, and of fewer than there are."""

from collections.abc import AsyncIterator

import pytest

from gcp_adk_store import SessionLimits, Store, StoredDataError
from gcp_adk_store.testing.conformance.running import event, read
from tests.services.conftest import WHO, texts
from tests.support.stored import change, collection, remove, session_path

PATH = session_path(WHO)
EVENTS = [f"{number}" for number in range(7)]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store that seals every event, and remembers no segment; with a session of seven segments."""
    limits = SessionLimits(seal_tail_bytes=1, segment_cache_bytes=0)
    async with Store.local(":memory:", session_limits=limits) as store:
        held = await store.sessions.create_session(**WHO)
        for number, words in enumerate(EVENTS):
            await store.sessions.append_event(held, event(words, at=1000.0 + number))
        yield store


async def test_many_segments_are_read_some_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in order; one that is missing is missed wherever it was."""
    monkeypatch.setattr("gcp_adk_store.sessions.read.reader._SEGMENTS_PER_READ", 3)
    found = await read(store.sessions, WHO)
    (fifth,) = [path for path in await collection(store, "adk_segments") if path.endswith("-4")]
    await remove(store, fifth)

    assert EVENTS == texts(found.events)
    with pytest.raises(StoredDataError, match="one of the 7 segments is missing"):
        await store.sessions.get_session(**WHO)


async def test_a_session_that_counts_fewer_segments_than_it_has_is_damaged(store: Store) -> None:
    """Its newest events would be left out; however it is read."""
    await change(store, PATH, {"sealed": 6})
    with pytest.raises(StoredDataError, match=rf"{PATH} does not end with {PATH}/adk_segments/\w+-5"):
        await store.sessions.get_session(**WHO)
    with pytest.raises(StoredDataError, match="does not end with"):
        async for _ in store.sessions.iter_events(**WHO, direction="backward"):
            pass

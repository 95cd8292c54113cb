"""Read sessions of more segments than one request names, and of fewer than there are."""

import pytest
from google.adk.sessions import Session
from google.cloud.firestore import AsyncClient

from gcp_adk_store import SessionLimits, SessionService, StoredDataError
from gcp_adk_store.sessions.read import reader
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, event, texts

pytestmark = pytest.mark.emulators

PATH = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"
EVENTS = [f"{number}" for number in range(7)]


@pytest.fixture
async def service(connect: Connect) -> SessionService:
    """A service that seals every event, and remembers no segment."""
    return connect(limits=SessionLimits(seal_tail_bytes=1, segment_cache_bytes=0))


@pytest.fixture
async def held(service: SessionService) -> Session:
    """A session of seven segments."""
    held = await service.create_session(**WHO)
    for number, words in enumerate(EVENTS):
        await service.append_event(held, event(words, at=1000.0 + number))
    return held


async def test_many_segments_are_read_some_at_a_time(
    service: SessionService, held: Session, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in order; one that is missing is missed wherever it was."""
    monkeypatch.setattr(reader, "_SEGMENTS_PER_READ", 3)
    found = await service.get_session(**WHO)
    client = AsyncClient(project=project)
    header = await client.document(PATH).get()
    await client.document(f"{PATH}/adk_segments/{header.get('epoch')}-4").delete()

    assert found == held
    assert EVENTS == texts(held.events)
    with pytest.raises(StoredDataError, match="one of the 7 segments is missing"):
        await service.get_session(**WHO)


@pytest.mark.usefixtures("held")
async def test_a_session_that_counts_fewer_segments_than_it_has_is_damaged(
    service: SessionService, project: str
) -> None:
    """Its newest events would be left out; however it is read."""
    client = AsyncClient(project=project)
    await client.document(PATH).update({"sealed": 6})
    with pytest.raises(StoredDataError, match=rf"{PATH} does not end with {PATH}/adk_segments/\w+-5"):
        await service.get_session(**WHO)
    with pytest.raises(StoredDataError, match="does not end with"):
        async for _ in service.iter_events(**WHO, direction="backward"):
            pass

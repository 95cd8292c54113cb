"""A session goes on in a later service."""

from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event

from gcp_adk_store import SessionMissingError, Store
from gcp_adk_store.sessions.read.session_objects import mark, marker_of
from tests.support.stores import sessions_in

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


async def test_a_later_service_goes_on_with_the_session(tmp_path: Path) -> None:
    """With all its events, sealed ones too, and its state."""
    first = sessions_in(tmp_path / "store")
    session = await first.create_session(**WHO, state={"k": 1.0, "user:k": [1, None]})
    for number in range(100):
        await first.append_event(
            session, Event(author="user", id=f"{number}", custom_metadata={"x": "x" * 2000})
        )
    await first.close()

    second = sessions_in(tmp_path / "store")
    found = await second.get_session(**WHO)
    assert session == found
    assert found is not None
    await second.append_event(found, Event(author="user"))
    await second.close()


async def test_a_handle_behind_storage_writes_nothing_to_a_deleted_session(adk_store_local: Store) -> None:
    """Its next append would require an update time that it does not know; time 0 fits a missing document."""
    service = adk_store_local.sessions
    session = await service.create_session(**WHO)
    marker = marker_of(session)
    assert marker is not None
    mark(session, marker.at(""))  # as after an append whose answer was lost, and that others overtook
    await service.delete_session(**WHO)
    with pytest.raises(SessionMissingError):
        await service.append_event(session, Event(author="user"))

    assert await service.get_session(**WHO) is None
    assert [] == (await service.list_sessions(app_name="app", user_id="user")).sessions

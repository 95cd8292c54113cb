"""A session goes on in a later service."""

from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event

from gcp_adk_store import SessionLimits, SessionMissingError, SessionService, Store
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.sessions.read.payloads import Payloads
from gcp_adk_store.sessions.read.session_objects import mark, marker_of
from gcp_adk_store.sessions.read.storage import SessionStorage

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}


def service_over(path: Path | None) -> SessionService:
    """Return the session service over a database."""
    documents: Any = LocalDocuments(Database(path), SessionLimits())
    layout = Layout("adk")
    return SessionService(SessionStorage(documents, Payloads(documents, None, layout), layout))


async def test_a_later_service_goes_on_with_the_session(path: Path) -> None:
    """With all its events, sealed ones too, and its state."""
    first = service_over(path)
    session = await first.create_session(**WHO, state={"k": 1.0, "user:k": [1, None]})
    for number in range(100):
        await first.append_event(
            session, Event(author="user", id=f"{number}", custom_metadata={"x": "x" * 2000})
        )
    await first.close()

    second = service_over(path)
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

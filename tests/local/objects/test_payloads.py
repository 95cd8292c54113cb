"""Large content of local sessions lies in local objects."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import PayloadMissingError, SessionService, Store
from gcp_adk_store.settings import MEMORY
from tests.local.objects.conftest import files
from tests.support.clock import Clock, PassingTime

WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}
DATA: Final = os.urandom(1024 * 1024)


@pytest.fixture(params=["files", "memory"])
async def store(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Store]:
    """A new store of each kind."""
    async with Store.local(folder if request.param == "files" else MEMORY) as store:
        yield store


def over(store: Store, **options: Any) -> SessionService:
    """Return sessions in *store*, as another process has them."""
    return SessionService(store.sessions.storage, **options)


async def names(store: Store) -> list[str]:
    """Return the names of all objects."""
    objects = store.sessions.storage.payloads.objects
    assert objects is not None
    return [*await objects.names("", delimiter=None)]


def picture() -> Event:
    """Return a user's upload."""
    blob = types.Blob(data=DATA, mime_type="image/png")
    return Event(author="user", content=types.Content(role="user", parts=[types.Part(inline_data=blob)]))


def flip(path: Path) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


class TestPayloads:
    """One event with a picture."""

    @pytest.mark.parametrize("damage", [flip, Path.unlink])
    async def test_a_damaged_picture_is_a_missing_payload(
        self, folder: Path, damage: Callable[[Path], None]
    ) -> None:
        async with Store.local(folder) as store:
            held = await store.sessions.create_session(**WHO)
            await store.sessions.append_event(held, picture())
            damage(*files(folder))
            with pytest.raises(PayloadMissingError):
                await over(store).get_session(**WHO)
            found = await over(store, on_missing_payload="placeholder").get_session(**WHO)
        assert found is not None
        assert 1 == len(found.events)

    async def test_the_picture_of_an_expired_session_goes(
        self, store: Store, clock: Clock, passing: PassingTime
    ) -> None:
        service = over(store, default_ttl_seconds=60)
        held = await service.create_session(**WHO)
        await service.append_event(held, picture())
        assert 1 == len(await names(store))
        clock.after(30 * 24 * 3600.0)
        passing.for_library(3700.0)  # a store looks for what has ended each hour
        await store.sessions.create_session(**{**WHO, "session_id": "later"})
        assert [] == await names(store)

"""Large content of local sessions lies in local objects."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.genai import types

from gcp_adk_store import PayloadMissingError, SessionLimits, SessionService
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.local.sweep import Sweeper
from gcp_adk_store.testing.conformance import SessionServiceConformance
from tests.local.objects.conftest import Kept, files
from tests.support.stores import sessions_over

WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}
DATA: Final = os.urandom(1024 * 1024)


def over(kept: Kept, **options: Any) -> SessionService:
    """Return sessions over a local store's documents and objects."""
    return sessions_over(LocalDocuments(kept.database, SessionLimits()), kept.objects, **options)


def picture() -> Event:
    """Return a user's upload."""
    blob = types.Blob(data=DATA, mime_type="image/png")
    return Event(author="user", content=types.Content(role="user", parts=[types.Part(inline_data=blob)]))


def flip(path: Path) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.sample(3)
class TestSessionsWithPayloads(SessionServiceConformance):
    """The shipped suite, with each value of more than some bytes in an object."""

    @pytest.fixture
    async def session_service(self, kept: Kept) -> AsyncIterator[SessionService]:
        service = over(kept, limits=SessionLimits(inline_bytes=16))
        yield service
        await service.close()


class TestPayloads:
    """One event with a picture."""

    @pytest.fixture
    def clock(self) -> Iterator[list[float]]:
        clock = [platform_time.get_time()]
        platform_time.set_time_provider(lambda: clock[0])
        yield clock
        platform_time.reset_time_provider()

    async def test_a_picture_comes_back_and_goes_with_its_session(self, kept: Kept) -> None:
        service = over(kept)
        held = await service.create_session(**WHO)
        await service.append_event(held, picture())
        (name,) = await kept.objects.names("", delimiter=None)
        assert name.startswith("adk-payloads/")
        assert held == await over(kept).get_session(**WHO)
        await service.delete_session(**WHO)
        assert [] == await kept.objects.names("", delimiter=None)

    @pytest.mark.parametrize("damage", [flip, Path.unlink])
    async def test_a_damaged_picture_is_a_missing_payload(
        self, on_disk: Kept, folder: Path, damage: Callable[[Path], None]
    ) -> None:
        held = await over(on_disk).create_session(**WHO)
        await over(on_disk).append_event(held, picture())
        damage(*files(folder))
        with pytest.raises(PayloadMissingError):
            await over(on_disk).get_session(**WHO)
        found = await over(on_disk, on_missing_payload="placeholder").get_session(**WHO)
        assert found is not None
        assert 1 == len(found.events)

    async def test_the_picture_of_an_expired_session_goes(self, kept: Kept, clock: list[float]) -> None:
        service = over(kept, default_ttl_seconds=60)
        held = await service.create_session(**WHO)
        await service.append_event(held, picture())
        sweeper = Sweeper(kept.database, kept.contents)
        assert 0 == await sweeper.sweep_if_due()
        clock[0] += 30 * 24 * 3600.0
        assert 2 == await Sweeper(kept.database, kept.contents).sweep_if_due()
        assert [] == await kept.objects.names("", delimiter=None)

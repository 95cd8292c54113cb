"""Show what becomes of more calls than a service can make at a time."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.events import Event
from google.cloud.firestore import AsyncClient
from pydantic import PrivateAttr

from gcp_adk_store import (
    ArtifactLimits,
    FirestoreSessionService,
    GcsArtifactService,
    SessionLimits,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.testing.emulators import Emulator
from tests.services.conftest import APP, USER, WHO, Connect
from tests.support.clock import PassingTime
from tests.support.loop_work import Turns

pytestmark = pytest.mark.emulators

SESSIONS, APPENDS = 100, 1000
HANGS_S = 60.0


class Counted(Event):
    """An event that signals when it is written as JSON, which is most of what an append computes."""

    _turns: Turns = PrivateAttr(default_factory=Turns)

    def model_dump_json(self, **options: Any) -> str:
        """Return its JSON."""
        self._turns.add()
        return super().model_dump_json(**options)


@pytest.fixture
def silent_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address where connections are taken and nothing is ever answered, as both emulators'."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", address)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        yield address


async def test_a_thousand_appends_at_once_leave_the_event_loop_alive(connect: Connect) -> None:
    """Whatever else runs in it waits for 16 commits that begin, and for 16 events that join some, at most."""
    service = connect(limits=SessionLimits(max_in_flight=SESSIONS))
    handles = [await service.create_session(app_name=APP, user_id=USER) for _ in range(SESSIONS)]
    turns = Turns()
    events = [Counted(author="user") for _ in range(APPENDS)]
    for one in events:
        one._turns = turns
    counting = asyncio.create_task(turns.run())
    await asyncio.gather(*(service.append_event(handles[n % SESSIONS], one) for n, one in enumerate(events)))
    counting.cancel()

    assert turns.all == APPENDS
    assert turns.most <= 32


@pytest.mark.usefixtures("silent_server")
async def test_an_operation_ends_at_a_deadline_of_its_own(passing: PassingTime) -> None:
    """Which the settings name; others of the same service have all their time."""
    day_s = 24 * 3600
    session_limits = SessionLimits(deadline_s=day_s, rpc_timeout_s=day_s, deadlines_s={"get_session": 10})
    artifact_limits = ArtifactLimits(
        deadline_s=day_s, request_timeout_s=day_s, deadlines_s={"load_artifact": 10}
    )
    sessions = FirestoreSessionService(project="demo-silent", limits=session_limits)
    artifacts = GcsArtifactService("bucket", limits=artifact_limits)
    calls = [
        asyncio.create_task(sessions.get_session(**WHO)),
        asyncio.create_task(artifacts.load_artifact(**WHO, filename="f")),
    ]
    await asyncio.sleep(0)  # lets them begin
    passing.after(10)
    await asyncio.wait(calls, timeout=HANGS_S)

    assert [UnavailableError] * 2 == [type(call.exception()) for call in calls]
    await sessions.close()


async def test_calls_through_a_connection_that_is_closed_are_a_typed_error(
    firestore_emulator: Emulator,
) -> None:
    """A borrowed client that its owner closed: nothing is sent, nothing hangs."""
    assert firestore_emulator.address
    client = AsyncClient(project="demo-closed")
    service = FirestoreSessionService(client=client)
    await service.create_session(**WHO)
    await client._firestore_api.transport.grpc_channel.close()
    with pytest.raises(StoreError, match="closed before the call; nothing was sent"):
        await service.get_session(**WHO)


@pytest.mark.usefixtures("silent_server")
async def test_a_call_whose_connection_is_closed_under_it_is_not_cancelled() -> None:
    """A channel that is closed cancels its calls; to their callers that is an error like others."""
    service = FirestoreSessionService(project="demo-silent")
    call = asyncio.create_task(service.get_session(**WHO))
    await asyncio.sleep(0)  # lets it connect and send
    await service.close()
    with pytest.raises(StoreError):
        await asyncio.wait_for(call, HANGS_S)

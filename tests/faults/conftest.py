"""Put proxies before the emulators, and read what is stored past them."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
import pytest
import requests
from google.adk.events import Event, EventActions
from google.cloud.firestore import Client
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    FirestoreSessionService,
    Garbage,
    GcsArtifactService,
    SessionLimits,
    SessionService,
)
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Call, Fault, Plan
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.support.clock import PassingTime, in_days
from tests.support.lengths import at_length
from tests.support.small_pieces import use_small_pieces

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
FILE: dict[str, Any] = {**WHO, "filename": "file"}
NAME = "app/user/session/file/0"
"""Of the object of its first version."""
TEXT = types.Part(text="one")
LARGE = b"0123456789abcdef" * 20_000
"""Over the piece of one request: an upload takes three."""
Stored = Callable[[], dict[str, bytes]]
Act = Callable[[ArtifactService], Awaitable[object]]
SESSION_PATH = "adk_apps/app/adk_users/user/adk_sessions/session"

Case = TypeVar("Case")


def some(cases: Iterable[Case], of: str, count: int = 1) -> list[Case]:
    """Return which of *cases* run: all in the long form, so many in the short one, drawn by the name *of*."""
    every = list(cases)
    return at_length(Random(of).sample(every, min(count, len(every))), every)  # noqa: S311  # no secret


class GivesUp(grpc.aio.UnaryUnaryClientInterceptor):
    """Gives up the commit that is under way once the test says so, as gRPC's own timer would.

    The request goes on: it is on its way.
    """

    def __init__(self, passing: PassingTime, *, passes_s: float = 0) -> None:
        """Let so much time pass for the library whenever a commit is given up."""
        self.now = asyncio.Event()
        """Set by the test."""
        self._passing = passing
        self._passes_s = passes_s
        self._answers: list[asyncio.Task[Any]] = []

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Send *request*."""
        call = await continuation(details._replace(timeout=None), request)

        async def answered() -> None:
            with contextlib.suppress(grpc.aio.AioRpcError):  # which gRPC raises from the call
                await call

        self._answers.append(asyncio.create_task(answered()))
        over = asyncio.create_task(self.now.wait())
        await asyncio.wait([self._answers[-1], over], return_when=asyncio.FIRST_COMPLETED)
        if not over.done():
            over.cancel()
            return call
        self.now.clear()
        self._passing.for_library(self._passes_s)
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, nothing, nothing)

    async def answers(self) -> None:
        """Wait for the answers of all commits, whatever they are."""
        await asyncio.gather(*self._answers)


def observing(plan: Plan) -> tuple[Plan, threading.Event]:
    """Return *plan*, and what is set once something goes wrong with a call."""
    met = threading.Event()

    def observed(call: Call) -> Fault | None:
        fault = plan(call)
        if fault is not None:
            met.set()
        return fault

    return observed, met


async def garbage_of(service: SessionService) -> list[Garbage]:
    """Return what a collector finds two days after a large value of a new session was replaced."""
    session = await service.create_session(**WHO)
    for value in ("x" * 100, 1):
        change = EventActions(state_delta={"large": value})
        await service.append_event(session, Event(author="me", actions=change))
    with in_days(2):
        return [found async for found in service.find_garbage()]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send and store what is large in small pieces."""
    use_small_pieces(monkeypatch)


@pytest.fixture
def service(storage_proxy: StorageProxy, adk_store_bucket: str) -> ArtifactService:
    """A service of artifacts that talks through the proxy."""
    assert storage_proxy.address
    return GcsArtifactService(adk_store_bucket)


@pytest.fixture
def sessions(storage_proxy: StorageProxy, adk_store_bucket: str, project: str) -> SessionService:
    """Sessions whose large values lie in the bucket, behind the proxy."""
    assert storage_proxy.address
    limits = SessionLimits(state_value_bytes=10)
    return FirestoreSessionService(project=project, bucket=adk_store_bucket, limits=limits)


@pytest.fixture
def stored_tail(
    firestore_emulator: Emulator, project: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[str]]]:
    """Read the events' texts in the session document, straight from the emulator with Google's client."""
    with monkeypatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, firestore_emulator.address)
        client = Client(project=project)
    yield lambda: list((client.document(SESSION_PATH).get().to_dict() or {"tail": ["no session"]})["tail"])
    client.close()


@pytest.fixture
def stored_objects(storage_emulator: Emulator, adk_store_bucket: str) -> Stored:
    """Read all objects of the bucket straight from the emulator, with plain HTTP: name -> bytes."""
    objects = f"{storage_emulator.address}/storage/v1/b/{adk_store_bucket}/o"

    def read() -> dict[str, bytes]:
        names = [item["name"] for item in requests.get(objects, timeout=60).json().get("items", [])]
        return {
            name: requests.get(
                f"{objects}/{quote(name, safe='')}", params={"alt": "media"}, timeout=60
            ).content
            for name in names
        }

    return read

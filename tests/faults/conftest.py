"""Put proxies before the emulators, and read what is stored past them."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
import pytest
import requests
from google.cloud.firestore import Client

from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import Call, Fault, Plan
from tests.faults.operations import OPERATIONS
from tests.support.clock import PassingTime
from tests.support.lengths import at_length
from tests.support.small_pieces import use_small_pieces

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
SESSION_PATH = "adk_apps/app/adk_users/user/adk_sessions/session"

TESTS = 4
"""How many tests share the requests of an operation."""

Step = TypeVar("Step")
Way = TypeVar("Way")


class Ways:
    """Chooses which steps of an operation go wrong, and how.

    All in every way; or few in one way, where operations take turns over steps and ways.
    """

    def __init__(self, turn: int | None) -> None:
        """Choose all if *turn* is None; else begin with the step and the way of that number."""
        self._turn = turn

    def of(self, step: int, ways: Sequence[Way]) -> Sequence[Way]:
        """Return which of *ways* the step of this number goes wrong in."""
        return ways if self._turn is None else (ways[(self._turn + step + step // TESTS) % len(ways)],)

    def few(self, steps: Sequence[Step], kind: Callable[[Step], object]) -> list[tuple[int, Step]]:
        """Return the *steps* that go wrong, with their numbers: all, or one of each *kind*."""
        numbered = list(enumerate(steps))
        if self._turn is None:
            return numbered
        alike: dict[object, list[tuple[int, Step]]] = {}
        for number, step in numbered:
            alike.setdefault(kind(step), []).append((number, step))
        return [some[self._turn % len(some)] for some in alike.values()]

    def shared(
        self, steps: Sequence[Step], kind: Callable[[Step], object], test: int
    ) -> list[tuple[int, Step]]:
        """Return the step of one of :data:`TESTS` tests, of :meth:`few` of *steps*; or all."""
        few = self.few(steps, kind)
        return few if self._turn is None else [few[(self._turn + test) % len(few)]]

    def half(self, steps: Sequence[Step], kind: Callable[[Step], object]) -> list[tuple[int, Step]]:
        """Return the steps of one half of the kinds, of :meth:`few` of *steps*; or all."""
        few = self.few(steps, kind)
        return few if self._turn is None else few[self._turn % min(2, len(few)) :: 2]


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


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send and store what is large in small pieces."""
    use_small_pieces(monkeypatch)


@pytest.fixture
def ways(name: str) -> Ways:
    """How the steps of the operation *name* go wrong; each operation begins with another step and way."""
    return Ways(at_length(list(OPERATIONS).index(name), None))


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
def stored_objects(storage_emulator: Emulator, adk_store_bucket: str) -> Callable[[], dict[str, bytes]]:
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

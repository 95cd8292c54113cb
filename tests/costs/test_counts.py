"""Hold the counts of the model to what the emulators' meters bill, for this store and for ADK's services."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.events import Event, EventActions
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.sessions import BaseSessionService
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import FirestoreSessionService, GcsArtifactService
from gcp_adk_store.costs.counts import BuiltinServices, Operations, Scope, Services, StoreServices, Turn
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.firestore_meter import FirestoreMeter
from gcp_adk_store.testing.storage_meter import MeteredSession

USER: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user"}
HISTORIES: Final = (0, 10, 100, 400)
DELTAS: Final[dict[frozenset[Scope], dict[str, int]]] = {
    frozenset(): {},
    frozenset({"session"}): {"mine": 1},
    frozenset({"session", "user", "app"}): {"mine": 1, "user:n": 1, "app:m": 1},
}
Connect = Callable[[], BaseSessionService]


@pytest.fixture
def meter(firestore_emulator: Emulator) -> Iterator[FirestoreMeter]:
    """A meter beside the emulator's own address: what only prepares a test is not slowed by it."""
    with FirestoreMeter(firestore_emulator.address) as meter:
        yield meter


@contextmanager
def metered(meter: FirestoreMeter) -> Iterator[None]:
    """Let services that are made and first used meanwhile talk through the meter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, meter.address)
        yield


@pytest.fixture
def ours(project: str) -> Connect:
    """Make services of this store, each as a process of its own would."""
    return lambda: FirestoreSessionService(project=project)


@pytest.fixture
def builtin(project: str) -> Connect:
    """Make services of ADK's."""
    return lambda: AdkFirestoreSessionService(client=firestore.AsyncClient(project=project))


def named(scopes: frozenset[Scope]) -> str:
    """Return a test's name for scopes."""
    return "-".join(sorted(scopes)) or "none"


def event(number: int, *, size: int, delta: dict[str, int]) -> Event:
    """Return an event of exactly *size* bytes as JSON."""

    def of(text: str) -> Event:
        made = Event(
            author="agent",
            invocation_id="i",
            content=types.Content(role="model", parts=[types.Part(text=text)]),
            actions=EventActions(state_delta=dict(delta)),
        )
        made.timestamp = 1_800_000_000.5 + number  # of one length, whatever the number
        return made

    bare = len(of("").model_dump_json(exclude_none=True))
    made = of("x" * (size - bare))
    assert size == len(made.model_dump_json(exclude_none=True))
    return made


def billed(meter: FirestoreMeter) -> Operations:
    """Return what was billed since the last call."""
    figures = meter.take()
    return Operations(reads=figures.reads, writes=figures.writes, deletes=figures.deletes)


async def take_turn(service: BaseSessionService, session_id: str, turn: Turn) -> None:
    """Read the session and append to it, as ADK's runner does; the last event changes the state."""
    session = await service.get_session(**USER, session_id=session_id)
    assert session is not None
    assert turn.history == len(session.events)
    for number in range(turn.events):
        last = number == turn.events - 1
        delta = DELTAS[turn.scopes] if last else {}
        made = event(turn.history + number, size=turn.event_bytes, delta=delta)
        await service.append_event(session, made)


async def grow(service: BaseSessionService, session_id: str, events: int, *, size: int) -> None:
    """Append until the session has so many events."""
    session = await service.get_session(**USER, session_id=session_id)
    assert session is not None
    for number in range(len(session.events), events):
        await service.append_event(session, event(number, size=size, delta={}))


async def measured(
    connect: Connect, meter: FirestoreMeter, turns: list[Turn], *, cold: bool
) -> list[Operations]:
    """Take turns of one growing conversation, each by a cold process or by that of the turn before."""
    session_id = uuid.uuid4().hex
    preparing = connect()
    await preparing.create_session(**USER, session_id=session_id)
    held, found = 0, []
    for turn in turns:
        before = turn.history if cold else max(held, turn.history - turn.events)
        await grow(preparing, session_id, before, size=turn.event_bytes)
        with metered(meter):
            service = connect()
            if turn.history > before:
                earlier = Turn(history=before, events=turn.history - before, event_bytes=turn.event_bytes)
                await take_turn(service, session_id, earlier)
            meter.take()
            await take_turn(service, session_id, turn)
            found.append(billed(meter))
        held = turn.history + turn.events
    return found


def conversation(*, events: int, size: int, scopes: frozenset[Scope]) -> list[Turn]:
    """Return the turns that are measured of one conversation."""
    return [Turn(history=history, events=events, event_bytes=size, scopes=scopes) for history in HISTORIES]


@pytest.mark.parametrize("scopes", DELTAS, ids=named)
@pytest.mark.parametrize("events", [2, 6])
async def test_turns_of_the_store_cost_what_the_model_says(
    ours: Connect, meter: FirestoreMeter, events: int, scopes: frozenset[Scope]
) -> None:
    """In a process that does not know the session: 100 events to a segment, so 0, 0, 1 and 4 segments."""
    turns = conversation(events=events, size=660, scopes=scopes)

    assert [StoreServices().turn(turn, cold=True) for turn in turns] == await measured(
        ours, meter, turns, cold=True
    )


@pytest.mark.parametrize(("size", "events"), [(660, 2), (660, 6), (3856, 2), (3856, 6)])
async def test_turns_of_a_process_that_knows_the_session_cost_what_the_model_says(
    ours: Connect, meter: FirestoreMeter, size: int, events: int
) -> None:
    """It reads the segments that were sealed since; of 100 or 17 events, some sealed in the turn itself."""
    turns = conversation(events=events, size=size, scopes=frozenset({"session", "user", "app"}))

    assert [StoreServices().turn(turn, cold=False) for turn in turns] == await measured(
        ours, meter, turns, cold=False
    )


@pytest.mark.parametrize("scopes", DELTAS, ids=named)
@pytest.mark.parametrize("events", [2, 6])
async def test_turns_of_adks_services_cost_what_the_model_says(
    builtin: Connect, meter: FirestoreMeter, events: int, scopes: frozenset[Scope]
) -> None:
    """Every event is read again, whoever read it before."""
    turns = conversation(events=events, size=660, scopes=scopes)

    assert [BuiltinServices().turn(turn, cold=True) for turn in turns] == await measured(
        builtin, meter, turns, cold=True
    )


async def test_adks_services_know_nothing_of_the_turn_before(builtin: Connect, meter: FirestoreMeter) -> None:
    """A process that took it reads as much as another."""
    turns = conversation(events=6, size=660, scopes=frozenset())[:3]

    assert [BuiltinServices().turn(turn, cold=False) for turn in turns] == await measured(
        builtin, meter, turns, cold=False
    )


@pytest.mark.parametrize("events", [0, 10, 100, 350])
@pytest.mark.parametrize("whose", ["ours", "builtin"])
async def test_making_and_deleting_a_session_costs_what_the_model_says(
    ours: Connect, builtin: Connect, meter: FirestoreMeter, whose: str, events: int
) -> None:
    """However many events it has."""
    connect = ours if whose == "ours" else builtin
    model: Services = StoreServices() if whose == "ours" else BuiltinServices()
    with metered(meter):
        service = connect()
        await service.create_session(**USER, session_id="s")
        created = billed(meter)
    await grow(connect(), "s", events, size=1000)
    await service.delete_session(**USER, session_id="s")
    deleted = billed(meter)

    assert model.create_session() == created
    assert model.delete_session(events, event_bytes=1000) == deleted


@pytest.mark.parametrize(
    ("saves", "loads"), [*itertools.product((0, 1, 3), (0, 2))], ids=lambda count: f"{count}"
)
@pytest.mark.parametrize("whose", ["ours", "builtin"])
async def test_artifacts_cost_what_the_model_says(
    adk_store_bucket: str, whose: str, saves: int, loads: int
) -> None:
    """New names are saved, and the latest version of one is loaded, by a process that knows neither."""
    http = MeteredSession()
    options: dict[str, Any] = {"project": "demo", "credentials": AnonymousCredentials()}
    model: Services = StoreServices() if whose == "ours" else BuiltinServices()

    def newcomer() -> BaseArtifactService:
        if whose == "ours":
            return GcsArtifactService(adk_store_bucket, client=Client(**options, _http=http))
        return AdkGcsArtifactService(adk_store_bucket, **options, _http=http)

    other = AdkGcsArtifactService(adk_store_bucket, **options)
    part = types.Part(text="text")
    await other.save_artifact(**USER, session_id="s", filename="loaded", artifact=part)
    http.take()
    service = newcomer()
    for number in range(saves):
        await service.save_artifact(**USER, session_id="s", filename=f"{number}", artifact=part)
    for _ in range(loads):
        assert await newcomer().load_artifact(**USER, session_id="s", filename="loaded") is not None
    figures = http.take()
    turn = Turn(history=0, events=0, event_bytes=600, saves=saves, loads=loads)
    counted = model.turn(turn, cold=True)

    assert (counted.class_a, counted.class_b) == (figures.class_a, figures.class_b)

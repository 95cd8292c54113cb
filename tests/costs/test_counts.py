"""Hold the counts of the model to what the emulators' meters bill, for this store and for ADK's services."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import grpc
import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.events import Event, EventActions
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.integrations.firestore.firestore_memory_service import (
    FirestoreMemoryService as AdkFirestoreMemoryService,
)
from google.adk.sessions import BaseSessionService
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import Document, Write
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import FirestoreSessionService, GcsArtifactService, MemoryService, Store
from gcp_adk_store.costs.counts import (
    BuiltinServices,
    Operations,
    Scope,
    Services,
    StoreServices,
    Workload,
    builtin_recall,
    store_recall,
)
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.meters import FirestoreMeter, MeteredSession
from tests.support.lengths import at_length
from tools.benchmarks.memory_embedder import PartsEmbedder

USER: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user"}
USED: Final[dict[str, Any]] = {"turns_per_day": 10, "events_per_turn": 2, "history": 0}
HISTORIES: Final = (0, 10, 100, at_length(210, 400))
ADKS_HISTORIES: Final = at_length((0, 10, 40), HISTORIES)
"""What ADK's services read grows with each event alike, so that few show it."""
EVENT_BYTES: Final = 660
ALL_SCOPES: Final = {"mine": 1, "user:n": 1, "app:m": 1}
DELTAS: Final[dict[frozenset[Scope], dict[str, int]]] = {
    frozenset(): {},
    frozenset({"session"}): {"mine": 1},
    frozenset({"session", "user", "app"}): ALL_SCOPES,
}
Kind = Callable[[str], BaseSessionService]
"""Makes services of one kind on a project."""


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
def metered_all(meter: FirestoreMeter) -> Iterator[FirestoreMeter]:
    """A meter that all services of the test talk through."""
    with metered(meter):
        yield meter


def store_service(project: str) -> BaseSessionService:
    """Make a service of this store, as a process of its own would."""
    return FirestoreSessionService(project=project)


def adk_service(project: str) -> BaseSessionService:
    """Make a service of ADK's."""
    return AdkFirestoreSessionService(client=firestore.AsyncClient(project=project))


@pytest.fixture(scope="module")
def conversations(firestore_emulator: Emulator) -> "Conversations":
    """One that grows for each kind of service."""
    return Conversations(firestore_emulator.address)


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


class Turn(NamedTuple):
    """A turn to take, and to count."""

    history: int
    events: int
    event_bytes: int
    scopes: frozenset[Scope] = frozenset()


def counted(services: Services, turns: list[Turn], *, cold: bool) -> list[Operations]:
    """Return what the model says of *turns*."""
    used: dict[str, Any] = {"turns_per_day": 1, "history": 0}
    return [
        services.turn(
            Workload(events_per_turn=turn.events, event_bytes=turn.event_bytes, scopes=turn.scopes, **used),
            turn.history,
            cold=cold,
        )
        for turn in turns
    ]


async def take_turn(service: BaseSessionService, session_id: str, turn: Turn) -> None:
    """Read the session and append to it, as ADK's runner does; the last event changes the state."""
    session = await read(service, USER, session_id=session_id)
    assert turn.history == len(session.events)
    for number in range(turn.events):
        last = number == turn.events - 1
        delta = DELTAS[turn.scopes] if last else {}
        made = event(turn.history + number, size=turn.event_bytes, delta=delta)
        await service.append_event(session, made)


async def grow(service: BaseSessionService, session_id: str, events: int, *, size: int) -> None:
    """Append until the session has so many events, the first of which changes the state of every scope."""
    session = await read(service, USER, session_id=session_id)
    for number in range(len(session.events), events):
        delta = {} if number else ALL_SCOPES
        await service.append_event(session, event(number, size=size, delta=delta))


class Conversations:
    """One conversation of each kind of service, which grows once and is copied at every length."""

    def __init__(self, address: str) -> None:
        """*address* is the emulator's."""
        transport = FirestoreGrpcTransport(channel=grpc.insecure_channel(address))
        self._client = FirestoreClient(transport=transport)
        self._stored: dict[tuple[Kind, int], list[Document]] = {}

    async def copy(self, kind: Kind, events: int) -> str:
        """Return a project of its own that has the session ``s`` with so many of :data:`HISTORIES`."""
        if (kind, events) not in self._stored:
            await self._grow(kind)
        project = new_project()
        database = f"projects/{project}/databases/(default)"
        writes = [
            Write(
                update=Document(
                    name=database + each.name[each.name.index("/documents/") :], fields=each.fields
                )
            )
            for each in self._stored[kind, events]
        ]
        await asyncio.to_thread(self._client.commit, request={"database": database, "writes": writes})
        return project

    async def _grow(self, kind: Kind) -> None:
        project = new_project()
        service = kind(project)
        await service.create_session(**USER, session_id="s")
        query = {"from_": [{"all_descendants": True}]}
        request = {"parent": f"projects/{project}/databases/(default)/documents", "structured_query": query}
        for events in HISTORIES if kind is store_service else ADKS_HISTORIES:
            await grow(service, "s", events, size=EVENT_BYTES)
            found = await asyncio.to_thread(lambda: list(self._client.run_query(request=request)))
            self._stored[kind, events] = [answer.document for answer in found if answer.document.name]


def new_project() -> str:
    """Return a project that nothing has seen."""
    return f"demo-{uuid.uuid4().hex[:20]}"


async def measured_cold(
    kind: Kind, conversations: Conversations, meter: FirestoreMeter, turns: list[Turn]
) -> list[Operations]:
    """Take each turn by a process that does not know the session."""
    found = []
    for turn in turns:
        project = await conversations.copy(kind, turn.history)
        with metered(meter):
            service = kind(project)
            meter.take()
            await take_turn(service, "s", turn)
            found.append(billed(meter))
    return found


async def measured_warm(project: str, meter: FirestoreMeter, turns: list[Turn]) -> list[Operations]:
    """Take turns of one growing conversation, each by the process of the turn before."""
    session_id = uuid.uuid4().hex
    preparing = store_service(project)
    await preparing.create_session(**USER, session_id=session_id)
    held, found = 0, []
    for turn in turns:
        before = max(held, turn.history - turn.events)
        await grow(preparing, session_id, before, size=turn.event_bytes)
        with metered(meter):
            service = store_service(project)
            if turn.history > before:
                earlier = Turn(history=before, events=turn.history - before, event_bytes=turn.event_bytes)
                await take_turn(service, session_id, earlier)
            meter.take()
            await take_turn(service, session_id, turn)
            found.append(billed(meter))
        held = turn.history + turn.events
    return found


def conversation(
    *, events: int, size: int, scopes: frozenset[Scope], histories: Sequence[int] = HISTORIES
) -> list[Turn]:
    """Return the turns that are measured of one conversation."""
    return [Turn(history=history, events=events, event_bytes=size, scopes=scopes) for history in histories]


@pytest.mark.sample(2)
@pytest.mark.parametrize("scopes", DELTAS, ids=named)
@pytest.mark.parametrize("events", [2, 6])
async def test_turns_of_the_store_cost_what_the_model_says(
    conversations: Conversations, meter: FirestoreMeter, events: int, scopes: frozenset[Scope]
) -> None:
    """In a process that does not know the session, of which 0, 0, 1 and 2 segments are sealed.

    In the long form the last has 4.
    """
    turns = conversation(events=events, size=EVENT_BYTES, scopes=scopes)

    assert counted(StoreServices(), turns, cold=True) == await measured_cold(
        store_service, conversations, meter, turns
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(("size", "events"), [(660, 2), (660, 6), (3856, 2), (3856, 6)])
async def test_turns_of_a_process_that_knows_the_session_cost_what_the_model_says(
    project: str, meter: FirestoreMeter, size: int, events: int
) -> None:
    """It reads the segments that were sealed since; of 100 or 17 events, some sealed in the turn itself."""
    histories = HISTORIES if size == EVENT_BYTES else at_length((0, 10, 34), HISTORIES)
    scopes = frozenset[Scope]({"session", "user", "app"})
    turns = conversation(events=events, size=size, scopes=scopes, histories=histories)

    assert counted(StoreServices(), turns, cold=False) == await measured_warm(project, meter, turns)


@pytest.mark.sample(1)
@pytest.mark.parametrize("scopes", DELTAS, ids=named)
@pytest.mark.parametrize("events", [2, 6])
async def test_turns_of_adks_services_cost_what_the_model_says(
    conversations: Conversations, meter: FirestoreMeter, events: int, scopes: frozenset[Scope]
) -> None:
    """Every event is read again, whoever read it before."""
    turns = conversation(events=events, size=EVENT_BYTES, scopes=scopes, histories=ADKS_HISTORIES)

    assert counted(BuiltinServices(), turns, cold=True) == await measured_cold(
        adk_service, conversations, meter, turns
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("events", [0, 10, 100, at_length(210, 350)])
@pytest.mark.parametrize("whose", ["ours", "builtin"])
async def test_making_and_deleting_a_session_costs_what_the_model_says(
    project: str, meter: FirestoreMeter, whose: str, events: int
) -> None:
    """However many events it has."""
    kind = store_service if whose == "ours" else adk_service
    model: Services = StoreServices() if whose == "ours" else BuiltinServices()
    with metered(meter):
        service = kind(project)
        await service.create_session(**USER, session_id="s")
        created = billed(meter)
    await grow(kind(project), "s", events, size=1000)
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
    used: dict[str, Any] = {"artifacts_per_turn": saves, "artifact_loads_per_turn": loads}
    costs = model.turn(Workload(turns_per_day=1, events_per_turn=1, history=0, **used), 0, cold=True)

    assert (costs.class_a, costs.class_b) == (figures.class_a, figures.class_b)


def noted(number: int) -> Event:
    """Return an event of the same size for each number."""
    return Event(
        id=f"{number:06}",
        author="user",
        timestamp=1e9,
        content=types.Content(parts=[types.Part(text=f"note{number:06} {'x' * 1400}")]),
    )


@pytest.mark.sample(1)
@pytest.mark.emulators
@pytest.mark.parametrize("dimensions", [0, 1024], ids=["words", "vectors"])
async def test_memories_of_the_store_cost_what_the_model_says(
    metered_all: FirestoreMeter, project: str, dimensions: int
) -> None:
    """Additions with all their seals and merges, and searches of processes that know the user or not."""
    embedder = PartsEmbedder(dimensions) if dimensions else None
    count, added = at_length(150, 300), 2
    async with Store.connect(project=project, embedder=embedder) as store:
        memory = store.memory
        await memory.search_memory(query="note000001", **USER)
        metered_all.take()
        for first in range(0, count, added):
            await memory.add_events_to_memory(events=[noted(first), noted(first + 1)], **USER)
        made = billed(metered_all)
        snapshot = await memory._keeper.reader.read(UserKey(app="app", user="user"))
        assert snapshot is not None
        size = len(snapshot.texts[0].encode())
        held: dict[str, Any] = {"memories": count, "memory_bytes": size, "vector_dimensions": dimensions}
        recall = Workload(**USED, **held, memories_per_turn=added)
        modelled = store_recall(recall, cold=False).times(count // added)
        assert (round(modelled.writes), round(modelled.deletes)) == (made.writes, made.deletes)
        metered_all.take()

        searched = replace(recall, searches_per_turn=1)
        await memory.search_memory(query="note000001", **USER)
        assert store_recall(searched, cold=False).reads == billed(metered_all).reads
        cold = MemoryService(store.sessions.storage, embedder=embedder)
        await cold.search_memory(query="note000001", **USER)
        assert store_recall(searched, cold=True).reads == billed(metered_all).reads
        cold = MemoryService(store.sessions.storage, embedder=embedder)
        await cold.add_events_to_memory(events=[noted(count), noted(count + 1)], **USER)
        assert store_recall(recall, cold=True).reads == billed(metered_all).reads


@pytest.mark.emulators
async def test_memories_of_adks_service_cost_what_the_model_says(
    metered_all: FirestoreMeter, project: str
) -> None:
    """A query for each word reads every memory that has it, or is billed as one read."""
    client = firestore.AsyncClient(project=project)
    service = AdkFirestoreMemoryService(client=client)
    words = [types.Part(text=f"apple {'pear' if number < 2 else 'plum'}") for number in range(6)]
    events = [Event(author="user", content=types.Content(parts=[part])) for part in words]
    await service.add_events_to_memory(events=events, **USER)
    assert builtin_recall(Workload(**USED, memories_per_turn=6)) == billed(metered_all)
    await service.search_memory(query="apple pear plum quince", **USER)

    recall = Workload(
        **USED, memories=6, searches_per_turn=1, query_words=4, word_matches=(6 + 2 + 4 + 1) / 4
    )
    assert builtin_recall(recall) == billed(metered_all)
    client.close()

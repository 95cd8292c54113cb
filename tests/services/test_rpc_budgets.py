"""Count what operations take on the emulators: RPCs, billed operations, requests. One more than agreed fails.

The plain form of each operation is in tests/simulation/budgets.json.
"""

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import (
    FirestoreSessionService,
    GcsArtifactService,
    Point,
    SessionBusyError,
    SessionConflictError,
    SessionLimits,
    SessionService,
    Store,
)
from gcp_adk_store.testing.meters import FirestoreFigures, FirestoreMeter, MeteredSession
from tests.services.conftest import APP, SESSION, USER, WHO, event
from tests.support.clock import Clock, in_days
from tests.support.stored import collection, put_session
from tools.benchmarks.stub_agent import message, runner

pytestmark = pytest.mark.emulators


@pytest.fixture
async def service(meter: FirestoreMeter, project: str) -> SessionService:
    """A service whose user and app have state already."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(seal_tail_bytes=1000))
    await service.create_session(
        app_name=APP, user_id=USER, session_id="first", state={"user:n": 1, "app:m": 1}
    )
    meter.take()
    return service


def cost(figures: FirestoreFigures) -> tuple[dict[str, int], int, int, int]:
    """Return RPCs by name, documents read, written and deleted."""
    return dict(figures.rpcs), figures.reads, figures.writes, figures.deletes


async def test_sealing_costs_a_read_and_two_writes_a_segment(
    service: SessionService, meter: FirestoreMeter
) -> None:
    """10 events take 10 commits, and 3 more calls' worth for each of their segments."""
    held = await service.create_session(**WHO)
    meter.take()
    for number in range(10):
        await service.append_event(held, event(f"{number}"))
    figures = meter.take()
    segments = figures.reads

    assert segments >= 2
    assert ({"Commit": 10 + segments, "BatchGetDocuments": segments}, 10 + 2 * segments) == (
        dict(figures.rpcs),
        figures.writes,
    )


async def test_get_of_a_long_session_reads_only_the_segments_it_needs(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """All of them in one more RPC, or just the newest, or none; by a process that knows none yet."""
    held = await service.create_session(**WHO)
    meter.take()
    for number in range(15):
        await service.append_event(held, event(f"{number}", at=float(number)))
    segments = meter.take().reads
    costs = []
    for config in (
        None,
        GetSessionConfig(),
        GetSessionConfig(num_recent_events=1),
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(num_recent_events=4),
        GetSessionConfig(after_timestamp=1000.0),
    ):
        cold = FirestoreSessionService(project=project)
        await cold.get_session(**WHO, config=config)
        await cold.close()
        costs.append(cost(meter.take()))

    assert segments >= 3
    assert ({"BatchGetDocuments": 2}, 3 + segments, 0, 0) == costs[0]
    assert costs[0] == costs[1]
    assert ({"BatchGetDocuments": 1}, 3, 0, 0) == costs[2] == costs[3] == costs[5]
    assert ({"BatchGetDocuments": 2}, 4, 0, 0) == costs[4]


async def test_a_page_by_labels_costs_what_a_page_does(
    service: SessionService, meter: FirestoreMeter
) -> None:
    """What is listed of a session costs nothing more; sessions without a further label are read, too."""
    for number in range(6):
        name: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": f"{number}"}
        await service.create_session(**name)
        if number < 4:
            await service.update_session_info(**name, labels={"team": "x", "even": str(number % 2 == 0)})
    costs = []
    for labels in ({"team": "x"}, {"team": "x", "even": "True"}, {"even": "True", "team": "x"}):
        meter.take()
        page = await service.list_sessions_page(app_name=APP, labels=labels, include_state=False)
        costs.append((len(page.infos), cost(meter.take())))

    assert [
        (4, ({"RunQuery": 1}, 4, 0, 0)),
        (2, ({"RunQuery": 1}, 4, 0, 0)),
        (2, ({"RunQuery": 1}, 2, 0, 0)),
    ] == costs


async def test_a_page_costs_what_it_shows(service: SessionService, meter: FirestoreMeter) -> None:
    """However many sessions there are: its own, then the app and the users on it; without state not these.

    Large state of the app is read once, however many users are on the page.
    """
    for number in range(9):
        await service.create_session(app_name=APP, user_id=f"u{number % 5}", session_id=f"{number}")
    meter.take()
    costs = []
    for request in (
        {"user_id": "u0", "page_size": 1},
        {"page_size": 2},
        {"page_size": 2, "include_state": False},
    ):
        await service.list_sessions_page(app_name=APP, **request)
        costs.append(cost(meter.take()))
    await service.create_session(app_name=APP, user_id="u9", state={"app:large": "x" * 70_000})
    meter.take()
    await service.list_sessions_page(app_name=APP, page_size=4)
    costs.append(cost(meter.take()))

    assert [
        ({"RunQuery": 1, "BatchGetDocuments": 1}, 1 + 2, 0, 0),
        ({"RunQuery": 1, "BatchGetDocuments": 1}, 2 + 3, 0, 0),
        ({"RunQuery": 1}, 2, 0, 0),
        ({"RunQuery": 1, "BatchGetDocuments": 2}, 4 + 5 + 1, 0, 0),
    ] == costs


async def test_an_iteration_reads_the_segments_that_it_comes_to(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """1 read of the session, then 1, 2, 4 segments at a time, and none that is not asked for."""
    held = await service.create_session(**WHO)
    meter.take()
    for number in range(25):
        await service.append_event(held, event(f"{number}"))
    segments = meter.take().reads
    costs = []
    for request in ({}, {"limit": 1}, {"limit": 1, "direction": "backward"}):
        cold = FirestoreSessionService(project=project)
        async for _ in cold.iter_events(**WHO, **request):
            pass
        await cold.close()
        costs.append(cost(meter.take()))

    assert 4 <= segments <= 7
    assert [
        ({"BatchGetDocuments": 4}, 1 + segments, 0, 0),
        ({"BatchGetDocuments": 2}, 1 + 1, 0, 0),
        ({"BatchGetDocuments": 1}, 1, 0, 0),
    ] == costs


async def test_the_usage_of_a_session_costs_what_an_iteration_over_it_does(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """No payload is read, except one that is a whole event; what is known is not read again."""
    held = await service.create_session(**WHO)
    meter.take()
    for number in range(24):  # the last one seals
        await service.append_event(held, event(f"{number}"))
    segments = meter.take().reads
    blob = types.Blob(data=bytes(100_000), mime_type="image/png")
    shown, long = event(), event("x" * 300_000)
    shown.content = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    reader = FirestoreSessionService(project=project)
    costs = []
    for last in (None, shown, long):
        if last is not None:
            await service.append_event(held, last)
            meter.take()
        await reader.get_session_usage(**WHO)
        costs.append(cost(meter.take()))

    assert 4 <= segments <= 7
    assert [
        ({"BatchGetDocuments": 4}, 1 + segments, 0, 0),
        ({"BatchGetDocuments": 1}, 1, 0, 0),
        ({"BatchGetDocuments": 2}, 1 + 1, 0, 0),
    ] == costs


async def test_events_of_a_user_cost_a_query_for_16_updated_sessions(
    service: SessionService, meter: FirestoreMeter
) -> None:
    """However many events they have, and however many sessions were not updated since."""
    for number in range(20):
        held = await service.create_session(app_name=APP, user_id="u", session_id=f"{number}")
        await service.append_event(held, event(at=float(number)))
        await service.append_event(held, event(at=float(number)))
    meter.take()
    costs = []
    for after in (None, 10.5, 19.0):
        count = 0
        async for _ in service.iter_user_events(app_name=APP, user_id="u", after=after):
            count += 1
        costs.append((count, *cost(meter.take())))

    assert [
        (40, {"RunQuery": 2}, 20, 0, 0),
        (18, {"RunQuery": 1}, 9, 0, 0),
        (0, {"RunQuery": 1}, 1, 0, 0),  # Firestore bills a query without results
    ] == costs


async def test_later_events_of_a_long_session_cost_the_segments_that_hold_them(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """And those that the search for the first one reads; a cursor costs 1 read of its session."""
    held = await service.create_session(app_name=APP, user_id="u", session_id="long")
    meter.take()
    for number in range(66):
        await service.append_event(held, event(f"{number}", at=float(number)))
    segments = meter.take().reads
    costs, cursors = {}, []
    for after in (None, 0.0, 55.0, 64.5):
        cold = FirestoreSessionService(project=project)
        found = [one async for one in cold.iter_user_events(app_name=APP, user_id="u", after=after)]
        cursors.append(found[-1].cursor)
        costs[after] = cost(meter.take())
        await cold.close()
    async for _ in service.iter_user_events(app_name=APP, user_id="u", cursor=cursors[0]):
        pass

    assert 15 <= segments <= 19
    assert ({"RunQuery": 1, "BatchGetDocuments": 5}, 1 + segments, 0, 0) == costs[None]
    # The search reads segments that the iteration needs too, each once.
    assert (1 + segments, 0, 0) == costs[0.0][1:]
    assert costs[0.0][0]["BatchGetDocuments"] <= 11
    # Events 56 to 65 are in 3 or 4 segments; the search reads up to 2 more.
    assert costs[55.0][0]["BatchGetDocuments"] <= 5
    assert 1 + 3 <= costs[55.0][1] <= 1 + 4 + 2
    assert ({"RunQuery": 1}, 1, 0, 0) == costs[64.5]
    assert ({"RunQuery": 1, "BatchGetDocuments": 1}, 1 + 1, 0, 0) == cost(meter.take())


async def test_a_time_to_live_costs_nothing_until_parts_are_renewed(
    clock: Clock, service: SessionService, meter: FirestoreMeter
) -> None:
    """Then, once in a time to live, a read and a write for each part, and a read of the session."""
    held = await service.create_session(**WHO, ttl_seconds=1000)
    created = cost(meter.take())
    for number in range(9):
        await service.append_event(held, event(f"{number}"))
    segments = meter.take().reads
    clock.after(900)
    await service.append_event(held, event())
    early = cost(meter.take())
    clock.after(900)
    await service.append_event(held, event())
    late = cost(meter.take())

    assert ({"Commit": 1, "BatchGetDocuments": 1}, 2, 1, 0) == created
    assert ({"Commit": 1}, 0, 1, 0) == early
    assert segments >= 2
    assert ({"Commit": 2, "BatchGetDocuments": 2}, 1 + segments, 1 + segments, 0) == late


async def test_parts_are_renewed_once_however_an_append_ends(
    clock: Clock, service: SessionService, meter: FirestoreMeter
) -> None:
    """With a payload too; and not at all by a writer that comes too late."""
    held = await service.create_session(**WHO, ttl_seconds=1000)
    for number in range(8):
        await service.append_event(held, event(f"{number}"))
    stale = await service.get_session(**WHO)
    assert stale is not None
    segments = 2
    clock.after(900)
    await service.append_event(held, event())
    clock.after(900)
    meter.take()
    await service.append_event(held, event(delta={"large": "x" * 70_000}))
    with_payload = meter.take()
    with pytest.raises(SessionConflictError):
        await service.append_event(stale, event())
    late = meter.take()

    # The chunk, which needs no renewal, those of the segments, the append, and its sealing: it is long.
    assert 1 + segments + 1 + 2 == with_payload.writes
    assert 0 == late.writes


async def test_a_handle_without_a_marker_looks_first(service: SessionService, meter: FirestoreMeter) -> None:
    """1 read before its commit: only the document says whether the session ends by itself."""
    held = await service.create_session(**WHO)
    travelled = Session.model_validate_json(held.model_dump_json())
    meter.take()
    await service.append_event(travelled, event())

    assert ({"BatchGetDocuments": 1, "Commit": 1}, 1, 1, 0) == cost(meter.take())


@pytest.mark.parametrize("recent", [None, 3, 0])
async def test_an_append_after_a_filtered_read_needs_no_look(
    meter: FirestoreMeter, project: str, recent: int | None
) -> None:
    """The read takes what identifies the events of the tail, also of those that it does not return."""
    writer, other = (FirestoreSessionService(project=project) for _ in range(2))
    held = await writer.create_session(**WHO)
    for _ in range(5):
        await writer.append_event(held, event())
    await writer.close()
    meter.take()
    read = await other.get_session(**WHO, config=GetSessionConfig(num_recent_events=recent))
    assert read is not None
    await other.append_event(read, event())
    await other.append_event(read, event())
    await other.close()

    assert ({"BatchGetDocuments": 1, "Commit": 2}, 3, 2, 0) == cost(meter.take())


async def test_a_handle_of_another_process_looks_first(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """1 read before its first commit: nothing in this process knows which events the tail holds."""
    held = await service.create_session(**WHO)
    await service.append_event(held, event())
    other = FirestoreSessionService(project=project)
    meter.take()
    await other.append_event(held, event())
    first = cost(meter.take())
    await other.append_event(held, event())
    await other.close()

    assert ({"BatchGetDocuments": 1, "Commit": 1}, 1, 1, 0) == first
    assert ({"Commit": 1}, 0, 1, 0) == cost(meter.take())


async def a_thousand_events(store: Store) -> int:
    """Write a session of a thousand events of 600 bytes there; return the number of its segments."""

    async def events() -> AsyncIterator[Event]:
        for number in range(1000):
            yield event(f"{number} {'x' * 285}", delta={"mine": number})

    await put_session(store.sessions, WHO, events(), state={"mine": 999}, initial={"mine": "initial"})
    return len(await collection(store, "adk_segments"))


async def test_a_fork_of_a_thousand_events_takes_twelve_reads_and_twelve_writes_at_most(
    meter: FirestoreMeter, project: str
) -> None:
    """In three calls: the session with shared state, its segments, and one commit of all."""
    async with Store.connect(project=project) as other:
        segments = await a_thousand_events(other)
    store = Store(sessions=FirestoreSessionService(project=project), artifacts=None)
    costs = []
    meter.take()
    for options in ({}, {"to_user_id": "other"}, {"at": Point.position(500)}):
        await store.fork_session(**WHO, **options)
        costs.append(cost(meter.take()))
    await store.close()

    assert 8 <= segments <= 9
    assert ({"BatchGetDocuments": 2, "Commit": 1}, 3 + segments, 1 + segments, 0) == costs[0]
    assert ({"BatchGetDocuments": 1, "Commit": 1}, 3, 1 + segments, 0) == costs[1]
    assert ({"BatchGetDocuments": 1, "Commit": 1}, 3, 1 + segments // 2, 0) == costs[2]


async def test_payloads_and_artifacts_add_to_a_fork_what_is_agreed(
    adk_store_bucket: str, meter: FirestoreMeter, project: str
) -> None:
    """A listing and a copy each; artifacts also a look at the id, and a note that is removed again."""
    http = MeteredSession()
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    async with FirestoreSessionService(
        project=project, bucket=adk_store_bucket, storage=client, limits=SessionLimits(inline_bytes=10)
    ) as sessions:
        store = Store(sessions=sessions, artifacts=GcsArtifactService(adk_store_bucket, client=client))
        held = await sessions.create_session(**WHO)
        picture = event("0")
        picture.content = types.Content(parts=[types.Part.from_bytes(data=b"x" * 20, mime_type="a/b")])
        await sessions.append_event(held, picture)
        costs = []
        for artifacts in ("none", "all"):
            await store.artifacts.save_artifact(**WHO, filename="f", artifact=types.Part(text="f"))
            meter.take()
            http.take()
            await store.fork_session(**WHO, artifacts=artifacts)
            figures = http.take()
            costs.append((cost(meter.take()), figures.class_a, figures.class_b))

    assert (({"BatchGetDocuments": 1, "Commit": 1}, 3, 1, 0), 2, 1) == costs[0]
    assert (({"BatchGetDocuments": 2, "Commit": 2}, 4, 2, 1), 2 + 2 + 2, 1) == costs[1]


async def test_artifact_requests(adk_store_bucket: str) -> None:
    """Save, load, list, describe and delete each send what the design allows."""
    http = MeteredSession()
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    artifacts = GcsArtifactService(adk_store_bucket, client=client)
    name = {**WHO, "filename": "report.txt"}

    async def count(work: Callable[[], object]) -> dict[str, int]:
        http.take()
        await work()  # type: ignore[misc]  # each is a coroutine function
        return dict(http.take().requests)

    part = types.Part(text="text")
    found = [
        await count(lambda: artifacts.save_artifact(**name, artifact=part)),
        await count(lambda: artifacts.save_artifact(**name, artifact=part)),
        await count(lambda: artifacts.load_artifact(**name)),
        await count(lambda: artifacts.load_artifact(**name, version=0)),
        await count(lambda: artifacts.list_versions(**name)),
        await count(lambda: artifacts.list_artifact_versions(**name)),
        await count(lambda: artifacts.get_artifact_version(**name)),
        await count(lambda: artifacts.get_artifact_version(**name, version=0)),
        await count(lambda: artifacts.list_artifact_keys(**WHO)),
        await count(lambda: artifacts.delete_artifact(**name)),
        await count(lambda: artifacts.save_artifact_file(**name, source=io.BytesIO(b"x"))),
        await count(lambda: artifacts.save_artifact_file(**name, source=io.BytesIO(b"x" * 20 * 2**20))),
        await count(lambda: artifacts.load_artifact_to(**name, target=io.BytesIO())),
        await count(lambda: artifacts.load_artifact_to(**name, version=1, target=io.BytesIO())),
        await count(lambda: artifacts.open_artifact(**name)),
        await count(lambda: artifacts.copy_artifact(**name, to_filename="copy")),
        await count(lambda: artifacts.get_authenticated_url(**name)),
        await count(lambda: artifacts.get_authenticated_url(**name, version=1)),
        await count(lambda: artifacts.delete_session_artifacts(**WHO, dry_run=True)),
        await count(lambda: artifacts.delete_session_artifacts(**WHO)),
    ]
    newcomer = GcsArtifactService(adk_store_bucket, client=client)
    await artifacts.save_artifact(**name, artifact=part)
    found += [
        await count(lambda: newcomer.load_artifact(**name)),
        await count(lambda: newcomer.load_artifact(**name)),
        await count(lambda: newcomer.save_artifact(**name, artifact=part)),
    ]
    await newcomer.close()
    await artifacts.close()

    assert [
        {"list": 1, "upload": 1},
        {"upload": 1},
        {"metadata": 2, "media": 1},  # known: whether there is a next one is all that has to be asked
        {"metadata": 1, "media": 1},
        {"list": 1},
        {"list": 1},
        {"metadata": 2},
        {"metadata": 1},
        {"list": 2},
        {"list": 1, "delete": 2},
        {"list": 1, "upload": 1},
        {"upload": 4},  # the start, then 8 MiB a request
        {"metadata": 2, "media": 3},  # 8 MiB a request
        {"metadata": 1, "media": 3},
        {"metadata": 2},
        {"metadata": 2, "list": 1, "other": 1},
        {"metadata": 2},
        {"metadata": 1},
        {"list": 1},
        {"list": 1, "delete": 3},
        {"list": 1, "metadata": 1, "media": 1},  # by a process that has not met it
        {"metadata": 2, "media": 1},
        {"upload": 1},
    ] == found


def test_the_meter_counts_what_google_bills(meter: FirestoreMeter, project: str) -> None:
    """Checked with Google's own client: missing documents and empty queries cost a read."""
    from google.cloud.firestore import Client as FirestoreClient  # noqa: PLC0415  # reads the variable now

    client = FirestoreClient(project=project)
    batch = client.batch()
    batch.set(client.document("c/one"), {"n": 1})
    batch.set(client.document("c/two"), {"n": 2})
    batch.delete(client.document("c/three"))
    batch.commit()
    list(client.get_all([client.document("c/one"), client.document("c/missing")]))
    list(client.collection("c").stream())
    list(client.collection("empty").stream())
    client.close()
    figures = meter.take()

    assert Counter(Commit=1, BatchGetDocuments=1, RunQuery=2) == figures.rpcs
    assert (2 + 2 + 1, 2, 1) == (figures.reads, figures.writes, figures.deletes)
    assert figures.sent_bytes > 0
    assert figures.received_bytes > 0


async def test_an_append_that_merges_after_another_is_two_commits_and_two_reads(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """Refused, settled by a read, sent again; then one read shows its handle what others wrote."""
    merging = FirestoreSessionService(project=project, on_conflict="merge")
    held = await merging.create_session(**WHO)
    await service.append_event(held.model_copy(deep=True), event("first"))
    meter.take()
    await merging.append_event(held, event("second"))

    assert ({"Commit": 2, "BatchGetDocuments": 2}, 4, 1, 0) == cost(meter.take())


@pytest.mark.usefixtures("firestore_proxy")
async def test_the_collector_reads_names_and_the_documents_that_old_payloads_belong_to(
    meter: FirestoreMeter, project: str
) -> None:
    """A query each for deletions, restores, chunks; one read for what owns them; one commit removes one."""
    service = FirestoreSessionService(project=project, limits=SessionLimits(state_value_bytes=10))
    held = await service.create_session(**WHO)  # an initial value stays in use
    await service.append_event(held, event(delta={"large": "x" * 50}))
    await service.append_event(held, event(delta={"large": "y" * 50}))
    meter.take()
    with in_days(2):
        (garbage,) = [found async for found in service.find_garbage()]
    finding = meter.take()
    await service.remove_garbage(garbage)

    # A query that finds nothing is billed as one read; two chunks; the session.
    assert ({"RunQuery": 3, "BatchGetDocuments": 1}, 5, 0, 0) == cost(finding)
    assert ({"Commit": 1}, 0, 0, 1) == cost(meter.take())


async def test_a_payload_that_is_put_again_is_marked(
    meter: FirestoreMeter, project: str, adk_store_bucket: str
) -> None:
    """In a bucket: an upload that is refused, and a change of metadata."""
    assert meter.address
    http = MeteredSession()
    client = Client(project=project, credentials=AnonymousCredentials(), _http=http)
    service = FirestoreSessionService(
        project=project, bucket=adk_store_bucket, storage=client, limits=SessionLimits(state_value_bytes=10)
    )
    held = await service.create_session(**WHO, state={"large": "x" * 50})
    http.take()
    await service.append_event(held, event(delta={"large": "x" * 50}))

    assert {"upload": 1, "other": 1} == http.take().requests


async def test_waiting_for_a_turn_is_a_read_for_each_change(
    service: SessionService, meter: FirestoreMeter, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 to find it busy, 1 as the stream opens, 1 for each append and the end; then 1 write, and no poll."""
    held = await service.create_session(**WHO)
    turns = Store(sessions=service, artifacts=None).turns
    waiting = Store(sessions=FirestoreSessionService(project=project), artifacts=None).turns
    documents = waiting.sessions.storage.documents
    watch, watches = documents.watch, asyncio.Event()

    async def counted(path: str) -> AsyncIterator[Any]:
        async with aclosing(watch(path)) as changes:
            async for each in changes:
                watches.set()
                yield each

    monkeypatch.setattr(documents, "watch", counted)
    async with turns.hold(**WHO):
        meter.take()
        taking = asyncio.create_task(waiting.take(**WHO, wait_s=30))
        await watches.wait()
        opened = meter.take()
        for number in range(3):
            await service.append_event(held, event(f"{number}"))
    taken = await taking
    waited = meter.take()
    await waiting._end(taken)
    await waiting.sessions.close()

    assert ({"BatchGetDocuments": 1, "Listen": 1}, 2) == (dict(opened.rpcs), opened.reads)
    assert {"Commit": 3 + 1 + 1} == dict(waited.rpcs)
    assert 3 + 1 >= waited.reads


async def test_a_message_to_a_busy_session_reads_nothing_of_its_history(
    service: SessionService, meter: FirestoreMeter, project: str
) -> None:
    """1 BatchGet finds the turn, and 1 Commit leaves the message; the next one takes 1 Commit alone."""
    held = await service.create_session(**WHO)
    for number in range(15):
        await service.append_event(held, event(f"{number}"))
    speaking = FirestoreSessionService(project=project)
    turns = Store(sessions=speaking, artifacts=None).turns
    running = runner(speaking, app=APP, calls=0)

    async def say(on_busy: Any) -> tuple[dict[str, int], int, int, int]:
        meter.take()
        where: dict[str, Any] = {"user_id": USER, "session_id": SESSION}
        events = turns.run(running, **where, new_message=message(), on_busy=on_busy)
        assert [] == [each async for each in events]
        return cost(meter.take())

    async with Store(sessions=service, artifacts=None).turns.hold(**WHO):
        costs = [await say("enqueue"), await say("enqueue")]
        with pytest.raises(SessionBusyError):
            await say("reject")
        rejected = cost(meter.take())
    await speaking.close()

    assert ({"BatchGetDocuments": 1}, 3, 0, 0) == rejected
    assert [({"BatchGetDocuments": 1, "Commit": 1}, 3, 1, 0), ({"Commit": 1}, 0, 1, 0)] == costs

"""Count what Google's clients send and what is billed of it on the emulators. One more than agreed fails.

What each operation asks of storage is in tests/simulation/budgets.json.
"""

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import FirestoreSessionService, GcsArtifactService, SessionLimits, SessionService, Store
from gcp_adk_store.testing.conformance.running import event
from gcp_adk_store.testing.meters import FirestoreMeter, MeteredSession
from tests.services.conftest import APP, USER, WHO

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


async def test_artifact_requests(adk_store_bucket: str) -> None:
    """Small and large artifacts are saved and loaded by what the design allows: 8 MiB a request."""
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
        await count(lambda: artifacts.load_artifact(**name)),
        await count(lambda: artifacts.save_artifact_file(**name, source=io.BytesIO(b"x" * 20 * 2**20))),
        await count(lambda: artifacts.load_artifact_to(**name, version=1, target=io.BytesIO())),
        await count(lambda: artifacts.copy_artifact(**name, to_filename="copy")),
        await count(lambda: artifacts.get_authenticated_url(**name)),
        await count(lambda: artifacts.delete_artifact(**name)),
    ]
    await artifacts.close()

    assert [
        {"list": 1, "upload": 1},
        {"metadata": 2, "media": 1},  # known: whether there is a next one is all that has to be asked
        {"upload": 4},  # the start, then 8 MiB a request
        {"metadata": 1, "media": 3},  # 8 MiB a request
        {"metadata": 2, "list": 1, "other": 1},
        {"metadata": 2},
        {"list": 1, "delete": 2},
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

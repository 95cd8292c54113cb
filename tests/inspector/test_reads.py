"""What each page reads, counted as Google bills it; no page writes."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
from google.cloud.storage import Client

from gcp_adk_store import Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.meters import FirestoreMeter, MeteredSession
from tests.inspector.story import CALM_PLACE, LIMITS, Read, client_of, fill_calm

pytestmark = pytest.mark.emulators

GET: Final = {"BatchGetDocuments": 1}
READS: Final = {"BatchGetDocuments", "RunQuery"}
OF_ADA: Final = {"app": "support", "user": "ada"}

BUDGETS: Final[list[tuple[str, dict[str, Any], dict[str, int], dict[str, int]]]] = [
    ("", {}, {"RunQuery": 3, "BatchGetDocuments": 2}, {}),
    ("usage", OF_ADA, {"RunQuery": 1, "BatchGetDocuments": 1}, {}),
    ("find", {**OF_ADA, "errors": 1}, {"RunQuery": 1, "BatchGetDocuments": 1}, {}),
    ("users", {"app": "support"}, {"RunQuery": 2}, {}),
    ("sessions", OF_ADA, {"RunQuery": 1}, {}),
    ("session", CALM_PLACE, {"BatchGetDocuments": 2}, {}),
    ("session", {**CALM_PLACE, "order": "newest"}, {"BatchGetDocuments": 2}, {}),
    ("events", CALM_PLACE, GET, {}),
    ("timeline", CALM_PLACE, {"BatchGetDocuments": 2}, {}),
    ("search", {**CALM_PLACE, "errors": 1}, GET, {}),
    ("compare", {**CALM_PLACE, "other": "s1"}, {"BatchGetDocuments": 4}, {}),
    ("matrix", CALM_PLACE, GET, {}),
    ("state", CALM_PLACE, GET, {}),
    ("state", {**CALM_PLACE, "event": 5}, GET, {}),
    ("difference", CALM_PLACE, GET, {}),
    ("vitals", CALM_PLACE, {"BatchGetDocuments": 1, "RunQuery": 1}, {}),
    ("raw", CALM_PLACE, {"BatchGetDocuments": 1, "RunQuery": 1}, {}),
    ("memories", OF_ADA, GET, {}),
    ("memories", {**OF_ADA, "q": "parcel"}, GET, {}),
    ("artifacts", CALM_PLACE, {}, {"list": 2 + 5}),
    ("artifact", {**CALM_PLACE, "name": "plot.png"}, {}, {"list": 1, "metadata": 1, "media": 1}),
    ("artifact", {**CALM_PLACE, "name": "notes.txt"}, {}, {"list": 1, "metadata": 1, "media": 1}),
    (
        "artifact",
        {**CALM_PLACE, "name": "notes.txt", "against": 0},
        {},
        {"list": 1, "metadata": 2, "media": 2},
    ),
    ("content", {**CALM_PLACE, "name": "plot.png", "version": 0}, {}, {"metadata": 1, "media": 1}),
]
"""Pages in order, with their RPCs to Firestore and requests to Cloud Storage; the process knows segments that
earlier pages read."""


@pytest.fixture
def requests(storage_emulator: Emulator) -> MeteredSession:
    """What counts requests to Cloud Storage."""
    assert storage_emulator.address
    return MeteredSession()


@pytest.fixture
async def store(
    meter: FirestoreMeter, requests: MeteredSession, project: str, adk_store_bucket: str
) -> AsyncIterator[Store]:
    """A store as a new process opens it, with the story of an agent."""
    from google.cloud.firestore import AsyncClient  # noqa: PLC0415  # where it is used

    async with Store.connect(project=project, bucket=adk_store_bucket, session_limits=LIMITS) as store:
        await fill_calm(store)
    storage = Client(project=project, _http=requests)
    client = AsyncClient(project=project)
    async with Store.from_clients(
        firestore=client, storage=storage, bucket=adk_store_bucket, session_limits=LIMITS
    ) as store:
        meter.take()
        requests.take()
        yield store
    client.close()


async def test_each_page_has_a_budget_and_none_writes(
    store: Store, meter: FirestoreMeter, requests: MeteredSession
) -> None:
    """Exactly so many requests; only those that read, and none to the store from static files."""
    app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
    async with client_of(app) as client:
        for path, parameters, rpcs, calls in BUDGETS:
            answer = await client.get(f"/{path}", params=parameters)
            figures, asked = meter.take(), requests.take()

            assert 200 == answer.status_code, (path, answer.text)
            assert (rpcs, calls) == (dict(figures.rpcs), dict(asked.requests)), (path, parameters)
            assert (0, 0) == (figures.writes, figures.deletes)
            assert set(figures.rpcs) <= READS
        await _visit_links(client)
        figures, asked = meter.take(), requests.take()
        static = await client.get("/static/htmx.min.js")

    assert set(figures.rpcs) <= READS
    assert (0, 0) == (figures.writes, figures.deletes)
    assert set(asked.requests) <= {"list", "metadata", "media"}
    assert 200 == static.status_code
    assert {} == dict(meter.take().rpcs)


async def _visit_links(client: httpx.AsyncClient) -> None:
    """Follow one link of each kind that a conversation and a matrix have."""
    kinds: Counter[str] = Counter()
    for path in ("session", "matrix"):
        page = Read((await client.get(f"/{path}", params=CALM_PLACE)).text)
        for each in [*page.all("a"), *page.all("img")]:
            address = each.get("href") or each["src"]
            kind = address.partition("?")[0]
            kinds[kind] += 1
            if address.startswith("/") and kinds[kind] == 1:
                assert 200 == (await client.get(address)).status_code, address

    assert {"/event", "/change", "/part", "/state", "/artifacts"} <= set(kinds)

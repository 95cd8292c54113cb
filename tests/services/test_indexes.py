"""Every query that the services send has its index: the emulator needs none, production refuses without."""

from typing import Any

import grpc
import pytest

from gcp_adk_store import NotProvisionedError, SessionService
from tests.services.conftest import APP, Connect
from tests.support.queries import (
    LIMITS,
    Index,
    Queries,
    documented_exemptions,
    documented_indexes,
    index_of,
    send_every_query,
)

pytestmark = pytest.mark.emulators


@pytest.fixture
def queries() -> Queries:
    """What the service of the test sends."""
    return Queries()


@pytest.fixture
def watched(connect: Connect, queries: Queries) -> SessionService:
    """A service whose queries are kept, with everything in it that leads to one."""
    return connect(interceptors=[queries], limits=LIMITS)


async def test_every_query_has_its_index(watched: SessionService, queries: Queries) -> None:
    """The one that the page names: listings, pages, deletions, payloads, the collector."""
    await send_every_query(watched)
    needed = [index_of(query) for query in queries.sent]
    composite = {index for index in needed if isinstance(index, Index)}
    automatic = {index for index in needed if isinstance(index, str)}

    assert documented_indexes("adk") == composite
    assert {"last_update_time"} == automatic
    assert automatic.isdisjoint(documented_exemptions()["sessions"])
    assert {"adk_sessions", "adk_deletions", "adk_restores", "adk_chunks"} == {
        query.from_[0].collection_id for query in queries.sent
    }


class NoIndex(grpc.aio.UnaryStreamClientInterceptor):
    """Answers every query as production does when its index is missing."""

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Refuse; reads by name go beside a query."""
        if "RunQuery" not in str(details.method):
            return await continuation(details, request)
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.FAILED_PRECONDITION, nothing, nothing, details="The query requires an index."
        )


OF_APP = "--field-config=field-path=app,order=ascending "
LABEL_SET = "--field-config=field-path=label_set,array-config=contains "
LABELS = {"team": "x"}


@pytest.mark.parametrize(
    ("given", "scope", "fields", "order"),
    [
        ({"order": "newest"}, "collection-group", OF_APP, "descending"),
        ({"order": "oldest"}, "collection-group", OF_APP, "ascending"),
        ({"labels": LABELS}, "collection-group", OF_APP + LABEL_SET, "descending"),
        ({"labels": LABELS, "user_id": "user"}, "collection", LABEL_SET, "descending"),
    ],
)
async def test_a_missing_index_is_named_with_the_command_that_makes_it(
    connect: Connect, given: dict[str, Any], scope: str, fields: str, order: str
) -> None:
    """Only pages of an app need one, and pages by labels: one for all names of labels."""
    service = connect(interceptors=[NoIndex()])
    command = (
        "gcloud firestore indexes composite create --collection-group=adk_sessions "
        f"--query-scope={scope} {fields}--field-config=field-path=last_update_time,order={order}"
    )

    with pytest.raises(NotProvisionedError) as caught:
        await service.list_sessions_page(app_name=APP, **given)
    what = "by labels" if "user_id" in given else "of an app"
    assert str(caught.value).endswith(f"pages {what} need an index: {command}")

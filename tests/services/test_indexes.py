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


@pytest.mark.parametrize(("order", "name"), [("newest", "descending"), ("oldest", "ascending")])
async def test_a_missing_index_is_named_with_the_command_that_makes_it(
    connect: Connect, order: Any, name: str
) -> None:
    """Only pages of an app need one."""
    service = connect(interceptors=[NoIndex()])
    command = (
        "gcloud firestore indexes composite create --collection-group=adk_sessions "
        "--query-scope=collection-group --field-config=field-path=app,order=ascending "
        f"--field-config=field-path=last_update_time,order={name}"
    )

    with pytest.raises(NotProvisionedError) as caught:
        await service.list_sessions_page(app_name=APP, order=order)
    assert str(caught.value).endswith(f"pages of an app need an index: {command}")


@pytest.mark.parametrize(
    ("user", "scope", "fields", "what"),
    [
        (None, "collection-group", "--field-config=field-path=app,order=ascending ", "pages of an app"),
        ("user", "collection", "", "pages by labels"),
    ],
)
async def test_a_missing_index_of_labels_is_named_with_the_command_that_makes_it(
    connect: Connect, user: str | None, scope: str, fields: str, what: str
) -> None:
    """One for all names of labels; another one for pages of an app."""
    service = connect(interceptors=[NoIndex()])
    command = (
        "gcloud firestore indexes composite create --collection-group=adk_sessions "
        f"--query-scope={scope} {fields}--field-config=field-path=label_set,array-config=contains "
        "--field-config=field-path=last_update_time,order=descending"
    )

    with pytest.raises(NotProvisionedError) as caught:
        await service.list_sessions_page(app_name=APP, user_id=user, labels={"team": "x"})
    assert str(caught.value).endswith(f"{what} need an index: {command}")

"""Every query that the services send has its index: the emulator needs none, production refuses without."""

from typing import Any

import grpc
import pytest
from google.cloud.firestore_v1.types import StructuredQuery

from gcp_adk_store import FirestoreSessionService, NotProvisionedError, SessionLimits
from gcp_adk_store.codec.indexes import UNINDEXED_FIELDS, CompositeIndex, page_index
from tests.services.conftest import APP, USER, WHO, Connect, event

DECLARED = [page_index("adk", descending=descending) for descending in (False, True)]


class Queries(grpc.aio.UnaryStreamClientInterceptor):
    """Keeps every query that is sent."""

    def __init__(self) -> None:
        self.sent: list[StructuredQuery] = []

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Keep the query of *request* if it is one."""
        if "RunQuery" in str(details.method):
            self.sent.append(StructuredQuery.wrap(request.structured_query))
        return await continuation(details, request)


def index_of(query: StructuredQuery) -> CompositeIndex | str | None:
    """Return what *query* needs: an index, a field's own index by name, or nothing.

    Firestore's rules, as its documentation has them: without filter and order a query needs nothing; with one
    field, in one collection, that field's automatic index; with more, or over a collection group, an index
    of the fields with equality and then of those in order. The name of the document follows by itself.
    """
    (source,) = query.from_
    orders = [order for order in query.order_by if order.field.field_path != "__name__"]
    directions = {order.direction.name.lower() for order in query.order_by}
    assert len(directions) <= 1, "the document's name must be in the order of the last field"
    fields: list[Any] = [(order.field.field_path, order.direction.name.lower()) for order in orders]
    if "field_filter" in query.where:
        assert query.where.field_filter.op is StructuredQuery.FieldFilter.Operator.EQUAL
        fields.insert(0, (query.where.field_filter.field.field_path, "ascending"))
    else:
        assert "composite_filter" not in query.where
        assert "unary_filter" not in query.where
    if not fields:
        return None
    if len(fields) == 1 and not source.all_descendants:
        return str(fields[0][0])
    return CompositeIndex(collection=source.collection_id, fields=tuple(fields))


@pytest.fixture
def queries() -> Queries:
    """What the service of the test sends."""
    return Queries()


@pytest.fixture
def watched(connect: Connect, queries: Queries) -> FirestoreSessionService:
    """A service whose queries are kept, with everything in it that leads to one."""
    limits = SessionLimits(seal_tail_bytes=1, state_value_bytes=10)
    return connect(interceptors=[queries], limits=limits)


async def test_every_query_has_its_index(watched: FirestoreSessionService, queries: Queries) -> None:
    """Those of listings, of pages in both orders with a cursor, of deletions and of payloads."""
    held = await watched.create_session(**WHO, state={"large": "x" * 100}, ttl_seconds=1000)
    await watched.append_event(held, event())
    await watched.create_session(app_name=APP, user_id=USER)
    await watched.list_sessions(app_name=APP)
    await watched.list_sessions(app_name=APP, user_id=USER)
    for user in (USER, None):
        for order in ("newest", "oldest"):
            for include_state in (True, False):
                page: dict[str, Any] = {"order": order, "page_size": 1, "include_state": include_state}
                first = await watched.list_sessions_page(app_name=APP, user_id=user, **page)
                await watched.list_sessions_page(app_name=APP, user_id=user, cursor=first.next_cursor, **page)
    async for _ in watched.iter_events(**WHO):
        pass
    await watched.delete_session(**WHO)
    needed = [index_of(query) for query in queries.sent]
    composite = {index for index in needed if isinstance(index, CompositeIndex)}
    automatic = {index for index in needed if isinstance(index, str)}

    assert set(DECLARED) == composite
    assert {"last_update_time"} == automatic
    assert automatic.isdisjoint(UNINDEXED_FIELDS["sessions"])
    assert {"adk_sessions", "adk_deletions", "adk_chunks"} == {
        query.from_[0].collection_id for query in queries.sent
    }


class NoIndex(grpc.aio.UnaryStreamClientInterceptor):
    """Answers every query as production does when its index is missing."""

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Refuse."""
        assert "RunQuery" in str(details.method), (continuation, request)
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

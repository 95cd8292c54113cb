"""Send every query that a service can send, keep them, and say which index each needs and the page names."""

import re
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.adk.events import Event
from google.cloud.firestore_v1.types import StructuredQuery

from gcp_adk_store import SessionLimits, SessionService
from tests.support.documents import ROOT

LIMITS = SessionLimits(seal_tail_bytes=1, state_value_bytes=10)
"""Of a service that has segments and payloads after one event, so that it queries for them."""

_WHO: dict[str, Any] = {"app_name": "app", "user_id": "user"}
_PAGE: Final = (ROOT / "docs/data-model.md").read_text()


@dataclass(frozen=True)
class Index:
    """An index over several fields of the collections of one id, each with how it is there."""

    collection: str
    fields: tuple[tuple[str, str], ...]
    scope: str


def documented_indexes(prefix: str) -> set[Index]:
    """Return the indexes over several fields that docs/data-model.md has commands for."""
    commands = re.findall(
        r"indexes composite create --collection-group=adk_(\S+) --query-scope=(\S+) (.*)", _PAGE
    )
    field = re.compile(r"--field-config=field-path=(\w+),(?:order|array-config)=(\w+)")
    return {Index(f"{prefix}_{name}", (*field.findall(fields),), scope) for name, scope, fields in commands}


def documented_exemptions() -> dict[str, tuple[str, ...]]:
    """Return the fields without an index of their own that docs/data-model.md lists, by collection."""
    rows = re.findall(r"^\| (`\{prefix\}.*) \| (.*) \|$", _PAGE, re.MULTILINE)
    return {
        collection: (*re.findall(r"`(\w+)`", fields),)
        for collections, fields in rows
        for collection in re.findall(r"`\{prefix\}_(\w+)`", collections)
    }


def documented_ends() -> dict[str, str]:
    """Return the fields with a TTL policy that docs/data-model.md has commands for, by collection."""
    commands = re.findall(r"fields ttls update (\w+) --collection-group=adk_(\w+) --enable-ttl", _PAGE)
    return {collection: field for field, collection in commands}


class Queries(grpc.aio.UnaryStreamClientInterceptor):
    """Keeps every query that is sent."""

    def __init__(self) -> None:
        self.sent: list[StructuredQuery] = []

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Keep the query of *request* if it is one."""
        if "RunQuery" in str(details.method):
            self.sent.append(StructuredQuery.wrap(request.structured_query))
        return await continuation(details, request)


def index_of(query: StructuredQuery) -> Index | str | None:
    """Return what *query* needs: an index, a field's own index by name, or nothing.

    Firestore's rules, as its documentation has them: without filter and order a query needs nothing; with one
    field, in one collection, that field's automatic index; with more, or over a collection group, an index
    of the fields with equality, of the array that must contain a value, and then of those in order. The name
    of the document follows by itself.
    """
    (source,) = query.from_
    orders = [order for order in query.order_by if order.field.field_path != "__name__"]
    directions = {order.direction.name.lower() for order in query.order_by}
    assert len(directions) <= 1, "the document's name must be in the order of the last field"
    fields: list[Any] = [(order.field.field_path, order.direction.name.lower()) for order in orders]
    equal: list[Any] = []
    for condition in _conditions(query):
        name, operator = condition.field.field_path, condition.op.name
        if operator == "GREATER_THAN":
            assert [name] == [field for field, _ in fields], "a range is of the field of the order"
        else:
            equal.append((name, {"EQUAL": "ascending", "ARRAY_CONTAINS": "contains"}[operator]))
    assert [kind for _, kind in equal].count("contains") <= 1, "Firestore asks one array what it contains"
    fields = equal + fields
    if not fields:
        return None
    if len(fields) == 1 and not source.all_descendants:
        return str(fields[0][0])
    scope = "collection-group" if source.all_descendants else "collection"
    return Index(source.collection_id, tuple(fields), scope)


def _conditions(query: StructuredQuery) -> list[Any]:
    """Return the filters of *query*, all of which must hold."""
    assert "unary_filter" not in query.where
    if "composite_filter" in query.where:
        assert query.where.composite_filter.op is StructuredQuery.CompositeFilter.Operator.AND
        return [each.field_filter for each in query.where.composite_filter.filters]
    return [query.where.field_filter] if "field_filter" in query.where else []


async def send_every_query(service: SessionService) -> None:
    """Let *service*, which has :data:`LIMITS`, list, page in both orders, renew, delete and collect."""
    held = await service.create_session(
        **_WHO, session_id="session", state={"large": "x" * 100}, ttl_seconds=1000
    )
    await service.append_event(held, Event(author="user"))
    await service.create_session(**_WHO)
    await service.list_sessions(app_name="app")
    await service.list_sessions(**_WHO)
    for user in ("user", None):
        for order in ("newest", "oldest"):
            for include_state in (True, False):
                page: dict[str, Any] = {"order": order, "page_size": 1, "include_state": include_state}
                first = await service.list_sessions_page(app_name="app", user_id=user, **page)
                await service.list_sessions_page(
                    app_name="app", user_id=user, cursor=first.next_cursor, **page
                )
            for labels in (None, {"team": "x"}, {"team": "x", "stage": "new"}):
                for updated_after in (None, 0.0):
                    await service.list_sessions_page(
                        app_name="app",
                        user_id=user,
                        order="newest" if order == "newest" else "oldest",
                        labels=labels,
                        updated_after=updated_after,
                    )
    async for _ in service.iter_events(**_WHO, session_id="session"):
        pass
    for after in (None, 0.0):
        async for _ in service.iter_user_events(**_WHO, after=after):
            pass
    async for _ in service.find_garbage():
        pass
    await service.delete_session(**_WHO, session_id="session")

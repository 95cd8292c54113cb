"""Decide which documents a query returns, and in which order: Firestore's, across all types."""

from collections.abc import Mapping
from typing import Any, Final

from gcp_adk_store.codec.writes import ABSENT, Filter, Operator, Page, field_path, order_of, value_at
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.local.encoding import below, collection_key, document_key

_SELECT: Final = "SELECT id, key, update_time, fields, pieces FROM documents WHERE "


Candidate = tuple[Any, bytes]
"""The value by which a document is ordered that a query may return, and its key."""


def compile_query(
    parent: str, collection: str, *, all_descendants: bool, page: Page | None
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement for the candidates of a query, in the order of their names, and its parameters.

    Raises:
        InvalidInputError: a name or the number of documents is invalid.
    """
    conditions: list[str] = []
    parameters: list[Any] = []
    if collection or not (all_descendants and parent):  # without an id: all collections below the parent
        conditions, parameters = ["parent = ?"], [collection_key(parent, collection)]
        if all_descendants:
            conditions, parameters = ["collection = ?"], [collection]
    if all_descendants and parent:
        conditions += ["key >= ?", "key < ?"]
        parameters += below(document_key(parent))
    if page is not None and page.limit < 0:
        raise InvalidInputError(f"a query of {page.limit} documents; pass 0 or more")
    by_fields = page is not None and (page.field is not None or bool(page.filters))
    if by_fields and all_descendants and parent:
        raise InvalidInputError("Firestore finds all descendants of a document by name alone; pass no field")
    if page is not None and page.field is None and page.after is not None:
        conditions.append("key < ?" if page.descending else "key > ?")
        parameters.append(document_key(page.after[1]))
    if page is not None and page.within.start is not None:
        conditions.append("key >= ?")
        parameters.append(document_key(page.within.start))
    if page is not None and page.within.end is not None:
        conditions.append("key < ?")
        parameters.append(document_key(page.within.end))
    direction = "DESC" if page is not None and page.descending else "ASC"
    sql = f"{_SELECT}{' AND '.join(conditions)} ORDER BY key {direction}"
    if page is not None and page.field is None and not page.filters:
        return f"{sql} LIMIT ?", (*parameters, page.limit)
    return sql, tuple(parameters)


def meets(page: Page, fields: Mapping[str, Any]) -> bool:
    """Return whether a document has the field of the page's order, and meets the filters."""
    if not all(_holds(each, value_at(fields, field_path(each.field))) for each in page.filters):
        return False
    return page.field is None or value_at(fields, field_path(page.field)) is not ABSENT


def _holds(condition: Filter, found: Any) -> bool:
    if condition.operator is Operator.CONTAINS:
        return isinstance(found, list) and any(_is_same(condition.value, item) for item in found)
    if condition.operator is Operator.EQUAL:
        return _is_same(condition.value, found)
    if found is ABSENT:
        return False
    least, value = order_of(condition.value), order_of(found)
    return bool(value[:1] == least[:1] and value > least)


def _is_same(wanted: str | float, found: Any) -> bool:
    return found is not ABSENT and order_of(wanted) == order_of(found)


def ordered(found: list[Candidate], page: Page) -> list[Candidate]:
    """Return the part of *found* that the page asks for, in its order."""
    if page.field is not None:
        found = sorted(found, reverse=page.descending)
        if page.after is not None:
            after = (order_of(page.after[0]), document_key(page.after[1]))
            found = [one for one in found if (one < after if page.descending else one > after)]
    return found[: page.limit]

"""Convert plain values to Firestore's protobuf messages and back."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from google.cloud.firestore_v1.types import common, document, firestore
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.writes import Delete, Document, FieldPath, Must, Operator, Page, Write

# The plain protobuf classes behind the proto-plus wrappers: the wrappers double the client time of a commit.

PbValue: Final = document.Value.pb()
PbDocumentMask: Final = common.DocumentMask.pb()
PbCommitRequest: Final = firestore.CommitRequest.pb()
PbCommitResponse: Final = firestore.CommitResponse.pb()
PbBatchGetRequest: Final = firestore.BatchGetDocumentsRequest.pb()
PbBatchGetResponse: Final = firestore.BatchGetDocumentsResponse.pb()
PbRunQueryRequest: Final = firestore.RunQueryRequest.pb()
PbRunQueryResponse: Final = firestore.RunQueryResponse.pb()
PbPartitionQueryRequest: Final = firestore.PartitionQueryRequest.pb()
PbPartitionQueryResponse: Final = firestore.PartitionQueryResponse.pb()
PbListenRequest: Final = firestore.ListenRequest.pb()
PbListenResponse: Final = firestore.ListenResponse.pb()

TARGET_REMOVED: Final = 2
TARGET_RESET: Final = 4

LARGE_BYTES: Final = 128 * 1024
"""A document over this size may hold so many fields that its conversion blocks for several milliseconds."""


_SCALARS: Final = frozenset({"string_value", "boolean_value", "integer_value", "double_value", "bytes_value"})
_ASCENDING: Final = 1
_PARTITIONS_AT_ONCE: Final = 1000
_DESCENDING: Final = 2
_AND: Final = 1
_OPERATORS: Final = {Operator.OVER: 3, Operator.EQUAL: 5, Operator.CONTAINS: 7}


def to_value(value: FieldValue) -> Any:
    """Return the ``Value`` message of a field."""
    message = PbValue()
    put_value(message, value)
    return message


def put_value(message: Any, value: FieldValue) -> None:
    """Fill the ``Value`` *message* of a field in place: a copy of a new message costs twice as much."""
    match value:
        case str():
            message.string_value = value
        case None:
            message.null_value = 0
        case bool():
            message.boolean_value = value
        case int():
            message.integer_value = value
        case float():
            message.double_value = value
        case dict():
            message.map_value.SetInParent()  # marks an empty map as a map
            put_fields(message.map_value.fields, value)
        case list():
            message.array_value.SetInParent()
            put_values(message.array_value.values, value)
        case bytes():
            message.bytes_value = value
        case datetime():
            message.timestamp_value.FromDatetime(value)
        case _:
            assert_never(value)  # an empty message would be another value


def put_values(messages: Any, values: Iterable[FieldValue]) -> None:
    """Fill the ``Value`` *messages* of an array."""
    for value in values:
        put_value(messages.add(), value)


def put_fields(messages: Any, fields: Mapping[str, FieldValue]) -> None:
    """Fill the ``Value`` *messages* of a document's or a map's fields."""
    for name, value in fields.items():
        put_value(messages[name], value)


def from_value(value: Any) -> FieldValue | Foreign:
    """Return the field in a ``Value`` message, or :class:`Foreign` for kinds that this library never writes.

    A deployment may add such a field for itself, for example a reference; only a reader that needs the field
    refuses it.
    """
    kind = value.WhichOneof("value_type")
    if kind in _SCALARS:
        scalar: str | bool | int | float | bytes = getattr(value, kind)
        return scalar
    match kind:
        case "array_value":
            return [from_value(item) for item in value.array_value.values]
        case "map_value":
            return from_fields(value.map_value.fields)
        case "timestamp_value":
            time: datetime = value.timestamp_value.ToDatetime(tzinfo=UTC)
            return time
        case "null_value" | None:
            return None
    return Foreign(kind)


def from_fields(fields: Mapping[str, Any]) -> dict[str, FieldValue | Foreign]:
    """Return the fields of a document or a map."""
    return {name: from_value(value) for name, value in fields.items()}


def from_document(message: Any, *, root: str, read_time: float) -> Document:
    """Return a document with its path below *root*, in its state at *read_time*."""
    return Document(
        path=message.name.removeprefix(f"{root}/"),
        fields=from_fields(message.fields),
        update_time=from_timestamp(message.update_time),
        read_time=read_time,
    )


def from_timestamp(stamp: Timestamp) -> str:
    """Return a time as ``seconds.nanoseconds``, which is exact and sorts as text."""
    return f"{stamp.seconds}.{stamp.nanos:09d}"


def to_seconds(stamp: Timestamp) -> float:
    """Return a time as Unix time in seconds, to the microsecond."""
    return stamp.seconds + stamp.nanos / 1e9


def put_timestamp(message: Any, text: str) -> None:
    """Fill a ``Timestamp`` from the text of :func:`from_timestamp`; an empty text is time 0."""
    seconds, _, nanos = text.partition(".")
    message.seconds = int(seconds or 0)
    message.nanos = int(nanos or 0)


def put_write(message: Any, item: Write | Delete, *, root: str) -> None:
    """Fill the ``Write`` *message* of *item*."""
    name = f"{root}/{item.path}"
    if isinstance(item, Delete):
        message.delete = name
    else:
        message.update.name = name
        put_fields(message.update.fields, item.fields)
        if item.mask is not None:
            message.update_mask.SetInParent()  # an empty mask keeps all fields, a missing one replaces them
            message.update_mask.field_paths.extend(_paths(item.mask))
        for field, values in item.union.items():
            added = message.update_transforms.add(field_path=field).append_missing_elements
            added.SetInParent()  # marks an empty document as a write
            put_values(added.values, values)
        for field, amount in item.increment.items():
            message.update_transforms.add(field_path=field).increment.integer_value = amount
    match item.must:
        case Must.BE_ABSENT:
            message.current_document.exists = False
        case str():
            put_timestamp(message.current_document.update_time, item.must)


def to_page(page: Page, *, root: str) -> dict[str, Any]:
    """Return conditions, order, limit and start of a structured query."""
    direction = _DESCENDING if page.descending else _ASCENDING
    fields = [{"field_path": field} for field in (page.field, "__name__") if field is not None]
    query: dict[str, Any] = {
        "order_by": [{"field": field, "direction": direction} for field in fields],
        "limit": {"value": page.limit},
    }
    conditions = [
        {
            "field_filter": {
                "field": {"field_path": each.field},
                "op": _OPERATORS[each.operator],
                "value": to_value(each.value),
            }
        }
        for each in page.filters
    ]
    if len(conditions) == 1:
        query["where"] = conditions[0]
    elif conditions:
        query["where"] = {"composite_filter": {"op": _AND, "filters": conditions}}
    if page.after is not None:
        value, path = page.after
        found = PbValue(double_value=value) if isinstance(value, float) else to_value(value)
        at = [found, _reference(path, root)]
        query["start_at"] = {"values": at[-len(fields) :], "before": False}
    elif page.within.start is not None:
        query["start_at"] = {"values": [_reference(page.within.start, root)], "before": True}
    if page.within.end is not None:
        query["end_at"] = {"values": [_reference(page.within.end, root)], "before": True}
    return query


def to_partition_query(root: str, collection: str, *, most: int) -> Any:
    """Return the request for at most *most* paths that split all collections of an id."""
    return PbPartitionQueryRequest(
        parent=root,
        structured_query={
            "from_": [{"collection_id": collection, "all_descendants": True}],
            "order_by": [{"field": {"field_path": "__name__"}, "direction": _ASCENDING}],
        },
        partition_count=most,
        page_size=min(most, _PARTITIONS_AT_ONCE),
    )


def from_partitions(answer: Any, *, root: str) -> list[str]:
    """Return the paths below *root* in the answer to :func:`to_partition_query`."""
    return [cursor.values[0].reference_value.removeprefix(f"{root}/") for cursor in answer.partitions]


def _reference(path: str, root: str) -> Any:
    return PbValue(reference_value=f"{root}/{path}")


def _paths(mask: Sequence[FieldPath]) -> list[str]:
    # Escaped names never contain a backtick or backslash, so that quotes are always correct.
    return [".".join([path[0], *(f"`{name}`" for name in path[1:])]) for path in mask]

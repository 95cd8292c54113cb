"""Convert plain values to Firestore's protobuf messages and back."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from google.cloud.firestore_v1.types import common, document, firestore, write
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store.codec.values import FieldValue, Foreign
from gcp_adk_store.codec.writes import Delete, Document, FieldPath, Must, Page, Write

# The plain protobuf classes behind the proto-plus wrappers: building the wrappers costs as much client
# time again as the whole commit.
PbValue: Final = document.Value.pb()
PbDocument: Final = document.Document.pb()
PbWrite: Final = write.Write.pb()
PbPrecondition: Final = common.Precondition.pb()
PbDocumentMask: Final = common.DocumentMask.pb()
PbCommitRequest: Final = firestore.CommitRequest.pb()
PbCommitResponse: Final = firestore.CommitResponse.pb()
PbBatchGetRequest: Final = firestore.BatchGetDocumentsRequest.pb()
PbBatchGetResponse: Final = firestore.BatchGetDocumentsResponse.pb()
PbRunQueryRequest: Final = firestore.RunQueryRequest.pb()
PbRunQueryResponse: Final = firestore.RunQueryResponse.pb()


_ASCENDING: Final = 1
_DESCENDING: Final = 2
_EQUAL: Final = 5


def to_value(value: FieldValue) -> Any:  # noqa: PLR0911  # one for each kind of field
    """Return the ``Value`` message of a field."""
    match value:
        case None:
            return PbValue(null_value=0)
        case bool():
            return PbValue(boolean_value=value)
        case int():
            return PbValue(integer_value=value)
        case float():
            return PbValue(double_value=value)
        case str():
            return PbValue(string_value=value)
        case bytes():
            return PbValue(bytes_value=value)
        case datetime():
            stamp = Timestamp()
            stamp.FromDatetime(value)
            return PbValue(timestamp_value=stamp)
        case list():
            return PbValue(array_value={"values": [to_value(item) for item in value]})
        case dict():
            return PbValue(map_value={"fields": to_fields(value)})


def to_fields(fields: Mapping[str, FieldValue]) -> dict[str, Any]:
    """Return the ``Value`` messages of a document's or a map's fields."""
    return {name: to_value(value) for name, value in fields.items()}


def from_value(value: Any) -> FieldValue | Foreign:  # noqa: PLR0911  # as above
    """Return the field in a ``Value`` message; what this library never writes as :class:`Foreign`.

    A reference that a deployment adds for itself, for one, is nobody's business here: only who needs the
    field has to refuse it.
    """
    kind = value.WhichOneof("value_type")
    if kind == "string_value":
        text: str = value.string_value
        return text
    if kind == "array_value":
        return [from_value(item) for item in value.array_value.values]
    if kind == "map_value":
        return from_fields(value.map_value.fields)
    if kind in ("null_value", None):
        return None
    if kind == "timestamp_value":
        time: datetime = value.timestamp_value.ToDatetime(tzinfo=UTC)
        return time
    if kind in ("boolean_value", "integer_value", "double_value", "bytes_value"):
        scalar: bool | int | float | bytes = getattr(value, kind)
        return scalar
    return Foreign(kind)


def from_fields(fields: Mapping[str, Any]) -> dict[str, FieldValue | Foreign]:
    """Return the fields of a document or a map."""
    return {name: from_value(value) for name, value in fields.items()}


def from_document(message: Any, *, root: str) -> Document:
    """Return a document with its path below *root*."""
    return Document(
        path=message.name.removeprefix(f"{root}/"),
        fields=from_fields(message.fields),
        update_time=from_timestamp(message.update_time),
    )


def from_timestamp(stamp: Timestamp) -> str:
    """Return a time as ``seconds.nanoseconds``, exact and comparable as it is."""
    return f"{stamp.seconds}.{stamp.nanos:09d}"


def to_timestamp(text: str) -> Timestamp:
    """Return the time that :func:`from_timestamp` spelled; an empty text is the epoch's start."""
    seconds, _, nanos = text.partition(".")
    return Timestamp(seconds=int(seconds or 0), nanos=int(nanos or 0))


def to_write(item: Write | Delete, *, root: str) -> Any:
    """Return the ``Write`` message of *item*."""
    name = f"{root}/{item.path}"
    condition = _precondition(item.must)
    if isinstance(item, Delete):
        return PbWrite(delete=name, current_document=condition)
    transforms: list[dict[str, Any]] = [
        {"field_path": field, "append_missing_elements": {"values": [to_value(v) for v in values]}}
        for field, values in item.union.items()
    ]
    transforms += [
        {"field_path": field, "increment": PbValue(integer_value=amount)}
        for field, amount in item.increment.items()
    ]
    return PbWrite(
        update=PbDocument(name=name, fields=to_fields(item.fields)),
        update_mask=None if item.mask is None else PbDocumentMask(field_paths=_paths(item.mask)),
        update_transforms=transforms,
        current_document=condition,
    )


def to_page(page: Page, *, root: str) -> dict[str, Any]:
    """Return condition, order, limit and start of a structured query."""
    direction = _DESCENDING if page.descending else _ASCENDING
    fields = [{"field_path": field} for field in (page.field, "__name__") if field is not None]
    query: dict[str, Any] = {
        "order_by": [{"field": field, "direction": direction} for field in fields],
        "limit": {"value": page.limit},
    }
    if page.where is not None:
        field, wanted = page.where
        query["where"] = {
            "field_filter": {"field": {"field_path": field}, "op": _EQUAL, "value": to_value(wanted)}
        }
    if page.after is not None:
        value, path = page.after
        at = [PbValue(double_value=value), PbValue(reference_value=f"{root}/{path}")]
        query["start_at"] = {"values": at[-len(fields) :], "before": False}
    return query


def _precondition(must: Must | str | None) -> Any:
    match must:
        case None:
            return None
        case Must.BE_ABSENT:
            return PbPrecondition(exists=False)
        case str():
            return PbPrecondition(update_time=to_timestamp(must))


def _paths(mask: Sequence[FieldPath]) -> list[str]:
    # Names are escaped so that they hold no backtick or backslash: quoting them is always right.
    return [".".join([path[0], *(f"`{name}`" for name in path[1:])]) for path in mask]

"""Show that plain values, conditions and paths become the protobuf messages that Firestore expects."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud.firestore_v1.types import document, write
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import assume, given
from hypothesis import strategies as st

from gcp_adk_store.cloud.firestore.values import (
    PbValue,
    from_document,
    from_timestamp,
    from_value,
    put_timestamp,
    put_write,
    to_value,
)
from gcp_adk_store.codec.values import FieldValue, Foreign
from gcp_adk_store.codec.writes import Delete, Document, Must, Write

PbDocument = document.Document.pb()
PbWrite = write.Write.pb()
ROOT = "projects/p/databases/(default)/documents"
LAST_YEAR, LAST_SECOND = 9999, 253402300799  # as far as Firestore's times go
TIMES = st.integers(0, LAST_SECOND).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
FIELDS: st.SearchStrategy[FieldValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | TIMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(FIELDS)
def test_a_field_survives_the_wire(field: FieldValue) -> None:
    """Every kind of field, nested or empty, comes back from its serialised bytes with its exact type."""
    message = PbValue.FromString(to_value(field).SerializeToString())

    assert shown(field) == shown(from_value(message))


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (None, "null_value"),
        (False, "boolean_value"),
        (0, "integer_value"),
        (0.0, "double_value"),
        ("", "string_value"),
        (b"", "bytes_value"),
        ([], "array_value"),
        ({}, "map_value"),
    ],
)
def test_an_empty_field_is_still_of_its_kind(field: FieldValue, kind: str) -> None:
    """Zero, false and empty are stored as such, not as absent."""
    assert kind == to_value(field).WhichOneof("value_type")


@pytest.mark.parametrize(
    "message",
    [
        PbValue(reference_value="projects/p"),
        PbValue(geo_point_value={"latitude": 1.0}),
    ],
)
def test_a_kind_that_is_never_written_is_not_guessed_at(message: Any) -> None:
    """A field that another program put there keeps its place, and nothing but its kind is known of it."""
    foreign = Foreign(message.WhichOneof("value_type"))
    found = from_document(
        PbDocument(
            name=f"{ROOT}/adk_apps/a",
            fields={
                "own": message,
                "list": PbValue(array_value={"values": [message]}),
                "map": PbValue(map_value={"fields": {"k": message}}),
            },
        ),
        root=ROOT,
        read_time=0.0,
    )

    assert {"own": foreign, "list": [foreign], "map": {"k": foreign}} == found.fields


@given(TIMES, st.integers(-14, 14))
def test_a_field_with_a_time_survives_the_wire(time: datetime, hours: int) -> None:
    """A whole second comes back as the same one in UTC and aware of it, whatever zone it was told in."""
    assume(time.year < LAST_YEAR)
    told = time.astimezone(timezone(timedelta(hours=hours)))
    message = PbValue.FromString(to_value(told).SerializeToString())

    assert "timestamp_value" == message.WhichOneof("value_type")
    assert repr(time) == repr(from_value(message))


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00Z"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2026-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "9999-12-31T23:59:59Z"),
    ],
)
def test_a_field_with_a_time_is_one_that_firestore_can_expire(time: datetime, text: str) -> None:
    """A time to live acts on a timestamp alone, not on a number or a text that looks like one."""
    assert {"timestampValue": text} == MessageToDict(to_value(time))


@given(st.integers(0, LAST_SECOND), st.integers(0, 999_999_999))
def test_a_time_is_exact(seconds: int, nanos: int) -> None:
    """An update time keeps its nanoseconds, or the next append would be refused."""
    stamp = Timestamp(seconds=seconds, nanos=nanos)

    assert stamp == timestamp(from_timestamp(stamp))


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("5.000000007", Timestamp(seconds=5, nanos=7)),
        ("1761177600.120000000", Timestamp(seconds=1761177600, nanos=120_000_000)),
    ],
)
def test_a_time_is_encoded_as_documented(text: str, stamp: Timestamp) -> None:
    """Handles carry this encoding from one release to the next."""
    assert (text, stamp) == (from_timestamp(stamp), timestamp(text))


def test_an_unknown_time_is_one_that_no_document_has() -> None:
    """A condition on an empty time is sent, and can only fail."""
    assert Timestamp() == timestamp("")


def test_a_document_is_read_below_the_root() -> None:
    """Paths are the layout's own, fields are plain, its own time is exact."""
    message = PbDocument(
        name=f"{ROOT}/adk_apps/a", fields={"n": to_value(1)}, update_time=Timestamp(seconds=5, nanos=7)
    )

    assert Document(
        path="adk_apps/a", fields={"n": 1}, update_time="5.000000007", read_time=6.5
    ) == from_document(message, root=ROOT, read_time=6.5)


def test_a_masked_write_is_encoded_out() -> None:
    """An append's message: masked fields, the union before the increments, the time as condition."""
    message = written(
        Write(
            path="c/d",
            fields={"rev": 8, "state": {"a.b": None, "%5F_x__": "t"}},
            mask=[("rev",), ("state", "a.b"), ("state", "%5F_x__")],
            union={"tail": ["x", "y"]},
            increment={"tail_bytes": 7, "rev": 1},
            must="5.000000007",
        )
    )

    assert {
        "update": {
            "name": f"{ROOT}/c/d",
            "fields": {
                "rev": {"integerValue": "8"},
                "state": {
                    "mapValue": {"fields": {"a.b": {"nullValue": None}, "%5F_x__": {"stringValue": "t"}}}
                },
            },
        },
        "updateMask": {"fieldPaths": ["rev", "state.`a.b`", "state.`%5F_x__`"]},
        "updateTransforms": [
            {
                "fieldPath": "tail",
                "appendMissingElements": {"values": [{"stringValue": "x"}, {"stringValue": "y"}]},
            },
            {"fieldPath": "tail_bytes", "increment": {"integerValue": "7"}},
            {"fieldPath": "rev", "increment": {"integerValue": "1"}},
        ],
        "currentDocument": {"updateTime": "1970-01-01T00:00:05.000000007Z"},
    } == MessageToDict(message)


def test_a_union_with_nothing_is_still_a_transform() -> None:
    """One without its kind is no transform, and the whole commit would be refused."""
    message = written(Write(path="c/d", fields={}, union={"tail": []}))

    assert [{"fieldPath": "tail", "appendMissingElements": {}}] == MessageToDict(message)["updateTransforms"]


@pytest.mark.parametrize("value", [("a", "b"), {"k": [frozenset()]}])
def test_what_is_no_field_is_never_sent_as_an_empty_one(value: Any) -> None:
    """A mistake of the codec's is told, not stored."""
    with pytest.raises(AssertionError):
        to_value(value)


@pytest.mark.parametrize(
    ("must", "condition"),
    [
        (None, None),
        (Must.BE_ABSENT, {"exists": False}),
        ("", {"updateTime": "1970-01-01T00:00:00Z"}),
        ("1.500000000", {"updateTime": "1970-01-01T00:00:01.500Z"}),
    ],
)
def test_a_condition_is_sent_as_it_was_set(
    must: Must | str | None, condition: dict[str, object] | None
) -> None:
    """No condition is none, and an unknown update time is not mistaken for none."""
    sent = MessageToDict(written(Write(path="c/d", fields={}, must=must)))

    assert condition == sent.get("currentDocument")


@pytest.mark.parametrize(("mask", "sent"), [(None, None), ([], {}), ([("a",)], {"fieldPaths": ["a"]})])
def test_no_mask_replaces_and_an_empty_one_does_not(
    mask: list[tuple[str, ...]] | None, sent: dict[str, list[str]] | None
) -> None:
    """A document is replaced only by a write without a mask."""
    message = MessageToDict(written(Write(path="c/d", fields={"a": 1}, mask=mask)))

    assert sent == message.get("updateMask")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Delete(path="c/d"), {"delete": f"{ROOT}/c/d"}),
        (
            Delete(path="c/d", must="5.000000000"),
            {"delete": f"{ROOT}/c/d", "currentDocument": {"updateTime": "1970-01-01T00:00:05Z"}},
        ),
    ],
)
def test_a_delete_is_encoded_out(item: Delete, expected: dict[str, object]) -> None:
    """A delete names its document and, if asked, the time that it must have."""
    assert expected == MessageToDict(written(item))


def written(item: Write | Delete) -> Any:
    """Return the message of *item*."""
    message = PbWrite()
    put_write(message, item, root=ROOT)
    return message


def timestamp(text: str) -> Timestamp:
    """Return the message of a time."""
    stamp = Timestamp()
    put_timestamp(stamp, text)
    return stamp


def shown(field: FieldValue | Foreign) -> str:
    """Return *field* so that 1, 1.0, True and -0.0 differ, and the order of map keys does not count."""
    if isinstance(field, dict):
        return "{" + ",".join(f"{name!r}:{shown(field[name])}" for name in sorted(field)) + "}"
    if isinstance(field, list):
        return "[" + ",".join(map(shown, field)) + "]"
    return repr(field)

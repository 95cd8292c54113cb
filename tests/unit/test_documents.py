"""Show the exact writes of a session's life: what format 2 puts where, under which condition."""

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.documents import Deletion, Layout
from gcp_adk_store.codec.packing import pack_segment
from gcp_adk_store.codec.spilling import CHUNK_BYTES
from gcp_adk_store.codec.stored import (
    HEADER_FIELDS,
    HEADER_WITHOUT_STATE,
    read_chunk,
    read_header,
    read_segment,
    read_session,
    read_state,
)
from gcp_adk_store.codec.turns import WaitingMessage, ended, turn_fields, write_turn
from gcp_adk_store.codec.writes import Delete, Document, Must, Write
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.history import digests_of, genesis, step
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import MAX_TTL_S, PARTS_GRACE_S, Expiry, Turn, Turns
from gcp_adk_store.model.sessions import Append, Marker, Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.lifecycle.format import read_deletions

LAYOUT = Layout("adk")
KEY = SessionKey(app="shop", user="u/1", session="__s__")
APP = "adk_apps/shop"
USER = f"{APP}/adk_users/u%2F1"
SESSION = f"{USER}/adk_sessions/%5F_s__"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEW_YEAR, NEXT_DAY = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
ENDING = Expiry(ttl_s=60, at=1767225600)
ENDING_WITH_PARTS = replace(ENDING, parts_at=1767312000)
LAST_SECOND = 253402300799  # of the year 9999, as far as Firestore's times go
GRACE = timedelta(seconds=PARTS_GRACE_S)

HEAD, SEALED_HEAD = bytes(range(32)), bytes(range(32, 64))
BEGUN = genesis("e1")
REF = PayloadRef(sha256="ab" * 32, size=5, place=PayloadPlace.BUCKET)

STORED = StoredSession(
    key=KEY,
    epoch="e1",
    revision=7,
    last_update_time=9.5,
    state={"k": [1], "": None},
    tail=["x", "y"],
    sealed=2,
    sealed_max=8.5,
    spilled=frozenset(),
    update_time="100.000000001",
    read_time=100.5,
    expiry=ENDING_WITH_PARTS,
    chain=HEAD,
    chain_sealed=SEALED_HEAD,
    create_time=1.5,
    restores=3,
    redactions=2,
    restore_id="r3",
    cut=(range(1),),
    turns=Turns(count=3, last="ab" * 8),
    turn=Turn(fence=3, holder="host-1-x", until=1767225600.0, abort=True),
)
LISTED = replace(STORED, tail=[], chain_sealed=b"", create_time=None, restore_id=None)
HEADER: dict[str, Any] = {
    "format": 2,
    "epoch": "e1",
    "app": "shop",
    "user": "u/1",
    "id": "__s__",
    "rev": 7,
    "create_time": 1.5,
    "last_update_time": 9.5,
    "state": {"k": {"json": "[1]"}, "%": None},
    "sealed": 2,
    "sealed_max": 8.5,
    "spilled": [],
    "ttl_s": 60,
    "expire_at": NEW_YEAR,
    "parts_expire_at": NEXT_DAY,
    "chain": HEAD,
    "restores": 3,
    "cut": [{"from": 0, "to": 0}],
    "redactions": 2,
    "turns": 3,
    "last_turn": "ab" * 8,
    "turn": {"fence": 3, "holder": "host-1-x", "until": NEW_YEAR, "abort": True},
}
WHOLE = {**HEADER, "tail": ["x", "y"], "tail_bytes": 2, "chain_sealed": SEALED_HEAD, "restore_id": "r3"}
OPTIONAL = ("format", "spilled", "ttl_s", "parts_expire_at", "restores", "cut", "redactions", "turns", "turn")
BODY: dict[str, Any] = {
    "format": 2,
    "body": pack_segment(["x", "y"]),
    "count": 2,
    "running_max": 8.5,
    "chain_begin": SEALED_HEAD,
    "chain_end": HEAD,
}


def document(fields: dict[str, Any]) -> Document:
    """Return *fields* as they are read from the session's path."""
    return Document(path=SESSION, fields=fields, update_time="100.000000001", read_time=100.5)


def test_paths_hold_escaped_ids_below_the_prefix() -> None:
    """Documents are found by these paths: changing one loses data."""
    assert [APP, USER, SESSION] == [LAYOUT.app("shop"), LAYOUT.user(KEY.owner), LAYOUT.session(KEY)]
    assert [f"{SESSION}/adk_segments/e1-2", f"{SESSION}/adk_segments/e1-3"] == LAYOUT.segments(
        KEY, "e1", range(2, 4)
    )
    assert ("adk_sessions", "adk_deletions") == (LAYOUT.sessions_collection, LAYOUT.deletions_collection)


def test_prefixes_share_no_collection() -> None:
    """Two stores in one database have no collection's name in common, at any level."""
    paths = [layout.segments(KEY, "e1", range(1))[0].split("/")[::2] for layout in (Layout("a"), Layout("b"))]

    assert [
        ["a_apps", "a_users", "a_sessions", "a_segments"],
        ["b_apps", "b_users", "b_sessions", "b_segments"],
    ] == paths


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (SessionKey(app="a" * 1501, user="u", session="s"), "app_name"),
        (SessionKey(app="a", user="/" * 501, session="s"), "user_id"),
        (SessionKey(app="a", user="u", session="ü" * 751), "session_id"),
    ],
)
def test_an_id_too_long_for_a_path_names_its_field(key: SessionKey, field: str) -> None:
    """Which of the three ids is too long is told in ADK's names for them."""
    with pytest.raises(InvalidInputError, match=f"^{field} takes "):
        LAYOUT.session(key)


def test_a_creation_writes_a_whole_header_and_touched_scopes() -> None:
    """A new session is complete at once, must not exist yet, and merges its app and user state."""
    state = ScopedState(app={"a": 1}, user={"u.x": [2]}, session={"s": "t", "": None})

    assert [
        Write(
            path=SESSION,
            fields={
                "format": 2,
                "epoch": "e1",
                "app": "shop",
                "user": "u/1",
                "id": "__s__",
                "rev": 0,
                "create_time": 1.5,
                "last_update_time": 1.5,
                "state": {"s": "t", "%": None},
                "initial": {"s": "t", "%": None},
                "chain": BEGUN,
                "chain_sealed": BEGUN,
                "turns": 0,
                "last_turn": "",
                "last_text": "",
                "tail": [],
                "digests": [],
                "tail_bytes": 0,
                "sealed": 0,
                "sealed_max": None,
            },
            must=Must.BE_ABSENT,
        ),
        Write(path=APP, fields={"format": 1, "state": {"a": 1}}, mask=[("format",), ("state", "a")]),
        Write(
            path=USER,
            fields={"format": 1, "state": {"u.x": {"json": "[2]"}}},
            mask=[("format",), ("state", "u.x")],
        ),
    ] == LAYOUT.create(KEY, epoch="e1", time=1.5, state=state)


def test_a_large_initial_state_is_kept_as_a_payload() -> None:
    """It does not lie beside the present one, with which it shares the limit of a document."""
    (write,) = LAYOUT.create(KEY, epoch="e1", time=1.5, state=ScopedState(session={"s": 1}), initial=REF)

    assert {"sha256": "ab" * 32, "size": 5, "in": "bucket"} == write.fields["initial_payload"]
    assert "initial" not in write.fields
    assert {"s": 1} == write.fields["state"]


def test_a_creation_without_shared_state_writes_one_document() -> None:
    """App and user documents are left alone, and unbilled, unless their state changes."""
    writes = LAYOUT.create(KEY, epoch="e1", time=1.5, state=ScopedState(session={"s": 1}))

    assert [SESSION] == [write.path for write in writes]


def test_an_append_writes_only_what_changed() -> None:
    """One event and its changed keys go out under the update time that the handle saw."""
    append = Append(
        texts=('{"ü":1}',),
        timestamp=9.5,
        delta=ScopedState(app={"a": 1}, user={"u": None}, session={"s": 2, "__t__": {"x": 1}}),
    )
    marker = Marker(epoch="e1", revision=7, update_time="100.000000001", chain=HEAD)

    assert [
        Write(
            path=SESSION,
            fields={
                "last_update_time": 9.5,
                "rev": 8,
                "chain": step(HEAD, '{"ü":1}'),
                "state": {"s": 2, "%5F_t__": {"json": '{"x":1}'}},
            },
            mask=[("last_update_time",), ("rev",), ("chain",), ("state", "s"), ("state", "%5F_t__")],
            union={"tail": ['{"ü":1}'], "digests": digests_of(['{"ü":1}'])},
            increment={"tail_bytes": 8},
            must="100.000000001",
        ),
        Write(path=APP, fields={"format": 1, "state": {"a": 1}}, mask=[("format",), ("state", "a")]),
        Write(path=USER, fields={"format": 1, "state": {"u": None}}, mask=[("format",), ("state", "u")]),
    ] == LAYOUT.append(KEY, append, marker)


@pytest.mark.parametrize(
    ("revision", "turns", "turn", "text", "fields"),
    [
        (7, Turns(), "a" * 16, "hi", {"turns": 1, "last_turn": "a" * 16, "last_text": "hi"}),
        (7, Turns(count=3, last="b" * 16), "a" * 16, None, {"turns": 4, "last_turn": "a" * 16}),
        (7, Turns(count=3, last="a" * 16), "a" * 16, "hi", {"last_text": "hi"}),
        (7, Turns(count=3, last="a" * 16), None, None, {}),
        (7, None, "a" * 16, "hi", {"last_text": "hi"}),
        (0, Turns(), None, None, {"turns": 0, "last_turn": ""}),
    ],
)
def test_an_append_writes_what_it_changes_of_the_summary(
    revision: int, turns: Turns | None, turn: str | None, text: str | None, fields: dict[str, Any]
) -> None:
    """Absolute numbers, which hold under the required update time; unknown turns stay unknown."""
    append = Append(
        texts=("{}",), timestamp=9.5, delta=ScopedState(), turns=(turn,) if turn else (), last_text=text
    )
    marker = Marker(epoch="e1", revision=revision, update_time="100.000000001", chain=HEAD, turns=turns)
    (write,) = LAYOUT.append(KEY, append, marker)
    always = {"last_update_time": 9.5, "rev": revision + 1, "chain": step(HEAD, "{}")}

    assert {**always, **fields} == write.fields
    assert [(name,) for name in write.fields] == write.mask


@pytest.mark.parametrize(
    ("expiry", "fields"),
    [
        (ENDING, {"ttl_s": 60, "expire_at": NEW_YEAR}),
        (ENDING_WITH_PARTS, {"ttl_s": 60, "expire_at": NEW_YEAR, "parts_expire_at": NEXT_DAY}),
    ],
)
def test_a_creation_writes_when_the_session_ends(expiry: Expiry, fields: dict[str, Any]) -> None:
    """As times that Firestore expires documents by, with the time to live that moves them."""
    (plain,) = LAYOUT.create(KEY, epoch="e1", time=1.5, state=ScopedState())
    (ending,) = LAYOUT.create(KEY, epoch="e1", time=1.5, state=ScopedState(), expiry=expiry)

    assert replace(plain, fields={**plain.fields, **fields}) == ending
    assert {"ttl_s", "expire_at", "parts_expire_at"}.isdisjoint(plain.fields)


def test_shared_state_never_ends() -> None:
    """A session takes neither its app's nor its user's state along."""
    state = ScopedState(app={"a": 1}, user={"u": 2})
    append = Append(texts=("{}",), timestamp=9.5, delta=state)
    created = LAYOUT.create(KEY, epoch="e1", time=1.5, state=state, expiry=ENDING_WITH_PARTS)
    appended = LAYOUT.append(KEY, append, STORED.marker, ENDING_WITH_PARTS)

    assert [{"format", "state"}] * 4 == [set(write.fields) for write in (*created[1:], *appended[1:])]


@pytest.mark.parametrize(
    ("expiry", "fields"),
    [
        (ENDING, {"expire_at": NEW_YEAR}),
        (ENDING_WITH_PARTS, {"expire_at": NEW_YEAR, "parts_expire_at": NEXT_DAY}),
    ],
)
def test_an_append_moves_when_the_session_ends(expiry: Expiry, fields: dict[str, Any]) -> None:
    """The end goes out with the event, under the same condition; the time to live stays as it was made."""
    append = Append(texts=("{}",), timestamp=9.5, delta=ScopedState(session={"s": 2}))
    marker = Marker(epoch="e1", revision=7, update_time="100.000000001", expiry=ENDING, chain=HEAD)
    chained = {"chain": step(HEAD, "{}")}

    assert [
        Write(
            path=SESSION,
            fields={"last_update_time": 9.5, "rev": 8, **chained, **fields, "state": {"s": 2}},
            mask=[("last_update_time",), ("rev",), ("chain",), *((name,) for name in fields), ("state", "s")],
            union={"tail": ["{}"], "digests": digests_of(["{}"])},
            increment={"tail_bytes": 2},
            must="100.000000001",
        )
    ] == LAYOUT.append(KEY, append, marker, expiry)


def test_a_seal_moves_the_tail_in_one_commit() -> None:
    """The tail leaves the header and enters the next segment together, or neither happens."""
    header, segment = LAYOUT.seal(
        replace(STORED, expiry=None),
        Segment(texts=["x", "y"], running_max=9.5, chain_begin=SEALED_HEAD, chain_end=HEAD),
        now=10.0,
    )
    fields = dict(segment.fields)
    body = fields.pop("body")

    assert (
        Write(
            path=SESSION,
            fields={
                "tail": [],
                "digests": [],
                "tail_bytes": 0,
                "sealed": 3,
                "sealed_max": 9.5,
                "chain": HEAD,
                "chain_sealed": HEAD,
            },
            mask=[
                ("tail",),
                ("digests",),
                ("tail_bytes",),
                ("sealed",),
                ("sealed_max",),
                ("chain",),
                ("chain_sealed",),
            ],
            must="100.000000001",
        )
        == header
    )
    assert (f"{SESSION}/adk_segments/e1-2", Must.BE_ABSENT, None) == (
        segment.path,
        segment.must,
        segment.mask,
    )
    assert {
        "format": 2,
        "count": 2,
        "running_max": 9.5,
        "chain_begin": SEALED_HEAD,
        "chain_end": HEAD,
        "digests": b"".join(digests_of(["x", "y"])),
    } == fields
    assert isinstance(body, bytes)
    assert b'["x","y"]' == zlib.decompress(body)


@pytest.mark.parametrize(
    ("initial", "fields"),
    [
        ({"k": [1]}, {"initial": {"k": {"json": "[1]"}}}),
        ({}, {"initial": {}}),
        (REF, {"initial_payload": {"sha256": "ab" * 32, "size": 5, "in": "bucket"}}),
    ],
    ids=["some", "empty", "a payload"],
)
def test_the_first_seal_takes_the_initial_state_along(initial: Any, fields: dict[str, Any]) -> None:
    """The document gets rid of it, in the same commit."""
    stored = replace(STORED, expiry=None, sealed=0, sealed_max=None, initial=initial)
    first = Segment(texts=["x"], running_max=9.5, chain_begin=BEGUN, chain_end=HEAD, initial=initial)
    header, segment = LAYOUT.seal(stored, first, now=10.0)

    assert fields == {name: segment.fields[name] for name in fields}
    assert set(fields).isdisjoint(header.fields)
    assert [(name,) for name in fields] == [
        path for path in header.mask or () if path[0] not in header.fields
    ]
    assert first == replace(read_segment(document({**segment.fields})), texts=first.texts, digests=None)


@pytest.mark.parametrize(
    ("expiry", "parts_end"),
    [
        (ENDING, datetime(2026, 1, 1, 0, 1, 31, tzinfo=UTC)),
        (ENDING_WITH_PARTS, datetime(2026, 1, 1, 0, 1, 31, tzinfo=UTC)),
        (replace(ENDING, parts_at=1767225660), datetime(2026, 1, 1, 0, 1, tzinfo=UTC)),
    ],
    ids=["first part", "beside later ends", "beside an earlier end"],
)
def test_a_seal_writes_until_when_the_segment_is_kept(expiry: Expiry, parts_end: datetime) -> None:
    """For two times to live and the grace; the session's end stays, and the earliest end of a part counts."""
    segment = Segment(texts=["x", "y"], running_max=9.5, chain_begin=BEGUN, chain_end=HEAD)
    plain = LAYOUT.seal(replace(STORED, expiry=None), segment, now=1767225570.5)
    ending = LAYOUT.seal(replace(STORED, expiry=expiry), segment, now=1767225570.5)
    times = {"expire_at": NEW_YEAR, "parts_expire_at": parts_end}

    assert [
        replace(
            plain[0],
            fields={**plain[0].fields, **times},
            mask=[*(plain[0].mask or ()), ("expire_at",), ("parts_expire_at",)],
        ),
        replace(
            plain[1],
            fields={**plain[1].fields, "expire_at": datetime(2026, 1, 1, 1, 1, 31, tzinfo=UTC)},
        ),
    ] == ending
    assert "expire_at" not in plain[1].fields


@pytest.mark.parametrize(
    ("parts_at", "fields"),
    [(None, {}), (1767225600, {"expire_at": NEW_YEAR + GRACE}), (0, {"expire_at": EPOCH + GRACE})],
    ids=["for good", "for a time", "since the beginning of time"],
)
def test_each_chunk_of_a_payload_says_until_when_it_is_kept(
    parts_at: int | None, fields: dict[str, Any]
) -> None:
    """Firestore expires documents one by one: a payload of two chunks has its end, and the grace, in both."""
    data = b"x" * CHUNK_BYTES + b"y"
    payload = Payload.of(data, place=PayloadPlace.CHUNKS)
    start = f"{SESSION}/adk_chunks/e1-{payload.ref.sha256}"

    assert [
        Write(path=f"{start}-0", fields={"format": 1, "put_time": 5.5, "body": b"x" * CHUNK_BYTES, **fields}),
        Write(path=f"{start}-1", fields={"format": 1, "put_time": 5.5, "body": b"y", **fields}),
    ] == LAYOUT.put_chunks(LAYOUT.session_payloads(KEY, "e1"), payload, now=5.5, parts_at=parts_at)


@given(st.binary(max_size=100))
def test_a_chunk_is_read_as_it_was_put(data: bytes) -> None:
    """Whatever its bytes, an empty one too."""
    payload = Payload.of(data, place=PayloadPlace.CHUNKS)
    (chunk,) = LAYOUT.put_chunks(LAYOUT.session_payloads(KEY, "e1"), payload, now=5.5, parts_at=1767225600)

    assert data == read_chunk(document({**chunk.fields}))


def test_a_renewal_moves_the_end_of_what_is_there() -> None:
    """Nothing else is written, and only to what is as it was read: what is gone does not come back empty."""
    path = f"{SESSION}/adk_segments/e1-0"
    part = Document(path=path, fields={"expire_at": NEW_YEAR}, update_time="100.000000002", read_time=100.5)

    assert [
        Write(
            path=path,
            fields={"expire_at": NEXT_DAY + GRACE},
            mask=[("expire_at",)],
            must="100.000000002",
        )
    ] == LAYOUT.renewals([part], parts_at=1767312000)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"expire_at": NEXT_DAY + GRACE - timedelta(microseconds=1)}, 1),
        ({"expire_at": NEXT_DAY + GRACE}, 0),
        ({"expire_at": NEXT_DAY + GRACE + timedelta(microseconds=1)}, 0),
        ({"expire_at": NEXT_DAY}, 1),
        ({"expire_at": None}, 0),
        ({}, 0),
    ],
    ids=["less", "as long", "longer", "less the grace", "no time", "for good"],
)
def test_a_renewal_leaves_alone_what_is_kept_long_enough(fields: dict[str, Any], expected: int) -> None:
    """It costs no write then, and what never ends by itself gets no end."""
    assert expected == len(LAYOUT.renewals([document(fields)], parts_at=1767312000))


@given(st.lists(st.none() | st.integers(0, LAST_SECOND), max_size=6), st.integers(0, LAST_SECOND - 3600))
def test_no_renewal_moves_a_part_back(ends: list[int | None], parts_at: int) -> None:
    """After it each part is kept as long as it was, and as long as was asked for; a second writes none."""
    parts = [
        Document(
            path=f"{SESSION}/adk_segments/e1-{number}",
            fields={} if end is None else {"expire_at": datetime.fromtimestamp(end, UTC)},
            update_time=f"{number}.000000001",
            read_time=100.5,
        )
        for number, end in enumerate(ends)
    ]
    writes = {write.path: write for write in LAYOUT.renewals(parts, parts_at=parts_at)}
    renewed = [
        replace(part, fields=writes[part.path].fields) if part.path in writes else part for part in parts
    ]

    assert [
        None if end is None else datetime.fromtimestamp(max(end, parts_at + PARTS_GRACE_S), UTC)
        for end in ends
    ] == [part.fields.get("expire_at") for part in renewed]
    assert {part.path: part.update_time for part in parts if part.path in writes} == {
        path: write.must for path, write in writes.items()
    }
    assert [] == LAYOUT.renewals(renewed, parts_at=parts_at)


@given(st.integers(1, MAX_TTL_S), st.integers(0, 4_000_000_000), st.none() | st.integers(0, LAST_SECOND))
def test_no_part_is_reckoned_with_for_longer_than_it_is_kept(
    ttl_s: int, now: int, parts_at: int | None
) -> None:
    """What the header says holds of a new segment too, with the grace; nor is more said of the others."""
    stored = replace(STORED, expiry=Expiry(ttl_s=ttl_s, at=now + ttl_s, parts_at=parts_at))
    part = Segment(texts=["x"], running_max=9.5, chain_begin=BEGUN, chain_end=HEAD)
    header, segment = LAYOUT.seal(stored, part, now=now)
    reckoned, kept = header.fields["parts_expire_at"], segment.fields["expire_at"]

    assert isinstance(reckoned, datetime)
    assert isinstance(kept, datetime)
    assert reckoned + GRACE <= kept
    assert parts_at is None or reckoned <= datetime.fromtimestamp(parts_at, UTC)


def test_a_deletion_notes_what_is_left_to_remove() -> None:
    """The session goes at once; its segments are noted where a later call finds them."""
    assert [
        Delete(path=SESSION, must="100.000000001"),
        Write(
            path=f"{SESSION}/adk_deletions/e1",
            fields={"format": 1, "epoch": "e1", "sealed": 2},
        ),
    ] == LAYOUT.delete(STORED)


def test_a_deletion_without_segments_leaves_no_note() -> None:
    """A short session is gone in one write."""
    short = read_header(document({**HEADER, "sealed": 0, "sealed_max": None, "cut": []}))

    assert [Delete(path=SESSION, must="100.000000001")] == LAYOUT.delete(short)


def test_a_deletion_notes_where_payloads_lie() -> None:
    """They are removed after the session, like its segments."""
    with_payloads = read_header(
        document({**HEADER, "sealed": 0, "sealed_max": None, "cut": [], "spilled": ["chunks"]})
    )
    note: dict[str, Any] = {"format": 1, "epoch": "e1", "sealed": 0, "spilled": ["chunks"]}

    assert [
        Delete(path=SESSION, must="100.000000001"),
        Write(path=f"{SESSION}/adk_deletions/e1", fields=note),
    ] == LAYOUT.delete(with_payloads)


@pytest.mark.parametrize(
    "damage",
    [
        {"state": []},
        {"sealed": "two"},
        {"last_update_time": "x"},
        {"spilled": "moon"},
        {"app": 5},
        {"rev": None},
        {"rev": float("inf")},
        {"ttl_s": "x"},
        {"ttl_s": None},
        {"expire_at": 1767225600},
        {"expire_at": None},
        {"parts_expire_at": "2026-01-02"},
    ],
)
def test_a_field_of_a_wrong_kind_is_refused(damage: dict[str, Any]) -> None:
    """With the document's path, and without what the field holds."""
    with pytest.raises(StoredDataError, match=re.escape(f"{SESSION} has a field of a wrong kind")):
        read_header(document({**HEADER, **damage}))


def test_a_deletion_is_finished_by_its_own_note() -> None:
    """The note goes last, so that an interruption leaves something to go on from."""
    assert [
        Delete(path=f"{SESSION}/adk_segments/e1-0"),
        Delete(path=f"{SESSION}/adk_segments/e1-1"),
        Delete(path=f"{SESSION}/adk_deletions/e1"),
    ] == LAYOUT.finish_deletion(KEY, Deletion(epoch="e1", sealed=2, spilled=frozenset()))


def test_a_session_is_read_from_its_fields() -> None:
    """Ids come from fields, not from the path, and values have their types back."""
    assert STORED == read_session(document({**WHOLE, "later": 1}))


@pytest.mark.parametrize(
    ("fields", "initial"),
    [
        ({"initial": {"k": {"json": "[1]"}, "%": None}}, {"k": [1], "": None}),
        ({"initial": {}}, {}),
        ({"initial_payload": {"sha256": "ab" * 32, "size": 5, "in": "bucket"}}, REF),
        ({}, None),
    ],
)
def test_an_initial_state_is_read_from_the_document_or_the_first_segment(
    fields: dict[str, Any], initial: Any
) -> None:
    """With exact types; without one, a segment has it."""
    assert initial == read_session(document({**WHOLE, **fields})).initial
    assert initial == read_segment(document({**BODY, **fields})).initial


@pytest.mark.parametrize(
    ("read", "fields", "damage", "message"),
    [
        (read_session, WHOLE, {"chain": b"short"}, "has a field that cannot be right: chain"),
        (read_session, WHOLE, {"chain": "x" * 32}, "has a field of a wrong kind: chain is str"),
        (
            read_session,
            WHOLE,
            {"chain_sealed": None},
            "has a field of a wrong kind: chain_sealed is NoneType",
        ),
        (
            read_session,
            WHOLE,
            {"tail": [], "tail_bytes": 0},
            "has a field that cannot be right: chain_sealed",
        ),
        (read_session, WHOLE, {"turns": 8}, "has a field that cannot be right: turns"),
        (read_session, WHOLE, {"turns": 0}, "has a field that cannot be right: turns"),
        (read_session, WHOLE, {"turns": True}, "has a field of a wrong kind: turns is bool"),
        (read_session, WHOLE, {"last_turn": "x"}, "has a field that cannot be right: last_turn"),
        (read_session, WHOLE, {"initial": []}, "has a field of a wrong kind: initial is list"),
        (read_session, WHOLE, {"initial": {"%41": 1}}, "state.%41 is not a valid name of a state key"),
        (
            read_session,
            WHOLE,
            {"initial_payload": {}},
            "initial_payload refers to a payload in a form unknown",
        ),
        (
            read_session,
            WHOLE,
            {"initial": {}, "initial_payload": {}},
            "has a field that cannot be right: initial_payload",
        ),
        (read_session, WHOLE, {"turn": 3}, "has a field of a wrong kind: turn is int"),
        (read_session, WHOLE, {"turn": {}}, "lacks turn"),
        (read_session, WHOLE, {"turn": {"fence": -1}}, "has a field that cannot be right: turn"),
        (read_session, WHOLE, {"turn": {"fence": 1, "until": 5}}, "has a field of a wrong kind: turn"),
        (read_session, WHOLE, {"inbox": [1]}, "has a field of a wrong kind: inbox[0] is int"),
        (read_header, HEADER, {"restores": -1}, "has a field that cannot be right: restores"),
        (read_header, HEADER, {"cut": {}}, "has a field of a wrong kind: cut is dict"),
        (read_header, HEADER, {"cut": [{"from": 0}]}, "lacks cut[0][to]"),
        (read_header, HEADER, {"cut": [{"from": 1, "to": 0}]}, "has a field that cannot be right: cut"),
        (read_header, HEADER, {"cut": [{"from": 1, "to": 2}]}, "has a field that cannot be right: cut"),
        (
            read_header,
            HEADER,
            {"cut": [{"from": 0, "to": 1}]},
            "has a field that cannot be right: sealed_max",
        ),
        (read_session, WHOLE, {"restore_id": 3}, "has a field of a wrong kind: restore_id is int"),
        (read_segment, BODY, {"chain_end": b""}, "has a field that cannot be right: chain_end"),
        (read_segment, BODY, {"chain_begin": 5}, "has a field of a wrong kind: chain_begin is int"),
        (read_segment, BODY, {"initial": "x"}, "has a field of a wrong kind: initial is str"),
    ],
)
def test_a_damaged_history_is_told(
    read: Callable[[Document], object], fields: dict[str, Any], damage: dict[str, Any], message: str
) -> None:
    """By path and field."""
    with pytest.raises(StoredDataError) as caught:
        read(document({**fields, **damage}))

    assert str(caught.value).startswith(SESSION)
    assert message in str(caught.value)


def test_an_append_of_a_turn_moves_its_end_and_takes_its_message_out() -> None:
    """The rest of the turn stays as it is."""
    append = Append(texts=["x"], timestamp=2.5, delta=ScopedState())
    marker = STORED.marker
    (write,) = LAYOUT.append(KEY, append, marker, turn_until=1767225600.5, inbox=["later"])
    (plain,) = LAYOUT.append(KEY, append, marker)

    until = NEW_YEAR + timedelta(seconds=0.5)
    assert {**plain.fields, "turn": {"until": until}, "inbox": ["later"]} == write.fields
    assert [*(plain.mask or ()), ("turn", "until"), ("inbox",)] == write.mask


def test_a_turn_is_written_as_it_is_read() -> None:
    """As a map of its own."""
    turn = Turn(fence=4, holder="h", until=1767225600.25)
    write = write_turn(SESSION, STORED, turn)
    assert {"turn": turn_fields(turn)} == write.fields
    assert STORED.update_time == write.must
    assert turn == read_header(document({**HEADER, **write.fields})).turn
    assert {"fence": 4} == turn_fields(turn.released)
    assert {"turn": {"fence": 5}} == ended(turn)


@given(st.text(), st.dictionaries(st.text(), st.integers()), st.floats(0, 1e10))
def test_a_message_that_waits_is_read_as_it_was_written(id_: str, delta: dict[str, int], time: float) -> None:
    """Another text is damage."""
    message = WaitingMessage(id=id_, message={"role": "user"}, time=time, state_delta=delta or None)
    assert message == WaitingMessage.parse(str(message))
    with pytest.raises(StoredDataError):
        WaitingMessage.parse(str(message)[:-1])


def test_a_listed_session_has_no_tail() -> None:
    """The fields that a listing asks for are enough to read a session without its events."""
    header = read_header(document({name: HEADER[name] for name in HEADER_FIELDS}))

    assert ([], 7, 2) == (header.tail, header.revision, header.sealed)


def test_an_end_that_is_not_ours_is_none() -> None:
    """A deployment may expire documents by a field of that name; only a time to live makes it ours."""
    theirs = {name: value for name, value in HEADER.items() if name != "ttl_s"}

    assert replace(LISTED, expiry=None) == read_header(document(theirs))


def test_a_session_without_parts_has_no_end_of_them() -> None:
    """Nothing has to be renewed while there is nothing beside it."""
    alone = {name: value for name, value in HEADER.items() if name != "parts_expire_at"}

    assert Expiry(ttl_s=60, at=1767225600) == read_header(document(alone)).expiry


@given(
    st.builds(
        Expiry,
        ttl_s=st.integers(1, MAX_TTL_S),
        at=st.integers(1, LAST_SECOND),
        parts_at=st.none() | st.integers(1, LAST_SECOND),
    )
)
def test_an_end_is_read_as_it_was_written(expiry: Expiry) -> None:
    """To the second, however far away: a handle and its document agree on it."""
    (created,) = LAYOUT.create(KEY, epoch="e1", time=1.5, state=ScopedState(), expiry=expiry)

    assert expiry == read_session(document({**created.fields})).expiry


def test_a_session_is_read_without_its_state() -> None:
    """A page that shows none does not ask for it; everything else is there, and one that is there is left."""
    header = document({name: HEADER[name] for name in HEADER_WITHOUT_STATE})
    with pytest.raises(StoredDataError, match=re.escape(f"{SESSION} lacks state")):
        read_header(header)

    assert replace(LISTED, state={}) == read_header(header, with_state=False)
    assert replace(LISTED, state={}) == read_header(document(HEADER), with_state=False)
    assert {"state"} == set(HEADER_FIELDS) - set(HEADER_WITHOUT_STATE)


@pytest.mark.parametrize("name", [name for name in HEADER_WITHOUT_STATE if name not in OPTIONAL])
def test_an_incomplete_session_is_refused_without_its_state_too(name: str) -> None:
    """That no state is wanted excuses nothing else."""
    fields = {key: value for key, value in HEADER.items() if key not in {name, "state"}}
    with pytest.raises(StoredDataError) as caught:
        read_header(document(fields), with_state=False)

    assert f"{SESSION} lacks {name}" == str(caught.value)


@pytest.mark.parametrize("name", [name for name in HEADER_FIELDS if name not in OPTIONAL])
def test_an_incomplete_session_is_refused(name: str) -> None:
    """A document that lacks a field is named with the field."""
    fields = {key: value for key, value in WHOLE.items() if key != name}
    with pytest.raises(StoredDataError) as caught:
        read_session(document(fields))

    assert f"{SESSION} lacks {name}" == str(caught.value)


@pytest.mark.parametrize(
    ("read", "fields", "known"),
    [
        (read_session, WHOLE, "2"),
        (read_state, {"state": {}}, "1"),
        (read_segment, BODY, "2"),
        (read_chunk, {"body": b""}, "1"),
        (lambda found: read_deletions([found]), {"epoch": "e1", "sealed": 1}, "1 and 2"),
    ],
    ids=["session", "state", "segment", "chunk", "deletion"],
)
@pytest.mark.parametrize("found", [0, 3, "1", None])
def test_another_format_is_refused(
    read: Callable[[Document], object], fields: dict[str, Any], known: str, found: object
) -> None:
    """A layout of another release is an error that says what to do, never a guess."""
    with pytest.raises(StoredDataError) as caught:
        read(document({**fields, "format": found}))

    shown = "str" if found == "1" else found
    advice = "upgrade gcp-adk-store" if found == 3 else "no release wrote it: restore the document"
    assert f"{SESSION} has format {shown}, this release reads {known}; {advice}" == str(caught.value)


def test_state_deletions_and_chunks_keep_the_number_of_format_1() -> None:
    """Older releases read them beside sessions of their own."""
    for read, fields in ((read_state, {"state": {}}), (read_chunk, {"body": b""})):
        with pytest.raises(StoredDataError, match="has format 2, this release reads 1"):
            read(document({"format": 2, **fields}))


def test_a_foreign_document_is_refused() -> None:
    """A document without a format number was not written by this library."""
    with pytest.raises(StoredDataError, match="has format None"):
        read_state(document({"state": {"a": 1}}))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, {}),
        (document({"format": 1}), {}),
        (document({"format": 1, "state": {"a%2Fb": {"json": "[1]"}, "n": None}}), {"a/b": [1], "n": None}),
    ],
)
def test_a_shared_state_is_read_or_empty(found: Document | None, expected: dict[str, Any]) -> None:
    """A scope that was never written is empty; a written one has its raw keys."""
    assert expected == read_state(found)


def test_a_segment_is_read_whole() -> None:
    """A segment gives back its texts and what it says of those before it."""
    assert Segment(
        texts=["x", "y"], running_max=8.5, chain_begin=SEALED_HEAD, chain_end=HEAD
    ) == read_segment(document(BODY))


def test_a_segment_of_another_length_is_refused() -> None:
    """Half a segment is not passed off as a session's history."""
    with pytest.raises(StoredDataError) as caught:
        read_segment(document({**BODY, "count": 3}))

    assert f"{SESSION} holds 2 events, not 3" == str(caught.value)


def test_unfinished_deletions_are_read() -> None:
    """Each note of an earlier deletion is understood on its own."""
    notes = [
        replace(document(fields), path=f"{SESSION}/adk_deletions/{fields['epoch']}")
        for fields in (
            {"format": 1, "epoch": "e1", "sealed": 1},
            {"format": 1, "epoch": "e2", "sealed": 2, "spilled": ["bucket"]},
        )
    ]

    assert [
        Deletion(epoch="e1", sealed=1, spilled=frozenset()),
        Deletion(epoch="e2", sealed=2, spilled=frozenset({PayloadPlace.BUCKET})),
    ] == read_deletions(notes)

"""Show how long the parts of a session are kept, and that a document that lacks something is reported."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, StoredDataError
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.packing import pack_segment
from gcp_adk_store.codec.stored import (
    HEADER_FIELDS,
    read_chunk,
    read_header,
    read_segment,
    read_session,
    read_state,
)
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.model.history import genesis
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import MAX_TTL_S, PARTS_GRACE_S, Expiry, Turn, Turns
from gcp_adk_store.model.sessions import Append, Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.lifecycle.format import read_deletions

LAYOUT = Layout("adk")
KEY = SessionKey(app="shop", user="u/1", session="__s__")
APP = "adk_apps/shop"
USER = f"{APP}/adk_users/u%2F1"
SESSION = f"{USER}/adk_sessions/%5F_s__"

NEW_YEAR, NEXT_DAY = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
ENDING = Expiry(ttl_s=60, at=1767225600)
ENDING_WITH_PARTS = replace(ENDING, parts_at=1767312000)
LAST_SECOND = 253402300799  # of the year 9999, as far as Firestore's times go
GRACE = timedelta(seconds=PARTS_GRACE_S)

HEAD, SEALED_HEAD = bytes(range(32)), bytes(range(32, 64))
BEGUN = genesis("e1")

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
OPTIONAL = (
    "format",
    "spilled",
    "ttl_s",
    "parts_expire_at",
    "restores",
    "cut",
    "redactions",
    "turns",
    "turn",
    "archived",
)
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


def test_prefixes_share_no_collection() -> None:
    """Two stores in one database have no collection's name in common, at any level."""
    paths = [layout.segments(KEY, "e1", range(1))[0].split("/")[::2] for layout in (Layout("a"), Layout("b"))]

    assert [
        ["a_apps", "a_users", "a_sessions", "a_segments"],
        ["b_apps", "b_users", "b_sessions", "b_segments"],
    ] == paths


def test_shared_state_never_ends() -> None:
    """A session takes neither its app's nor its user's state along."""
    state = ScopedState(app={"a": 1}, user={"u": 2})
    append = Append(texts=("{}",), timestamp=9.5, delta=state)
    created = LAYOUT.create(KEY, epoch="e1", time=1.5, state=state, expiry=ENDING_WITH_PARTS)
    appended = LAYOUT.append(KEY, append, STORED.marker, ENDING_WITH_PARTS)

    assert [{"format", "state"}] * 4 == [set(write.fields) for write in (*created[1:], *appended[1:])]


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


@given(st.text(), st.dictionaries(st.text(), st.integers()), st.floats(0, 1e10))
def test_a_message_that_waits_is_read_as_it_was_written(id_: str, delta: dict[str, int], time: float) -> None:
    """Another text is damage."""
    message = WaitingMessage(id=id_, message={"role": "user"}, time=time, state_delta=delta or None)
    assert message == WaitingMessage.parse(str(message))
    with pytest.raises(StoredDataError):
        WaitingMessage.parse(str(message)[:-1])
    with pytest.raises(InvalidInputError, match="the message or its state_delta holds a bytes, which JSON"):
        str(replace(message, state_delta={"k": [b"secret"]}))


def test_an_end_that_is_not_ours_is_none() -> None:
    """A deployment may expire documents by a field of that name; only a time to live makes it ours."""
    theirs = {name: value for name, value in HEADER.items() if name != "ttl_s"}

    assert replace(LISTED, expiry=None) == read_header(document(theirs))


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
        (read_segment, BODY, "2 and 3"),
        (read_chunk, {"body": b""}, "1"),
        (lambda found: read_deletions([found]), {"epoch": "e1", "sealed": 1}, "1 and 2"),
    ],
    ids=["session", "state", "segment", "chunk", "deletion"],
)
@pytest.mark.parametrize("found", [0, 4, "1", None])
def test_another_format_is_refused(
    read: Callable[[Document], object], fields: dict[str, Any], known: str, found: object
) -> None:
    """A layout of another release is an error that says what to do, never a guess."""
    with pytest.raises(StoredDataError) as caught:
        read(document({**fields, "format": found}))

    shown = "str" if found == "1" else found
    advice = "upgrade gcp-adk-store" if found == 4 else "no release wrote it: restore the document"
    assert f"{SESSION} has format {shown}, this release reads {known}; {advice}" == str(caught.value)

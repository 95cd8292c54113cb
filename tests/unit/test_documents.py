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
from gcp_adk_store.codec.stored import (
    HEADER_FIELDS,
    read_chunk,
    read_header,
    read_segment,
    read_session,
    read_state,
)
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.model.session_fields import MAX_TTL_S, PARTS_GRACE_S, Expiry
from gcp_adk_store.model.sessions import Append, Segment
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.lifecycle.format import read_deletions
from tests.support.stored import as_read
from tests.unit.test_damaged_documents import CHUNK, HEAD, KEY, LAYOUT, NOTE, PATH, SEGMENT, SHARED, document
from tests.unit.test_damaged_documents import SESSION as FIELDS

SESSION: dict[str, Any] = {**FIELDS, "turns": 3, "last_turn": "ab" * 8}
STORED = read_session(document(SESSION))
LAST_SECOND = 253402300799  # of the year 9999, as far as Firestore's times go
GRACE = timedelta(seconds=PARTS_GRACE_S)
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
    created = LAYOUT.create(KEY, epoch="e1", time=1.5, state=state, expiry=STORED.expiry)
    appended = LAYOUT.append(KEY, append, STORED.marker, STORED.expiry)

    assert [{"format", "state"}] * 4 == [set(write.fields) for write in (*created[1:], *appended[1:])]


@given(st.lists(st.none() | st.integers(0, LAST_SECOND), max_size=6), st.integers(0, LAST_SECOND - 3600))
def test_no_renewal_moves_a_part_back(ends: list[int | None], parts_at: int) -> None:
    """After it each part is kept as long as it was, and as long as was asked for; a second writes none."""
    parts = [
        as_read(
            f"{PATH}/adk_segments/e1-{number}",
            {} if end is None else {"expire_at": datetime.fromtimestamp(end, UTC)},
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
    part = Segment(texts=["x"], running_max=9.5, chain_begin=HEAD, chain_end=HEAD)
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
    theirs = {name: value for name, value in SESSION.items() if name != "ttl_s"}

    assert replace(read_header(document(SESSION)), expiry=None) == read_header(document(theirs))


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
    fields = {key: value for key, value in SESSION.items() if key != name}
    with pytest.raises(StoredDataError) as caught:
        read_session(document(fields))

    assert f"{PATH} lacks {name}" == str(caught.value)


@pytest.mark.parametrize(
    ("read", "fields", "known"),
    [
        (read_session, SESSION, "2"),
        (read_state, SHARED, "1"),
        (read_segment, SEGMENT, "2 and 3"),
        (read_chunk, CHUNK, "1"),
        (lambda found: read_deletions([found]), NOTE, "1 and 2"),
    ],
    ids=["session", "state", "segment", "chunk", "deletion"],
)
@pytest.mark.parametrize("found", [0, 4, "1", None])
def test_another_format_is_refused(
    read: Callable[[Any], object], fields: dict[str, Any], known: str, found: object
) -> None:
    """A layout of another release is an error that says what to do, never a guess."""
    with pytest.raises(StoredDataError) as caught:
        read(document({**fields, "format": found}))

    shown = "str" if found == "1" else found
    advice = "upgrade gcp-adk-store" if found == 4 else "no release wrote it: restore the document"
    assert f"{PATH} has format {shown}, this release reads {known}; {advice}" == str(caught.value)

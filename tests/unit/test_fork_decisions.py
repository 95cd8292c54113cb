"""Decide what a fork takes over, and encode its documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.documents import Deletion, Layout
from gcp_adk_store.codec.packing import unpack_segment
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Document, Must, Write
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.history import digests_of, fold, genesis
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.session_fields import Expiry, Summary, Turns
from gcp_adk_store.model.sessions import Origin, Segment, StoredSession
from gcp_adk_store.sessions.fork import format as forks
from gcp_adk_store.sessions.fork.decide import chained, kept_segments
from gcp_adk_store.sessions.fork.format import fork_writes, in_commits
from gcp_adk_store.sessions.lifecycle.format import note_write, read_deletions

LAYOUT = Layout("adk")
KEY = SessionKey(app="app", user="user", session="fork")
PATH = LAYOUT.session(KEY)
ORIGIN = Origin(app="app", user="guest", session="s", epoch="e0", position=3)


def segment(*texts: str, time: float = 1.0) -> Segment:
    """Return a segment."""
    return Segment(texts=texts, running_max=time, chain_begin=b"", chain_end=b"")


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 5), st.data())
def test_a_fork_keeps_whole_segments_and_the_rest_as_its_tail(
    sizes: list[int], in_tail: int, data: st.DataObject
) -> None:
    """Together they are exactly the first events."""
    texts = [f"t{number}" for number in range(sum(sizes) + in_tail)]
    segments, start = [], 0
    for size in sizes:
        segments.append(segment(*texts[start : start + size]))
        start += size
    count = data.draw(st.integers(0, len(texts)))
    kept, tail = kept_segments(segments, texts[start:], count)

    assert texts[:count] == [*(text for one in kept for text in one.texts), *tail]
    assert segments[: len(kept)] == kept
    assert len(kept) == len(segments) or len(tail) < sizes[len(kept)]


def test_segments_are_chained_from_the_head_that_is_given() -> None:
    """Whatever heads they had in the source."""
    first, second = chained([segment("a", "b"), segment("c", time=2.0)], genesis("e1"))
    assert (genesis("e1"), fold(genesis("e1"), "ab")) == (first.chain_begin, first.chain_end)
    assert (first.chain_end, fold(genesis("e1"), "abc"), 2.0) == (
        second.chain_begin,
        second.chain_end,
        second.running_max,
    )


def made(**changes: Any) -> StoredSession:
    """Return a fork of three events."""
    head = genesis("e1")
    fields: dict[str, Any] = {
        "key": KEY,
        "epoch": "e1",
        "revision": 3,
        "last_update_time": 3.0,
        "state": {"k": 1},
        "tail": ["c"],
        "sealed": 1,
        "sealed_max": 2.0,
        "spilled": frozenset({PayloadPlace.BUCKET}),
        "update_time": "",
        "read_time": 0.0,
        "expiry": Expiry(ttl_s=60, at=100, parts_at=200),
        "chain": fold(head, "abc"),
        "chain_sealed": fold(head, "ab"),
        "create_time": 9.0,
        "turns": Turns(),
        "origin": ORIGIN,
    }
    return StoredSession(**{**fields, **changes})


def read(write: Write, **changes: Any) -> StoredSession:
    """Return the session of a write."""
    return read_session(
        Document(path=write.path, fields={**write.fields, **changes}, update_time="1.0", read_time=1.0)
    )


def test_a_fork_is_a_session_with_a_history_and_an_origin() -> None:
    """The initial state is in the first segment, once there is one."""
    (sealed,) = chained([segment("a", "b", time=2.0)], genesis("e1"))
    header, (part,) = fork_writes(
        LAYOUT, made(), [Segment(**{**_of(sealed), "initial": {"k": 0}})], summary=Summary(), parts_at=200
    )
    assert (PATH, Must.BE_ABSENT) == (header.path, header.must)
    assert not {"initial", "initial_payload"} & header.fields.keys()
    digests = tuple(digests_of(made().tail))
    assert made(update_time="1.0", read_time=1.0, digests=digests) == read(header)
    assert f"{PATH}/adk_segments/e1-0" == part.path
    body = part.fields["body"]
    assert isinstance(body, bytes)
    assert ["a", "b"] == unpack_segment(body)
    assert {"k": 0} == part.fields["initial"]
    assert "expire_at" in part.fields


def _of(one: Segment) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("texts", "running_max", "chain_begin", "chain_end")}


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ({}, "lacks origin\\[app\\]"),
        ("x", "origin is str"),
        ({"app": "a", "user": "u", "session": "s", "epoch": "e", "position": -1}, "origin\\[position\\]"),
        ({"app": "a", "user": 1, "session": "s", "epoch": "e", "position": 1}, "origin\\[user\\]"),
    ],
)
def test_a_damaged_origin_is_told(origin: Any, told: str) -> None:
    """By the name of its field."""
    head = genesis("e1")
    header, _ = fork_writes(
        LAYOUT,
        made(sealed=0, sealed_max=None, chain=fold(head, "c"), chain_sealed=head),
        [],
        summary=Summary(),
        parts_at=None,
    )
    with pytest.raises(StoredDataError, match=told):
        read(header, origin=origin)


def test_a_fork_is_noted_until_its_last_commit() -> None:
    """Each write of the note requires the one before; a claim keeps all of it but the promise."""
    noted: dict[str, Any] = {"sealed": 2, "spilled": frozenset({PayloadPlace.CHUNKS}), "artifacts": True}
    first = note_write(LAYOUT, KEY, Deletion(epoch="e1", **noted))
    path = f"{PATH}/adk_deletions/e1"
    assert (path, Must.BE_ABSENT, 2) == (first.path, first.must, first.fields["format"])
    second = note_write(LAYOUT, KEY, Deletion(epoch="e1", sealed=3, spilled=frozenset(), update_time="5.0"))
    assert "5.0" == second.must

    notes = [
        Document(path=path, fields={**first.fields, **more}, update_time="7.0", read_time=8.0)
        for more in ({}, {"making": False})
    ]
    assert [
        Deletion(epoch="e1", making=True, update_time="7.0", **noted),
        Deletion(epoch="e1", making=False, **noted),
    ] == read_deletions(notes)


@given(st.lists(st.integers(1, 1024 * 1024), max_size=12))
def test_segments_are_written_in_commits_that_firestore_takes(sizes: list[int]) -> None:
    """All of them, in order; the last run goes with the session document."""
    parts = [Write(path=f"{number}", fields={"body": bytes(size)}) for number, size in enumerate(sizes)]
    runs = list(in_commits(parts))
    assert parts == [part for run in runs for part in run]
    for run in runs:
        assert len(run) <= forks.SEGMENTS_PER_COMMIT
        bodies = [part.fields["body"] for part in run]
        assert sum(len(body) for body in bodies if isinstance(body, bytes)) <= 4 * 1024 * 1024
    assert runs

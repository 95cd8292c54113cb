"""Show what a session becomes at a point, and what its restore writes and reads again."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.artifacts import ArtifactsAt
from gcp_adk_store.model.history import digests_of, fold, genesis
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_fields import Summary, Turns
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.sessions.restore.decide import rewound
from gcp_adk_store.sessions.restore.format import (
    Restore,
    finish_restore,
    pack_artifacts,
    read_restores,
    restore,
)

KEY = SessionKey(app="shop", user="u", session="s")
SESSION = "adk_apps/shop/adk_users/u/adk_sessions/s"
ID = "ab" * 16
NOTE = f"{SESSION}/adk_restores/{ID}"
LAYOUT = Layout("adk")


def made(sizes: list[int], tail: int) -> tuple[StoredSession, list[Segment]]:
    """Return a session with segments of these *sizes*."""
    texts = [f"event {number}" for number in range(sum(sizes) + tail)]
    begin = genesis("e")
    segments: list[Segment] = []
    start = 0
    for size in sizes:
        stop = start + size
        segments.append(
            Segment(
                texts=texts[start:stop],
                running_max=float(stop),
                chain_begin=fold(begin, texts[:start]),
                chain_end=fold(begin, texts[:stop]),
            )
        )
        start = stop
    stored = StoredSession(
        key=KEY,
        epoch="e",
        revision=len(texts),
        last_update_time=9.0,
        state={},
        tail=texts[start:],
        sealed=len(sizes),
        sealed_max=float(start) if sizes else None,
        spilled=frozenset(),
        update_time="1.000000000",
        read_time=1.0,
        chain=fold(begin, texts),
        chain_sealed=fold(begin, texts[:start]),
    )
    return stored, segments


@given(st.lists(st.integers(1, 5), max_size=5), st.integers(0, 5), st.data())
def test_the_chain_goes_back_to_its_head_at_the_point(
    sizes: list[int], tail: int, data: st.DataObject
) -> None:
    """At any point of any session."""
    total = sum(sizes) + tail
    kept = data.draw(st.integers(0, total))
    stored, segments = made(sizes, tail)
    back = rewound(stored, segments, kept)
    live = segments[: len(segments) - len(list(stored.live)[len(segments) :])]
    whole = [one for one in live if one.running_max <= kept]
    texts = [*(text for one in whole for text in one.texts), *back.tail]

    assert [f"event {number}" for number in range(kept)] == texts
    assert kept == back.revision
    assert fold(genesis("e"), texts) == back.chain
    assert (back.chain_sealed == back.chain) or back.tail
    assert (whole[-1].running_max if whole else None) == back.sealed_max
    assert stored.sealed + 1 == back.sealed


LEFT = Restore(
    epoch="e",
    restore_id=ID,
    segments=(range(1, 3),),
    artifacts=ArtifactsAt(kept={"f": 1, "ü": 0}, later={"f": 2}, until=5.5),
    restored_at=7.0,
)


def test_a_restore_sets_the_session_back_in_one_commit() -> None:
    """Every field that says something of the history, and a note of what is left to do."""
    stored, segments = made([2, 2, 2], 1)
    back = rewound(replace(stored, restores=4), segments, 3)
    session, note = restore(
        LAYOUT,
        replace(back, state={"a": 1}, last_update_time=3.0),
        LEFT,
        Summary(turns=Turns(count=2, last="ab" * 8), last_text="hello"),
    )
    mask = {name for (name,) in session.mask or ()}

    assert (SESSION, "1.000000000", NOTE) == (session.path, session.must, note.path)
    assert {
        "format": 2,
        "rev": 3,
        "last_update_time": 3.0,
        "state": {"a": 1},
        "chain": fold(genesis("e"), ["event 0", "event 1", "event 2"]),
        "chain_sealed": segments[0].chain_end,
        "tail": ["event 2"],
        "digests": digests_of(["event 2"]),
        "tail_bytes": 7,
        "sealed": 4,
        "sealed_max": 2.0,
        "restores": 5,
        "restore_id": ID,
        "cut": [{"from": 1, "to": 3}],
        "turns": 2,
        "last_turn": "ab" * 8,
        "last_text": "hello",
    } == session.fields
    assert session.fields.keys() == mask
    assert {"format", "epoch", "restore_id", "segments", "artifacts"} == set(note.fields)
    assert [{"from": 1, "to": 2}] == note.fields["segments"]


def test_a_session_is_restored_as_long_as_it_has_numbers_of_segments() -> None:
    """A document with more could not be read."""
    stored, segments = made([2, 2, 2], 1)

    def encode(sealed: int) -> None:
        back = replace(rewound(stored, segments, 3), sealed=sealed)
        restore(LAYOUT, back, LEFT, Summary())

    encode(100_000)
    with pytest.raises(InvalidInputError, match="at most 100000 numbers of segments"):
        encode(100_001)


def document(**fields: Any) -> Document:
    """Return a note as it is read."""
    stored, segments = made([2, 2, 2], 1)
    _, note = restore(LAYOUT, rewound(stored, segments, 3), LEFT, Summary())
    return Document(path=NOTE, fields={**note.fields, **fields}, update_time="7.000000000", read_time=8.0)


def test_a_note_is_read_as_it_was_written() -> None:
    """And names what to remove, itself last."""
    (found,) = read_restores([document()])

    assert LEFT == found
    assert [f"{SESSION}/adk_segments/e-1", f"{SESSION}/adk_segments/e-2", NOTE] == [
        delete.path for delete in finish_restore(LAYOUT, KEY, found)
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": 2}, "has format 2"),
        ({"restore_id": "cd" * 16}, "has a field that cannot be right: restore_id"),
        ({"restore_id": "../x"}, "has a field that cannot be right: restore_id"),
        ({"epoch": "a/b"}, "has a field that cannot be right: epoch"),
        ({"segments": 5}, "has a field of a wrong kind: segments is int"),
        ({"artifacts": b"x"}, "artifacts of a restore are damaged"),
        ({"artifacts": "x"}, "has a field of a wrong kind: artifacts is str"),
    ],
)
def test_a_damaged_note_is_told(fields: dict[str, Any], message: str) -> None:
    """By path and field."""
    with pytest.raises(StoredDataError, match=f"^{NOTE}.*{re.escape(message)}"):
        read_restores([document(**fields)])


def test_too_many_artifacts_are_refused() -> None:
    """With their number, and the way out."""
    names = (hashlib.sha256(b"%d" % number).hexdigest() for number in range(60_000))
    kept = dict.fromkeys(names, 0)
    with pytest.raises(InvalidInputError, match=r"name 60000 artifacts.*restore it without them"):
        pack_artifacts(ArtifactsAt(kept=kept))

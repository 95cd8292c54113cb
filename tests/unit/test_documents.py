"""Show how long parts of a session are kept, and that damage crashes no reader and is never read as whole."""

import asyncio
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import example, given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, StoredDataError
from gcp_adk_store.codec.decode import Foreign, event_timestamp
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.packing import pack_segment, unpack
from gcp_adk_store.codec.stored import read_chunk, read_header, read_segment, read_session, read_state
from gcp_adk_store.codec.turns import WaitingMessage
from gcp_adk_store.kernel.concurrency import Pauses
from gcp_adk_store.model.appends import Append
from gcp_adk_store.model.keys import SessionKey, is_unicode
from gcp_adk_store.model.payloads import PayloadRef
from gcp_adk_store.model.session_fields import MAX_TTL_S, PARTS_GRACE_S, Expiry
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.lifecycle.format import read_deletions
from gcp_adk_store.sessions.read.completion import decode_events
from tests.support import damage
from tests.support.damage import BOMB, HUSH, damaged
from tests.support.peak_memory import Peak
from tests.support.stored import as_read

LAYOUT = Layout("adk")
KEY = SessionKey(app="shop", user="u/1", session="__s__")
PATH = LAYOUT.session(KEY)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DIGEST = "ab" * 32

OTHERS = damage.FIELDS | st.builds(Foreign, st.sampled_from(["geo_point_value", "reference_value"]))
"""What a field of any kind holds, those that this library never writes among them."""


def text(number: int) -> str:
    """Return an event as it is stored."""
    part = types.Part(text=f"{HUSH} {number}")
    made = Event(
        id=f"e{number}",
        author="agent",
        timestamp=number,
        content=types.Content(role="model", parts=[part]),
        actions=EventActions(state_delta={"k": HUSH}),
    )
    return made.model_dump_json(exclude_none=True)


TAIL = [text(3), text(4)]
HEAD = bytes(range(32))
SESSION: dict[str, Any] = {
    "format": 2,
    "epoch": "e1",
    "app": KEY.app,
    "user": KEY.user,
    "id": KEY.session,
    "rev": 5,
    "create_time": 1.5,
    "last_update_time": 9.5,
    "state": {
        "n": 1,
        "k": {"json": f'["{HUSH}"]'},
        "%": HUSH,
        "p": {"payload": {"sha256": DIGEST, "size": 5, "in": "chunks"}},
    },
    "tail": TAIL,
    "tail_bytes": 300,
    "sealed": 2,
    "sealed_max": 2.0,
    "spilled": ["chunks"],
    "ttl_s": 60,
    "expire_at": NEW_YEAR,
    "parts_expire_at": NEW_YEAR,
    "chain": HEAD,
    "chain_sealed": HEAD[::-1],
    "restores": 2,
    "restore_id": "r2",
    "cut": [{"from": 0, "to": 0}],
    "initial": {"n": 0, "k": {"json": f'["{HUSH}"]'}, "%": HUSH},
}
SHARED: dict[str, Any] = {"format": 1, "state": SESSION["state"]}
SEGMENT: dict[str, Any] = {
    "format": 2,
    "body": pack_segment(TAIL),
    "count": 2,
    "running_max": 4.0,
    "chain_begin": HEAD,
    "chain_end": HEAD[::-1],
    "initial_payload": {"sha256": DIGEST, "size": 5, "in": "chunks"},
}
CHUNK: dict[str, Any] = {"format": 1, "body": HUSH.encode()}
NOTE: dict[str, Any] = {"format": 1, "epoch": "e1", "sealed": 2, "spilled": ["chunks", "bucket"]}


def document(fields: dict[str, Any], path: str = PATH) -> Any:
    """Return *fields* as they are read."""
    return as_read(path, fields)


WITH_TURNS: dict[str, Any] = {**SESSION, "turns": 3, "last_turn": "ab" * 8}
STORED = read_session(document(WITH_TURNS))
LAST_SECOND = 253402300799  # of the year 9999, as far as Firestore's times go
GRACE = timedelta(seconds=PARTS_GRACE_S)


def read_or_refused(read: Callable[[], Any], where: str) -> Any:
    """Return what *read* gives; ``None`` where it says that *where* is damaged, without its content."""
    try:
        return read()
    except StoredDataError as exc:
        message = str(exc)
    assert message.startswith(where)
    assert HUSH not in message
    return None


def exact(value: Any) -> str:
    """Return *value* so that 1, 1.0 and True differ."""
    return repr(value)


def require_state(fields: dict[str, Any], state: dict[str, Any]) -> None:
    """Check that *state* is what *fields* hold: every name its own key, every value with its type."""
    assert len(fields) == len(state)
    for name, key in zip(fields, state, strict=True):
        field, value = fields[name], state[key]
        if isinstance(value, PayloadRef):
            reference: Any = {"sha256": value.sha256, "size": value.size, "in": value.place.value}
            assert isinstance(field, dict)
            assert exact(reference) == exact({name: field["payload"][name] for name in reference})
        elif isinstance(field, dict):
            assert exact(json.loads(field["json"])) == exact(value)
        else:
            assert exact(field) == exact(value)


def require_initial(fields: dict[str, Any], initial: Any) -> None:
    """Check that *initial* is what *fields* hold, if they hold one."""
    if fields.keys().isdisjoint({"initial", "initial_payload"}):
        assert initial is None
    elif isinstance(initial, PayloadRef):
        require_state({"k": {"payload": fields["initial_payload"]}}, {"k": initial})
    elif initial is None:
        assert {None} == {fields.get("initial"), fields.get("initial_payload")}
    else:
        require_state(fields["initial"], initial)


def require_history(fields: dict[str, Any], found: StoredSession, *, whole: bool) -> None:
    """Check chain and initial state of a session."""
    assert fields["chain"] == found.chain
    assert (fields["chain_sealed"] if whole else b"") == found.chain_sealed
    require_initial(fields if whole else {}, found.initial)


@given(damaged(SESSION, others=OTHERS), st.booleans())
@example({**SESSION, "format": 1}, True)  # noqa: FBT003  # drawn
@example({**SESSION, "rev": 3}, True)  # noqa: FBT003  # one of its two segments is cut off
def test_a_damaged_session_is_reported_or_read_as_it_lies_there(fields: dict[str, Any], whole: bool) -> None:  # noqa: FBT001  # drawn
    """Each field with its own kind and value, never a likely one in its place."""
    found = read_or_refused(lambda: (read_session if whole else read_header)(document(fields)), PATH)
    if found is None:
        return

    assert exact((fields["format"], *(fields[name] for name in ("epoch", "rev", "sealed")))) == exact(
        (fields["format"], found.epoch, found.revision, found.sealed)
    )
    assert (fields["app"], fields["user"]) == (found.key.app, found.key.user)
    assert PATH == LAYOUT.session(found.key)
    assert float(fields["last_update_time"]) == found.last_update_time
    assert fields["sealed_max"] is found.sealed_max is None or float(fields["sealed_max"]) == found.sealed_max
    assert (found.sealed_max is None) == (found.sealed == 0)
    assert (fields["tail"] if whole else []) == found.tail
    assert all(isinstance(one, str) for one in found.tail)
    assert not whole or found.revision >= len(found.live) + len(found.tail)
    assert set(fields.get("spilled", [])) == {place.value for place in found.spilled}
    require_state(fields["state"], dict(found.state))
    require_history(fields, found, whole=whole)
    if "ttl_s" in fields:
        assert found.expiry is not None
        assert exact(fields["ttl_s"]) == exact(found.expiry.ttl_s)
        assert int(fields["expire_at"].timestamp()) == found.expiry.at
    # What a handle remembers of it is read back.
    assert found.marker == type(found.marker).parse(str(found.marker))


@given(damaged(SEGMENT, others=OTHERS))
@example({**SEGMENT, "body": damage.BOMB})
@example({**SEGMENT, "body": pack_segment(TAIL) + b"x"})
def test_a_damaged_segment_is_reported_or_read_whole(fields: dict[str, Any]) -> None:
    """Never a part of it, and never more than a document's events can unpack to."""
    found = read_or_refused(lambda: read_segment(document(fields)), PATH)
    if found is None:
        return

    assert json.loads(zlib.decompress(fields["body"])) == found.texts
    assert all(is_unicode(one) for one in found.texts)
    assert exact(fields["count"]) == exact(len(found.texts))
    assert float(fields["running_max"]) == found.running_max
    assert math.isfinite(found.running_max)
    heads = (fields["chain_begin"], fields["chain_end"])
    assert heads == (found.chain_begin, found.chain_end)
    require_initial(fields, found.initial)


@given(damaged(CHUNK, others=OTHERS))
def test_a_damaged_chunk_is_reported_or_read_as_it_lies_there(fields: dict[str, Any]) -> None:
    """Its bytes, which the digest of the whole is checked against."""
    found = read_or_refused(lambda: read_chunk(document(fields)), PATH)

    assert found is None or fields["body"] == found


@given(damaged(NOTE, others=OTHERS))
def test_a_damaged_note_of_a_deletion_removes_nothing_else(fields: dict[str, Any]) -> None:
    """What is to be removed is of the life that the note is named after, and can be counted."""
    path = f"{PATH}/adk_deletions/e1"
    found = read_or_refused(lambda: read_deletions([document(fields, path)]), path)
    if found is None:
        return

    (deletion,) = found
    assert ("e1", fields["sealed"]) == (deletion.epoch, deletion.sealed)
    assert deletion.sealed + 1 == len(LAYOUT.finish_deletion(KEY, deletion))


@given(damage.damaged_json(TAIL[0]))
def test_a_damaged_event_is_reported_or_read(broken: str) -> None:
    """With its place; what is read has a time, and can be written again."""
    decoded = decode_events([TAIL[0], broken], where=PATH, pauses=Pauses())
    found = read_or_refused(lambda: asyncio.run(decoded), f"{PATH}: event 1: ")
    if found is None:
        return

    assert math.isfinite(found[1].timestamp)
    assert found[1].event == Event.model_validate_json(found[1].event.model_dump_json())


@given(damage.damaged_json(TAIL[0]))
def test_the_time_of_a_damaged_event_is_reported_or_finite(broken: str) -> None:
    """Whatever a tail holds, it is sealed or left as it is."""
    found = read_or_refused(lambda: event_timestamp(broken), "a stored event")

    assert found is None or math.isfinite(found)


@given(st.lists(damage.NAMES.filter(bool), min_size=3, max_size=3))
def test_a_path_that_is_encoded_as_none_is_reported(names: list[str]) -> None:
    """Or the session that it leads to has the very same path: what lies beside it is nobody else's."""
    path = "/".join(
        f"adk_{level}/{name}" for level, name in zip(("apps", "users", "sessions"), names, strict=True)
    )
    found = read_or_refused(lambda: LAYOUT.session_at(path), path)

    assert found is None or path == LAYOUT.session(found)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rev": HUSH}, "has a field of a wrong kind: rev is str"),
        ({"rev": -1}, "has a field that cannot be right: rev"),
        ({"chain": HEAD[:-1]}, "has a field that cannot be right: chain"),
        ({"initial": {"k": {"json": HUSH}}}, "state key 'k' is stored as damaged JSON"),
        ({"rev": 2}, "has a field that cannot be right: rev"),
        ({"tail": []}, "has a field that cannot be right: tail_bytes"),
        ({"tail_bytes": 0}, "has a field that cannot be right: tail_bytes"),
        ({"epoch": "a/b"}, "has a field that cannot be right: epoch"),
        ({"last_update_time": math.nan}, "has a field that cannot be right: last_update_time"),
        ({"sealed": 0, "cut": []}, "has a field that cannot be right: sealed_max"),
        ({"sealed_max": None}, "has a field that cannot be right: sealed_max"),
        ({"tail": Foreign("geo_point_value")}, "has a field of a wrong kind: tail is geo_point_value"),
        ({"tail": [TAIL[0], 5]}, "has a field of a wrong kind: tail[1] is int"),
        ({"state": {"p": {"payload": {}}}}, "state key 'p' refers to a payload in a form unknown"),
        ({"state": {"%41": 1}}, "state.%41 is not a valid name of a state key"),
        ({"user": "another"}, "has a field that cannot be right: app, user or id"),
        ({"ttl_s": 10**18}, "has a field that cannot be right: ttl_s"),
        ({"spilled": [HUSH]}, "has a field that cannot be right: spilled"),
        ({"format": HUSH}, "has format str, this release reads 2"),
        ({"chain_sealed": None}, "has a field of a wrong kind: chain_sealed is NoneType"),
        ({"turns": 6, "last_turn": "ab" * 8}, "has a field that cannot be right: turns"),
        ({"turns": 3, "last_turn": "x"}, "has a field that cannot be right: last_turn"),
        ({"initial": {"%41": 1}}, "state.%41 is not a valid name of a state key"),
        ({"initial": None, "initial_payload": {}}, "initial_payload refers to a payload in a form unknown"),
        ({"cut": [{"from": 0}]}, "lacks cut[0][to]"),
        ({"cut": [{"from": 0, "to": 1}]}, "has a field that cannot be right: sealed_max"),
    ],
)
def test_damage_is_reported_by_path_and_field(fields: dict[str, Any], message: str) -> None:
    """Whoever repairs it knows where to look."""
    with pytest.raises(StoredDataError) as caught:
        read_session(document({**SESSION, **fields}))

    assert str(caught.value).startswith(f"{PATH}")
    assert message in str(caught.value)
    assert HUSH not in str(caught.value)


def test_a_session_has_no_more_segments_than_are_read() -> None:
    """The last one is not written, since the session could not be read any more."""
    header = {**SESSION, "rev": 10**6, "sealed_max": 9.5, "tail": TAIL}
    full = read_session(document({**header, "sealed": 100_000}))
    segment = Segment(texts=full.tail, running_max=9.5, chain_begin=HEAD, chain_end=HEAD)

    LAYOUT.seal(read_session(document({**header, "sealed": 99_999})), segment, now=0)
    with pytest.raises(InvalidInputError, match="at most 100000 segments"):
        LAYOUT.seal(full, segment, now=0)
    with pytest.raises(StoredDataError, match="has a field that cannot be right: sealed"):
        read_session(document({**header, "sealed": 100_001}))


@given(st.binary(max_size=50))
def test_what_was_packed_is_unpacked_up_to_its_very_size(data: bytes) -> None:
    """A bound of as many bytes takes it, one byte less does not."""
    assert data == unpack(zlib.compress(data), limit=len(data))
    if data:
        with pytest.raises(ValueError, match=f"over {len(data) - 1} bytes"):
            unpack(zlib.compress(data), limit=len(data) - 1)


@given(st.binary(max_size=50), st.data())
def test_a_part_or_more_than_the_whole_is_refused(data: bytes, draw: st.DataObject) -> None:
    """It is never taken for a shorter text."""
    packed = zlib.compress(data)
    cut = packed[: draw.draw(st.integers(0, len(packed) - 1))]
    for wrong in (cut, packed + b"x"):
        with pytest.raises(ValueError, match=r"."):
            unpack(wrong, limit=100)


def test_a_bomb_takes_no_more_memory_than_the_bound() -> None:
    """64 KiB that would become 64 MiB."""
    with Peak() as held, pytest.raises(ValueError, match="over 1000000 bytes"):
        unpack(BOMB, limit=1_000_000)

    assert held.bytes < 4_000_000


def test_shared_state_never_ends() -> None:
    """A session takes neither its app's nor its user's state along."""
    state = ScopedState(app={"a": 1}, user={"u": 2})
    append = Append(texts=("{}",), timestamp=9.5, delta=state)
    created = LAYOUT.create(KEY, epoch="e1", time=1.5, state=state, expiry=STORED.expiry)
    appended = LAYOUT.append_writes(KEY, append, STORED.marker, STORED.expiry)

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
    theirs = {name: value for name, value in WITH_TURNS.items() if name != "ttl_s"}

    assert replace(read_header(document(WITH_TURNS)), expiry=None) == read_header(document(theirs))


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


@pytest.mark.parametrize(
    ("read", "fields", "known"),
    [
        (read_session, WITH_TURNS, "2"),
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


@pytest.mark.parametrize(
    ("read", "fields"), [(read_session, WITH_TURNS), (read_segment, SEGMENT)], ids=["session", "segment"]
)
def test_a_session_from_before_the_first_release_is_moved_with_the_version_that_wrote_it(
    read: Callable[[Any], object], fields: dict[str, Any]
) -> None:
    """A backup has the same format."""
    with pytest.raises(StoredDataError, match="before the first release; export it with that version, and"):
        read(document({**fields, "format": 1}))

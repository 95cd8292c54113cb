"""Show of local documents what a comparison with Firestore's does not, and how little an append writes."""

import contextlib
import math
import sqlite3
import statistics
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import ArtifactLimits, InvalidInputError, SessionLimits, Store, StoredDataError
from gcp_adk_store.codec.writes import Delete, Document, Must, Write, Written
from gcp_adk_store.local.backend import contents_of
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.local.encoding import Encoded, encode
from gcp_adk_store.local.encoding import read as read_row
from gcp_adk_store.local.sweep import Sweeper
from tests.support.clock import Clock

MIB = 1024 * 1024
ONE = "apps/one"
LONG = st.text(st.characters(exclude_categories=["Cs"]), max_size=400) | st.just("x" * 300) | st.just("\xff")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | LONG
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(LONG, inner, max_size=4) | st.lists(LONG, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture
async def documents(path: Path) -> AsyncIterator[LocalDocuments]:
    """Documents in a file."""
    documents = LocalDocuments(Database(path), SessionLimits())
    yield documents
    await documents.close()


async def put(documents: LocalDocuments, *writes: Write | Delete) -> list[Written]:
    """Commit *writes*."""
    return await documents.commit(writes)


async def one(documents: LocalDocuments, path: str = ONE) -> Document:
    """Return a document that exists."""
    (found,) = await documents.get([path])
    assert found is not None
    return found


async def test_update_times_rise_when_the_clock_steps_back(
    documents: LocalDocuments, path: Path, clock: Clock
) -> None:
    """Also across a deletion, and in a later process."""
    times = []
    for number, now in enumerate([4e9, 4e9, 3e9, 5e9, 1.0]):
        clock.now = now
        times += [(await put(documents, Write(path=ONE, fields={"n": number})))[0].update_time]
        await put(documents, Delete(path=ONE))
    await documents.close()
    later = LocalDocuments(Database(path), SessionLimits())
    times += [(await put(later, Write(path=ONE, fields={})))[0].update_time]
    await later.close()
    assert times == sorted(set(times))
    assert ["4000000000.000000000", "4000000000.000001000", "4000000000.000002000"] == times[:3]


@pytest.mark.parametrize("must", [Must.BE_ABSENT, "1.000000000"])
async def test_a_condition_that_contradicts_its_commit_is_refused(
    documents: LocalDocuments, must: Must | str
) -> None:
    """Whatever is stored; after a deletion, a document must be absent."""
    with pytest.raises(InvalidInputError, match="contradicts"):
        await put(documents, Write(path=ONE, fields={}), Write(path=ONE, fields={}, must=must))
    with pytest.raises(InvalidInputError, match="contradicts"):
        await put(documents, Delete(path=ONE, must="1.0"), Write(path=ONE, fields={}, must="1.0"))
    await put(documents, Delete(path=ONE), Write(path=ONE, fields={"a": 1}, must=Must.BE_ABSENT))
    assert {"a": 1} == (await one(documents)).fields


async def test_expired_documents_are_removed(path: Path, documents: LocalDocuments) -> None:
    """Those of the collections and the field that have a TTL policy in Firestore."""
    at = datetime.fromtimestamp(4e9, UTC)
    many = [Write(path=f"adk_sessions/{n:04d}", fields={"expire_at": at}) for n in range(600)]
    await put(documents, *many, Write(path="adk_sessions/later", fields={"expire_at": at.replace(year=2200)}))
    await put(
        documents, Write(path=ONE, fields={"expire_at": at}), Write(path="adk_users/u", fields={"x": at})
    )
    database = Database(path)
    sweeper = Sweeper(database, contents_of(database, ArtifactLimits()))
    removed = [await sweeper.sweep_documents(now=4e9 + seconds) for seconds in (-1, 0, 1)]
    await database.close()

    assert [0, 600, 0] == removed
    assert 1 == len(await documents.query("", "adk_sessions"))
    assert [ONE, "adk_users/u"] == [
        found and found.path for found in await documents.get([ONE, "adk_users/u"])
    ]


async def test_a_document_that_no_longer_expires_stays(path: Path, documents: LocalDocuments) -> None:
    """Or that expires later, as a session does after each append."""
    at = datetime.fromtimestamp(4e9, UTC)
    cleared, other = "adk_sessions/a", "adk_sessions/b"
    await put(documents, *(Write(path=each, fields={"expire_at": at}) for each in (cleared, other)))
    await put(documents, Write(path=cleared, fields={}, mask=[("expire_at",)]))
    await put(
        documents, Write(path=other, fields={"expire_at": at.replace(year=2200)}, mask=[("expire_at",)])
    )
    database = Database(path)
    sweeper = Sweeper(database, contents_of(database, ArtifactLimits()))
    assert 0 == await sweeper.sweep_documents(now=5e9)
    await database.close()
    assert None not in await documents.get([cleared, other])


def deep(levels: int) -> Any:
    """Return maps within each other."""
    return 1 if not levels else {"a": deep(levels - 1)}


@pytest.mark.parametrize(
    "write",
    [
        Write(path=ONE, fields={"a": "x" * MIB}),
        Write(path=ONE, fields={"a": ["x" * 1000] * 1050}),
        Write(path=ONE, fields={"a": [1] * 140_000}),
        Write(path=ONE, fields={"a": deep(21)}),
        Write(path=ONE, fields={"a": [[1]]}),
        Write(path=ONE, fields={}, union={"a": [[1]]}),
        Write(path=ONE, fields={"a": 2**63}),
        Write(path=ONE, fields={"a": "\ud800"}),
        Write(path=ONE, fields={"": 1}),
        Write(path=ONE, fields={"a": {"__x__": 1}}),
        Write(path=ONE, fields={"a": {"x" * 1500: 1}}),
        Write(path=ONE, fields={"a": object()}),  # type: ignore[dict-item]  # what is refused
        Write(path="apps", fields={}),
        Write(path="apps//one", fields={}),
        Write(path="apps/__x__", fields={}),
        Write(path="apps/..", fields={}),
        Write(path="apps/\ud800", fields={}),
        Write(path=f"apps/{'x' * 1501}", fields={}),
        Delete(path="apps"),
    ],
    ids=lambda write: f"{write.path[:10]!a} {type(getattr(write, 'fields', {}).get('a')).__name__}",
)
async def test_what_firestore_refuses_is_refused(documents: LocalDocuments, write: Write | Delete) -> None:
    """With nothing of the commit written, and without its content in the error."""
    with pytest.raises(InvalidInputError) as caught:
        await put(documents, Write(path="apps/two", fields={}), write)
    assert [None] == await documents.get(["apps/two"])
    assert 250 > len(str(caught.value))


async def test_a_document_up_to_firestores_limit_is_taken(documents: LocalDocuments) -> None:
    """Its name, the names of its fields, and 32 bytes count; several writes may exceed it together."""
    room = MIB - (16 + 5 + 4) - 32
    half = "x" * (room // 2 - 3)
    await put(documents, Write(path=ONE, fields={"a": half, "b": half}))
    with pytest.raises(InvalidInputError, match="1048576"):
        await put(documents, Write(path=ONE, fields={"cc": True}, mask=[("cc",)]))
    assert {"a", "b"} == (await one(documents)).fields.keys()


async def test_a_commit_of_over_10_mib_is_refused(documents: LocalDocuments) -> None:
    """One of less is taken, with more than 500 writes too."""
    large = [Write(path=f"apps/{n}", fields={"a": bytes(MIB - 200)}) for n in range(11)]
    with pytest.raises(InvalidInputError, match="10485760"):
        await put(documents, *large)
    await put(documents, *large[:9], *(Write(path=f"small/{n}", fields={}) for n in range(600)))
    assert 600 == len(await documents.query("", "small"))


async def test_a_damaged_row_is_named(documents: LocalDocuments, path: Path) -> None:
    """With its path, without its content."""
    damages = {
        "fields": ["{", "[]", "null", '{"a":{"__time__":[]}}', "[" * 100_000],
        "pieces": ["{", '{"t":["a",[9]]}', '{"t":["b",[6]]}', "[" * 100_000, "[[1]]", "5"],
        "update_time": ["x", ""],
    }
    for column, texts in damages.items():
        for text in texts:
            await put(documents, Delete(path=ONE), Write(path=ONE, fields={"a": 1, "t": ["secret"]}))
            with closing(sqlite3.connect(path)) as sql, sql:
                sql.execute(f"UPDATE documents SET {column} = ?", (text,))  # noqa: S608  # one of these names
            with pytest.raises(StoredDataError, match=ONE) as caught:
                await documents.get([ONE])
            assert "secret" not in str(caught.value)
            with pytest.raises(StoredDataError, match=ONE):
                await documents.get([ONE], fields=["t"])


@pytest.mark.parametrize("key", ["x", b"\xff", 1.5])
async def test_a_damaged_key_of_a_row_is_an_error(documents: LocalDocuments, path: Path, key: object) -> None:
    """It is no path; what finds no row by its key does not see it."""
    await put(documents, Write(path=ONE, fields={"a": 1}))
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute("UPDATE documents SET key = ?", (key,))
    with pytest.raises(StoredDataError, match="a row of a document has a damaged key: restore a backup"):
        await documents.query("", "apps")


@pytest.mark.parametrize("damage", ["UPDATE commits SET time = 'x'", "DELETE FROM commits"])
async def test_a_damaged_time_of_the_last_commit_refuses_writes(
    documents: LocalDocuments, path: Path, damage: str
) -> None:
    """Reads go on."""
    await put(documents, Write(path=ONE, fields={"a": 1}))
    with closing(sqlite3.connect(path)) as sql, sql:
        sql.execute(damage)
    with pytest.raises(StoredDataError, match="the time of the last commit is damaged: restore a backup"):
        await put(documents, Write(path=ONE, fields={"a": 2}))

    assert {"a": 1} == (await one(documents)).fields


def exact(value: Any) -> str:
    """Return *value* so that equal texts mean equal types."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{name!r}:{exact(item)}' for name, item in sorted(value.items()))}}}"
    return f"[{','.join(map(exact, value))}]" if isinstance(value, list) else repr(value)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), VALUES))
def test_every_document_is_read_as_it_was_encoded(fields: dict[str, Any]) -> None:
    """And equal documents have one encoding, whatever the order of their fields."""
    assert exact(fields) == exact(read_row(encode(fields), what="it"))
    assert encode(fields) == encode(dict(reversed(fields.items())))


def test_equal_numbers_of_other_types_are_encoded_otherwise() -> None:
    """So a change of the type alone is one."""
    values = [0, 0.0, -0.0, False, math.nan, "0", None, b"0"]
    assert len(values) == len({encode({"a": value}) for value in values})


def test_a_row_in_the_order_of_names_is_read() -> None:
    """As earlier releases encoded it."""
    fields = {"a": [b"one", b"two"], "b": ["a text", "another one"], "c": 1}
    earlier = Encoded('{"c":1}', '{"a":["l",[3,3]],"b":["a",[6,11]]}', b"onetwoa textanother one\xff\xff")

    assert fields == read_row(earlier, what="it")


WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
EVENTS = 60
FRAME = 24
"""Bytes that SQLite's log has beside each page."""
MOST = 5
"""Pages: the row's first, the one where the array ends, what follows it, and the time of the commit."""


def event(number: int) -> Event:
    """Return an event of some 700 bytes that changes state."""
    content = types.Content(role="model", parts=[types.Part(text=f"{number} " + "word " * 80)])
    return Event(author="agent", content=content, actions=EventActions(state_delta={"step": number}))


async def test_an_append_writes_few_pages_however_long_the_tail_is(tmp_path: Path) -> None:
    """Of 18 that the session's row takes."""
    written = []
    async with Store.local(tmp_path) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(EVENTS):
            await store.sessions.append_event(session, event(number))
        file = tmp_path / "store.sqlite3"
        with contextlib.closing(sqlite3.connect(file)) as beside:
            (page,) = beside.execute("PRAGMA page_size").fetchone()
            for number in range(10):
                beside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                await store.sessions.append_event(session, event(EVENTS + number))
                written.append(file.with_name("store.sqlite3-wal").stat().st_size // (page + FRAME))
            (row,) = beside.execute("SELECT max(length(content)) FROM documents").fetchone()

    assert row > 10 * page
    assert 0 < statistics.median(written) <= MOST

"""Show that local documents keep what the port promises; tests/property compares them with Firestore's."""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.platform import time as platform_time

from gcp_adk_store import InvalidInputError, StoredDataError
from gcp_adk_store.codec.writes import Delete, Document, Filter, Must, Operator, Page, Write, Written
from gcp_adk_store.kernel.ports import ConditionFailedError, TargetExistsError
from gcp_adk_store.local.backend import contents_of
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.local.sweep import Sweeper, sweep_documents
from gcp_adk_store.settings import ArtifactLimits, SessionLimits
from tests.local.documents_process import FIRST, win, write_pairs
from tests.support.ready_processes import ReadyProcess, elsewhere

MIB = 1024 * 1024
ONE = "apps/one"


@pytest.fixture
async def documents(path: Path) -> AsyncIterator[LocalDocuments]:
    """Documents in a file."""
    documents = LocalDocuments(Database(path), SessionLimits())
    yield documents
    await documents.close()


@pytest.fixture
def clock() -> Iterator[list[float]]:
    """The machine's clock: the last time in the list."""
    times = [4e9]
    platform_time.set_time_provider(lambda: times[-1])
    yield times
    platform_time.reset_time_provider()


async def put(documents: LocalDocuments, *writes: Write | Delete) -> list[Written]:
    """Commit *writes*."""
    return await documents.commit(writes, repeatable_when_unanswered=False)


async def one(documents: LocalDocuments, path: str = ONE) -> Document:
    """Return a document that exists."""
    (found,) = await documents.get([path])
    assert found is not None
    return found


async def fields_after(documents: LocalDocuments, *writes: Write) -> dict[str, Any]:
    """Return the fields after *writes* to one document."""
    await put(documents, *writes)
    return dict((await one(documents, writes[0].path)).fields)


VALUES: dict[str, Any] = {
    "integer": 1,
    "float": 1.0,
    "least": -(2**63),
    "greatest": 2**63 - 1,
    "negative zero": -0.0,
    "small": 5e-324,
    "infinite": -math.inf,
    "yes": True,
    "nothing": None,
    "time": datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC),
    "early": datetime(1, 1, 1, tzinfo=UTC),
    "bytes": b"\x00\xff",
    "long bytes": bytes(range(256)) * 10,
    "text": "é\U0001f600\0\u2028",
    "long text": "é" * 1000,
    "texts": ["", "a", "é" * 500],
    "empty list": [],
    "empty map": {},
    "mixed": [1, 1.0, b"x", {"a": [datetime(2000, 1, 1, tzinfo=UTC), b""]}, None, "__bytes__"],
}


async def test_values_keep_their_types_exactly(documents: LocalDocuments) -> None:
    """Each alone, and all of them in a map."""
    expected = {**VALUES, "map": {**VALUES}}
    found = await fields_after(documents, Write(path=ONE, fields=expected))

    assert expected == found
    assert {name: repr(value) for name, value in expected.items() if name != "map"} == {
        name: repr(value) for name, value in found.items() if name != "map"
    }
    assert {name: repr(value) for name, value in VALUES.items()} == {
        name: repr(value) for name, value in found["map"].items()
    }


async def test_not_a_number_is_kept(documents: LocalDocuments) -> None:
    """Also in lists and maps, and a write of the same changes nothing."""
    write = Write(path=ONE, fields={"a": math.nan, "b": [math.nan, {"c": math.nan}]})
    first, second = [(await put(documents, write))[0].update_time for _ in range(2)]
    assert "{'a': nan, 'b': [nan, {'c': nan}]}" == repr((await one(documents)).fields)
    assert first == second


async def test_a_mask_changes_the_fields_that_it_names(documents: LocalDocuments) -> None:
    """A named field without a value is removed, names with dots are names, and maps are made on the way."""
    await put(documents, Write(path=ONE, fields={"a": 1, "b": {"x.y": 1, "z": 2}, "c": 3}))
    write = Write(
        path=ONE,
        fields={"a": 2, "b": {"x.y": 5}, "c": 4, "d": {"e": {"f": 1}}},
        mask=[("b", "x.y"), ("b", "z"), ("a",), ("d", "e", "f"), ("none",)],
    )
    assert {"a": 2, "b": {"x.y": 5}, "c": 3, "d": {"e": {"f": 1}}} == await fields_after(documents, write)


async def test_an_array_gains_what_it_lacks(documents: LocalDocuments) -> None:
    """Numbers are equal by value, not-a-number equals itself, and the order stays."""
    await put(documents, Write(path=ONE, fields={"t": [1, math.nan, {"a": 1}, "x"]}))
    write = Write(
        path=ONE, fields={}, mask=[], union={"t": [1.0, math.nan, {"a": 1.0}, "x", True, "y", "y", None, 2]}
    )
    assert "[1, nan, {'a': 1}, 'x', True, 'y', None, 2]" == repr((await fields_after(documents, write))["t"])


async def test_counters_stay_within_64_bits(documents: LocalDocuments) -> None:
    """They begin at 0, and each write tells the new value."""
    count = [1, 2, 2**63 - 1, -(2**63), -(2**63)]
    told = [
        (await put(documents, Write(path=ONE, fields={}, mask=[], increment={"n": amount})))[0].incremented[
            "n"
        ]
        for amount in count
    ]
    assert [1, 3, 2**63 - 1, -1, -(2**63)] == told


async def test_a_commit_is_all_or_nothing(documents: LocalDocuments) -> None:
    """A condition that fails at the end undoes what came before."""
    await put(documents, Write(path=ONE, fields={"a": 1}))
    with pytest.raises(TargetExistsError):
        await put(
            documents,
            Write(path="apps/two", fields={}),
            Delete(path="apps/none"),
            Write(path=ONE, fields={}, must=Must.BE_ABSENT),
        )
    assert [None] == await documents.get(["apps/two"])
    assert {"a": 1} == (await one(documents)).fields


@pytest.mark.parametrize("must", ["1.000000000", "later"])
async def test_a_document_of_another_update_time_is_not_written(documents: LocalDocuments, must: str) -> None:
    """Nor deleted, nor created."""
    (written,) = await put(documents, Write(path=ONE, fields={"a": 1}))
    if must == "later":
        must = written.update_time
        await put(documents, Write(path=ONE, fields={"a": 2}))
    for write in (
        Write(path=ONE, fields={}, must=must),
        Delete(path=ONE, must=must),
        Write(path="apps/none", fields={}, must=must),
    ):
        with pytest.raises(ConditionFailedError):
            await put(documents, write)
    assert [None] == await documents.get(["apps/none"])


async def test_update_times_rise_when_the_clock_steps_back(
    documents: LocalDocuments, path: Path, clock: list[float]
) -> None:
    """Also across a deletion, and in a later process."""
    times = []
    for number, now in enumerate([4e9, 4e9, 3e9, 5e9, 1.0]):
        clock.append(now)
        times += [(await put(documents, Write(path=ONE, fields={"n": number})))[0].update_time]
        await put(documents, Delete(path=ONE))
    await documents.close()
    later = LocalDocuments(Database(path), SessionLimits())
    times += [(await put(later, Write(path=ONE, fields={})))[0].update_time]
    await later.close()
    assert times == sorted(set(times))
    assert ["4000000000.000000000", "4000000000.000001000", "4000000000.000002000"] == times[:3]


async def test_a_write_that_changes_nothing_keeps_the_update_time(documents: LocalDocuments) -> None:
    """As Firestore's; an integer that becomes a float is a change."""
    (first,) = await put(documents, Write(path=ONE, fields={"b": 1, "a": ["x"]}))
    (again,) = await put(documents, Write(path=ONE, fields={"a": ["x"], "b": 1}))
    (union,) = await put(documents, Write(path=ONE, fields={}, mask=[], union={"a": ["x"]}))
    (other,) = await put(documents, Write(path=ONE, fields={"a": ["x"], "b": 1.0}))
    assert first.update_time == again.update_time == union.update_time < other.update_time


@pytest.mark.processes
async def test_processes_that_race_for_a_document_win_one_by_one(
    documents: LocalDocuments, path: Path
) -> None:
    """Each round has exactly one winner, and the update times strictly rise."""
    won = await asyncio.gather(
        *(asyncio.to_thread(elsewhere, win, f"{path}", f"{name}", 60) for name in range(4))
    )
    rounds = sorted(one for of_one in won for one in of_one)

    assert [*range(60)] == [number for number, _ in rounds]
    times = [time for _, time in rounds]
    assert times == sorted(set(times))
    assert times[-1] == (await one(documents, FIRST)).update_time


@pytest.mark.parametrize("committed", [1, 20])
async def test_a_killed_process_leaves_whole_commits_of_documents(
    documents: LocalDocuments, path: Path, committed: int
) -> None:
    """All that it told, perhaps one more, and never a part of one."""
    writer = ReadyProcess(write_pairs, f"{path}")
    told = [writer.receive() for _ in range(committed)]
    *_, last = [*told, *writer.end()]

    pairs = (await one(documents, "pairs/all")).fields["pairs"]
    found = {each.path for each in await documents.query("", "pairs", fields=["__name__"])} - {"pairs/all"}
    assert pairs in (last + 1, last + 2)
    assert {f"pairs/{number}-{half}" for number in range(int(str(pairs))) for half in "ab"} == found


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


PLACES = ("q/a", "q/a/q/1", "q/a/r/1/q/2", "q/a!", "q/a!/q/3", "q/a0", "q/é", "q/\uffff", "q/\U0001f600")


async def test_names_have_the_order_of_their_bytes(documents: LocalDocuments) -> None:
    """Segment by segment: what lies below a document comes before its longer neighbours."""
    await put(documents, *(Write(path=path, fields={}) for path in reversed(PLACES)))

    everywhere = await documents.query("", "q", all_descendants=True)
    assert [*PLACES] == [found.path for found in everywhere]
    assert ["q/a/q/1", "q/a/r/1/q/2"] == [
        found.path for found in await documents.query("q/a", "q", all_descendants=True)
    ]
    assert ["q/a/q/1"] == [found.path for found in await documents.query("q/a", "q")]


async def test_pages_go_through_all_documents_once(documents: LocalDocuments) -> None:
    """In both directions, by a number that some have in common and some lack."""
    await put(
        documents,
        *(Write(path=f"q/{n:02d}", fields={"at": n // 3, "app": "x"}) for n in range(20)),
        Write(path="q/without", fields={"app": "x"}),
        Write(path="q/other", fields={"at": 1, "app": "y"}),
    )
    for descending in (False, True):
        after, seen = None, []
        while page := await documents.query(
            "",
            "q",
            fields=("at",),
            all_descendants=True,
            page=Page(
                field="at",
                descending=descending,
                limit=7,
                after=after,
                filters=[Filter(field="app", operator=Operator.EQUAL, value="x")],
            ),
        ):
            seen += [found.path for found in page]
            after = (float(str(page[-1].fields["at"])), page[-1].path)
        assert seen == sorted((f"q/{n:02d}" for n in range(20)), reverse=descending)


async def test_only_the_fields_that_are_asked_for_are_returned(documents: LocalDocuments) -> None:
    """None of them for the name alone."""
    await put(documents, Write(path=ONE, fields={"a": 1, "m": {"x": 1, "y": "z" * 500}, "t": ["x"]}))
    expected = {("a", "none"): {"a": 1}, ("__name__",): {}, ("m.y", "t"): {"m": {"y": "z" * 500}, "t": ["x"]}}
    for fields, found in expected.items():
        assert [found] == [each and each.fields for each in await documents.get([ONE], fields=fields)]
        assert [found] == [each.fields for each in await documents.query("", "apps", fields=fields)]


async def test_expired_documents_are_removed(path: Path, documents: LocalDocuments) -> None:
    """Those of the collections and the field that have a TTL policy in Firestore."""
    at = datetime.fromtimestamp(4e9, UTC)
    many = [Write(path=f"adk_sessions/{n:04d}", fields={"expire_at": at}) for n in range(600)]
    await put(documents, *many, Write(path="adk_sessions/later", fields={"expire_at": at.replace(year=2200)}))
    await put(
        documents, Write(path=ONE, fields={"expire_at": at}), Write(path="adk_users/u", fields={"x": at})
    )
    database = Database(path)
    removed = [await sweep_documents(database, now=4e9 + seconds) for seconds in (-1, 0, 1)]
    await database.close()

    assert [0, 600, 0] == removed
    assert 1 == len(await documents.query("", "adk_sessions"))
    assert [ONE, "adk_users/u"] == [
        found and found.path for found in await documents.get([ONE, "adk_users/u"])
    ]


async def test_a_commit_sweeps_once_an_hour(
    path: Path, documents: LocalDocuments, clock: list[float]
) -> None:
    """Whichever process it is of."""
    database = Database(path)
    contents = contents_of(database, ArtifactLimits())

    async def left_after_a_commit(expired: str) -> bool:
        at = datetime.fromtimestamp(clock[-1] - 1, UTC)
        await put(documents, Write(path=expired, fields={"expire_at": at}))
        process = LocalDocuments(database, SessionLimits(), sweeper=Sweeper(database, contents))
        await put(process, Write(path=ONE, fields={}))
        return (await documents.get([expired])) != [None]

    left = []
    for seconds in (0, 3599, 3601):
        clock.append(4e9 + seconds)
        left.append(await left_after_a_commit(f"adk_sessions/{seconds}"))
    await database.close()

    assert [False, True, False] == left


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
    assert 0 == await sweep_documents(database, now=5e9)
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
    }
    for column, texts in damages.items():
        for text in texts:
            await put(documents, Delete(path=ONE), Write(path=ONE, fields={"a": 1, "t": ["secret"]}))
            with closing(sqlite3.connect(path)) as sql, sql:
                sql.execute(f"UPDATE documents SET {column} = ?", (text,))  # noqa: S608  # one of two names
            with pytest.raises(StoredDataError, match=ONE) as caught:
                await documents.get([ONE])
            assert "secret" not in str(caught.value)
            with pytest.raises(StoredDataError, match=ONE):
                await documents.get([ONE], fields=["t"])

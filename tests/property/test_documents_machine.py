"""Send the same random calls to local documents and to Firestore's emulator; both answer alike.

And what this process knows of documents that it follows is what is stored.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcp_adk_store import SessionLimits, StoreError
from gcp_adk_store.codec.writes import Delete, Document, Filter, Must, Operator, Page, Write, Written
from gcp_adk_store.kernel.ports import Documents, RefusedError
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.sessions.read.known import FollowedDocuments
from tests.support.lengths import at_length
from tests.support.stores import firestore_documents

PATHS: Final = ("c/1", "c/2", "c/10", "c/1/c/1", "c/1/d/2/c/é", "c/1!/c/x", "c/\uffff", "c/\U0001f600", "d/1")
WRONG: Final = ("c", "c/1/c", "c/__x__", "c//x", "c/..")
PARENTS: Final = ("", "c/1", "c/1/d/2", "c/none")
NAMES: Final = ("a", "b", "m")
TEXTS: Final = ("", "x", "é", "\U0001f600", "\uffff", "a" * 300, "\0")

SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, -1, 2**53 + 1, 2**63 - 1, -(2**63)])
    | st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0**53, float("nan"), float("inf"), float("-inf"), 5e-324])
    | st.sampled_from(TEXTS)
    | st.sampled_from([b"", b"x", b"\xff\0"])
    | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # the zone is beside
)
MAPS = st.deferred(lambda: st.dictionaries(st.sampled_from([*NAMES, "a.b", "`\\", "é"]), VALUES, max_size=3))
ITEMS = st.deferred(
    lambda: st.lists(SCALARS | MAPS, max_size=4) | st.lists(st.sampled_from(TEXTS), max_size=4)
)
VALUES: st.SearchStrategy[Any] = st.deferred(lambda: SCALARS | SCALARS | MAPS | ITEMS)
FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
MASKS = st.none() | st.lists(
    st.sampled_from([("a",), ("b",), ("m",), ("m", "a"), ("m", "a.b"), ("a", "b", "m")]),
    max_size=3,
    unique=True,
)
AMOUNTS = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])
PATH = st.sampled_from(PATHS) | st.sampled_from(PATHS) | st.sampled_from(PATHS) | st.sampled_from(WRONG)


@dataclass(frozen=True)
class Change:
    """One write of a commit."""

    path: str
    fields: dict[str, Any] | None
    """``None`` deletes the document."""
    mask: list[tuple[str, ...]] | None = None
    union: dict[str, list[Any]] = field(default_factory=dict)
    increment: dict[str, int] = field(default_factory=dict)
    must: str | None = None
    """"absent", "now" for the document's update time, or a time."""


@dataclass(frozen=True)
class Query:
    """One query."""

    parent: str
    collection: str
    fields: list[str] | None
    all_descendants: bool
    page: Page | None


CHANGES = st.builds(
    Change,
    PATH,
    FIELDS,
    MASKS,
    st.dictionaries(st.sampled_from(NAMES), st.lists(SCALARS | MAPS, max_size=3), max_size=1),
    st.dictionaries(st.sampled_from(["i"]), AMOUNTS, max_size=1)
    | st.dictionaries(st.just("b"), AMOUNTS, max_size=1),
    st.sampled_from([None, None, None, "absent", "now", "now", "1.000000000", "0.000000000"]),
) | st.builds(Change, PATH, st.none(), must=st.sampled_from([None, None, "now", "1.000000000"]))
OVER = st.builds(
    partial(Filter, operator=Operator.OVER), field=st.just(""), value=st.sampled_from([0.0, 1.0, -1.5])
)
"""A condition on the field of the order, which Firestore asks for."""
FILTERS = st.tuples(
    st.lists(
        st.builds(
            partial(Filter, operator=Operator.EQUAL),
            field=st.sampled_from(NAMES),
            value=st.sampled_from(TEXTS),
        ),
        max_size=1,
    ),
    st.lists(
        st.builds(
            partial(Filter, operator=Operator.CONTAINS),
            field=st.sampled_from(NAMES),
            value=st.sampled_from(TEXTS),
        ),
        max_size=1,
    ),
    st.lists(OVER, max_size=1),
)
PAGES = st.none() | st.builds(
    lambda name, descending, limit, after, filters: Page(
        field=name,
        descending=descending and name is not None,  # by names alone, Firestore needs an index for it
        limit=limit,
        after=after,
        filters=[
            *filters[0],
            *filters[1],
            *(replace(each, field=name) for each in filters[2] if name is not None),
        ],
    ),
    st.none() | st.sampled_from(NAMES),
    st.booleans(),
    st.integers(0, 6),
    st.none() | st.tuples(st.sampled_from([0.0, 1.0, -1.0, float("nan")]), st.sampled_from(PATHS)),
    FILTERS,
)
SELECTIONS = st.none() | st.lists(st.sampled_from([*NAMES, "__name__", "m.a"]), max_size=3, unique=True)
QUERIES = st.builds(
    Query, st.sampled_from(PARENTS), st.sampled_from(["c", "d", "e"]), SELECTIONS, st.booleans(), PAGES
)
CALLS = st.lists(
    st.lists(CHANGES, max_size=3).map(tuple) | st.lists(CHANGES, min_size=1, max_size=1).map(tuple) | QUERIES,
    min_size=1,
    max_size=12,
)


def exact(value: Any) -> str:
    """Return *value* so that equal texts mean equal types, signs and orders of lists too."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{exact(item)}" for name, item in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(exact, value)) + "]"
    # A zone of UTC has no time twice.
    return repr(value.replace(fold=0) if isinstance(value, datetime) else value)


class Side:
    """One of the two backends."""

    def __init__(self, documents: Documents, root: str) -> None:
        self._documents = documents
        self._root = root
        self.times: dict[str, str] = {}
        """The update times of what was read last, by path."""
        self.sent: list[Write | Delete] = []
        """The newest commit."""

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _write(self, change: Change) -> Write | Delete:
        must: Must | str | None = change.must
        if must == "now":
            must = self.times.get(change.path)
        if change.fields is None:
            assert not isinstance(must, Must)
            return Delete(path=self._at(change.path), must=must)
        return Write(
            path=self._at(change.path),
            fields=change.fields,
            mask=change.mask,
            union=change.union,
            increment=change.increment,
            must=Must.BE_ABSENT if must == "absent" else must,
        )

    async def commit(self, changes: Sequence[Change]) -> list[Written] | str:
        """Return what was written, or the name of the error."""
        self.sent = [self._write(change) for change in changes]
        try:
            return await self._documents.commit(self.sent)
        except (StoreError, RefusedError) as exc:
            return type(exc).__name__

    async def all(self) -> list[Document | None]:
        """Return every document."""
        found = await self._documents.get([self._at(path) for path in PATHS])
        self.times = {path: one.update_time for path, one in zip(PATHS, found, strict=True) if one}
        return found

    async def query(self, query: Query) -> list[tuple[str, str]] | str:
        """Return paths and fields, or the name of the error."""
        page = query.page
        if page is not None and page.after is not None:
            after = (page.after[0], self._at(page.after[1]))
            page = replace(page, after=after)
        try:
            found = await self._documents.query(
                self._at(query.parent).rstrip("/"),
                query.collection,
                fields=query.fields,
                all_descendants=query.all_descendants,
                page=page,
            )
        except StoreError as exc:
            return type(exc).__name__
        return [(one.path.removeprefix(self._root), exact(one.fields)) for one in found]


class Pair:
    """Both backends, and the times that mean the same in both."""

    def __init__(self, local: Side, cloud: Side) -> None:
        self._local = local
        self._cloud = cloud
        self._meant: dict[str, str] = {}

    def _are_the_same(self, local: str, cloud: str) -> bool:
        is_new = local not in self._meant and cloud not in self._meant.values()
        return is_new or self._meant.get(local) == cloud

    def _learn(self, local: str, cloud: str) -> None:
        assert self._are_the_same(local, cloud)
        rises = all(local > earlier for earlier in self._meant if earlier != local)
        assert rises or local in self._meant
        self._meant[local] = cloud

    async def call(self, call: Query | tuple[Change, ...]) -> None:
        """Let both answer, and compare."""
        if isinstance(call, Query):
            assert await self._local.query(call) == await self._cloud.query(call)
            return
        ours, theirs = await self._local.commit(call), await self._cloud.commit(call)
        if isinstance(ours, str) or isinstance(theirs, str):
            assert ours == theirs
        else:
            for one, other in zip(ours, theirs, strict=True):
                assert one.incremented == other.incremented
                if "0.000000000" in (one.update_time, other.update_time):
                    assert one.update_time == other.update_time
                else:
                    self._learn(one.update_time, other.update_time)
        for mine, stored in zip(await self._local.all(), await self._cloud.all(), strict=True):
            assert (mine is None) == (stored is None)
            if mine is not None and stored is not None:
                assert exact(mine.fields) == exact(stored.fields)
                self._learn(mine.update_time, stored.update_time)


@dataclass(frozen=True)
class Backends:
    """The two that calls are sent to, in one event loop."""

    local: Documents
    cloud: Documents
    runner: asyncio.Runner
    roots: Iterator[int] = field(default_factory=itertools.count)

    def compare(self, calls: list[Query | tuple[Change, ...]]) -> None:
        """Send *calls* to both, below a document of their own."""
        root = f"x/{next(self.roots)}"
        pair = Pair(Side(self.local, root), Side(self.cloud, root))

        async def send() -> None:
            for call in calls:
                await pair.call(call)

        self.runner.run(send())


@pytest.fixture
def backends(tmp_path: Path, project: str) -> Iterator[Backends]:
    """Both backends, without a document."""
    local = LocalDocuments(Database(tmp_path / "store.sqlite3"), SessionLimits())
    cloud = firestore_documents(project)
    with asyncio.Runner() as runner:
        yield Backends(local, cloud, runner)
        runner.run(local.close())
        runner.run(cloud.close())


def test_both_backends_answer_alike(backends: Backends) -> None:
    """To commits with conditions, masks and changes of arrays and counters, and to queries."""

    @settings(max_examples=at_length(10, 100), derandomize=True, suppress_health_check=list(HealthCheck))
    @given(CALLS)
    def send(calls: list[Query | tuple[Change, ...]]) -> None:
        backends.compare(calls)

    send()


FOLLOWED: Final = PATHS[:2]
COMMITS = st.lists(
    st.lists(
        st.builds(
            replace, CHANGES, path=st.sampled_from(FOLLOWED), must=st.sampled_from(["now", "now", None])
        ),
        min_size=1,
        max_size=2,
    ),
    min_size=1,
    max_size=4,
)


def test_what_is_known_of_a_followed_document_is_what_is_stored() -> None:
    """Also where a commit writes it twice, changes nothing of it, or requires nothing."""
    known_later: list[str] = []

    async def send(commits: list[list[Change]]) -> None:
        documents, followed = LocalDocuments(Database(None), SessionLimits()), FollowedDocuments()
        side = Side(documents, "x/0")
        await side.commit([Change(path, {"a": 1}) for path in FOLLOWED])
        for changes in commits:
            for stored in await side.all():
                if stored is not None:
                    followed.follow(stored)
            times = {**side.times}
            if not isinstance(written := await side.commit(changes), str):
                followed.committed(side.sent, written)
            for path, stored in zip(PATHS, await side.all(), strict=True):
                if (known := followed.known(f"x/0/{path}", now=0)) is not None:
                    assert stored is not None
                    assert known.update_time == stored.update_time
                    assert exact(known.fields) == exact(stored.fields)
                    if known.update_time != times[path]:
                        known_later.append(path)
        await documents.close()

    @settings(max_examples=at_length(40, 1000), derandomize=True)
    @given(COMMITS)
    def run(commits: list[list[Change]]) -> None:
        asyncio.run(send(commits))

    run()
    assert 10 < len(known_later)


def test_followed_documents_are_bounded() -> None:
    """By their bytes together; the oldest go first. One with many keys takes long to copy: it is not kept."""
    followed = FollowedDocuments()
    for number in range(20):
        large = Document(path=f"c/{number}", fields={"a": "x" * 2**20}, update_time="1.0", read_time=0)
        followed.follow(large)
    followed.follow(
        Document(
            path="c/keys",
            fields={"a": dict.fromkeys(map(str, range(1001)), 1)},
            update_time="1.0",
            read_time=0,
        )
    )

    assert list(range(5, 20)) == [n for n in range(20) if followed.known(f"c/{n}", now=0) is not None]
    assert followed.known("c/keys", now=0) is None

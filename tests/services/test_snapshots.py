"""Show that reads of a snapshot find one time, whatever others write meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gcp_adk_store import Store, StoreError
from gcp_adk_store.settings import MEMORY
from tests.support.clock import in_days
from tests.support.stored import overwrite
from tests.support.stores import STORES, firestore_documents

KEPT, DELETED, MADE = "apps/a/users/kept", "apps/a/users/deleted", "apps/a/users/made"


class WritesBefore(grpc.aio.UnaryStreamClientInterceptor):
    """Writes the number of each read into a document before the read is sent."""

    def __init__(self) -> None:
        self.reads = 0
        self.documents: Any = None
        """Where it writes; nowhere until this is set."""

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        """Write, then send *request*."""
        if self.documents is not None:
            self.reads += 1
            await overwrite(self.documents, {KEPT: {"n": self.reads}})
        return await continuation(details, request)


of_firestore = pytest.mark.parametrize("documents", STORES[:1], indirect=True)
of_this_machine = pytest.mark.parametrize("documents", ["folder", "memory"], indirect=True)


@pytest.fixture
def writes() -> WritesBefore:
    """What writes before the reads of Firestore, once the test lets it."""
    return WritesBefore()


@pytest.fixture(params=[*STORES, "memory"])
async def documents(
    request: pytest.FixtureRequest, tmp_path: Path, writes: WritesBefore
) -> AsyncIterator[Any]:
    """Documents of a store of one kind, of which two exist."""
    documents: Any
    if request.param == "emulators":
        documents = firestore_documents(request.getfixturevalue("project"), [writes])
    else:
        place = MEMORY if request.param == "memory" else tmp_path
        documents = Store.local(place).sessions.storage.documents
    await overwrite(documents, {KEPT: {"n": 1}, DELETED: {"n": 1}})
    yield documents
    await documents.close()


def fields(found: Any) -> dict[str, Any] | None:
    """Return the fields of a document, if it exists."""
    return None if found is None else dict(found.fields)


async def test_a_snapshot_does_not_find_what_is_written_after_its_first_read(documents: Any) -> None:
    """By name and by query; other reads find it at once."""
    async with documents.snapshot() as reads:
        await reads.get([KEPT])
        await overwrite(documents, {KEPT: {"n": 2}, DELETED: None, MADE: {"n": 2}})
        then = await reads.get([KEPT, DELETED, MADE])
        listed = await reads.query("apps/a", "users")
        everywhere = await reads.query("", "users", all_descendants=True)
        now = await documents.get([KEPT, DELETED, MADE])

    assert [{"n": 1}, {"n": 1}, None] == [fields(one) for one in then]
    assert [DELETED, KEPT] == [one.path for one in listed] == [one.path for one in everywhere]
    assert [{"n": 2}, None, {"n": 2}] == [fields(one) for one in now]


@of_firestore
async def test_versions_of_the_last_hour_are_known_one_by_one(documents: Any) -> None:
    """From the newest back to the first; before it there was none, and nobody asks for one that is older."""
    for number in range(4):
        await overwrite(documents, {MADE: {"n": number, "other": "x"}})
    (version,) = await documents.get([MADE])
    found = []
    while version is not None:
        found.append(version)
        version = await documents.before(MADE, version.update_time, fields=("n",))
    with in_days(1):
        old = await documents.before(MADE, found[0].update_time, fields=("n",))

    assert [3, 2, 1, 0] == [each.fields["n"] for each in found]
    assert [{"n": 2}, {"n": 1}, {"n": 0}] == [fields(each) for each in found[1:]]
    assert old is None


@of_this_machine
async def test_a_store_on_this_machine_keeps_no_earlier_version(documents: Any) -> None:
    """It says so, as of one that Firestore no longer knows."""
    await overwrite(documents, {KEPT: {"n": 2}})
    (now,) = await documents.get([KEPT])

    assert await documents.before(KEPT, now.update_time, fields=("n",)) is None


@of_this_machine
async def test_reads_at_once_of_a_snapshot_are_of_one_time(documents: Any) -> None:
    """That at which it began."""
    async with documents.snapshot() as reads:
        at_once = asyncio.gather(*(reads.get([KEPT]) for _ in range(5)))
        await overwrite(documents, {KEPT: {"n": 2}})
        found = [fields(one) for (one,) in await at_once]

    assert [{"n": 1}] * 5 == found


@of_firestore
async def test_reads_that_begin_a_snapshot_at_once_are_of_one_time(
    documents: Any, writes: WritesBefore
) -> None:
    """The first of them sets the time, and the others wait for it, whatever is written before they are sent.

    Nothing is written while the first one runs: the emulator may send a time after that of a write which the
    read has missed, and Firestore may not.
    """
    writes.documents = documents
    async with documents.snapshot() as reads:
        found = await asyncio.gather(*(reads.get([KEPT]) for _ in range(5)))

    assert (5, [{"n": 1}] * 5) == (writes.reads, [fields(one) for (one,) in found])


@of_firestore
async def test_a_snapshot_over_an_hour_old_is_reported(documents: Any) -> None:
    """Before Firestore is asked, which would name an index as the cause."""
    async with documents.snapshot() as reads:
        await reads.get([KEPT])
        with in_days(1), pytest.raises(StoreError, match="more than 3600 s old"):
            await reads.get([KEPT])

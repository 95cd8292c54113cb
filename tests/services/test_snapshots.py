"""Show that reads of a snapshot find one time, whatever others write meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import ArtifactLimits, SessionLimits, StoreError
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.codec.writes import Delete, Document, Write
from gcp_adk_store.local.backend import open_backend
from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.settings import MEMORY
from tests.support.clock import in_days
from tests.support.stores import STORES

KEPT, DELETED, MADE = "apps/a/users/kept", "apps/a/users/deleted", "apps/a/users/made"


def documents_of(store: str, folder: Path, request: pytest.FixtureRequest) -> Documents:
    """Return the documents of a store of one kind."""
    if store != "emulators":
        path = MEMORY if store == "memory" else f"{folder}"
        return open_backend(path, SessionLimits(), ArtifactLimits()).documents
    return open_documents(
        project=request.getfixturevalue("project"),
        database="(default)",
        credentials=None,
        client=None,
        interceptors=(),
        limits=SessionLimits(),
    )


@pytest.fixture(params=[*STORES, "memory"])
async def documents(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Documents]:
    """Documents of which two exist."""
    documents = documents_of(request.param, tmp_path, request)
    await put(documents, Write(path=KEPT, fields={"n": 1}), Write(path=DELETED, fields={"n": 1}))
    yield documents
    await documents.close()


async def put(documents: Documents, *writes: Write | Delete) -> None:
    """Commit *writes*."""
    await documents.commit(writes, repeatable_when_unanswered=False)


def fields(found: Document | None) -> dict[str, Any] | None:
    """Return the fields of a document, if it exists."""
    return None if found is None else dict(found.fields)


async def test_a_snapshot_does_not_find_what_is_written_after_its_first_read(documents: Documents) -> None:
    """By name and by query; other reads find it at once."""
    async with documents.snapshot() as reads:
        await reads.get([KEPT])
        await put(
            documents,
            Write(path=KEPT, fields={"n": 2}),
            Delete(path=DELETED),
            Write(path=MADE, fields={"n": 2}),
        )
        then = await reads.get([KEPT, DELETED, MADE])
        listed = await reads.query("apps/a", "users")
        everywhere = await reads.query("", "users", all_descendants=True)
        now = await documents.get([KEPT, DELETED, MADE])

    assert [{"n": 1}, {"n": 1}, None] == [fields(one) for one in then]
    assert [DELETED, KEPT] == [one.path for one in listed] == [one.path for one in everywhere]
    assert [{"n": 2}, None, {"n": 2}] == [fields(one) for one in now]


async def test_reads_that_begin_a_snapshot_at_once_are_of_one_time(documents: Documents) -> None:
    """The first of them sets the time, and the others wait for it."""
    async with documents.snapshot() as reads:
        first = asyncio.gather(*(reads.get([KEPT]) for _ in range(5)))
        await put(documents, Write(path=KEPT, fields={"n": 2}))
        found = [fields(one) for (one,) in await first]
        (last,) = await reads.get([KEPT])

    assert [fields(last)] * 5 == found


@pytest.mark.emulators
async def test_a_snapshot_over_an_hour_old_is_told(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Before Firestore is asked, which would name an index as the cause."""
    documents = documents_of("emulators", tmp_path, request)
    async with documents.snapshot() as reads:
        await reads.get([KEPT])
        with in_days(1), pytest.raises(StoreError, match="more than 3600 s old"):
            await reads.get([KEPT])
    await documents.close()

"""The runbook of docs/migrating.md, with writers running."""

import asyncio
from typing import Any

import pytest
from google.adk.integrations.firestore.firestore_session_service import FirestoreSessionService as AdkService
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.cloud.firestore import AsyncClient

from gcp_adk_store import Store
from gcp_adk_store.moving import copy
from gcp_adk_store.testing.conformance.running import event
from tests.moving.hardest import APP, fill, many


async def write_until(
    service: BaseSessionService, stopped: asyncio.Event, permits: asyncio.Semaphore, name: str
) -> int:
    """Append events to one session, and make others, one for each permit, until *stopped*."""
    session = await service.create_session(app_name=APP, user_id=name, session_id="s")
    count = 0
    while not stopped.is_set():
        await permits.acquire()
        await service.append_event(session, event(f"{count}", delta={"count": count, "user:count": count}))
        count += 1
        if count % 5 == 0:
            await fill(service, [(name, f"s{count}", many(2))])
    return count


async def follow_the_runbook(source: Any, service: BaseSessionService, store: Store) -> None:
    """Move what writers write to *service*, read from *source*, into *store*."""
    await fill(service, [("old", "s1", many(30)), ("old", "s2", [])])
    stopped, stops = asyncio.Event(), asyncio.Event()
    tried = await copy(source, store.sessions, app_name=APP, dry_run=True)
    permits = asyncio.Semaphore(6)
    writers = [asyncio.create_task(write_until(service, stopped, permits, name)) for name in ("ada", "bob")]

    def count(report: Any) -> None:
        if report.passes >= 4:
            stopped.set()
        for _ in writers:
            permits.release()

    following = asyncio.create_task(
        copy(source, store.sessions, app_name=APP, follow=stops, interval_s=0.01, on_progress=count)
    )
    counts = await asyncio.wait_for(asyncio.gather(*writers), 100)
    stops.set()
    followed = await following
    verified = await copy(source, store.sessions, app_name=APP, verify=True)
    listed = await service.list_sessions(app_name=APP)

    assert (2, 0) == (tried.copied, tried.wrong)
    assert followed.is_complete, followed.notes
    assert followed.continued > 0
    assert verified.is_complete, verified.notes
    assert len(listed.sessions) == verified.verified
    for name, appended in zip(("ada", "bob"), counts, strict=True):
        session = await store.sessions.get_session(app_name=APP, user_id=name, session_id="s")
        assert session is not None
        assert (appended, appended - 1) == (len(session.events), session.state["user:count"])
    assert [] == [fault async for fault in store.check(app_name=APP)]


async def test_the_runbook_moves_an_app_that_runs() -> None:
    """From ADK's service in memory into a local store."""
    service = InMemorySessionService()
    async with Store.local(":memory:") as store:
        await follow_the_runbook(service, service, store)


@pytest.mark.long
@pytest.mark.emulators
async def test_the_runbook_moves_an_app_that_runs_on_adks_firestore_service(
    adk_store: Store, project: str
) -> None:
    """Into this library's store, in the emulator."""
    client = AsyncClient(project=project)
    await follow_the_runbook(f"adk-firestore://{project}", AdkService(client=client), adk_store)
    client.close()

"""Large content leaves for payloads, and comes back byte by byte; no size ends a turn."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client
from google.cloud.firestore import Client as FirestoreClient
from google.genai import types

from gcp_adk_store import (
    InvalidInputError,
    PayloadMissingError,
    SessionLimits,
    SessionService,
    Store,
    StoredDataError,
)
from gcp_adk_store.testing.conformance.running import event, read
from tests.golden.raw import take_documents
from tests.services.conftest import APP, SESSION, USER, WHO, Connect, picture, texts
from tests.support.loop_work import counted_steps
from tests.support.stores import remove_payloads

MIB = 1024 * 1024


@pytest.fixture(params=["chunks", "files"])
def service(request: pytest.FixtureRequest, connect: Connect) -> SessionService:
    """A service that keeps payloads in its database, then one that keeps them in files."""
    return connect(bucket=request.param if request.param == "files" else None)


async def test_a_long_text_and_large_state_of_every_scope_come_back(service: SessionService) -> None:
    """In events, in initial state and in listings."""
    long, rows = "ünï" * 400_000, [["cell" * 10] * 10] * 400
    held = await service.create_session(**WHO, state={"first": rows, "user:first": long})
    large = {"mine": rows, "user:mine": long, "app:mine": {"rows": rows}}
    await service.append_event(held, event(long, delta=large))
    found = await service.get_session(**WHO)
    (listed,) = (await service.list_sessions(app_name=APP, user_id=USER)).sessions
    (of_app,) = (await service.list_sessions(app_name=APP)).sessions

    assert held == found
    assert {**large, "first": rows, "user:first": long} == held.state == listed.state == of_app.state
    assert {"mine": long, "first": long} == await service.get_user_state(app_name=APP, user_id=USER)
    assert [long] == texts(held.events)


async def test_what_is_refused_leaves_no_payload_and_no_segment_behind(
    connect: Connect, raw_documents: Any
) -> None:
    """A key that cannot be stored is found before its neighbours' payloads are written."""
    service = connect()
    held = await service.create_session(**WHO)
    await service.append_event(held, event("kept"))
    before = raw_documents()
    refused = {"k" * 1501: 1, "large": "x" * MIB}
    with pytest.raises(InvalidInputError, match="1501 bytes"):
        await service.append_event(held, event(delta=refused))
    with pytest.raises(InvalidInputError, match="1501 bytes"):
        await service.create_session(app_name=APP, user_id=USER, state=refused)

    assert before == raw_documents()
    assert held == await service.get_session(**WHO)


@pytest.mark.emulators
async def test_a_missing_or_damaged_payload_is_named(
    connect: Connect, project: str, raw_documents: Any
) -> None:
    """With its digest and size, never what is left of it."""
    service = connect()
    held = await service.create_session(**WHO)
    await service.append_event(held, picture(b"x" * MIB))
    client = FirestoreClient(project=project)
    first, last = sorted(path for path in raw_documents() if "_chunks/" in path)
    client.document(last).update({"body": b"y"})
    with pytest.raises(
        PayloadMissingError, match=r"payload sha256:\w+ \(1048576 bytes, chunks\) of .* is damaged"
    ):
        await service.get_session(**WHO)
    client.document(first).delete()
    with pytest.raises(PayloadMissingError, match="is missing"):
        await service.get_session(**WHO)
    client.close()


async def test_a_missing_payload_is_a_placeholder_if_one_asks_for_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The conversation goes on; a state value that is gone stays an error, since code reads it."""
    small = SessionLimits(inline_bytes=10, event_text_bytes=2000, state_value_bytes=2000)
    long = Event(author="agent", content=types.Content(role="model", parts=[types.Part(text="long" * 1000)]))
    async with Store.local(folder, session_limits=small) as store:
        held = await store.sessions.create_session(**WHO)
        for made in (picture(b"a" * 20), long):
            await store.sessions.append_event(held, made)
        await remove_payloads(store)
        with pytest.raises(
            PayloadMissingError, match=r'is missing; restore it.*on_missing_payload="placeholder"'
        ):
            await store.sessions.get_session(**WHO)
        reading = SessionService(store.sessions.storage, on_missing_payload="placeholder")
        found = await read(reading, WHO)
        iterated = [one.event async for one in reading.iter_events(**WHO)]
        await reading.append_event(found, event("goes on"))
        digest = hashlib.sha256(b"a" * 20).hexdigest()

        first, second, _ = texts(found.events)
        assert f"[content of 20 bytes is missing: sha256:{digest}]" == first
        assert (second or "").startswith("[content of ")
        assert (long.id, "agent", long.timestamp) == (
            found.events[1].id,
            found.events[1].author,
            found.events[1].timestamp,
        )
        assert found.events[:2] == iterated
        assert 4 == sum("read without its content" in record.message for record in caplog.records)
        await store.sessions.append_event(found, event(delta={"large": "x" * 3000}))
        await remove_payloads(store)
        with pytest.raises(PayloadMissingError):
            await reading.get_session(**WHO)


@pytest.mark.emulators
async def test_payloads_in_a_bucket_that_was_not_given_are_a_typed_error(
    connect: Connect, adk_store_bucket: str
) -> None:
    """It names the setting; the bucket may be given later, and payloads in Firestore stay readable."""
    await (first := connect()).create_session(**WHO)
    held = await read(first, WHO)
    await first.append_event(held, picture(b"in chunks" * MIB))
    await connect(bucket=adk_store_bucket).append_event(held, picture(b"in bucket" * MIB))
    with pytest.raises(StoredDataError, match="bucket="):
        await connect().get_session(**WHO)

    assert held == await connect(bucket=adk_store_bucket).get_session(**WHO)


@pytest.mark.emulators
async def test_the_event_loop_goes_on_while_large_content_is_stored(
    connect: Connect, adk_store_bucket: str
) -> None:
    """Hashing and compressing happen in a thread."""
    service = connect(bucket=adk_store_bucket)
    held = await service.create_session(**WHO)
    with counted_steps() as work:
        await service.append_event(held, picture(os.urandom(20 * MIB)))

    assert work.characters < MIB // 10
    assert work.apart_characters >= 2 * MIB
    assert held == await service.get_session(**WHO)


@pytest.mark.emulators
async def test_no_commit_is_larger_than_the_emulator_takes(connect: Connect, project: str) -> None:
    """Chunks are written a few at a time: 4 MiB in one request would hang the client."""
    service = connect()
    held = await service.create_session(**WHO)
    await service.append_event(held, picture(os.urandom(9 * MIB)))
    client = FirestoreClient(project=project)
    path = f"adk_apps/{APP}/adk_users/{USER}/adk_sessions/{SESSION}"
    chunks = list(client.collection(f"{path}/adk_chunks").stream())
    client.close()

    assert 11 == len(chunks)
    assert all(len(chunk.get("body")) <= 900 * 1024 for chunk in chunks)
    assert held == await service.get_session(**WHO)


SMALL = SessionLimits(seal_tail_bytes=2000)


def copy(project: str, *, target: str) -> None:
    """Copy all documents of a project's default database into another one: as a clone or a restore does."""
    new = Client(project=project, database=target, credentials=AnonymousCredentials())
    for path, fields in take_documents(project).items():
        new.document(path).set(fields)


async def test_a_database_of_another_name_finds_its_payloads(project: str, adk_store_bucket: str) -> None:
    """All sessions are as they were at that moment, whatever the first one got since; and they go on."""
    data = os.urandom(100_000)
    blob = types.Blob(data=data, mime_type="image/png")
    picture = Event(author="user", content=types.Content(parts=[types.Part(inline_data=blob)]))
    place: dict[str, Any] = {"project": project, "bucket": adk_store_bucket, "session_limits": SMALL}
    async with Store.connect(**place) as live:
        held = await live.sessions.create_session(**WHO, state={"user:big": "x" * 100_000})
        await live.sessions.append_event(held, picture)
        for number in range(20):
            await live.sessions.append_event(held, event(f"before {number}", delta={"app:n": number}))
        then = await read(live.sessions, WHO)
        copy(project, target="restored")
        await live.sessions.append_event(held, event("after", delta={"app:n": 99}))
    async with Store.connect(**place, database="restored") as restored:
        found = await read(restored.sessions, WHO)
        was = found.model_copy(deep=True)
        await restored.sessions.append_event(found, event("goes on"))
        again = await read(restored.sessions, WHO)

    assert (then.state, then.events) == (was.state, was.events)
    assert (again.state["app:n"], len(again.events)) == (19, 22)

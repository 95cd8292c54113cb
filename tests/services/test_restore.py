"""A database that was restored under another name is the same store."""

import os
from typing import Any

from google.adk.events import Event
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.testing.conformance.running import event, read
from tests.golden.raw import take_documents
from tests.services.conftest import WHO

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

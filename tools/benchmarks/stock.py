"""Lay in what operations find: conversations, many sessions, many versions.

Ours is written through its own service. ADK's takes several transactions an event: where there are many, its
documents are written as its service would have, some hundred at a time, and the local services, which write a
file for each event, have none of the largest.
"""

import asyncio
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.cloud.firestore import SERVER_TIMESTAMP, AsyncClient
from google.cloud.storage import Bucket
from google.genai import types

from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Document, Write
from gcp_adk_store.model.keys import SessionKey
from tools.benchmarks.lines import Line
from tools.benchmarks.subjects import ADKS, OURS

APP, USER = "bench", "ada"
SUMMARIZED: Final = 50
"""Events of a long session to a summary."""
_MIME: Final = "application/octet-stream"
_AT_ONCE: Final = 32
_DOCUMENTS_PER_BATCH: Final = 400


def event(number: int = 0, delta: dict[str, Any] | None = None) -> Event:
    """Return an event of a usual size: some 600 bytes as JSON."""
    return Event(
        author="agent",
        invocation_id=f"i{number}",
        content=types.Content(role="model", parts=[types.Part(text="lorem ipsum " * 20)]),
        actions=EventActions(state_delta=dict(delta or {})),
    )


def summary(session: Session) -> Event:
    """Return an event of ADK's compaction that covers all events of a *session*."""
    made = Event(author="user", invocation_id=Event.new_id(), timestamp=time.time())
    made.actions.compaction = EventCompaction(
        start_timestamp=session.events[0].timestamp,
        end_timestamp=session.events[-1].timestamp,
        compacted_content=types.Content(role="model", parts=[types.Part(text="summary " * 60)]),
    )
    return made


def _known(document: Document) -> dict[str, FieldValue]:
    return {name: value for name, value in document.fields.items() if not isinstance(value, Foreign)}


def who(session: str, *, user: str = USER, app: str = APP) -> dict[str, Any]:
    """Return the arguments that name a session."""
    return {"app_name": app, "user_id": user, "session_id": session}


class Stock:
    """Makes things for all lines, each kept for the scenarios that can share it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._conversations: dict[tuple[str, int], str] = {}
        self._listed: set[tuple[str, str]] = set()
        self._artifacts: set[tuple[str, str]] = set()

    def services(self) -> dict[str, BaseSessionService]:
        """Return everyone's sessions, by subject, without delay."""
        return {OURS: self._line.sessions, ADKS: self._line.adk_sessions, **self._line.local}

    async def conversation(self, subject: str, events: int) -> str:
        """Return the id of a session with so many events that nobody changes; the same one each time."""
        key = (subject, events)
        if key not in self._conversations:
            self._conversations[key] = (await self.new_session(subject, events)).id
        return self._conversations[key]

    async def summarized_conversation(self, events: int) -> str:
        """Return the id of a session of ours with so many events, and a summary after each 50 of them."""
        key = ("with summaries", events)
        if key not in self._conversations:
            session = await self.new_session(OURS)
            for number in range(events):
                await self._line.sessions.append_event(session, event(number))
                if number % SUMMARIZED == SUMMARIZED - 1:
                    await self._line.sessions.append_event(session, summary(session))
            self._conversations[key] = session.id
        return self._conversations[key]

    async def copied_conversation(self, subject: str, events: int) -> str:
        """Return the id of a copy of that conversation; ADK's own is one, and may be changed.

        The emulator keeps every version of a document: one that was written 10,000 times takes 1.6 times as
        long to write as a new one, whatever it holds. Of the copy each document is written once.
        """
        session = await self.conversation(subject, events)
        if subject != OURS:
            return session
        copied = uuid.uuid4().hex
        old, new = (SessionKey(app=APP, user=USER, session=name) for name in (session, copied))
        layout, documents = Layout("adk"), self._line.documents
        (header,) = await documents.get([layout.session(old)])
        assert header is not None
        stored = read_session(header)
        parts = layout.segments(old, stored.epoch, range(stored.sealed))
        writes = [Write(path=layout.session(new), fields={**_known(header), "id": copied})]
        for document in await documents.get(parts):
            assert document is not None
            path = document.path.replace(layout.session(old), layout.session(new))
            writes.append(Write(path=path, fields=_known(document)))
        for write in writes:
            await documents.commit([write])
        return copied

    async def new_session(
        self, subject: str, events: int = 0, state: dict[str, Any] | None = None
    ) -> Session:
        """Return a new session with so many events, as its service reads it."""
        service = self.services()[subject]
        session = await service.create_session(**who(uuid.uuid4().hex), state=state)
        if subject == ADKS and events:
            await _write(self._line.adk_sessions.client, _adk_events(session, events))
            return await self.read(subject, session.id)
        for number in range(events):
            await service.append_event(session, event(number))
        return session

    async def read(self, subject: str, session: str, *, last: int | None = None) -> Session:
        """Return a session as it is now, with its *last* events or all."""
        config = None if last is None else GetSessionConfig(num_recent_events=last)
        found = await self.services()[subject].get_session(**who(session), config=config)
        assert found is not None
        return found

    async def sessions(self, subject: str, app: str, *, users: int, each: int) -> None:
        """See to it that *app* has so many users with so many sessions each."""
        if (subject, app) in self._listed:
            return
        self._listed.add((subject, app))
        names = [(f"user-{user:03}", f"{number:03}") for user in range(users) for number in range(each)]
        if subject == ADKS:
            await _write(self._line.adk_sessions.client, _adk_sessions(app, names))
            return
        service = self.services()[subject]
        todo = iter(names)

        async def work() -> None:
            for user, name in todo:
                await service.create_session(**who(name, user=user, app=app), state={"topic": "invoices"})

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))

    async def versions(self, subject: str, filename: str, count: int, *, size: int = 1024) -> None:
        """See to it that an artifact has so many versions, under the names that both services give them."""
        await self._objects(subject, filename, [f"{filename}/{version}" for version in range(count)], size)

    async def loadable(self, line: Line, subject: str, filename: str, *, versions: int, size: int) -> None:
        """See to it that an artifact has so many versions, the latest of them put there over *line*.

        The emulator gives an object's links the address that it was uploaded to, and Google's client follows
        them: what was put there without delay would be loaded without.
        """
        await self.versions(subject, filename, versions, size=size)
        blob = _bucket(line, subject).blob(f"{APP}/{USER}/s/{filename}/{versions - 1}")
        await asyncio.to_thread(blob.upload_from_string, b"x" * size, content_type=_MIME)

    async def keys(self, subject: str, count: int) -> None:
        """See to it that session ``keys`` has so many artifacts."""
        await self._objects(
            subject, "keys", [f"artifact-{number:04}/0" for number in range(count)], 100, session="keys"
        )

    async def _objects(
        self, subject: str, what: str, names: list[str], size: int, *, session: str = "s"
    ) -> None:
        if (subject, what) in self._artifacts:
            return
        self._artifacts.add((subject, what))
        bucket = _bucket(self._line, subject)
        data = b"x" * size
        todo = iter(names)

        def work() -> None:
            for name in todo:
                blob = bucket.blob(f"{APP}/{USER}/{session}/{name}")
                blob.upload_from_string(data, content_type=_MIME)

        # Few, and one iterator for all: the emulator has one core for them.
        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))


def _bucket(line: Line, subject: str) -> Bucket:
    return line.storage.bucket(line.place.bucket if subject == OURS else line.place.adk_bucket)


Documents = Iterable[tuple[tuple[str, ...], dict[str, Any]]]


async def _write(client: AsyncClient, documents: Documents) -> None:
    """Write documents, whole."""
    batch, waiting = client.batch(), 0
    for path, fields in documents:
        batch.set(client.document(*path), fields, merge=True)
        waiting += 1
        if waiting == _DOCUMENTS_PER_BATCH:
            await batch.commit()
            batch, waiting = client.batch(), 0
    if waiting:
        await batch.commit()


def _adk_events(session: Session, count: int) -> Documents:
    """Yield the documents of *count* appends to a new session, as ADK 2.13 lays them out."""
    path = ("adk-session", session.app_name, "users", session.user_id, "sessions", session.id)
    for number in range(count):
        made = event(number)
        yield (
            (*path, "events", made.id),
            {
                "event_data": made.model_dump(exclude_none=True, mode="json"),
                "timestamp": datetime.fromtimestamp(made.timestamp, tz=UTC),
                "appName": session.app_name,
                "userId": session.user_id,
            },
        )
    yield path, {"revision": count, "updateTime": SERVER_TIMESTAMP}


def _adk_sessions(app: str, names: Iterable[tuple[str, str]]) -> Documents:
    for user, name in names:
        yield (
            ("adk-session", app, "users", user, "sessions", name),
            {
                "id": name,
                "appName": app,
                "userId": user,
                "state": '{"topic": "invoices"}',
                "createTime": SERVER_TIMESTAMP,
                "updateTime": SERVER_TIMESTAMP,
                "revision": 0,
            },
        )

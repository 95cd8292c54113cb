"""Read sessions in the Firestore layout of ADK for Java, which keeps less of an event than ADK does.

::

    {root}/{user}/sessions/{session}                      id, appName, userId, updateTime, state
    {root}/{user}/sessions/{session}/user-event/{random}  author, timestamp, content.parts
    app-state/{app}
    user-state/{app}/users/{user}
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, Self

from google.adk.events import Event
from google.genai import types
from pydantic import ValidationError

from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.ports import Documents, Reads
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.adk_firestore import firestore_documents, kept, name_of
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.records import Listed, Record, Traits
from gcp_adk_store.sessions.read.payloads import pages

EVENTS_PER_PAGE: Final = 100
SESSIONS_PER_PAGE: Final = 100
_SECOND: Final = len("2025-01-01T00:00:00")

_PARTS: Final = {
    "text": "text",
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "fileData": "file_data",
}


class AdkJava:
    """The sessions of the Firestore service in the contrib folder of ADK for Java, as a source."""

    traits: Final = Traits(
        kind="ADK for Java's Firestore service",
        sorts_by_time=True,
        losses=(
            "events have no ids: the names of their documents become ids",
            "events have no actions, no invocation ids, no branches, no usage and no error codes",
            "events have no parts but texts, calls and responses of functions, and URIs of files",
            "a user's events have the user's id as author, which becomes 'user'",
            "times are in milliseconds",
        ),
    )
    """What it keeps."""

    def __init__(self, documents: Documents, *, root: str | None = None) -> None:
        """Prepare; *root* is the collection, by default ``adk-session``."""
        self._documents = documents
        self._root = root or "adk-session"

    @classmethod
    def connect(cls, *, project: str | None, database: str, root: str | None) -> Self:
        """Return the store of a project and a database, over a connection of its own."""
        return cls(firestore_documents(project=project, database=database), root=root)

    async def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """As the port; 1 query for 100 sessions, of all apps and users in the database."""
        parent = "" if user is None else f"{self._root}/{name_of(user)}"
        found = pages(
            self._documents,
            "sessions",
            parent=parent,
            all_descendants=user is None,
            fields=("appName", "updateTime"),
            limit=SESSIONS_PER_PAGE,
        )
        async for documents, _ in found:
            for document in documents:
                names = document.path.split("/")
                if names[0] == self._root and len(names) == 4 and document.fields.get("appName") == app:  # noqa: PLR2004  # as in the layout above
                    yield Listed(
                        user_id=names[1],
                        session_id=names[3],
                        stamp=document.update_time,
                        last_update_time=_seconds(document.fields.get("updateTime")) or 0.0,
                    )

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncIterator[Record | None]:
        """As the port, from one snapshot: 3 reads, then those of the events."""
        path = f"{self._root}/{name_of(key.user)}/sessions/{name_of(key.session)}"
        async with self._documents.snapshot() as reads:
            session, app, user = await reads.get([path, *_shared_paths(key.owner)])
            if session is None or session.fields.get("appName") != key.app:
                yield None
                return
            state, notes = kept(_map(session.fields.get("state")), "state")
            yield Record(
                header=SessionHeader(
                    key=key,
                    state=state,
                    last_update_time=_seconds(session.fields.get("updateTime")) or float(session.update_time),
                ),
                shared=_shared(app, user),
                stamp=session.update_time,
                events=_events(reads, path, key.user),
                notes=tuple(("types", says) for says in notes),
            )

    async def shared(self, key: SessionKey) -> ScopedState:
        """As the port; 2 reads."""
        return _shared(*await self._documents.get(_shared_paths(key.owner)))

    async def close(self) -> None:
        """As the port."""
        await self._documents.close()


async def _events(documents: Reads, session: str, user: str) -> AsyncIterator[Event]:
    """Yield events by time. Their times are texts, which sort by time but within a second."""
    after: tuple[str, str] | None = None
    second: list[Document] = []
    while True:
        page = Page(field="timestamp", descending=False, limit=EVENTS_PER_PAGE, after=after)
        found = await documents.query(session, "user-event", page=page)
        for document in found:
            if second and _time_text(document)[:_SECOND] != _time_text(second[0])[:_SECOND]:
                for event in _in_order(second, user):
                    yield event
                second = []
            second.append(document)
        if len(found) < EVENTS_PER_PAGE:
            break
        after = (_time_text(found[-1]), found[-1].path)
    for event in _in_order(second, user):
        yield event


def _in_order(documents: list[Document], user: str) -> list[Event]:
    return sorted((_event(document, user) for document in documents), key=lambda one: (one.timestamp, one.id))


def _event(document: Document, user: str) -> Event:
    fields = document.fields
    author = fields.get("author")
    time = _seconds(fields.get("timestamp"))
    if not isinstance(author, str) or time is None:
        raise StoredDataError(f"{document.path} has no author or no timestamp")
    is_user = author.lower() in (user.lower(), "user")
    parts = [_part(part) for part in _map(fields.get("content")).get("parts") or () if isinstance(part, dict)]
    answers = any("function_response" in part for part in parts)
    content = {"role": "user" if is_user or answers else "model", "parts": parts}
    try:
        return Event(
            id=document.path.rpartition("/")[2],
            author="user" if is_user else author,
            timestamp=time,
            content=types.Content.model_validate(content),
        )
    except ValidationError:
        # From None: pydantic's error quotes the event's content.
        raise StoredDataError(f"{document.path} is not an event that ADK reads") from None


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: part[stored] for stored, name in _PARTS.items() if stored in part}
    if "file_data" in named:
        file = named["file_data"]
        named["file_data"] = {"file_uri": file.get("fileUri"), "mime_type": file.get("mimeType")}
    return named


def _time_text(document: Document) -> str:
    time = document.fields.get("timestamp")
    if not isinstance(time, str):
        raise StoredDataError(f"{document.path} has no text as its timestamp")
    return time


def _seconds(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shared(app: Document | None, user: Document | None) -> ScopedState:
    of_app, _ = kept(app.fields if app else {}, "app state")
    of_user, _ = kept(user.fields if user else {}, "user state")
    return ScopedState(app=of_app, user=of_user)


def _shared_paths(owner: UserKey) -> list[str]:
    return [f"app-state/{name_of(owner.app)}", f"user-state/{name_of(owner.app)}/users/{name_of(owner.user)}"]

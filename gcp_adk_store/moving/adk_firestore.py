"""Read sessions in the Firestore layouts of ADK's service and of ADK for Java, by pages.

ADK's service, through which sessions are written, too::

    {root}/{app}/users/{user}/sessions/{session}              id, appName, userId, state, ...
    {root}/{app}/users/{user}/sessions/{session}/events/{id}  event_data, timestamp, ...
    app_states/{app}
    user_states/{app}/users/{user}

The documents of apps and users are missing; ``state`` is JSON text, or a map of older releases.

ADK for Java, which keeps less of an event than ADK does::

    {root}/{user}/sessions/{session}                      id, appName, userId, updateTime, state
    {root}/{user}/sessions/{session}/user-event/{random}  author, timestamp, content.parts
    app-state/{app}
    user-state/{app}/users/{user}
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Self

from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from google.genai import types

from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.firestore.channels import FirestoreClient, close_client, new_client
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.encode import UNREADABLE, invalid_places
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.kernel.ports import Documents, Reads
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import ScopedState, split_scopes
from gcp_adk_store.moving.adk_services import FIRESTORE, AdkService
from gcp_adk_store.moving.canonical import kept_state
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.records import SHARED_STATE_SESSION, Listed, Record, Traits
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.settings import SessionLimits, StoreSettings

SESSIONS_PER_PAGE: Final = 100
EVENTS_PER_PAGE: Final = 100
"""At most 100 MiB, because a document has 1 MiB at most."""

_DEFAULT_ROOT: Final = "adk-session"
_DELETING: Final = "DELETING"
_SECOND: Final = len("2025-01-01T00:00:00")

_KINDS: Final = {datetime: "time", str: "text"}
_PARTS: Final = {
    "text": "text",
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "fileData": "file_data",
}


class FirestoreSource(ABC):
    """Reads sessions that another library keeps in Firestore: each a document, with its events below it."""

    states: ClassVar[tuple[str, str]]
    """The collections of the state of apps, and of that of users."""

    def __init__(self, documents: Documents, root: str) -> None:
        """Prepare; *root* is the collection. :meth:`close` closes *documents*."""
        self._documents = documents
        self._root = root

    async def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """As the port; 1 query for 100 sessions, without their state. That of ADK for Java is of all apps."""
        found = pages(
            self._documents,
            "sessions",
            parent=self._above(app, user),
            all_descendants=user is None,
            fields=("appName", "userId", "id", "status", "updateTime"),
            limit=SESSIONS_PER_PAGE,
        )
        async for documents, _ in found:
            for document in documents:
                owner = self._user_of(document, app)
                session = document.path.rpartition("/")[2]
                if owner is not None and session != SHARED_STATE_SESSION:
                    yield Listed(
                        user_id=owner,
                        session_id=session,
                        stamp=document.update_time,
                        last_update_time=_updated_at(document),
                    )

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncIterator[Record | None]:
        """As the port, from one snapshot: 3 reads, then those of the events.

        It leaves out a session whose deletion has begun.
        """
        path = f"{self._above(key.app, key.user)}/sessions/{name_of(key.session)}"
        async with self._documents.snapshot() as reads:
            session, app, user = await reads.get([path, *self._shared_paths(key.owner)])
            if session is None or self._user_of(session, key.app) is None:
                yield None
                return
            fields = session.fields
            if fields.get("status") == _DELETING:
                yield None
                return
            state, lost = _kept(_state_of(session), "state")
            own = split_scopes(state).session
            of_app, of_user = _shared(app), _shared(user)
            notes = [("types", says) for says in (*lost, *of_app[1], *of_user[1])]
            if others := sorted(state.keys() - own.keys()):
                shown = ", ".join(repr(key[:40]) for key in others[:3])
                says = f"keys of the user and the app in the session's own state are left out: {shown}"
                notes.append(("state", says))
            yield Record(
                header=SessionHeader(
                    key=key,
                    state=own,
                    create_time=_seconds(fields.get("createTime")),
                    last_update_time=_updated_at(session),
                ),
                shared=ScopedState(app=of_app[0], user=of_user[0]),
                stamp=session.update_time,
                events=self._events(reads, path, key.user),
                notes=tuple(notes),
            )

    async def shared(self, key: SessionKey) -> ScopedState:
        """As the port; 2 reads."""
        app, user = await self._documents.get(self._shared_paths(key.owner))
        return ScopedState(app=_shared(app)[0], user=_shared(user)[0])

    async def close(self) -> None:
        """As the port."""
        await self._documents.close()

    @abstractmethod
    def _above(self, app: str, user: str | None) -> str:
        """Return the document below which the sessions of a user are, or those of all users."""

    @abstractmethod
    def _user_of(self, document: Document, app: str) -> str | None:
        """Return whose session a document is; ``None`` if it is none of *app*."""

    @abstractmethod
    def _events(self, reads: Reads, session: str, user: str) -> AsyncIterator[Event]:
        """Yield the events of the session at a path, by time."""

    def _below_root(self, document: Document) -> list[str]:
        """Return the parts of a path below the root, which may be a path itself."""
        return document.path.removeprefix(f"{self._root}/").split("/")

    def _shared_paths(self, owner: UserKey) -> list[str]:
        apps, users = self.states
        app = name_of(owner.app)
        return [f"{apps}/{app}", f"{users}/{app}/users/{name_of(owner.user)}"]


class AdkFirestore(FirestoreSource, AdkService):
    """The sessions of ADK's Firestore service below one root collection."""

    states = ("app_states", "user_states")

    def __init__(self, documents: Documents, service: BaseSessionService, *, root: str | None = None) -> None:
        """Prepare; *service* is ADK's on the same database, and writes. :meth:`close` closes *documents*.

        *root* is by default that of the environment, as for ADK.
        """
        AdkService.__init__(self, service, closes=False, traits=FIRESTORE)
        root = root or os.environ.get("ADK_FIRESTORE_ROOT_COLLECTION") or _DEFAULT_ROOT
        FirestoreSource.__init__(self, documents, root)
        self._client: FirestoreClient | None = None

    @classmethod
    def connect(cls, *, project: str | None, database: str, root: str | None) -> Self:
        """Return the store of a project and a database, over connections of its own."""
        from google.adk.integrations.firestore.firestore_session_service import (  # noqa: PLC0415  # when used
            FirestoreSessionService,
        )

        client = new_client(project=project, database=database, credentials=_credentials())
        service = FirestoreSessionService(client=client, root_collection=root)
        made = cls(firestore_documents(project=project, database=database), service, root=root)
        made._client = client
        return made

    async def close(self) -> None:
        """As the port."""
        await super().close()
        if self._client is not None:
            await close_client(self._client)

    def _above(self, app: str, user: str | None) -> str:
        return "/".join([self._root, name_of(app), *(() if user is None else ("users", name_of(user)))])

    def _user_of(self, document: Document, app: str) -> str | None:  # noqa: ARG002  # the path is of the app
        return self._below_root(document)[2]

    async def _events(self, reads: Reads, session: str, user: str) -> AsyncIterator[Event]:  # noqa: ARG002
        """Yield events by time, and those of one time by their names, as ADK does."""
        async for document in _by_time(reads, session, "events", datetime):
            yield event_of(document)


class AdkJava(FirestoreSource):
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
    states = ("app-state", "user-state")

    def __init__(self, documents: Documents, *, root: str | None = None) -> None:
        """Prepare; *root* is the collection, by default ``adk-session``."""
        super().__init__(documents, root or _DEFAULT_ROOT)

    @classmethod
    def connect(cls, *, project: str | None, database: str, root: str | None) -> Self:
        """Return the store of a project and a database, over a connection of its own."""
        return cls(firestore_documents(project=project, database=database), root=root)

    def _above(self, app: str, user: str | None) -> str:  # noqa: ARG002  # no path has it
        return "" if user is None else f"{self._root}/{name_of(user)}"

    def _user_of(self, document: Document, app: str) -> str | None:
        match self._below_root(document):
            case [user, "sessions", _] if document.fields.get("appName") == app:
                return user
        return None

    async def _events(self, reads: Reads, session: str, user: str) -> AsyncIterator[Event]:
        """Yield events by time. Their times are texts, which sort by time but within a second."""
        second: list[Document] = []
        async for document in _by_time(reads, session, "user-event", str):
            if second and _second_of(document) != _second_of(second[0]):
                for event in _in_order(second, user):
                    yield event
                second = []
            second.append(document)
        for event in _in_order(second, user):
            yield event


def firestore_documents(*, project: str | None, database: str) -> Documents:
    """Return the documents of a database, over a connection of their own."""
    return open_documents(
        project=project,
        database=database,
        credentials=_credentials(),
        client=None,
        interceptors=(),
        limits=SessionLimits(),
    )


def _credentials() -> StoreCredentials:
    """Return those that the environment names, as of this library's stores."""
    return StoreCredentials.from_settings(StoreSettings.from_env())


async def _by_time(
    reads: Reads, session: str, collection: str, kind: type[datetime | str]
) -> AsyncIterator[Document]:
    """Yield the documents of events by their timestamps, which are of a *kind*."""
    after: tuple[Any, str] | None = None
    while True:
        page = Page(field="timestamp", descending=False, limit=EVENTS_PER_PAGE, after=after)
        found = await reads.query(session, collection, page=page)
        for document in found:
            yield document
        if len(found) < EVENTS_PER_PAGE:
            return
        time = found[-1].fields.get("timestamp")
        if not isinstance(time, kind):
            raise StoredDataError(f"{found[-1].path} has no {_KINDS[kind]} as its timestamp")
        after = (time, found[-1].path)


def event_of(document: Document) -> Event:
    """Return the event in a document of ADK's service.

    Raises:
        StoredDataError: the document holds none that ADK reads.
    """
    data: Any = document.fields.get("event_data")
    if not isinstance(data, dict):
        raise StoredDataError(f"{document.path} has no map event_data")
    try:
        return Event.model_validate(data)
    except UNREADABLE as exc:
        # From None: pydantic's error quotes the event's content.
        raise StoredDataError(f"{document.path} is not an event of ADK, see {invalid_places(exc)}") from None


def _state_of(document: Document) -> Mapping[str, Any]:
    stored: Any = document.fields.get("state") or {}
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except (ValueError, RecursionError):
            raise StoredDataError(f"{document.path} has damaged JSON as its state") from None
    if not isinstance(stored, dict):
        raise StoredDataError(f"{document.path} has no map as its state")
    return stored


def _shared(document: Document | None) -> tuple[dict[str, Any], list[str]]:
    return _kept({} if document is None else document.fields, "shared state")


def _kept(state: Mapping[str, Any], what: str) -> tuple[dict[str, Any], list[str]]:
    """Return *state* as JSON values, and a line for each key of which a type is lost."""
    plain = {key: _without_foreign(value) for key, value in state.items()}
    kept, lost = kept_state(plain)
    lost += [key for key, value in plain.items() if value != state[key] and key not in lost]
    return kept, [f"{what}, key {key[:40]!r}: a value of a type that JSON lacks becomes text" for key in lost]


def _without_foreign(value: Any) -> Any:
    if isinstance(value, Foreign):
        return value.kind
    if isinstance(value, dict):
        return {key: _without_foreign(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_foreign(item) for item in value]
    return value


def _in_order(documents: list[Document], user: str) -> list[Event]:
    return sorted((_event(document, user) for document in documents), key=lambda one: (one.timestamp, one.id))


def _event(document: Document, user: str) -> Event:
    fields = document.fields
    author = fields.get("author")
    time = _seconds(fields.get("timestamp"))
    if not isinstance(author, str) or time is None:
        raise StoredDataError(f"{document.path} has no author or no timestamp")
    is_user = author.lower() in (user.lower(), "user")
    content: Any = fields.get("content")
    stored = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(stored, list | None):
        raise StoredDataError(f"{document.path} has no list of parts")
    parts = [_part(part) for part in stored or () if isinstance(part, dict)]
    answers = any("function_response" in part for part in parts)
    said = {"role": "user" if is_user or answers else "model", "parts": parts}
    try:
        return Event(
            id=document.path.rpartition("/")[2],
            author="user" if is_user else author,
            timestamp=time,
            content=types.Content.model_validate(said),
        )
    except UNREADABLE:
        # From None: pydantic's error quotes the event's content.
        raise StoredDataError(f"{document.path} is not an event that ADK reads") from None


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: part[stored] for stored, name in _PARTS.items() if stored in part}
    file = named.get("file_data")
    if isinstance(file, dict):
        named["file_data"] = {"file_uri": file.get("fileUri"), "mime_type": file.get("mimeType")}
    return named


def _second_of(document: Document) -> str:
    time = document.fields.get("timestamp")
    if not isinstance(time, str):
        raise StoredDataError(f"{document.path} has no text as its timestamp")
    return time[:_SECOND]


def _seconds(value: object) -> float | None:
    """Return a time in Unix seconds: one of Firestore, a number of them, or a text."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None


def _updated_at(session: Document) -> float:
    """Return when a session was updated last: when its document was, if it does not say so."""
    return _seconds(session.fields.get("updateTime")) or float(session.update_time)


def name_of(id_: str) -> str:
    """Return an id as the name of a document: ADK writes it as it is.

    Raises:
        InvalidInputError: no document has such a name.
    """
    if not id_ or "/" in id_ or id_ in (".", ".."):
        raise InvalidInputError(f"ADK's Firestore service cannot hold the id {id_[:40]!r}")
    return id_

"""Read sessions in the layout of ADK's Firestore service, by pages; write them through that service.

::

    {root}/{app}/users/{user}/sessions/{session}              id, appName, userId, state, ...
    {root}/{app}/users/{user}/sessions/{session}/events/{id}  event_data, timestamp, ...
    app_states/{app}
    user_states/{app}/users/{user}

The documents of apps and users are missing; ``state`` is JSON text, or a map of older releases.
"""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, Self

from google.adk.events import Event
from google.adk.sessions import BaseSessionService
from pydantic import ValidationError

from gcp_adk_store.cloud.firestore.channels import new_client
from gcp_adk_store.cloud.firestore.documents import open_documents
from gcp_adk_store.codec.values import Foreign
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.kernel.ports import Documents, Reads
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.adk_services import FIRESTORE, AdkService
from gcp_adk_store.moving.canonical import kept_state
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.records import SHARED_STATE_SESSION, Listed, Record
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.settings import SessionLimits

SESSIONS_PER_PAGE: Final = 100
EVENTS_PER_PAGE: Final = 100
"""At most 100 MiB, because a document has 1 MiB at most."""

_DELETING: Final = "DELETING"


class AdkFirestore(AdkService):
    """The sessions of ADK's Firestore service below one root collection."""

    def __init__(self, documents: Documents, service: BaseSessionService, *, root: str | None = None) -> None:
        """Prepare; *service* is ADK's on the same database, and writes. :meth:`close` closes *documents*.

        *root* is by default that of the environment, as for ADK.
        """
        super().__init__(service, closes=False, traits=FIRESTORE)
        self._documents = documents
        self._root = root or os.environ.get("ADK_FIRESTORE_ROOT_COLLECTION") or "adk-session"

    @classmethod
    def connect(cls, *, project: str | None, database: str, root: str | None) -> Self:
        """Return the store of a project and a database, over connections of its own."""
        from google.adk.integrations.firestore.firestore_session_service import (  # noqa: PLC0415  # when used
            FirestoreSessionService,
        )

        client = new_client(project=project, database=database)
        service = FirestoreSessionService(client=client, root_collection=root)
        return cls(firestore_documents(project=project, database=database), service, root=root)

    async def sessions(self, app: str, user: str | None) -> AsyncIterator[Listed]:
        """As the port; 1 query for 100 sessions, without their state."""
        parent = self._path(app) if user is None else self._path(app, "users", user)
        found = pages(
            self._documents,
            "sessions",
            parent=parent,
            all_descendants=user is None,
            fields=("userId", "id", "status", "updateTime"),
            limit=SESSIONS_PER_PAGE,
        )
        async for documents, _ in found:
            for document in documents:
                names = document.path.split("/")
                if names[-1] != SHARED_STATE_SESSION:
                    yield Listed(
                        user_id=names[3],
                        session_id=names[-1],
                        stamp=document.update_time,
                        last_update_time=_seconds(document.fields.get("updateTime")) or 0.0,
                    )

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncIterator[Record | None]:
        """As the port, from one snapshot: 3 reads, then those of the events.

        It leaves out a session whose deletion has begun.
        """
        path = self._session(key)
        async with self._documents.snapshot() as reads:
            session, app, user = await reads.get([path, *self._shared_paths(key.owner)])
            if session is None or session.fields.get("status") == _DELETING:
                yield None
            else:
                yield self._record(key, session, app, user, _events(reads, path))

    async def shared(self, key: SessionKey) -> ScopedState:
        """As the port; 2 reads."""
        app, user = await self._documents.get(self._shared_paths(key.owner))
        return ScopedState(app=_shared(app)[0], user=_shared(user)[0])

    async def close(self) -> None:
        """As the port."""
        await self._documents.close()

    def _record(
        self,
        key: SessionKey,
        document: Document,
        app: Document | None,
        user: Document | None,
        events: AsyncIterator[Event],
    ) -> Record:
        fields = document.fields
        state, notes = kept(_state_of(document), "state")
        of_app, of_user = _shared(app), _shared(user)
        return Record(
            header=SessionHeader(
                key=key,
                state=state,
                create_time=_seconds(fields.get("createTime")),
                last_update_time=_seconds(fields.get("updateTime")) or float(document.update_time),
            ),
            shared=ScopedState(app=of_app[0], user=of_user[0]),
            stamp=document.update_time,
            events=events,
            notes=tuple(("types", says) for says in (*notes, *of_app[1], *of_user[1])),
        )

    def _session(self, key: SessionKey) -> str:
        return self._path(key.app, "users", key.user, "sessions", key.session)

    def _shared_paths(self, owner: UserKey) -> list[str]:
        return [
            f"app_states/{name_of(owner.app)}",
            f"user_states/{name_of(owner.app)}/users/{name_of(owner.user)}",
        ]

    def _path(self, *names: str) -> str:
        return "/".join([self._root, *map(name_of, names)])


def firestore_documents(*, project: str | None, database: str) -> Documents:
    """Return the documents of a database, over a connection of their own."""
    return open_documents(
        project=project,
        database=database,
        credentials=None,
        client=None,
        interceptors=(),
        limits=SessionLimits(),
    )


async def _events(documents: Reads, session: str) -> AsyncIterator[Event]:
    """Yield events by time, and those of one time by their names, as ADK does."""
    after: tuple[datetime, str] | None = None
    while True:
        page = Page(field="timestamp", descending=False, limit=EVENTS_PER_PAGE, after=after)
        found = await documents.query(session, "events", page=page)
        for document in found:
            yield event_of(document)
        if len(found) < EVENTS_PER_PAGE:
            return
        time = found[-1].fields.get("timestamp")
        if not isinstance(time, datetime):
            raise StoredDataError(f"{found[-1].path} has no time as its timestamp")
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
    except ValidationError as exc:
        # From None: pydantic's error quotes the event's content.
        places = sorted({".".join(map(str, problem["loc"])) for problem in exc.errors(include_input=False)})
        raise StoredDataError(
            f"{document.path} is not an event of ADK, see {', '.join(places)[:200]}"
        ) from None


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
    return kept({} if document is None else document.fields, "shared state")


def kept(state: Mapping[str, Any], what: str) -> tuple[dict[str, Any], list[str]]:
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


def _seconds(value: object) -> float | None:
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None


def name_of(id_: str) -> str:
    """Return an id as the name of a document: ADK writes it as it is.

    Raises:
        InvalidInputError: no document has such a name.
    """
    if not id_ or "/" in id_ or id_ in (".", ".."):
        raise InvalidInputError(f"ADK's Firestore service cannot hold the id {id_[:40]!r}")
    return id_

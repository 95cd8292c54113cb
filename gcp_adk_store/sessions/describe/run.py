"""Describe sessions: their titles and labels; list what is known of them without their events."""

from collections.abc import AsyncIterator
from functools import partial

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.stored import read_header
from gcp_adk_store.codec.writes import EVERY_NAME, NameRange
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.describe.decide import Description, SessionInfo, UnreadableSession
from gcp_adk_store.sessions.describe.format import HEADER_OF_INFO, describe_write, read_info
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.read.storage import SessionStorage


async def find_info(storage: SessionStorage, key: SessionKey) -> SessionInfo | None:
    """Return what is known of a session without its events; ``None`` if it does not exist or has expired."""
    found = await _look(storage, key)
    return None if found is None else found[1]


async def describe(storage: SessionStorage, key: SessionKey, description: Description) -> SessionInfo:
    """Change a session's title and labels, as the service's ``update_session_info``, which has the errors."""
    return await transact(
        storage.documents,
        partial(_look, storage, key),
        partial(_described, storage.layout, description),
        advice="calling again is safe",
    )


async def _look(storage: SessionStorage, key: SessionKey) -> tuple[StoredSession, SessionInfo] | None:
    """Return a session and its info; ``None`` if it does not exist or has expired."""
    if not key.session:
        return None
    (document,) = await storage.documents.get([storage.layout.session(key)], fields=HEADER_OF_INFO)
    if document is None:
        return None
    stored = read_header(document, with_state=False)
    return None if stored.has_expired else (stored, read_info(document, stored))


def _described(
    layout: Layout, description: Description, found: tuple[StoredSession, SessionInfo] | None, _: Attempts
) -> Decision[SessionInfo]:
    """Decide what *description* changes of the session that was *found*.

    Raises:
        SessionMissingError: the session does not exist.
    """
    if found is None:
        raise SessionMissingError
    stored, info = found
    described = description.applied_to(info)
    if described == info:
        return Done(info)
    return Commit([describe_write(layout, stored, described.title, described.labels)], lambda _: described)


async def living(
    storage: SessionStorage,
    app: str,
    user: str | None = None,
    *,
    limit: int,
    within: NameRange = EVERY_NAME,
) -> AsyncIterator[tuple[StoredSession, SessionInfo] | UnreadableSession]:
    """Yield the sessions of an app, or of one of its users, by name; 1 query for *limit* of them.

    Expired sessions are left out; those that cannot be read are named.
    """
    layout = storage.layout
    parent = layout.app(app) if user is None else layout.user(UserKey(app=app, user=user))
    async for documents, _ in pages(
        storage.documents,
        layout.sessions_collection,
        parent=parent,
        all_descendants=user is None,
        fields=HEADER_OF_INFO,
        limit=limit,
        within=within,
    ):
        for document in documents:
            try:
                stored = read_header(document, with_state=False)
                info = read_info(document, stored)
            except StoredDataError as exc:
                yield unreadable(layout, app, document.path, exc)
                continue
            if not stored.has_expired:
                yield stored, info


def unreadable(layout: Layout, app: str, path: str, exc: StoredDataError) -> UnreadableSession:
    """Return what a listing of *app* says of the session whose document at *path* cannot be read."""
    try:
        key = layout.session_at(path)
    except StoredDataError:
        key = None
    return UnreadableSession(
        path=path,
        app_name=app,
        user_id=None if key is None else key.user,
        session_id=None if key is None else key.session,
        reason=str(exc),
    )


def key_of(info: SessionInfo) -> SessionKey:
    """Return the key of a session."""
    return SessionKey(app=info.app_name, user=info.user_id, session=info.session_id)

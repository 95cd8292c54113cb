"""List sessions, as a whole or in pages."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from google.adk.sessions import Session
from google.adk.sessions.base_session_service import ListSessionsResponse

from gcp_adk_store.codec.cursors import (
    decode_page_cursor,
    encode_page_cursor,
)
from gcp_adk_store.codec.indexes import page_index
from gcp_adk_store.codec.stored import HEADER_FIELDS, HEADER_WITHOUT_STATE, read_header
from gcp_adk_store.codec.writes import Document, Page
from gcp_adk_store.errors import (
    InvalidInputError,
    NotProvisionedError,
    PayloadMissingError,
)
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.model.weights import is_light
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.fan_out import beside, fan_out
from gcp_adk_store.operations.pauses import Pauses, apart, paced
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.arguments import is_count, require_either
from gcp_adk_store.sessions.completion import Found, decoded, refers
from gcp_adk_store.sessions.handle import to_session
from gcp_adk_store.sessions.reader import SessionReader
from gcp_adk_store.sessions.storage import SessionStorage

MAX_PAGE_SIZE: Final = 1000
"""Sessions in one page of a listing, each with its state: some megabytes."""

_USERS_PER_READ: Final = 500
"""As many user states as one read of a listing asks for."""

_SORTED_AT_ONCE: Final = 1000
"""Sessions of a listing that are sorted in some 2 ms."""

_COMPLETED_AT_ONCE: Final = 16
"""Sessions of a listing whose large values are fetched side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A part of a listing."""

    sessions: list[Session]
    next_cursor: str | None
    """The cursor of the next page; ``None`` if this page is not full, and so the last."""


class ListingMethods:
    """The methods of the session service that list sessions.

    The service's constructor sets the attributes.
    """

    _storage: SessionStorage
    _reader: SessionReader

    @operation
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return sessions with merged state and without events, least recently updated first.

        1 query beside 1 read for a user; for all users of the app, 1 query, then 1 read for the state of
        every 500 users. The empty string is a user like any other.
        """
        _, sessions = await self._listed(app_name, user_id)
        runs = range(0, len(sessions), _SORTED_AT_ONCE)
        in_order = await paced(sorted(sessions[run : run + _SORTED_AT_ONCE], key=_by_update) for run in runs)
        return ListSessionsResponse(sessions=await paced(heapq.merge(*in_order, key=_by_update)))

    @operation
    async def list_sessions_page(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        page_size: int = 50,
        cursor: str | None = None,
        order: Literal["newest", "oldest"] = "newest",
        include_state: bool = True,
    ) -> SessionPage:
        """Return one page of the sessions of a user or an app by last update, without events.

        For a user, 1 query beside 1 read; for all users of the app, 1 query, then 1 read of the state of
        those on the page. Firestore bills 1 read for each session of the page and each scope of state, while
        :meth:`list_sessions`, for which ADK has no pages, reads all sessions. A session that is updated
        between two pages moves to its new place. A page omits expired sessions, so it may hold fewer than
        *page_size* and still have a successor.

        Args:
            app_name: The app.
            user_id: The user; ``None`` for all of the app, which needs an index (docs/data-model.md).
            page_size: The most sessions of the page, 1 to 1,000.
            cursor: ``next_cursor`` of the page before, of the same user and order.
            order: The most or the least recently updated first.
            include_state: Whether sessions have their merged state; without it their state is empty, and is
                not read.

        Raises:
            InvalidInputError: *page_size*, *cursor* or *order* is invalid.
            NotProvisionedError: the database has no index for pages of an app; the error has the command.
        """
        if not is_count(page_size) or page_size > MAX_PAGE_SIZE:
            raise InvalidInputError(f"page_size is {page_size!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
        require_either("order", order, "newest", "oldest")
        # Refuses invalid ids, too.
        listing = f"{UserKey(app=app_name, user=user_id or '')} {user_id is None} {order}"
        after = None
        if cursor is not None:
            time, key = decode_page_cursor(cursor, listing=listing, app=app_name)
            after = time, self._storage.layout.session(key)
        page = Page(field="last_update_time", descending=order == "newest", limit=page_size, after=after)
        stored, sessions = await self._listed(app_name, user_id, page, with_state=include_state)
        next_cursor = None
        if len(stored) == page_size:
            next_cursor = encode_page_cursor(listing, stored[-1].last_update_time, stored[-1].key)
        return SessionPage(sessions=sessions, next_cursor=next_cursor)

    async def _listed(
        self, app: str, user: str | None, page: Page | None = None, *, with_state: bool = True
    ) -> tuple[list[StoredSession], list[Session]]:
        """Return the found session documents, and the sessions among them that have not expired."""
        query = self._query(app, user, page, fields=HEADER_FIELDS if with_state else HEADER_WITHOUT_STATE)
        states: Mapping[UserKey, ScopedState] | None = None
        if user is not None and with_state:
            owner = UserKey(app=app, user=user)
            documents, shared = await beside(query, self._reader.shared_state(owner))
            states = {owner: shared}
        else:
            documents = await query
        stored: list[StoredSession] = []
        pauses = Pauses()
        for document in documents:
            stored.append(await decoded(partial(read_header, with_state=with_state), document))
            if pauses.is_due:
                await pauses.take()
        if not with_state:
            states = dict.fromkeys((one.key.owner for one in stored), ScopedState())
        found = await self._complete(stored, states)
        return stored, await paced(to_session(one) for one in found)

    async def _query(
        self, app: str, user: str | None, page: Page | None, *, fields: Sequence[str]
    ) -> list[Document]:
        documents, layout = self._storage.documents, self._storage.layout
        if user is not None:
            parent = layout.user(UserKey(app=app, user=user))
            return await documents.query(parent, layout.sessions_collection, fields=fields, page=page)
        if page is None:
            return await documents.query(
                layout.app(app), layout.sessions_collection, all_descendants=True, fields=fields
            )
        page = replace(page, where=("app", app))
        try:
            return await documents.query(
                "", layout.sessions_collection, all_descendants=True, fields=fields, page=page
            )
        except NotProvisionedError as exc:
            command = page_index(layout.prefix, descending=page.descending).command
            raise NotProvisionedError(f"{exc}; pages of an app need an index: {command}") from exc

    async def _complete(
        self, sessions: Iterable[StoredSession], states: Mapping[UserKey, ScopedState] | None
    ) -> list[Found]:
        """Return *sessions* that have not expired with the *states* of their owners, read unless given."""
        living = await paced((stored, stored.key.owner) for stored in sessions if not stored.has_expired)
        if states is None:
            states = await self._states_of([owner for _, owner in living])
        found: list[Found] = []
        pauses = Pauses()
        light: dict[UserKey, bool] = {}
        for start in range(0, len(living), _COMPLETED_AT_ONCE):
            some: list[Found] = []
            for one, owner in living[start : start + _COMPLETED_AT_ONCE]:
                if owner not in light:
                    light[owner] = is_light((states[owner].app, states[owner].user))
                shared = await apart(partial(_own, states[owner]), light=light[owner])
                some.append(Found(stored=one, shared=shared, events=[]))
                if pauses.is_due:
                    await pauses.take()
            if any(refers(one.stored.state) for one in some):  # most sessions have no payloads
                completed = await fan_out(self._completed(one.stored, one.shared) for one in some)
                some = [one for one in completed if one is not None]
            found += some
        return found

    async def _completed(self, stored: StoredSession, shared: ScopedState) -> Found | None:
        """Return a session as the reader completes it, reread if it changes; ``None`` if it is gone."""
        rereads = Rereads(self._storage.documents.deadline_s)
        while True:
            try:
                return await self._reader.complete(stored, [], shared)
            except PayloadMissingError:
                # Another call may replace a value and remove its payload during the read.
                now = await self._reader.header(stored.key)
                if now is None:
                    return None
                if now.update_time == stored.update_time:
                    raise
                stored = now
            await rereads.again()

    async def _states_of(self, owners: Sequence[UserKey]) -> dict[UserKey, ScopedState]:
        """Return app and user state by user of one app."""
        layout = self._storage.layout
        users = list(dict.fromkeys(owners))
        states: dict[UserKey, ScopedState] = {}
        for start in range(0, len(users), _USERS_PER_READ):
            some = users[start : start + _USERS_PER_READ]
            # The app's state once; the payloads of all users side by side.
            paths = [layout.user(owner) for owner in some]
            if not states:
                paths.append(layout.app(some[0].app))
            documents = await self._storage.documents.get(paths)
            if not states:
                app = await self._reader.lasting_state(layout.app_payloads(some[0].app), documents.pop())
            found = await fan_out(
                self._reader.lasting_state(layout.user_payloads(owner), document)
                for owner, document in zip(some, documents, strict=True)
            )
            states |= {
                owner: ScopedState(app=app, user=user) for owner, user in zip(some, found, strict=True)
            }
        return states


def _own(shared: ScopedState) -> ScopedState:
    """Return a copy of the state that several sessions share: a caller may change it."""
    return ScopedState(app=_copied(dict(shared.app)), user=_copied(dict(shared.user)))


def _copied(value: Any) -> Any:
    """Return an equal value of JSON; ``copy.deepcopy`` takes several times as long."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _by_update(session: Session) -> tuple[float, str, str]:
    return session.last_update_time, session.user_id, session.id

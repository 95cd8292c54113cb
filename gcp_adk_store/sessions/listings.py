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
from gcp_adk_store.codec.session_info import INFO_FIELDS, read_info
from gcp_adk_store.codec.stored import HEADER_FIELDS, HEADER_WITHOUT_STATE, read_header
from gcp_adk_store.codec.summaries import LABEL_SET, label_filter
from gcp_adk_store.codec.writes import Document, Filter, Operator, Page
from gcp_adk_store.errors import (
    InvalidInputError,
    NotProvisionedError,
    PayloadMissingError,
)
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.session_info import SessionInfo, require_labels
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.model.weights import is_light
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.operations.fan_out import beside, fan_out
from gcp_adk_store.operations.pauses import Pauses, apart, paced
from gcp_adk_store.operations.rereads import Rereads
from gcp_adk_store.sessions.arguments import is_count, require_either, require_time
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

_NO_STATE: Final[Mapping[UserKey, ScopedState]] = {}
"""Stands for state that is not wanted."""

_ORDER: Final = "last_update_time"
"""The field that pages are ordered by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A part of a listing."""

    sessions: list[Session]
    infos: list[SessionInfo]
    """Title, labels, numbers of events and turns, times and last message of each of the *sessions*."""
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
        documents, states = await self._found(app_name, user_id, None, fields=HEADER_FIELDS, with_state=True)
        found = await self._complete(await self._headers(documents, with_state=True), states)
        sessions = await paced(to_session(one) for one in found)
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
        labels: Mapping[str, str] | None = None,
        updated_after: float | None = None,
    ) -> SessionPage:
        """Return one page of the sessions of a user or an app by last update, without events.

        For a user, 1 query beside 1 read; for all users of the app, 1 query, then 1 read of the state of
        those on the page. Firestore bills 1 read for each session of the page and each scope of state, while
        :meth:`list_sessions`, for which ADK has no pages, reads all sessions. A session that is updated
        between two pages moves to its new place. A page omits expired sessions, so it may hold fewer than
        *page_size* and still have a successor. ``infos`` of the page has title, labels, numbers of events and
        turns, and the last message of each session; it takes no further read.

        Args:
            app_name: The app.
            user_id: The user; ``None`` for all of the app, which needs an index (docs/data-model.md).
            page_size: The most sessions of the page, 1 to 1,000.
            cursor: ``next_cursor`` of the page before, of the same user, order, *labels* and
                *updated_after*.
            order: The most or the least recently updated first.
            include_state: Whether sessions have their merged state; without it their state is empty, and is
                not read.
            labels: Lists only sessions that have all these labels, which needs an index. The database finds
                the first label by the index; the others are compared in this process, and sessions that
                lack one are read and omitted. So begin with the label that the fewest sessions have.
            updated_after: Unix time in seconds: lists only sessions whose last event, or else creation, has a
                later time.

        Raises:
            InvalidInputError: an argument is invalid.
            NotProvisionedError: the database has no index for such pages; the error has the command.
        """
        if not is_count(page_size) or page_size > MAX_PAGE_SIZE:
            raise InvalidInputError(f"page_size is {page_size!r:.40}, it must be 1 to {MAX_PAGE_SIZE}")
        require_either("order", order, "newest", "oldest")
        # Refuses invalid ids, too.
        listing = f"{UserKey(app=app_name, user=user_id or '')} {user_id is None} {order}"
        filters: list[Filter] = []
        if labels is not None:
            require_labels(labels)
        if labels:
            filters.append(label_filter(*next(iter(labels.items()))))
        if updated_after is not None:
            updated_after = require_time("updated_after", updated_after)
            filters.append(Filter(field=_ORDER, operator=Operator.OVER, value=updated_after))
        if filters:
            listing += f" {sorted((labels or {}).items())} {updated_after}"
        after = None
        if cursor is not None:
            time, key = decode_page_cursor(cursor, listing=listing, app=app_name)
            after = time, self._storage.layout.session(key)
        page = Page(field=_ORDER, descending=order == "newest", limit=page_size, after=after, filters=filters)
        names = HEADER_FIELDS if include_state else HEADER_WITHOUT_STATE
        documents, states = await self._found(
            app_name, user_id, page, fields=(*names, *INFO_FIELDS), with_state=include_state
        )
        stored = await self._headers(documents, with_state=include_state)
        infos = dict(await paced(map(_info, documents, stored)))
        wanted = set((labels or {}).items())
        chosen = [one for one in stored if wanted <= infos[one.key].labels.items()]
        sessions = await self._complete(chosen, states)
        next_cursor = None
        if len(stored) == page_size:
            next_cursor = encode_page_cursor(listing, stored[-1].last_update_time, stored[-1].key)
        return SessionPage(
            sessions=await paced(to_session(one) for one in sessions),
            infos=[infos[one.stored.key] for one in sessions],
            next_cursor=next_cursor,
        )

    async def _found(
        self, app: str, user: str | None, page: Page | None, *, fields: Sequence[str], with_state: bool
    ) -> tuple[list[Document], Mapping[UserKey, ScopedState] | None]:
        """Return the documents of sessions, and the state of their user if it is one and is wanted."""
        query = self._query(app, user, page, fields=fields)
        if user is None or not with_state:
            documents = await query
            return documents, None if with_state else _NO_STATE
        owner = UserKey(app=app, user=user)
        documents, shared = await beside(query, self._reader.shared_state(owner))
        return documents, {owner: shared}

    async def _headers(self, documents: Sequence[Document], *, with_state: bool) -> list[StoredSession]:
        stored: list[StoredSession] = []
        pauses = Pauses()
        for document in documents:
            stored.append(await decoded(partial(read_header, with_state=with_state), document))
            if pauses.is_due:
                await pauses.take()
        return stored

    async def _query(
        self, app: str, user: str | None, page: Page | None, *, fields: Sequence[str]
    ) -> list[Document]:
        layout = self._storage.layout
        if user is not None:
            parent, everywhere = layout.user(UserKey(app=app, user=user)), False
        elif page is None:
            parent, everywhere = layout.app(app), True
        else:
            parent, everywhere = "", True
            of_app = Filter(field="app", operator=Operator.EQUAL, value=app)
            page = replace(page, filters=(of_app, *page.filters))
        try:
            return await self._storage.documents.query(
                parent, layout.sessions_collection, all_descendants=everywhere, fields=fields, page=page
            )
        except NotProvisionedError as exc:
            labelled = page is not None and any(each.field == LABEL_SET for each in page.filters)
            if page is None or not (user is None or labelled):
                raise
            index = page_index(
                layout.prefix, descending=page.descending, of_app=user is None, labelled=labelled
            )
            what = "pages of an app" if user is None else "pages by labels"
            raise NotProvisionedError(f"{exc}; {what} need an index: {index.command}") from exc

    async def _complete(
        self, sessions: Iterable[StoredSession], states: Mapping[UserKey, ScopedState] | None
    ) -> list[Found]:
        """Return *sessions* that have not expired with the *states* of their owners, read unless given."""
        living = await paced((stored, stored.key.owner) for stored in sessions if not stored.has_expired)
        if states is None:
            states = await self._states_of([owner for _, owner in living])
        elif states is _NO_STATE:
            states = dict.fromkeys((owner for _, owner in living), ScopedState())
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


def _info(document: Document, stored: StoredSession) -> tuple[SessionKey, SessionInfo]:
    return stored.key, read_info(document, stored)


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

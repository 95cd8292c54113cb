"""List sessions in pages, and name those that cannot be read."""

import heapq
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from google.adk.sessions import Session
from google.adk.sessions.base_session_service import ListSessionsResponse

from gcp_adk_store.codec.cursors import decode_place_in, encode_place_in
from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.indexes import page_index
from gcp_adk_store.codec.segments import LABEL_SET, label_filter
from gcp_adk_store.codec.stored import HEADER_FIELDS, HEADER_WITHOUT_STATE, read_header
from gcp_adk_store.codec.writes import Document, Filter, Operator, Page
from gcp_adk_store.errors import NotProvisionedError, PayloadMissingError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Pauses, both, gather, offload, yielding
from gcp_adk_store.kernel.operation import require_count
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.json_values import copied
from gcp_adk_store.model.keys import SessionKey, UserKey, in_one_line
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.model.state import ScopedState, is_light
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession, require_labels
from gcp_adk_store.sessions.describe.format import INFO_FIELDS, read_info
from gcp_adk_store.sessions.describe.run import unreadable
from gcp_adk_store.sessions.read.completion import Found, decoded, refs_in
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.session_objects import require_time, to_session
from gcp_adk_store.sessions.read.storage import SessionStorage

logger = logging.getLogger(__name__)

BY_UPDATE: Final = "last_update_time"
"""The field that pages are ordered by."""

_NAMED: Final = 10
"""As many sessions as one record of the log names."""


def place_by_update(document: Document) -> tuple[FieldValue, str]:
    """Return the place of a session, which may be damaged, in the order of last updates.

    Raises:
        StoredDataError: the field is of a kind that no query can begin with.
    """
    value = document.fields[BY_UPDATE]
    if isinstance(value, Foreign):
        raise StoredDataError(f"{document.path} has a field of a wrong kind: {BY_UPDATE} is {value.kind}")
    return value, document.path


def warn_of(left_out: Sequence[UnreadableSession]) -> None:
    """Log sessions that a caller does not get, because its answer has no place for them."""
    if not left_out:
        return
    named = "; ".join(f"{in_one_line(one.reason)} (look at it: {one.command})" for one in left_out[:_NAMED])
    more = f"; and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    logger.warning(
        "%d sessions cannot be read, and are left out: %s%s",
        len(left_out),
        named,
        more,
        extra=telemetry.log_fields(),
    )


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


_LeftOut = list[tuple[str, StoredDataError]]
"""Paths of the sessions of a listing that cannot be read, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """One page of a listing of sessions."""

    sessions: list[Session]
    infos: list[SessionInfo]
    """Title, labels, numbers of events and turns, times and last message of each of the *sessions*."""
    unreadable: list[UnreadableSession]
    """Sessions of the page that are damaged or lack a part; they are not among *sessions*."""
    next_cursor: str | None
    """The cursor of the next page; ``None`` after the last page."""


class Listings:
    """Lists the sessions below one prefix of a database."""

    def __init__(self, storage: SessionStorage, reader: SessionReader) -> None:
        self._storage = storage
        self._reader = reader

    async def all_of(self, app: str, user: str | None) -> ListSessionsResponse:
        """Return all sessions as the service's ``list_sessions``, which has the errors."""
        documents, states = await self._found(app, user, None, fields=HEADER_FIELDS, with_state=True)
        left_out: _LeftOut = []
        stored = await self._headers(documents, left_out, with_state=True)
        found = await self._complete(stored, states, left_out)
        if left_out and not found:
            raise left_out[0][1]  # an empty answer would say that there are no sessions
        warn_of(self._unreadable(app, left_out))
        sessions = await yielding(to_session(one) for one in found)
        runs = range(0, len(sessions), _SORTED_AT_ONCE)
        in_order = await yielding(
            sorted(sessions[run : run + _SORTED_AT_ONCE], key=_by_update) for run in runs
        )
        return ListSessionsResponse(sessions=await yielding(heapq.merge(*in_order, key=_by_update)))

    async def page(
        self,
        app: str,
        user: str | None,
        *,
        page_size: int,
        cursor: str | None,
        order: Literal["newest", "oldest"],
        include_state: bool,
        labels: Mapping[str, str] | None,
        updated_after: float | None,
    ) -> SessionPage:
        """Return one page of sessions as the service's ``list_sessions_page``, which has the errors."""
        require_count("page_size", page_size, most=MAX_PAGE_SIZE)
        # Refuses invalid ids, too.
        listing = f"{UserKey(app=app, user=user or '')} {user is None} {order}"
        filters: list[Filter] = []
        if labels is not None:
            require_labels(labels)
        if labels:
            filters.append(label_filter(*next(iter(labels.items()))))
        if updated_after is not None:
            updated_after = require_time("updated_after", updated_after)
            filters.append(Filter(field=BY_UPDATE, operator=Operator.OVER, value=updated_after))
        if filters:
            listing += f" {sorted((labels or {}).items())} {updated_after}"
        after = None if cursor is None else self._after(app, listing, cursor)
        page = Page(
            field=BY_UPDATE, descending=order == "newest", limit=page_size, after=after, filters=filters
        )
        names = HEADER_FIELDS if include_state else HEADER_WITHOUT_STATE
        documents, states = await self._found(
            app, user, page, fields=(*names, *INFO_FIELDS), with_state=include_state
        )
        place = None
        while len(documents) % page_size == 0 and documents:
            place = self._place(documents[-1])
            if place is not None:
                break
            # No cursor can name the place of this damaged session, so that the page goes on behind it.
            rest = replace(page, after=place_by_update(documents[-1]))
            more = await self._query(app, user, rest, fields=(*names, *INFO_FIELDS))
            documents += more
            if not more:
                break
        left_out: _LeftOut = []
        infos: dict[SessionKey, SessionInfo] = {}
        stored = await self._headers(documents, left_out, with_state=include_state, infos=infos)
        wanted = set((labels or {}).items())
        chosen = [one for one in stored if wanted <= infos[one.key].labels.items()]
        sessions = await self._complete(chosen, states, left_out)
        next_cursor = None if place is None else encode_place_in(listing, *place)
        return SessionPage(
            sessions=await yielding(to_session(one) for one in sessions),
            infos=[infos[one.stored.key] for one in sessions],
            unreadable=self._unreadable(app, left_out),
            next_cursor=next_cursor,
        )

    def _unreadable(self, app: str, left_out: _LeftOut) -> list[UnreadableSession]:
        return [unreadable(self._storage.layout, app, path, exc) for path, exc in left_out]

    async def _found(
        self, app: str, user: str | None, page: Page | None, *, fields: Sequence[str], with_state: bool
    ) -> tuple[list[Document], Mapping[UserKey, ScopedState] | None]:
        """Return the documents of sessions, and the state of their user if it is one and is wanted."""
        query = self._query(app, user, page, fields=fields)
        if user is None or not with_state:
            documents = await query
            return documents, None if with_state else _NO_STATE
        owner = UserKey(app=app, user=user)
        documents, shared = await both(query, self._reader.shared_state(owner))
        return documents, {owner: shared}

    async def _headers(
        self,
        documents: Sequence[Document],
        left_out: _LeftOut,
        *,
        with_state: bool,
        infos: dict[SessionKey, SessionInfo] | None = None,
    ) -> list[StoredSession]:
        """Return the sessions in *documents* that can be read, and put their *infos* if they are wanted."""
        found: list[StoredSession] = []
        pauses = Pauses()
        for document in documents:
            try:
                stored = await decoded(partial(read_header, with_state=with_state), document)
                if infos is not None:
                    infos[stored.key] = read_info(document, stored)
                found.append(stored)
            except StoredDataError as exc:
                left_out.append((document.path, exc))
            if pauses.is_due:
                await pauses.pause()
        return found

    def _after(self, app: str, listing: str, cursor: str) -> tuple[float, str]:
        """Return the last update and the path of the last session on the page that *cursor* ends."""
        of = "pages of another app, user, order or filter"
        time, user, session = decode_place_in(listing, cursor, float, str, str, of=of, at_any_time=True)
        return time, self._storage.layout.session(SessionKey(app=app, user=user, session=session))

    def _place(self, document: Document) -> tuple[float, str, str] | None:
        """Return what a cursor says of the last session of a page; ``None`` if it can say nothing."""
        time, path = place_by_update(document)
        try:
            key = self._storage.layout.session_at(path)
        except StoredDataError:
            key = None
        if key is None or isinstance(time, bool) or not isinstance(time, (int, float)):
            return None
        return float(time), key.user, key.session

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
        self,
        sessions: Iterable[StoredSession],
        states: Mapping[UserKey, ScopedState] | None,
        left_out: _LeftOut,
    ) -> list[Found]:
        """Return *sessions* that have not expired with the *states* of their owners, read unless given.

        Those that lack a payload, or whose user's state cannot be read, are left out.
        """
        living = await yielding((stored, stored.key.owner) for stored in sessions if not stored.has_expired)
        if states is None:
            states, damaged = await self._states_of([owner for _, owner in living])
            for one, owner in living if damaged else ():
                if owner in damaged:
                    left_out.append((self._storage.layout.session(one.key), damaged[owner]))
            living = [each for each in living if each[1] not in damaged] if damaged else living
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
                shared = await offload(partial(_own, states[owner]), light=light[owner])
                some.append(Found(stored=one, shared=shared, events=[]))
                if pauses.is_due:
                    await pauses.pause()
            if any(refs_in(one.stored.state) for one in some):  # most sessions have no payloads
                completed = await gather(self._completed(one.stored, one.shared, left_out) for one in some)
                some = [one for one in completed if one is not None]
            found += some
        return found

    async def _completed(
        self, stored: StoredSession, shared: ScopedState, left_out: _LeftOut
    ) -> Found | None:
        """Return a session as the reader completes it, reread if it changes.

        ``None`` if it is gone, or cannot be read.
        """

        async def look() -> Found | Changed | None:
            nonlocal stored
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
            return CHANGED

        try:
            return await read_whole(self._storage.documents.deadline_s, look)
        except StoredDataError as exc:
            left_out.append((self._storage.layout.session(stored.key), exc))
            return None

    async def _states_of(
        self, owners: Sequence[UserKey]
    ) -> tuple[dict[UserKey, ScopedState], dict[UserKey, StoredDataError]]:
        """Return app and user state by user of one app, and why that of some users cannot be read.

        Raises:
            StoredDataError: the state of the app cannot be read.
        """
        layout = self._storage.layout
        users = list(dict.fromkeys(owners))
        states: dict[UserKey, ScopedState] = {}
        damaged: dict[UserKey, StoredDataError] = {}
        app: Mapping[str, Any] | None = None

        async def state_of(owner: UserKey, document: Document | None) -> None:
            try:
                user = await self._reader.lasting_state(layout.user_payloads(owner), document)
            except StoredDataError as exc:
                damaged[owner] = exc
            else:
                states[owner] = ScopedState(app=app or {}, user=user)

        for start in range(0, len(users), _USERS_PER_READ):
            some = users[start : start + _USERS_PER_READ]
            # The app's state once; the payloads of all users side by side.
            paths = [layout.user(owner) for owner in some]
            if app is None:
                paths.append(layout.app(some[0].app))
            documents = await self._storage.documents.get(paths)
            if app is None:
                app = await self._reader.lasting_state(layout.app_payloads(some[0].app), documents.pop())
            await gather(state_of(owner, document) for owner, document in zip(some, documents, strict=True))
        return states, damaged


def _own(shared: ScopedState) -> ScopedState:
    """Return a copy of the state that several sessions share: a caller may change it."""
    return ScopedState(app=copied(dict(shared.app)), user=copied(dict(shared.user)))


def _by_update(session: Session) -> tuple[float, str, str]:
    return session.last_update_time, session.user_id, session.id

"""Describe sessions: their titles and labels."""

from collections.abc import Mapping
from functools import partial
from types import EllipsisType

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.session_info import HEADER_OF_INFO, read_info
from gcp_adk_store.codec.stored import read_header
from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.session_info import Description, SessionInfo
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.sessions.content_hooks import ContentHooks
from gcp_adk_store.sessions.reader import NOT_FOUND
from gcp_adk_store.sessions.storage import SessionStorage


class DescriptionMethods:
    """The methods of the session service that describe sessions.

    The service's constructor sets the attributes.
    """

    _storage: SessionStorage
    _hooks: ContentHooks

    @operation
    async def get_session_info(self, *, app_name: str, user_id: str, session_id: str) -> SessionInfo | None:
        """Return title, labels, numbers of events and turns, times and last message, or ``None``; 1 read.

        Events are not read.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        found = await self._info(key)
        return None if found is None else found[1]

    @operation
    async def update_session_info(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        title: str | EllipsisType | None = ...,
        labels: Mapping[str, str | None] | EllipsisType | None = ...,
    ) -> SessionInfo:
        """Change a session's title and labels, and return what it is then; 1 commit after 1 read.

        The session keeps its events, its place in listings, its ``last_update_time`` and its ``expire_at``;
        readers find it for its time to live after this call, unless a TTL policy removes it before. Appends
        do not conflict with this call. The next append through a handle that was read before takes 1 read and
        1 commit more. Of two changes at the same time, the later one sees the earlier one. Without a change,
        nothing is written.

        Args:
            app_name: As :meth:`create_session` takes it.
            user_id: As *app_name*.
            session_id: As *app_name*.
            title: One line of at most 256 characters; ``None`` removes the title.
            labels: Labels to set; those that are not named stay. The value ``None`` removes a label, and
                ``None`` as a whole removes all. A session has at most 64 labels. A name has 1 to 63
                letters and digits of any language, ``_``, ``-`` and ``.``, and begins with a letter or a
                digit; a value is a line of at most 63 characters and may be empty.

        Raises:
            SessionMissingError: the session does not exist.
            InvalidInputError: the title or a label is over its limit or malformed; nothing was written.
            OutcomeUnknownError: not answered; the change may be stored. Calling again is safe.
        """
        if isinstance(title, str):
            title = await self._hooks.of_values(title)
        description = Description(title=title, labels=labels)
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await transact(
            self._storage.documents,
            partial(self._info, key),
            partial(_described, self._storage.layout, description),
            advice="calling again is safe",
        )

    async def _info(self, key: SessionKey) -> tuple[StoredSession, SessionInfo] | None:
        """Return a session and its info; ``None`` if it does not exist or has expired."""
        if not key.session:
            return None
        (document,) = await self._storage.documents.get(
            [self._storage.layout.session(key)], fields=HEADER_OF_INFO
        )
        if document is None:
            return None
        stored = read_header(document, with_state=False)
        return None if stored.has_expired else (stored, read_info(document, stored))


def _described(
    layout: Layout, description: Description, found: tuple[StoredSession, SessionInfo] | None, _: Attempts
) -> Decision[SessionInfo]:
    """Decide what *description* changes of the session that was *found*.

    Raises:
        SessionMissingError: there is none.
    """
    if found is None:
        raise SessionMissingError(NOT_FOUND)
    stored, info = found
    described = description.applied_to(info)
    if described == info:
        return Done(info)
    return Commit([layout.describe(stored, described.title, described.labels)], lambda _: described)

"""The session service's method that forks a session."""

from typing import Literal

from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session

from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.model.history import Point, require_point
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.sessions.arguments import require_either
from gcp_adk_store.sessions.forking import ArtifactCopies, SessionForks
from gcp_adk_store.sessions.histories import HistoryMethods
from gcp_adk_store.sessions.reader import NOT_FOUND


class ForkMethods(HistoryMethods):
    """The method of the session service that forks; the service's constructor sets the attributes."""

    _forks: SessionForks
    _default_ttl_s: float | None

    @operation
    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: Point | None = None,
        to_session_id: str | None = None,
        to_user_id: str | None = None,
        unknown_initial: Literal["raise", "omit"] = "raise",
        artifacts: ArtifactCopies | None = None,
    ) -> Session:
        """Fork a session without its artifacts; :meth:`gcp_adk_store.Store.fork_session` copies them, too.

        The arguments and errors are those of that method; it passes what copies *artifacts*.
        """
        require_either("unknown_initial", unknown_initial, "raise", "omit")
        if at is not None:
            require_point(at)
        source = SessionKey(app=app_name, user=user_id, session=session_id)
        if not source.session:
            raise SessionMissingError(NOT_FOUND)
        return await self._forks.fork(
            source,
            fork_key(source, to_user_id=to_user_id, to_session_id=to_session_id),
            at,
            ttl_seconds=self._default_ttl_s,
            omit_unknown=unknown_initial == "omit",
            artifacts=artifacts,
        )


def fork_key(source: SessionKey, *, to_user_id: str | None, to_session_id: str | None) -> SessionKey:
    """Return the key of a fork of *source*; a blank session id takes a random one.

    Raises:
        InvalidInputError: an id is not text.
    """
    user = source.user if to_user_id is None else to_user_id
    key = SessionKey(app=source.app, user=user, session="" if to_session_id is None else to_session_id)
    return key if key.session else SessionKey(app=key.app, user=user, session=platform_uuid.new_uuid())

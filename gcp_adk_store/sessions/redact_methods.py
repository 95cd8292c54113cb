"""The session service's method that redacts events."""

from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.redactions import Redaction, require_reason
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.sessions.redacting import Redactor


class RedactMethods:
    """The method of the session service that redacts; the service's constructor sets the attributes."""

    _redactor: Redactor

    @operation
    async def redact_event(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        event_id: str,
        reason: str,
        state: bool = False,
        dry_run: bool = False,
    ) -> Redaction:
        """Replace an event's content by a marker with the hash of what stood there, for good.

        One commit changes the session document and the segments that hold the event, and appends an event
        that tells of it; :meth:`verify_session` still proves the history. All events with this id are
        replaced. Then payloads that nothing else refers to are removed. Handles that were read before keep
        the content in memory, and conflict at their next append, as after any other writer.

        The marker keeps ids, author, times, branch, token counts, and the names of state keys, tools and
        artifacts. A title that repeats a text of the event goes, too. Forks, artifacts, memories and backups
        stay: docs/erasure.md says what to do about them. ``Store.redact_event`` also names memories.

        Reads the whole session; takes 1 commit. An event that was redacted before is not redacted again, and
        what an interrupted call left is removed.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
            event_id: The event's id.
            reason: Why, in one line of at most 500 characters; it is stored.
            state: Also set the keys of state to ``None`` that still have the value that the event gave them,
                those of the user and the app too; by default the state stays as it is.
            dry_run: Only say what would be replaced and removed.

        Raises:
            SessionMissingError: the session does not exist; nothing was written.
            PointMissingError: none of its events has this id; nothing was written.
            InvalidInputError: *reason* is not one line, or the session's document would exceed Firestore's
                limits.
            PayloadMissingError: an event that is a payload as a whole is gone.
            OutcomeUnknownError: not answered, or redacted and something may be left. Call again.
        """
        key = SessionKey(app=app_name, user=user_id, session=session_id)
        return await self._redactor.redact(
            key, event_id, reason=require_reason(reason), state=state, dry_run=dry_run
        )

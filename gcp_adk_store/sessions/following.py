"""Follow a session: tell its versions as others change it, and end when it is not the same one any more."""

from collections.abc import AsyncGenerator

from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.errors import SessionConflictError, SessionMissingError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.fan_out import stepping
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.sessions.completion import decoded
from gcp_adk_store.sessions.reader import NOT_FOUND
from gcp_adk_store.sessions.storage import SessionStorage


async def versions(storage: SessionStorage, key: SessionKey) -> AsyncGenerator[StoredSession]:
    """Yield the session *key* as it is now, and again after each change of its document.

    1 read for each yielded version; versions that follow each other quickly may become one. Waiting is no
    time of the running operation.

    Raises:
        SessionMissingError: the session does not exist, was deleted or has expired, or another one has its
            id.
        SessionConflictError: it was restored.
        UnavailableError: the connection was lost, and the database did not answer before the deadline.
    """
    documents, path = storage.documents, storage.layout.session(key)
    last: StoredSession | None = None
    async with stepping(documents.watch(path)) as step:
        while True:
            left_s = None
            if last is not None and last.expiry is not None:
                left_s = max(0.0, last.expires_at - documents.clock.now())
            with telemetry.idle():
                come = await step(left_s)
            # At the end of its life it is read once more: perhaps others appended just before.
            (document,) = come if come is not None else await documents.get([path])
            stored = None if document is None else await decoded(read_session, document)
            if stored is None or stored.has_expired:
                raise SessionMissingError(
                    NOT_FOUND if last is None else "the session was deleted, or expired"
                )
            if last is not None:
                _require_same(last, stored)
            is_new = last is None or stored.update_time != last.update_time
            last = stored
            if is_new:
                yield stored


def place_after(last: StoredSession, place: EventPlace, now: StoredSession) -> EventPlace:
    """Return where the events after *place*, the end of *last*, begin in a later version of the session.

    If nothing was appended since, it is the end of *now*: then no segment is read to learn that.
    """
    if now.revision != last.revision:
        return place
    return end_of(now)


def end_of(stored: StoredSession) -> EventPlace:
    """Return the place after the last event of *stored*; its tail has the number of its later segment."""
    return EventPlace(segment=stored.sealed, offset=len(stored.tail))


def _require_same(before: StoredSession, now: StoredSession) -> None:
    if now.epoch != before.epoch:
        raise SessionMissingError("the session was deleted; another one has its id")
    if now.restores != before.restores:
        raise SessionConflictError(
            "another call restored the session to an earlier point, so events that were yielded may be gone: "
            "read it again, and follow it anew"
        )

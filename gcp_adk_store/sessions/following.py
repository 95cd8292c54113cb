"""Follow a session: tell its versions as others change it, and end when it is not the same one any more."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import SessionConflictError, SessionMissingError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.operations import telemetry
from gcp_adk_store.sessions.completion import decoded
from gcp_adk_store.sessions.reader import NOT_FOUND
from gcp_adk_store.sessions.storage import SessionStorage

_Step: TypeAlias = Callable[[float | None], Awaitable[tuple[Document | None, bool]]]


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
    async with aclosing(documents.watch(path)) as changes, _steps(changes) as step:
        while True:
            left_s = None
            if last is not None and last.expiry is not None:
                left_s = max(0.0, last.expires_at - documents.clock.now())
            with telemetry.idle():
                document, has_come = await step(left_s)
            if not has_come:  # perhaps others appended just before it expired
                (document,) = await documents.get([path])
            stored = None if document is None else await decoded(read_session, document)
            if stored is None or stored.has_expired:
                raise SessionMissingError(
                    NOT_FOUND if last is None else "the session was deleted, or expired"
                )
            if last is not None:
                _require_same(last, stored)
            if has_come or (last is not None and stored.update_time != last.update_time):
                yield stored
            last = stored


@asynccontextmanager
async def _steps(changes: AsyncGenerator[Document | None]) -> AsyncIterator[_Step]:
    """Return a function that waits for the next of *changes*, for so many seconds, and says if it came."""
    pending: asyncio.Task[Document | None] | None = None

    async def following() -> Document | None:
        return await anext(changes)

    async def step(timeout_s: float | None) -> tuple[Document | None, bool]:
        nonlocal pending
        pending = pending or asyncio.create_task(following())
        done, _ = await asyncio.wait({pending}, timeout=timeout_s)
        if not done:
            return None, False
        come, pending = pending, None
        return come.result(), True

    try:
        yield step
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})
            if not pending.cancelled():
                pending.exception()  # nobody asks for it any more


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

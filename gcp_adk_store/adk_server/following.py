"""Let browsers and other clients of ADK's server follow a session by server-sent events."""

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fastapi import FastAPI, HTTPException, Request
from google.adk.auth import auth_credential
from google.adk.events import Event
from pydantic_core import to_json
from starlette.routing import Route

from gcp_adk_store.adk_server.app import answer
from gcp_adk_store.adk_server.services import only_session_service
from gcp_adk_store.errors import InvalidInputError, SessionConflictError, SessionMissingError, StoreError
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.kernel.concurrency import stepping
from gcp_adk_store.model.internal_metadata import public_event
from gcp_adk_store.model.json_values import fields_of, sendable
from gcp_adk_store.sessions.read.events import SessionEvent
from gcp_adk_store.sessions.service import SessionService

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

PATH: Final = "/apps/{app_name}/users/{user_id}/sessions/{session_id}/events"
MAX_FOLLOWERS: Final = 100
HEARTBEAT_S: Final = 15.0

_RETRY_S: Final = 5
_LONGEST_CURSOR: Final = 512
_MOST_LAST: Final = 1000

_SEND_S: Final = 60.0
"""A client that takes nothing for so long is gone."""

_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}
_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)

# Of ADK's server; older releases lack it, and show events as they are.
_redacted: Final[Callable[[Any], Any]] = getattr(
    auth_credential, "_redact_credential_secrets", lambda fields: fields
)

Authorize: TypeAlias = Callable[[Request, str, str], Awaitable[bool] | bool]
"""Says whether a request may see the sessions of an app's user, by the request, the app and the user."""


async def require_allowed(authorize: Authorize, request: Request, app_name: str, user_id: str) -> None:
    """Require that *authorize* lets the request pass; otherwise raise ``HTTPException``."""
    allowed = authorize(request, app_name, user_id)
    if inspect.isawaitable(allowed):
        allowed = await allowed
    if allowed is not True:
        raise HTTPException(403, detail="this client may not see the sessions of this user")


class Followers:
    """The followers of the sessions of one app in this process."""

    def __init__(
        self,
        *,
        authorize: Authorize | None,
        sessions: Callable[[], SessionService] = only_session_service,
        max_followers: int = MAX_FOLLOWERS,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._authorize = authorize
        self._sessions = sessions
        self._max = max_followers
        self._heartbeat_s = heartbeat_s
        self._count = 0
        self._ends: set[asyncio.Event] = set()
        self._handles_signals = False

    @property
    def count(self) -> int:
        """How many follow now."""
        return self._count

    def close(self) -> None:
        """End all streams; call it in the event loop of the server."""
        for ends in self._ends:
            ends.set()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request; it has the ids of ``PATH`` as parameters."""
        request = Request(scope, receive)
        ids = request.path_params
        if self._authorize is not None:
            await require_allowed(self._authorize, request, ids["app_name"], ids["user_id"])
        if self._count >= self._max:
            raise HTTPException(
                503,
                detail=f"{self._max} clients follow sessions of this process",
                headers={"Retry-After": str(_RETRY_S)},
            )
        self._count += 1
        try:
            try:
                sessions = self._sessions()
                cursor, skips = await _start(sessions, ids, request)
            except StoreError as exc:
                await (await answer(request, exc))(scope, receive, send)
                return
            if request.method == "HEAD":  # Starlette serves it wherever it serves GET
                await _begin(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            events = sessions.iter_events(**ids, cursor=cursor, follow=True)
            await self._stream(events, skips, receive, send)
        finally:
            self._count -= 1

    async def _stream(
        self, events: AsyncGenerator[SessionEvent], skips: int, receive: "Receive", send: "Send"
    ) -> None:
        """Send *events*, of which the first *skips* carry their place alone, until somebody ends it."""
        ends = asyncio.Event()
        self._ends.add(ends)
        self._hear_of_shutdown()
        sending = asyncio.create_task(self._send_all(events, skips, send))
        others = [asyncio.create_task(_gone(receive)), asyncio.create_task(ends.wait())]
        try:
            await asyncio.wait({sending, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ends.discard(ends)
            for task in (sending, *others):
                task.cancel()
            await asyncio.wait({sending, *others})
        if not sending.cancelled():
            failure = sending.exception()
            if isinstance(failure, OSError | TimeoutError):
                return  # the client is gone
            if failure is not None:
                raise failure
        elif not others[0].done() or others[0].cancelled():
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, events: AsyncGenerator[SessionEvent], skips: int, send: "Send") -> None:
        await _begin(send)
        await _send(send, f"retry: {_RETRY_S * 1000}\n\n")
        try:
            async with stepping(events) as step:
                while True:
                    come = await step(self._heartbeat_s)
                    if come is None:
                        await _send(send, ":\n\n")
                        continue
                    # A client remembers the place of a message without data, and shows nothing.
                    data = "" if skips else f"data: {to_json(shown(come[0].event)).decode()}\n"
                    skips = max(0, skips - 1)
                    await _send(send, f"id: {come[0].cursor}\n{data}\n")
        except (SessionMissingError, SessionConflictError) as exc:
            await _send(send, f'event: end\ndata: {{"error": "{type(exc).__name__}"}}\n\n')
        except StoreError as exc:
            logger.warning("%s: %s; its client connects again", type(exc).__name__, exc)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _hear_of_shutdown(self) -> None:
        """End all streams at the signals that end the server, which else waits for its connections."""
        if self._handles_signals or threading.current_thread() is not threading.main_thread():
            return
        self._handles_signals = True
        loop = asyncio.get_running_loop()

        def chain(before: Any) -> Callable[[int, FrameType | None], None]:
            def ended(number: int, frame: FrameType | None) -> None:
                with suppress(RuntimeError):  # its loop is closed
                    loop.call_soon_threadsafe(self.close)
                if callable(before):
                    before(number, frame)

            return ended

        for number in _ENDINGS:
            before = signal.getsignal(number)
            # Only a server's own handler: without one, the signal ends this process as ever.
            if callable(before) and before is not signal.default_int_handler:
                signal.signal(number, chain(before))


@checks_arguments
def follow_sessions(
    app: FastAPI,
    *,
    authorize: Authorize | None,
    sessions: SessionService | None = None,
    max_followers: int = MAX_FOLLOWERS,
    heartbeat_s: float = HEARTBEAT_S,
) -> Followers:
    """Add ``GET /apps/{app}/users/{user}/sessions/{session}/events`` to *app*: server-sent events.

    The stream has all events of a session, and then each one that any process appends, as the JSON of
    ``/run_sse``. The ``id`` of a message is the place after its event: a client that sends it as
    ``Last-Event-ID``, as browsers do, goes on there. ``?last=N`` begins with the last N events instead, 1,000
    at most; with 0, only those to come. ``event: end`` says that the session is gone
    (``SessionMissingError``), or was restored (``SessionConflictError``), so that a client reads it again. A
    comment each *heartbeat_s* keeps the connection alive. The stream ends with the server: at SIGINT or
    SIGTERM if it serves in the main thread, and at ``Followers.close()``.

    Answers without a stream: 400 for a malformed ``Last-Event-ID`` or ``last``, 403, 404 without such a
    session, and 503 with ``Retry-After``.

    Args:
        app: The app, from ``get_fast_api_app``.
        authorize: Called with the request, the app's name and the user's id: only ``True``, awaited or not,
            lets the request pass; it may raise ``HTTPException`` itself. ``None``: everybody who reaches the
            server may follow each session, as with ADK's own routes.
        sessions: The sessions; by default those of the session service that a URI named.
        max_followers: Streams of this process at a time; the next one is answered with 503.
        heartbeat_s: Seconds between two comments while nothing happens.

    Raises:
        InvalidInputError: *max_followers* or *heartbeat_s* is not above 0, or an argument is of another kind.
    """
    if max_followers < 1 or not heartbeat_s > 0:
        raise InvalidInputError("max_followers and heartbeat_s must be above 0")
    followers = Followers(
        authorize=authorize,
        sessions=only_session_service if sessions is None else lambda: sessions,
        max_followers=max_followers,
        heartbeat_s=heartbeat_s,
    )
    # Before ADK's own: a mounted page would take all paths.
    app.router.routes.insert(0, Route(PATH, endpoint=followers, methods=["GET"]))
    return followers


async def _start(sessions: SessionService, ids: dict[str, Any], request: Request) -> tuple[str | None, int]:
    """Return where a stream begins, and how many events from there on its client knows.

    Raises:
        InvalidInputError: the request names no place of the session.
        SessionMissingError: the session does not exist.
    """
    cursor = request.headers.get("last-event-id")
    if cursor:
        if len(cursor) > _LONGEST_CURSOR:
            raise InvalidInputError("Last-Event-ID is too long; leave it out to start anew")
        async for _ in sessions.iter_events(**ids, cursor=cursor, limit=1):
            pass
        return cursor, 0
    last = request.query_params.get("last")
    if last is None:
        async for _ in sessions.iter_events(**ids, limit=1):
            pass
        return None, 0
    if not (last.isascii() and last.isdecimal() and len(last) < 6 and int(last) <= _MOST_LAST):  # noqa: PLR2004
        raise InvalidInputError(f"last must be a number of events, {_MOST_LAST} at most")
    first: str | None = None
    async for each in sessions.iter_events(**ids, direction="backward", limit=max(1, int(last))):
        first = each.cursor
    return first, int(last == "0" and first is not None)


def shown(event: Event) -> dict[str, Any]:
    """Return *event* as ADK's ``/run_sse`` shows it, without secrets as far as this ADK hides them.

    A lone surrogate, such as of an emoji that was cut, becomes U+FFFD, and NaN becomes null.
    """
    fields: dict[str, Any] = _redacted(fields_of(public_event(event), exclude_none=True, by_alias=True))
    return dict(sendable(fields))


async def _begin(send: "Send") -> None:
    headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send(send: "Send", text: str) -> None:
    async with asyncio.timeout(_SEND_S):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _gone(receive: "Receive") -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

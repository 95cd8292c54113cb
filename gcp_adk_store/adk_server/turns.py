"""Let ADK's server run one turn of a session at a time."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from fastapi.middleware import Middleware

from gcp_adk_store import settings
from gcp_adk_store.adk_server.app import answer
from gcp_adk_store.adk_server.services import only_session_service
from gcp_adk_store.errors import SessionMissingError, StoreError
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.sessions.append.turn import HeldTurn, enter, leave
from gcp_adk_store.turns.running import Turns
from gcp_adk_store.turns.service import LEASE_S, WAIT_S, OnBusy

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_MESSAGES: Final = ("/run", "/run_sse")
_LIVE: Final = "/run_live"

_IDS: Final = {"app_name": "appName", "user_id": "userId", "session_id": "sessionId"}

_TRY_AGAIN_LATER: Final = 1013
_RESTARTS: Final = 1012


@checks_arguments
def one_turn_at_a_time(
    app: FastAPI,
    *,
    on_busy: OnBusy = "reject",
    wait_s: float = WAIT_S,
    lease_s: float = LEASE_S,
    turns: Turns | None = None,
) -> None:
    """Let *app*, from ``get_fast_api_app``, run one turn of a session at a time, in all its processes.

    It holds the turn of the session for each request to ``/run``, ``/run_sse`` and ``/run_live``. While
    another turn runs, the answer is 409 with ``Retry-After`` (``on_busy="reject"``), also after *wait_s*
    seconds (``wait``); ``/run_live`` closes with code 1013. With ``interrupt`` the other turn is
    asked to stop: its server then treats its client as gone, so ADK aborts it. A request for a session that
    is missing passes without a turn: ADK answers 404, or makes the session.

    Args:
        app: The app.
        on_busy: As ``store.turns.hold``.
        wait_s: As ``store.turns.hold``.
        lease_s: As ``store.turns.hold``.
        turns: The turns of the app's session service; by default those of the one that a URI named.

    Raises:
        RuntimeError: *app* serves already.
        InvalidInputError: an argument is of another kind.
    """
    if app.middleware_stack is not None:
        raise RuntimeError("one_turn_at_a_time() comes after get_fast_api_app() and before it serves")
    options = {"on_busy": on_busy, "wait_s": wait_s, "lease_s": lease_s}
    # Within ADK's middlewares: a request that they refuse takes no turn, and each answer gets their headers.
    app.user_middleware.append(Middleware(_OneTurn, turns=turns, options=options))


class _OneTurn:
    """Holds the turn of a session while the app serves a request for it."""

    def __init__(self, app: "ASGIApp", *, turns: Turns | None, options: dict[str, Any]) -> None:
        self._app = app
        self._turns = turns
        self._options = options

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        path, root = scope.get("path", ""), scope.get("root_path", "")
        if path.startswith(f"{root}/"):  # a proxy may have removed it
            path = path.removeprefix(root)
        if scope["type"] == "http" and scope["method"] == "POST" and path in _OF_MESSAGES:
            body, receive = await _read(receive)
            ids, serve = _ids_of(body), self._answer
        elif scope["type"] == "websocket" and path == _LIVE:
            query = scope.get("query_string", b"").decode("latin-1")  # as the app reads it
            given = dict(parse_qsl(query, keep_blank_values=True))
            ids, serve = _chosen({name: given.get(name) for name in _IDS}), self._converse
        else:
            ids, serve = None, self._answer
        if ids is None:
            await self._app(scope, receive, send)  # ADK says what is missing
        else:
            await serve(ids, scope, receive, send)

    async def _answer(self, ids: dict[str, Any], scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve a request, whose body was read before."""
        seen: list[Message] = []
        again = _again(seen, receive)
        try:
            hold = await self._taken(ids, receive, seen)
        except _GoneError:
            return  # nobody is there to answer
        except SessionMissingError:
            await self._app(scope, again, send)
            return
        except StoreError as exc:
            await (await answer(Request(scope, receive), exc))(scope, receive, send)
            return
        async with self._part_of(hold):
            await self._app(scope, _until_abort(hold, again, {"type": "http.disconnect"}), send)

    async def _converse(self, ids: dict[str, Any], scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve a live connection, which takes its turn once ADK accepts it: not from another origin."""
        hears = receive

        async def received() -> "Message":
            return await hears()

        async with AsyncExitStack() as ends:

            async def sent(message: "Message") -> None:
                nonlocal hears
                if message["type"] == "websocket.accept":
                    seen: list[Message] = []
                    hears = _again(seen, receive)
                    try:
                        hold = await self._taken(ids, receive, seen)
                    except SessionMissingError:
                        pass
                    except StoreError as exc:
                        await send(message)  # else its client gets status 403, without a code
                        reason = type(exc).__name__
                        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": reason})
                        raise _GoneError from exc
                    else:
                        await ends.enter_async_context(self._part_of(hold))
                        hears = _until_abort(hold, hears, {"type": "websocket.disconnect", "code": _RESTARTS})
                await send(message)

            with suppress(_GoneError):
                await self._app(scope, received, sent)

    async def _taken(self, ids: dict[str, Any], receive: "Receive", seen: "list[Message]") -> HeldTurn:
        """Take the turn of a session; add to *seen* what the client sends meanwhile.

        Raises:
            _GoneError: the client has gone before; the turn is free.
        """
        self._turns = self._turns or Turns(only_session_service("turns"))
        taking = asyncio.create_task(self._turns.take(**ids, **self._options))
        try:
            await _unless_gone(taking, receive, seen)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError, StoreError):
                async with self._turns.kept(await taking):
                    pass  # it was taken as this request was cancelled: release it
            raise
        return taking.result()

    @asynccontextmanager
    async def _part_of(self, hold: HeldTurn) -> AsyncIterator[None]:
        """Keep the turn *hold* while the block runs, as a part of it."""
        self._turns = self._turns or Turns(only_session_service("turns"))
        async with self._turns.kept(hold):
            enter(hold)
            try:
                yield
            finally:
                leave(hold)


async def _read(receive: "Receive") -> tuple[bytes, "Receive"]:
    """Return the body of a request, and a function that receives it once more, and then what follows."""
    parts: list[Message] = []
    while True:
        message = await receive()
        parts.append(message)
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    return b"".join(part.get("body", b"") for part in parts), _again(parts, receive)


def _again(messages: Iterable["Message"], receive: "Receive") -> "Receive":
    """Return a function that receives *messages* once more, and then what follows."""
    left = iter(messages)

    async def again() -> "Message":
        for message in left:
            return message
        return await receive()

    return again


class _GoneError(Exception):
    """The client has gone, or was sent away."""


async def _unless_gone(taking: asyncio.Task[HeldTurn], receive: "Receive", seen: "list[Message]") -> None:
    """Wait until a turn is taken, or is not; add to *seen* what the client sends meanwhile.

    Raises:
        _GoneError: the client has gone before; the turn is free.
    """

    async def until_gone() -> None:
        while not seen or not seen[-1]["type"].endswith(".disconnect"):
            seen.append(await receive())

    leaving = asyncio.create_task(until_gone())
    try:
        await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        taking.cancel()  # nothing, where it has ended
        await asyncio.wait({taking, leaving})
    if taking.cancelled():
        raise _GoneError


def _ids_of(body: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return _chosen(fields) if isinstance(fields, dict) else None


def _chosen(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ids among *fields*, in either notation, as ADK chooses; ``None`` if one is missing."""
    found = {name: fields.get(alias, fields.get(name)) for name, alias in _IDS.items()}
    found["app_name"] = found["app_name"] or settings.adk_default_app()
    return found if all(isinstance(id_, str) for id_ in found.values()) else None


def _until_abort(hold: HeldTurn, receive: "Receive", gone: "Message") -> "Receive":
    """Return *receive*, which reports that the client has *gone* when the turn is lost or asked to stop."""
    left: list[Message] = []

    async def received() -> "Message":
        # At once, as servers do: ADK asks whether a client has gone in a scope that is cancelled already.
        if left or hold.abort_signal.is_set():
            return left[0] if left else gone
        receiving = asyncio.ensure_future(receive())
        stopping = asyncio.ensure_future(hold.abort_signal.wait())
        try:
            await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            message = receiving.result() if receiving.done() else gone
        finally:
            receiving.cancel()
            stopping.cancel()
        if message["type"] == gone["type"]:
            left.append(message)
        return message

    return received

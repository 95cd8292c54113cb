"""Give applications the store by HTTP: histories, forks, links to artifacts, redaction, erasure."""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, WrapSerializer, model_validator
from pydantic_core import to_json
from starlette.routing import Route

from gcp_adk_store.adk_server.app import answer
from gcp_adk_store.adk_server.following import Authorize, Followers, require_allowed, shown
from gcp_adk_store.adk_server.services import only_store
from gcp_adk_store.artifacts.owners import Which
from gcp_adk_store.artifacts.uploads import SignedUpload
from gcp_adk_store.errors import InvalidInputError, SessionMissingError, StoreError
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.model.erasures import ErasureProgress
from gcp_adk_store.model.history import Point, Redaction
from gcp_adk_store.model.json_values import sendable
from gcp_adk_store.model.keys import values_by_name
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession
from gcp_adk_store.sessions.listing.usage import SessionUsage
from gcp_adk_store.store import Store

logger = logging.getLogger(__name__)


class _Fields(BaseModel):
    """Fields of a request; one that is not named here is refused."""

    model_config = ConfigDict(extra="forbid")


class PointFields(_Fields):
    """A point of a session's history: exactly one of the four."""

    position: Annotated[int, Field(ge=0)] | None = None
    """After so many events."""
    after_event: str | None = None
    """After the event of this id."""
    before_invocation: str | None = None
    """Before the first event of this invocation, such as a message that the user edits."""
    as_of: datetime | None = None
    """After the events that were stored at this time."""

    @model_validator(mode="after")
    def _is_one(self) -> "PointFields":
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give exactly one of position, after_event, before_invocation, as_of")
        return self

    @property
    def point(self) -> Point:
        """The point."""
        ((name, value),) = self.model_dump(exclude_none=True).items()
        point: Point = getattr(Point, name)(value)
        return point


class ChangedInfo(_Fields):
    """What to change of a session's title and labels; what is left out stays."""

    title: str | None = None
    """``null`` removes it."""
    labels: dict[str, str | None] | None = None
    """Labels that are not named stay, a value of ``null`` removes one, ``null`` as a whole removes all."""


class ForkFields(_Fields):
    """A fork to make."""

    at: PointFields | None = None
    """By default now."""
    to_session_id: str | None = None
    """By default a random one."""
    to_user_id: str | None = None
    """By default the same user. The client must be allowed to use the sessions of both."""
    artifacts: Which = "at_point"


class RestoreFields(_Fields):
    """Where a session goes back to."""

    at: PointFields
    keep_as: str | None = None
    """The id of a fork that keeps what is cut off."""


class RedactFields(_Fields):
    """Which event to redact, and why."""

    event_id: str
    reason: str
    state: bool = False
    """Whether state keys that still have the event's values become null."""
    memories: bool = False
    """Whether the memory that was made of the event goes, too."""
    dry_run: bool = False


class UploadFields(_Fields):
    """A file that a browser uploads."""

    filename: str
    mime_type: str = "application/octet-stream"
    max_bytes: Annotated[int, Field(ge=0)] | None = None


class FinishedUpload(_Fields):
    """A file that a browser has uploaded."""

    filename: str
    display_name: str | None = None


class SessionsPage(BaseModel):
    """Sessions of a user, by their last update."""

    sessions: Sequence[SessionInfo]
    unreadable: Sequence[UnreadableSession]
    """Sessions of the page that are damaged; an operator looks at them."""
    next_cursor: str | None
    """For the next page; ``null`` on the last one."""


class PlacedEvent(BaseModel):
    """An event and its place."""

    cursor: str
    """Continues after this event in the same direction."""
    event: dict[str, Any]
    """As ADK's ``/run_sse`` has it."""


class EventsPage(BaseModel):
    """Events of a session."""

    events: list[PlacedEvent]
    next_cursor: str | None
    """For the next page; ``null`` if this page has the last event."""


PREFIX: Final = "/store"

_USER: Final = "/apps/{app_name}/users/{user_id}"
_SESSION: Final = f"{_USER}/sessions/{{session_id}}"
_MOST: Final = 200
_EVENT_STREAM: Final = "text/event-stream"


def _user_of(app_name: str, user_id: str) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": user_id}


def _session_of(app_name: str, user_id: str, session_id: str) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": user_id, "session_id": session_id}


_User = Annotated[dict[str, Any], Depends(_user_of)]
"""The ids in the path, as the arguments that name them in every call."""
_Key = Annotated[dict[str, Any], Depends(_session_of)]

_SENDABLE: Final = WrapSerializer(lambda value, as_json: sendable(as_json(value)))
"""For answers with names that events have, such as of tools, or with their ids."""


class _StoreRoute(APIRoute):
    """Answers errors of the store as ``answer_errors`` does, and names what a body has that JSON lacks."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except StoreError as exc:
                return await answer(request, exc)
            except RequestValidationError as exc:
                # FastAPI answers with what it got, which may be NaN or half of an emoji.
                raise RequestValidationError(sendable(jsonable_encoder(exc.errors()))) from exc

        return answered


@checks_arguments
def add_store_routes(
    app: FastAPI, *, authorize: Authorize, store: Store | None = None, prefix: str = PREFIX
) -> Followers:
    """Add routes for applications to *app*, below ``/store``; ``/docs`` of *app* describes them.

    | route, below ``/store/apps/{app}/users/{user}`` | what it does |
    |---|---|
    | ``GET /sessions`` | a page of sessions with titles, labels and last messages |
    | ``GET``, ``PATCH``, ``DELETE /sessions/{session}`` | show, describe or delete a session |
    | ``GET /sessions/{session}/events`` | a page of events, from the oldest or the newest on |
    | ``GET /sessions/{session}/follow`` | the events as they come, as :func:`follow_sessions` sends them |
    | ``GET /sessions/{session}/usage`` | tokens, tool calls and times of each turn |
    | ``POST /sessions/{session}/fork``, ``/restore`` | branch a session, or take it back |
    | ``POST /sessions/{session}/redact`` | replace an event's content by a marker |
    | ``GET /sessions/{session}/artifacts``, ``/versions``, ``/link`` | artifacts, and links to them |
    | ``POST /sessions/{session}/uploads``, ``/{upload_id}`` | let a browser upload a file, and keep it |
    | ``DELETE`` of the user, ``?dry_run=true`` | erase the user: progress and receipt as an event stream |

    The answers to errors are those of ``answer_errors``. An id with a slash cannot stand in a path, as in
    ADK's own routes.

    Args:
        app: The app, from ``get_fast_api_app``.
        authorize: Called before each route with the request, the app's name and the user's id: only ``True``,
            awaited or not, lets the request pass, otherwise the answer is 403. The request has the method and
            the path, so that an app may allow less than all of it. A fork to another user asks for both.
        store: The store; by default that of the services that URIs named.
        prefix: Where the routes are.

    Returns:
        What follows sessions now; ``close()`` ends the streams.

    Raises:
        InvalidInputError: an argument is of another kind, or *prefix* has no slash before, or one after.
    """
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        raise InvalidInputError(f"prefix is {prefix!r}, it must be empty or such as {PREFIX!r}")
    routes = _Routes(authorize, store)
    followers = Followers(authorize=authorize, sessions=lambda: routes.store.sessions)
    stream = Route(f"{prefix}{_SESSION}/follow", endpoint=followers, methods=["GET"])
    before = len(app.router.routes)
    app.include_router(routes.router(), prefix=prefix, tags=["store"])
    # Before ADK's own: a mounted page would take all paths.
    added, app.router.routes[before:] = app.router.routes[before:], []
    app.router.routes[:0] = [stream, *added]
    return followers


class _Routes:
    """The handlers, each a method whose docstring the description shows."""

    def __init__(self, authorize: Authorize, store: Store | None) -> None:
        self._authorize = authorize
        self._store = store

    @property
    def store(self) -> Store:
        """The store, known from the first request on: URIs are read after the app was made."""
        if self._store is None:
            self._store = only_store()
        return self._store

    def router(self) -> APIRouter:
        """Return all routes, each behind the authorization."""
        router = APIRouter(route_class=_StoreRoute, dependencies=[Depends(self._require_allowed)])
        add = router.add_api_route
        add(f"{_USER}/sessions", self.list_sessions, methods=["GET"])
        add(_SESSION, self.get_session_info, methods=["GET"])
        add(_SESSION, self.update_session_info, methods=["PATCH"])
        add(_SESSION, self.delete_session, methods=["DELETE"], status_code=204)
        add(f"{_SESSION}/events", self.list_events, methods=["GET"])
        add(f"{_SESSION}/usage", self.get_session_usage, methods=["GET"])
        add(f"{_SESSION}/fork", self.fork_session, methods=["POST"], status_code=201)
        add(f"{_SESSION}/restore", self.restore_session, methods=["POST"])
        add(f"{_SESSION}/redact", self.redact_event, methods=["POST"])
        add(f"{_SESSION}/artifacts", self.list_artifacts, methods=["GET"])
        add(f"{_SESSION}/artifacts/versions", self.list_versions, methods=["GET"])
        add(f"{_SESSION}/artifacts/link", self.link_artifact, methods=["GET"])
        add(f"{_SESSION}/uploads", self.create_upload, methods=["POST"], status_code=201)
        add(f"{_SESSION}/uploads/{{upload_id}}", self.finish_upload, methods=["POST"], status_code=201)
        add(_USER, self.erase_user, methods=["DELETE"], response_class=StreamingResponse)
        return router

    async def _require_allowed(self, request: Request, app_name: str, user_id: str) -> None:
        await require_allowed(self._authorize, request, app_name, user_id)

    async def list_sessions(
        self,
        user: _User,
        *,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = 50,
        cursor: str | None = None,
        order: Literal["newest", "oldest"] = "newest",
        label: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies it
        updated_after: float | None = None,
    ) -> SessionsPage:
        """List sessions; *label* is ``name=value``, and sessions have all of them."""
        page = await self.store.sessions.list_sessions_page(
            **user,
            page_size=limit,
            cursor=cursor,
            order=order,
            include_state=False,
            labels=values_by_name("label", label),
            updated_after=updated_after,
        )
        return SessionsPage(sessions=page.infos, unreadable=page.unreadable, next_cursor=page.next_cursor)

    async def get_session_info(self, key: _Key) -> SessionInfo:
        """Return what a session is, without its events."""
        info = await self.store.sessions.get_session_info(**key)
        if info is None:
            raise SessionMissingError
        return info

    async def update_session_info(self, key: _Key, changed: ChangedInfo) -> SessionInfo:
        """Change a session's title and labels."""
        return await self.store.sessions.update_session_info(**key, **changed.model_dump(exclude_unset=True))

    async def delete_session(self, key: _Key, *, artifacts: bool = True) -> None:
        """Delete a session, with its artifacts; one that does not exist is accepted."""
        await self.store.delete_session(**key, artifacts=artifacts)

    async def list_events(
        self,
        key: _Key,
        *,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = 50,
        cursor: str | None = None,
        direction: Literal["forward", "backward"] = "forward",
    ) -> EventsPage:
        """List events, from the oldest on, or with ``backward`` from the newest on."""
        found = [
            PlacedEvent(cursor=each.cursor, event=shown(each.event))
            async for each in self.store.sessions.iter_events(
                **key, cursor=cursor, limit=limit + 1, direction=direction
            )
        ]
        page = found[:limit]
        return EventsPage(events=page, next_cursor=page[-1].cursor if len(found) > limit else None)

    async def get_session_usage(self, key: _Key) -> Annotated[SessionUsage, _SENDABLE]:
        """Return tokens, tool calls and times, by turn and by model."""
        return await self.store.sessions.get_session_usage(**key)

    async def fork_session(
        self, request: Request, key: _Key, fork: Annotated[ForkFields, Body(default_factory=ForkFields)]
    ) -> SessionInfo:
        """Make a session with the events, the state and the artifacts that another one had at a point."""
        if fork.to_user_id is not None:
            await self._require_allowed(request, key["app_name"], fork.to_user_id)
        at = None if fork.at is None else fork.at.point
        made = await self.store.fork_session(**key, at=at, **fork.model_dump(exclude={"at"}))
        return await self.get_session_info({**key, "user_id": made.user_id, "session_id": made.id})

    async def restore_session(self, key: _Key, restore: RestoreFields) -> SessionInfo:
        """Take a session back to a point; what came after it is lost unless ``keep_as`` keeps it."""
        await self.store.restore_session(**key, at=restore.at.point, keep_as=restore.keep_as)
        return await self.get_session_info(key)

    async def redact_event(self, key: _Key, redact: RedactFields) -> Annotated[Redaction, _SENDABLE]:
        """Replace the content of an event by a marker, permanently; ``dry_run`` only says what goes."""
        return await self.store.redact_event(**key, **redact.model_dump())

    async def list_artifacts(self, key: _Key) -> list[str]:
        """List the artifacts of a session, and those of its user."""
        return await self.store.artifacts.list_artifact_keys(**key)

    async def list_versions(self, key: _Key, filename: str) -> list[dict[str, Any]]:
        """List the versions of an artifact, from the oldest on."""
        found = await self.store.artifacts.list_artifact_versions(**key, filename=filename)
        return [sendable(each.model_dump(mode="json", by_alias=True)) for each in found]

    async def link_artifact(
        self, key: _Key, filename: str, version: Annotated[int | None, Query(ge=0)] = None
    ) -> dict[str, str]:
        """Return a URL with which anyone can download a version for an hour."""
        url = await self.store.artifacts.get_signed_url(**key, filename=filename, version=version)
        if url is None:
            raise HTTPException(404, detail="the artifact does not exist, or lies outside of the bucket")
        return {"url": url}

    async def create_upload(self, key: _Key, upload: UploadFields) -> SignedUpload:
        """Return a URL to which a browser may upload a file, without passing through this server."""
        return await self.store.artifacts.create_upload(**key, **upload.model_dump())

    async def finish_upload(self, key: _Key, upload_id: str, finished: FinishedUpload) -> dict[str, int]:
        """Make an uploaded file the next version of its artifact, once, and return the version's number."""
        fields = finished.model_dump()
        version = await self.store.artifacts.finalize_upload(**key, **fields, upload_id=upload_id)
        return {"version": version}

    async def erase_user(self, user: _User, *, dry_run: bool = False) -> StreamingResponse:
        """Erase all that the store holds of a user: events ``progress``, then ``receipt`` or ``error``.

        A client that leaves ends the erasure; the next call goes on.
        """
        steps = self.store.erase_user(**user, dry_run=dry_run)

        async def frames() -> AsyncIterator[bytes]:
            try:
                async for step in steps:
                    if isinstance(step, ErasureProgress):
                        yield b"event: progress\ndata: %s\n\n" % to_json(asdict(step))
                    else:
                        yield b"event: receipt\ndata: %s\n\n" % step.to_json().encode()
            except StoreError as exc:
                logger.warning("%s: %s", type(exc).__name__, exc)
                yield b'event: error\ndata: {"error": "%s"}\n\n' % type(exc).__name__.encode()
            finally:
                await steps.aclose()

        return StreamingResponse(frames(), media_type=_EVENT_STREAM, headers={"cache-control": "no-store"})

"""Make the app that shows a store."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.inspector import pages, recent_pages, session_pages, state_pages, writes
from gcp_adk_store.inspector.guard import LOOPBACK, Guard
from gcp_adk_store.inspector.look import READS, FartherError
from gcp_adk_store.inspector.site import Authorize, RefusedRequestError, Reveal, Site, Visit
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.store import Store

_STATIC: Final = {
    "inspector.css": "text/css",
    "icon.svg": "image/svg+xml",
    "htmx.min.js": "text/javascript",
    "keys.js": "text/javascript",
    "htmx.LICENSE.txt": "text/plain",
}
_TITLES: Final = {
    400: "Not a valid request",
    404: "Not found",
    409: "In conflict with what is stored",
    503: "The store does not answer",
}


@dataclass(frozen=True, slots=True)
class _Page:
    """A route."""

    path: str
    show: Callable[[Visit], Awaitable[Response]]
    ids: tuple[str, ...] = ()
    """The ids that its address must have."""
    methods: tuple[str, ...] = ("GET",)


_OF_APP: Final = ("app",)
_OF_USER: Final = ("app", "user")
_OF_SESSION: Final = ("app", "user", "session")
_FORM: Final = ("GET", "POST")

PAGES: Final = (
    _Page("/", recent_pages.apps),
    _Page("/usage", recent_pages.usage, _OF_APP),
    _Page("/find", recent_pages.find, _OF_APP),
    _Page("/users", pages.users, _OF_APP),
    _Page("/sessions", pages.sessions, _OF_APP),
    _Page("/memories", pages.memories, _OF_USER),
    _Page("/session", session_pages.conversation, _OF_SESSION),
    _Page("/events", session_pages.events, _OF_SESSION),
    _Page("/news", session_pages.news, _OF_SESSION),
    _Page("/event", session_pages.event, _OF_SESSION),
    _Page("/part", session_pages.part, _OF_SESSION),
    _Page("/timeline", session_pages.timeline_page, _OF_SESSION),
    _Page("/search", session_pages.search, _OF_SESSION),
    _Page("/compare", session_pages.compare, _OF_SESSION),
    _Page("/matrix", state_pages.matrix, _OF_SESSION),
    _Page("/change", state_pages.change, _OF_SESSION),
    _Page("/state", state_pages.state, _OF_SESSION),
    _Page("/difference", state_pages.differences, _OF_SESSION),
    _Page("/vitals", session_pages.vitals, _OF_SESSION),
    _Page("/raw", session_pages.raw_documents, _OF_SESSION),
    _Page("/artifacts", pages.artifacts, _OF_USER),
    _Page("/artifact", pages.artifact, _OF_USER),
    _Page("/content", pages.content, _OF_USER),
    _Page("/reveal", pages.reveal, methods=("POST",)),
)
"""All pages that only read."""

WRITES: Final = (
    _Page("/fork", writes.fork, _OF_SESSION, _FORM),
    _Page("/restore", writes.restore, _OF_SESSION, _FORM),
    _Page("/redact", writes.redact, _OF_SESSION, _FORM),
    _Page("/erase", writes.erase, _OF_USER, _FORM),
)
"""Pages that change the store, for an app that allows it."""


@checks_arguments
def create_app(
    store: Store,
    *,
    authorize: Authorize,
    hosts: Iterable[str] = LOOPBACK,
    reveal: Reveal = "asked",
    allow_writes: bool = False,
    where: str = "",
) -> FastAPI:
    """Return an app whose pages show *store*; run it alone, or mount it in another app.

    ::

        allowed = IapAuthorization(audience)
        app.mount("/inspect", create_app(store, authorize=allowed, hosts=["admin.example.com"]))

    It sends only reads, unless *allow_writes* is set. The caller closes *store*.

    Args:
        store: What it shows.
        authorize: Called as ``authorize(request, app, user)`` before each page, but not for style sheets, the
            script and the icon, which are the same for all. ``app`` and ``user`` are ``None`` for a page of
            all apps, or of all users of an app; the page of all apps shows of an app that is refused the name
            alone. Returns whether the request may see them; it may be a coroutine function.
        hosts: Values of the header Host that are served, with or without a port; all others are refused. By
            default those of this machine.
        reveal: ``"asked"`` masks content until the reader presses a button, ``"always"`` shows it,
            ``"never"`` masks it and has no button. Masked content does not leave the server.
        allow_writes: Whether pages fork and restore sessions, redact events, and erase users.
        where: The place of the store in words, which each page shows.

    Raises:
        InvalidInputError: an argument is of another kind, or *reveal* is unknown.
    """
    if isinstance(hosts, str):
        raise InvalidInputError("hosts is a text, it must be a list of hosts")
    hosts = tuple(hosts)
    for host in hosts:
        if not isinstance(host, str):
            raise InvalidInputError(f"hosts has a {type(host).__name__}, it must be a list of hosts")
    site = Site(store, authorize=authorize, reveal=reveal, allow_writes=allow_writes, where=where)
    app = FastAPI(title="gcp-adk-store inspector", docs_url=None, redoc_url=None, openapi_url=None)
    for page in (*PAGES, *(WRITES if allow_writes else ())):
        app.router.routes.append(Route(page.path, _answering(site, page), methods=page.methods))
    app.router.routes.append(Route("/static/{name}", _static, methods=["GET"]))
    app.add_middleware(Guard, hosts=hosts)
    return app


def _answering(site: Site, page: _Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            visit = await site.visit(request, page.ids)
        except RefusedRequestError as exc:
            return Response(str(exc), exc.status, media_type="text/plain")
        try:
            return await page.show(visit)
        except FartherError as exc:
            asked = {**request.query_params, **exc.parameters}
            on = visit.links.to(page.path.removeprefix("/"), **asked)
            return visit.page("farther.html", number=exc.number, on=on, reads=READS)
        except RefusedRequestError as exc:
            return visit.page("error.html", status=exc.status, title="Not shown", message=str(exc))
        except StoreError as exc:
            title = _TITLES.get(exc.http_status, f"The store answered with {type(exc).__name__}")
            return visit.page("error.html", status=exc.http_status, title=title, message=str(exc))

    return answer


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return Response("not found", 404, media_type="text/plain")
    content = files("gcp_adk_store.inspector").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "max-age=600"})

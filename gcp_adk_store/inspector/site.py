"""Serve pages and files under a strict policy."""

import re
import secrets
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import isawaitable
from typing import Any, Final, Literal
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from gcp_adk_store.inspector.conversation import Wanted
from gcp_adk_store.inspector.documents import Links, Place
from gcp_adk_store.inspector.look import Near
from gcp_adk_store.inspector.masking import Mask, served_as
from gcp_adk_store.inspector.reading import Reader
from gcp_adk_store.inspector.waterfall import SeenVersions
from gcp_adk_store.model.keys import moment, whole_text
from gcp_adk_store.store import Store

Authorize = Callable[[Request, str | None, str | None], bool | Awaitable[bool]]
"""Decides whether a request may see an app and a user; ``None`` stands for all of them."""

Reveal = Literal["asked", "always", "never"]

_REVEAL: Final = "adk_inspector_reveal"
_CSRF: Final = "adk_inspector_csrf"
_CSRF_CHARACTERS: Final = 43
MAX_FORM: Final = 64 * 1024
"""Bytes."""
_MAX_CURSOR: Final = 12_000
"""Characters: a path of Firestore has 6 kB at most."""


MAX_WAITING: Final = 100
"""Pages of one process that follow sessions: each holds a stream of the store open."""


class RefusedRequestError(Exception):
    """A request that may not be answered; its text is for the one who sent it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, and what it may see."""

    site: "Site"
    request: Request
    place: Place
    given: Mapping[str, Any]
    """The parameters of the query, or of the form."""
    csrf: str
    """The value that forms of the answer carry."""

    @property
    def reader(self) -> Reader:
        """What reads the store."""
        return self.site.reader

    @property
    def links(self) -> Links:
        """Addresses of pages."""
        return Links(self.request.scope.get("root_path", "").rstrip("/"))

    @property
    def mask(self) -> Mask:
        """Whether content is shown."""
        asked = self.site.reveal == "asked" and self.request.cookies.get(_REVEAL) == "1"
        return Mask(lifted=self.site.reveal == "always" or asked)

    @property
    def is_sent(self) -> bool:
        """Whether it is a form that was sent, not a page that is asked for."""
        return self.request.method == "POST"

    def text(self, name: str, *, most: int = 2_000) -> str | None:
        """Return a parameter; ``None`` if it is missing or empty.

        Raises:
            RefusedRequestError: it is longer than *most* characters.
        """
        value = self.given.get(name)
        if not isinstance(value, str) or not value:
            return None
        if len(value) > most:
            raise RefusedRequestError(400, f"{name} has {len(value)} characters, the limit is {most}")
        return value

    def cursor(self, name: str = "cursor") -> str | None:
        """Return a parameter that names a place; ``None`` if it is missing or empty.

        Raises:
            RefusedRequestError: no place has such a long name.
        """
        return self.text(name, most=_MAX_CURSOR)

    def required(self, name: str) -> str:
        """Return a parameter.

        Raises:
            RefusedRequestError: it is missing or too long.
        """
        value = self.text(name)
        if value is None:
            raise RefusedRequestError(400, f"the parameter {name} is missing")
        return value

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a number of at most 9 digits; *default* for any other text."""
        text = self.text(name) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default  # noqa: PLR2004

    @property
    def wanted(self) -> Wanted:
        """What a search asks for."""
        return Wanted(
            text=self.text("q") or "",
            tool=self.text("tool") or "",
            author=self.text("author") or "",
            errors=self.text("errors") == "1",
        )

    def near(self, prefix: str = "") -> Near | None:
        """Return the place at which a page goes on to look: a cursor, and the number of events before it."""
        cursor = self.cursor(f"{prefix}near")
        return None if cursor is None else (cursor, self.number(f"{prefix}number", 0))

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page, or a part of one, made of *template*."""
        here = self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else "")
        html = TEMPLATES.get_template(template).render(
            visit=self,
            place=self.place,
            links=self.links,
            mask=self.mask,
            here=self.links.to("") if self.is_sent else here,
            can_reveal=self.site.reveal == "asked",
            can_write=self.site.allow_writes,
            where=self.site.where,
            **values,
        )
        response = HTMLResponse(html, status)
        if self.request.cookies.get(_CSRF) != self.csrf:
            self._set_cookie(response, _CSRF, self.csrf)
        return response

    def choose_reveal(self, *, revealed: bool, back: str) -> Response:
        """Keep whether content is shown, and go *back*."""
        there = back if self.links.is_own(back) else self.links.to("")
        response = RedirectResponse(there, 303)
        self._set_cookie(response, _REVEAL, "1" if revealed else "0")
        return response

    def require_own_form(self) -> None:
        """Refuse a form that another site sent.

        Raises:
            RefusedRequestError: the origin, or the token, is not this site's.
        """
        origin = self.request.headers.get("origin", "").partition("://")[2]
        sent, kept = self.given.get("csrf"), self.request.cookies.get(_CSRF, "")
        same_origin = origin == self.request.headers.get("host", "") and bool(origin)
        same_token = isinstance(sent, str) and len(kept) == _CSRF_CHARACTERS
        if not (same_origin and same_token and secrets.compare_digest(str(sent).encode(), kept.encode())):
            raise RefusedRequestError(403, "The form did not come from this page. Open the page again.")

    def _set_cookie(self, response: Response, name: str, value: str) -> None:
        response.set_cookie(
            name,
            value,
            path=self.links.root or "/",
            secure=self.request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )


class Site:
    """A store with its pages' options."""

    def __init__(
        self, store: Store, *, authorize: Authorize, reveal: Reveal, allow_writes: bool, where: str
    ) -> None:
        self.store = store
        self.reader = Reader(store)
        self.versions = SeenVersions()
        self.authorize = authorize
        self.reveal: Reveal = reveal
        self.allow_writes = allow_writes
        self.where = where
        self._waiting = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a request that waits for news.

        Raises:
            RefusedRequestError: 100 others wait in this process.
        """
        if self._waiting >= MAX_WAITING:
            raise RefusedRequestError(503, f"{MAX_WAITING} pages of this process follow sessions")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def visit(self, request: Request, ids: Sequence[str]) -> Visit:
        """Return what a request asks for, once it is authorised; its place must have these *ids*.

        Raises:
            RefusedRequestError: it is not authorised, or lacks an id.
        """
        given: Mapping[str, Any] = request.query_params
        if request.method == "POST":
            size = request.headers.get("content-length", "")
            if not re.fullmatch("[0-9]{1,5}", size) or int(size) > MAX_FORM:
                raise RefusedRequestError(413, f"A form has at most {MAX_FORM} bytes, and says how many.")
            given = await request.form(max_files=0, max_fields=50)
        place = Place.of({name: value for name, value in given.items() if isinstance(value, str)})
        kept = request.cookies.get(_CSRF, "")
        csrf = kept if len(kept) == _CSRF_CHARACTERS else secrets.token_urlsafe(32)
        visit = Visit(site=self, request=request, place=place, given=given, csrf=csrf)
        await self.require_authorized(request, place.app, place.user)
        missing = [name for name in ids if name not in place.parameters]
        if missing:
            raise RefusedRequestError(400, f"the parameter {missing[0]} is missing")
        if visit.is_sent:
            visit.require_own_form()
        return visit

    async def require_authorized(self, request: Request, app: str | None, user: str | None) -> None:
        """Ask whether *request* may see an app and a user.

        Raises:
            RefusedRequestError: it may not.
        """
        allowed = self.authorize(request, app, user)
        if not (await allowed if isawaitable(allowed) else allowed):
            raise RefusedRequestError(403, "You may not see this.")


def _carried(value: Any) -> Any:
    """Return a value of a template as a page carries it."""
    return whole_text(value).replace("\x00", "\ufffd") if type(value) is str else value


def counted(number: int, what: str) -> str:
    """Return a number with what it counts: "1 event" and "10,000 events"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


TEMPLATES: Final = Environment(
    loader=PackageLoader("gcp_adk_store.inspector"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_carried,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""Of all sites of a process, so that each template is compiled once."""
TEMPLATES.filters.update(counted=counted, moment=moment)


_SHUT: Final = "default-src 'none'; sandbox"
_SHUT_PDF: Final = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""Of a PDF: Chromium's viewer does not start in a sandbox, and shows the file within a page."""


def answer_bytes(data: bytes, *, name: str) -> Response:
    """Return *data* as the file *name*, shown only if its bytes are of a type that runs nothing."""
    return Response(data, headers=_headers(data, name))


def answer_stream(start: bytes, rest: AsyncIterable[bytes], *, name: str, size: int) -> Response:
    """Return *size* bytes that begin with *start* as :func:`answer_bytes` does, in pieces."""

    async def pieces() -> AsyncIterable[bytes]:
        yield start
        async for piece in rest:
            yield piece

    return StreamingResponse(pieces(), headers={**_headers(start, name), "Content-Length": str(size)})


def _headers(start: bytes, name: str) -> dict[str, str]:
    content_type = served_as(start[:64])
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-100:] or "content"
    exact = quote(name[-200:], safe="", errors="replace")
    kind = "attachment" if content_type is None else "inline"
    return {
        "Content-Type": content_type or "application/octet-stream",
        "Content-Disposition": f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}",
        "Content-Security-Policy": _SHUT_PDF if content_type == "application/pdf" else _SHUT,
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def time_of(text: str) -> float | None:
    """Return a date and time as Unix time in seconds, in UTC unless it says another zone; else ``None``."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None

"""Let in requests from this machine, or those that Identity-Aware Proxy signed."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from inspect import isawaitable
from typing import Any, Final

from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request as HttpRequest
from google.oauth2 import id_token
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine, as browsers write them in the header Host."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "frame-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of pages."""

_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Without any referrer a browser sends no origin with a form, either.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Guard:
    """Passes on requests for the *hosts*, and adds the headers of :data:`_HEADERS` that an answer lacks.

    A page of another site whose name was made to lead to this machine sends its own name as the host.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a connection of another kind than HTTP is closed."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] != "http":
            return
        host = Headers(scope=scope).get("host", "").lower()
        if host in self._hosts or _without_port(host) in self._hosts:
            await self._app(scope, receive, guarded)
            return
        refused = PlainTextResponse("This host is not served here: see the argument hosts.", 421)
        await refused(scope, receive, guarded)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else host


CERTS_URL: Final = "https://www.gstatic.com/iap/verify/public_key"
"""The public keys of IAP."""

_HEADER: Final = "x-goog-iap-jwt-assertion"
_ISSUER: Final = "https://cloud.google.com/iap"
_KEPT_S: Final = 3600.0
_ASKED_AGAIN_S: Final = 60.0
_SKEW_S: Final = 30


class IapAuthorization:
    """An ``authorize`` for :func:`create_app`: requests that IAP has let through and signed.

    Behind IAP every request carries a JWT in ``x-goog-iap-jwt-assertion``. This checks its signature, its
    audience, its issuer and its times with google-auth; a request around IAP lacks a valid one. The public
    keys are kept for an hour, and asked for again, at most once a minute, when a key is unknown.
    """

    def __init__(
        self,
        audience: str,
        *,
        emails: Collection[str] | None = None,
        may_see: Callable[[str, str | None, str | None], bool | Awaitable[bool]] | None = None,
        certs_url: str = CERTS_URL,
    ) -> None:
        """Prepare the check; nothing is contacted before the first request.

        Args:
            audience: The one of the JWT, such as ``/projects/NUMBER/global/backendServices/ID``.
            emails: Who may see the store; by default everybody whom IAP lets through.
            may_see: Called with the email, the app and the user of a page; returns whether the one may see
                the other. It may be a coroutine function. By default all.
            certs_url: Address of the public keys.

        Raises:
            ValueError: *audience* is empty, so any JWT of IAP would do, or *emails* is one text.
        """
        if not audience:
            raise ValueError("audience is empty; IAP's page names the audience of the signed header")
        if isinstance(emails, str):
            raise ValueError("emails is one text, it must be a collection: pass [email]")  # noqa: TRY004
        self._audience = audience
        self._emails = None if emails is None else {email.lower() for email in emails}
        self._may_see = may_see
        self._certs_url = certs_url
        self._keys = _KeptKeys()

    async def __call__(self, request: Request, app: str | None, user: str | None) -> bool:
        """Return whether *request* may see an app and a user."""
        token = request.headers.get(_HEADER)
        if not token:
            return False
        claims = await asyncio.to_thread(self._claims, token)
        email = str(claims.get("email", "")).lower() if claims is not None else ""
        if not email or (self._emails is not None and email not in self._emails):
            return False
        allowed = self._may_see is None or self._may_see(email, app, user)
        return await allowed if isawaitable(allowed) else allowed

    def _claims(self, token: str) -> Mapping[str, Any] | None:
        """Return what a valid *token* says; ``None`` for any other."""
        for _ in range(2):
            try:
                claims: Mapping[str, Any] = id_token.verify_token(
                    token,
                    self._keys,
                    audience=self._audience,
                    certs_url=self._certs_url,
                    clock_skew_in_seconds=_SKEW_S,
                )
            except (ValueError, GoogleAuthError, RecursionError):
                if not self._keys.forget():
                    return None
            else:
                return claims if claims.get("iss") == _ISSUER else None
        return None


class _KeptKeys(HttpRequest):
    """Sends requests for keys, and keeps their answers."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._kept: dict[str, tuple[float, Any]] = {}

    def __call__(self, url: str, method: str = "GET", **options: Any) -> Any:  # type: ignore[override]  # its callers pass names
        with self._guard:
            kept = self._kept.get(url)
            if kept is not None and time.monotonic() - kept[0] < _KEPT_S:
                return kept[1]
        response = super().__call__(url, method=method, **options)  # type: ignore[no-untyped-call]  # as above
        if response.status == 200:  # noqa: PLR2004  # HTTP's
            with self._guard:
                self._kept[url] = time.monotonic(), response
        return response

    def forget(self) -> bool:
        """Drop keys that are older than a minute; return whether there were any."""
        with self._guard:
            old = [url for url, (at, _) in self._kept.items() if time.monotonic() - at > _ASKED_AGAIN_S]
            for url in old:
                del self._kept[url]
            return bool(old)

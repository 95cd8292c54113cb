"""Send HTTP requests for user code: to checked addresses, in bounded time, and read bounded answers."""

import asyncio
import codecs
import gzip
import io
import re
import ssl
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import httpx
from pydantic_core import to_json

from gcp_adk_store.ces.http.policy import HttpPolicy, RefusedError

_OURS: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that say how a request travels: those of code would lead it elsewhere, or break it."""
_MOST: Final = {
    "headers": (100, 64 * 1024),  # servers take 8 to 64 KiB
    "params": (1000, 64 * 1024),  # as many characters as httpx takes in a URL
    "fields of the form": (1000, 512 * 1024),  # spelling a form takes its time for each character
}
"""How many of each a request may have, and how many characters they may have together."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")


def header_fault(name: str, value: object) -> str | None:
    """Return what is wrong with a header, or None; never shows *value*, which may be a secret."""
    if not _NAME.fullmatch(name):
        return f"{name[:40]!r} is not a valid name of a header"
    if not (isinstance(value, str) and _VALUE.fullmatch(value)):
        return f"the value of the header {name[:40]} must be ASCII, without spaces or line ends around it"
    return None


def sendable(given: Any, said: list[str]) -> httpx.Headers:
    """Return those headers of *given* that are not the host's to set; of one name the last.

    Args:
        given: Values by name, or None.
        said: Learns what was left out.

    Raises:
        RefusedError: *given* is not valid, or is too large.
    """
    kept = httpx.Headers()
    if given is None:
        return kept
    if not isinstance(given, Mapping):
        raise RefusedError("headers must be a dict")
    _require_few("headers", [*given.items()])
    for name, value in ((str(name), value) for name, value in given.items()):
        if name.lower() in _OURS:
            said.append(f"the header {name} is the host's to set, and was left out")
        elif value is not None:
            if fault := header_fault(name, str(value)):
                raise RefusedError(fault)
            kept[name] = str(value)
    return kept


NO_ANSWER: Final = "Error fetching from URL"
"""The reason of a request without an answer, as on the platform."""

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_PACKED: Final = frozenset({"gzip", "x-gzip"})
_FIRST_ERROR: Final = 400
_MOVED: Final = 301
_REDIRECTS: Final = frozenset({_MOVED, 302, 303, 307, 308})
_KEEP_METHOD: Final = frozenset({307, 308})
FORM: Final = "application/x-www-form-urlencoded"
_CHARSETS: Final = frozenset(
    {
        *("ascii", "big5", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "koi8-r", "koi8-u"),
        *("shift_jis", "utf-16", "utf-16-be", "utf-16-le", "utf-8"),
    }
)


@cache
def _trusted() -> ssl.SSLContext:
    """Return what trusts the servers of the certifi package; made once, for it takes some 20 ms."""
    return httpx.create_ssl_context(trust_env=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request, as user code or a tool writes it."""

    method: str
    url: str
    params: Any = None
    headers: Any = None
    data: Any = None
    """Text, or form fields by name or as pairs."""
    json: Any = None
    leaves_origin: bool = True
    """Whether redirects to other hosts are followed: not with a tool's own headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An answer, or the reason why it is missing."""

    status_code: int
    reason: str
    text: str
    said: Sequence[str] = field(default_factory=tuple)
    """Warnings for the author of the code."""


class HttpAccess:
    """What a policy allows of HTTP; without state: no cookies, no connections that are kept, no proxies."""

    def __init__(self, policy: HttpPolicy) -> None:
        self._policy = policy

    async def fetch(self, outgoing: Outgoing, *, asker: str = "") -> Fetched:
        """Return the answer to *outgoing* for the user *asker*; the status is 0 if the request fails."""
        said: list[str] = []
        where = "a request"
        try:
            async with asyncio.timeout(self._policy.timeout_s):
                request = _request(outgoing, said, self._policy.max_request_bytes)
                where = f"{request.method} {request.url.host}"
                return await self._follow(request, outgoing, said, asker)
        except TimeoutError:
            why = f"no answer within the {self._policy.timeout_s:g} s of HttpPolicy.timeout_s"
        except RefusedError as exc:
            why = str(exc)
        # What the code asked for, and what servers answer, makes httpx raise these.
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, TypeError, zlib.error) as exc:
            why = f"{type(exc).__name__}: {exc}"
        return Fetched(status_code=0, reason=NO_ANSWER, text="", said=(*said, f"{where}: {why}"))

    async def _follow(
        self, request: httpx.Request, outgoing: Outgoing, said: list[str], asker: str
    ) -> Fetched:
        # The transport alone: a client of httpx logs every URL, reads what redirects say and keeps cookies.
        # No connection is kept: one to one name of an address must not serve another one.
        async with httpx.AsyncHTTPTransport(
            verify=self._policy.ssl_context or _trusted(),
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as transport:
            for _ in range(self._policy.max_redirects + 1):
                response = await self._sent(request, transport, asker)
                try:
                    following = _redirected(request, response)
                    target = "" if following is None else _origin(following.url)
                    if target and not outgoing.leaves_origin and target != _origin(request.url):
                        said.append(
                            f"{request.method} {request.url.host} redirects to {target}, "
                            "which must not get the headers of this one; name it instead, such as by --server"
                        )
                        following = None
                    if following is None:
                        return await self._read(response, said)
                finally:
                    await response.aclose()
                request = following
        raise RefusedError(f"more than the {self._policy.max_redirects} of HttpPolicy.max_redirects")

    async def _sent(
        self, request: httpx.Request, transport: httpx.AsyncHTTPTransport, asker: str
    ) -> httpx.Response:
        """Send *request* to an address that the policy found, under the name that was asked for."""
        addresses = await self._policy.addresses(request.url, asker)
        name = request.url.raw_host.decode("ascii").removesuffix(".")
        timeout = dict.fromkeys(("read", "write", "pool"), self._policy.timeout_s)
        timeout["connect"] = self._policy.timeout_s / len(addresses)
        failure: httpx.TransportError | None = None
        for address in addresses:
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={"sni_hostname": name, "timeout": timeout},
            )
            try:
                return await transport.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                failure = exc
        raise failure or httpx.ConnectError("the host has no address")

    async def _read(self, response: httpx.Response, said: list[str]) -> Fetched:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity", *_PACKED}:
            raise RefusedError(f"the answer is packed as {encoding[:40]!r}, which the request did not accept")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            self._require_room(body)
        if encoding in _PACKED:
            # Apart, for as many parts as a server likes may follow each other.
            unpacked = await asyncio.to_thread(_unpacked, body, self._policy.max_response_bytes + 1)
            self._require_room(unpacked)
            body[:] = unpacked
        failed = response.status_code >= _FIRST_ERROR
        return Fetched(
            status_code=response.status_code,
            reason=response.reason_phrase if failed else "",
            text=_decoded(body, response.charset_encoding),
            said=tuple(said),
        )

    def _require_room(self, body: bytes | bytearray) -> None:
        most = self._policy.max_response_bytes
        if len(body) > most:
            raise RefusedError(f"the answer has more than the {most} bytes of HttpPolicy.max_response_bytes")


def _unpacked(packed: bytearray, most: int) -> bytes:
    """Return what is in *packed*, up to *most* bytes; raise a RefusedError if its end is missing."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            return file.read(most)
    except EOFError as exc:
        raise RefusedError("the answer ends before what is packed in it does") from exc


def _redirected(request: httpx.Request, response: httpx.Response) -> httpx.Request | None:
    """Return the request that *response* leads to, if it leads anywhere; secrets stay with their origin."""
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or location is None or request.method == "HEAD":
        return None
    url = request.url.join(location)
    headers = request.headers.copy()
    left_out = ["host"]
    if _origin(request.url) != _origin(url):
        left_out += ["authorization", "cookie"]
    # As in the package requests: what was moved for good is asked for as before, but for a POST.
    keeps_body = response.status_code in _KEEP_METHOD or request.method == "GET"
    keeps_body |= response.status_code == _MOVED and request.method != "POST"
    if not keeps_body:
        left_out += ["content-length", "content-type", "transfer-encoding"]
    for name in left_out:
        headers.pop(name, None)
    content = request.content if keeps_body else None
    return httpx.Request(request.method if keeps_body else "GET", url, headers=headers, content=content)


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _request(outgoing: Outgoing, said: list[str], most_bytes: int) -> httpx.Request:
    """Return *outgoing*, with a body of *most_bytes*, as httpx has it; *said* learns what was left out.

    Raises:
        RefusedError: the request is not valid.
        httpx.InvalidURL, TypeError, ValueError: the same.
    """
    if outgoing.method not in _METHODS:
        raise RefusedError(f"{outgoing.method[:40]!r} is not a method of ces_requests")
    url = httpx.URL(outgoing.url)
    if outgoing.params:
        params = _fields(outgoing.params, "params")
        url = url.copy_with(params=[*httpx.QueryParams(url.query).multi_items(), *params])
    headers = sendable(outgoing.headers, said)
    content, media_type = b"", ""
    if isinstance(outgoing.data, str):
        content = outgoing.data.encode()
    elif outgoing.data is not None:
        form = _fields(outgoing.data, "fields of the form")
        content, media_type = str(httpx.QueryParams(form)).encode(), FORM
    elif outgoing.json is not None:
        content, media_type = to_json(outgoing.json), "application/json"
    if len(content) > most_bytes:
        says = f"the limit is {most_bytes:,} (HttpPolicy.max_request_bytes)"
        raise RefusedError(f"the body has {len(content):,} bytes; {says}")
    made = httpx.Request(outgoing.method, url, content=content)
    of_body = {"content-type": media_type} if content and media_type else {}
    made.headers.update({"accept": "*/*", "user-agent": "gcp-adk-store", **of_body, **headers})
    made.headers["accept-encoding"] = "gzip"
    if url.userinfo and "authorization" not in made.headers:
        made = next(httpx.BasicAuth(url.username, url.password).auth_flow(made))
    return made


def _fields(given: Any, what: str) -> list[tuple[str, Any]]:
    """Return names and values as httpx takes them, or those that a text encodes.

    Lists are several values of a name, None is left out, and an object or a list within one is its JSON.

    Raises:
        RefusedError: *given* is something else, or has too many fields, or too many characters: before any is
            encoded.
    """
    if isinstance(given, str):
        _require_few(what, [(given, "")])
        given = httpx.QueryParams(given).multi_items()
    items = [*given.items()] if isinstance(given, Mapping) else given
    if not all(isinstance(item, list | tuple) and len(item) == 2 for item in items):  # noqa: PLR2004
        raise RefusedError(f"{what} must be a dict, a list of pairs, or text")
    pairs = [
        (str(name), each)
        for name, value in items
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]
    _require_few(what, pairs)
    nested = (Mapping, list)
    return [(name, to_json(each).decode() if isinstance(each, nested) else each) for name, each in pairs]


def _require_few(what: str, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Raise a RefusedError if *pairs*, names and values, are more than a request may have of *what*."""
    number, most = _MOST[what]
    if len(pairs) > number:
        raise RefusedError(f"{len(pairs):,} {what} are more than the {number:,} that a request may have")
    characters = sum(len(str(name)) + len(str(each)) for name, each in pairs)
    if characters > most:
        raise RefusedError(f"the {what} have {characters:,} characters; they may have {most:,} together")


def _decoded(body: bytearray, charset: str | None) -> str:
    name = ""
    with suppress(LookupError, ValueError):
        name = codecs.lookup(charset or "").name
    # Some codecs of Python are not of text, and may decompress.
    is_known = name in _CHARSETS or name.startswith(("iso8859-", "cp125"))
    return body.decode(name if is_known else "utf-8", errors="replace")

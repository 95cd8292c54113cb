"""Stand between clients and Cloud Storage, and let requests fail as a plan says.

Requests pass with the ``Host`` that the client sent, so the links that the emulator makes of it, such as
those of resumable uploads, lead back through the proxy, and signed URLs stay as they were signed.
"""

import http.client
import json
import math
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from gcp_adk_store.testing.faults.plans import (
    Cut,
    Delay,
    Fault,
    Garble,
    Hang,
    Hold,
    Lose,
    Plan,
    Refuse,
    no_faults,
)
from gcp_adk_store.testing.faults.proxy import HttpHandler, HttpServer, Proxy

_IN_BUCKET: Final = re.compile(r"(?:/(?:upload|download))?(?:/storage/v1)?/b/(?P<bucket>[^/]+)(?P<rest>/.*)?")
# The XML API's form, which signed and public URLs have.
_XML: Final = re.compile(r"/(?!(?:b|storage|upload|download|batch)(?:/|$))(?P<bucket>[^/]+)/.+")
_OBJECT: Final = re.compile(r"/o/[^/]+")
_VERBS: Final = {
    "rewriteTo": "rewrite",
    "copyTo": "copy",
    "moveTo": "move",
    "compose": "compose",
    "restore": "restore",
}
_PLAIN: Final = {"GET": "metadata", "HEAD": "metadata", "PATCH": "patch", "PUT": "update"}


def bucket_of(url: str) -> str:
    """Return the bucket that *url* names, empty where it names none."""
    path = urlsplit(url).path
    match = _IN_BUCKET.fullmatch(path) or _XML.fullmatch(path)
    return unquote(match["bucket"]) if match else ""


def is_bucket_look(method: str, url: str) -> bool:
    """Return whether a request is for the bucket itself: Google's client asks once a process, for traces."""
    match = _IN_BUCKET.fullmatch(urlsplit(url).path)
    return method == "GET" and match is not None and not match["rest"]


def request_kind(method: str, url: str) -> str:
    """Return what a request does.

    ``upload``, ``list``, ``metadata``, ``media``, ``delete``, ``patch``, ``update``, ``rewrite``, ``copy``,
    ``move``, ``compose`` or ``restore``; ``other`` for those of whole buckets and for batches.
    """
    if method == "DELETE":
        return "delete"
    parts = urlsplit(url)
    if _XML.fullmatch(parts.path):
        return {"GET": "media", "HEAD": "metadata", "PUT": "upload"}.get(method, "other")
    match = _IN_BUCKET.fullmatch(parts.path)
    rest = (match["rest"] or "") if match else ""
    if rest == "/o":
        return "list" if method == "GET" else "upload"
    if _OBJECT.fullmatch(rest):
        wants_bytes = parts.path.startswith("/download/") or "alt=media" in parts.query
        return "media" if method == "GET" and wants_bytes else _PLAIN.get(method, "other")
    return _VERBS.get(rest.split("/")[3], "other") if rest.startswith("/o/") else "other"


_BLOCK_BYTES: Final = 64 * 1024
_IN_MEMORY_BYTES: Final = 1024 * 1024
_POLL_S: Final = 0.05
_WITHOUT_BODY: Final = frozenset({204, 304})
_OF_ONE_CONNECTION: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    }
)


class StorageProxy(Proxy):
    """A proxy whose *plan* says which requests go wrong; ``with`` starts and stops it.

    Point ``STORAGE_EMULATOR_HOST`` at :attr:`address` for the clients that are to suffer. Calls are numbered
    by bucket; the look at the bucket itself that Google's client makes on its own, once a process, is not.
    """

    def __init__(self, upstream: str, plan: Plan = no_faults) -> None:
        """Prepare it; *upstream* is the emulator's ``http://host:port``."""
        super().__init__("storage", plan)
        self._server = _Server(upstream.rpartition("://")[2].rstrip("/"), self)

    @property
    def address(self) -> str:
        """``http://host:port`` of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def cut_connections(self) -> int:
        """End the connections, as :meth:`Proxy.cut_connections`."""
        return self._server.cut()

    def _serve(self) -> None:
        self._serves.set()
        self._server.serve_forever(poll_interval=_POLL_S)
        self._server.stopping.set()
        self.drop_held()
        self._server.server_close()
        self._server.cut()

    def _stop(self) -> None:
        self._server.shutdown()


class _Server(HttpServer):
    def __init__(self, upstream: str, proxy: Proxy) -> None:
        self.upstream = upstream
        self.proxy = proxy
        self.stopping = threading.Event()
        super().__init__("127.0.0.1", 0, _Handler)


class _Handler(HttpHandler):
    """One connection of a client, and one to the emulator for it."""

    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream = http.client.HTTPConnection(self.server.upstream)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def serve(self) -> None:
        """Pass on one request, unless something goes wrong with it."""
        fault = None
        if not is_bucket_look(self.command, self.path):
            fault = self.server.proxy.next(bucket_of(self.path), request_kind(self.command, self.path))
        if fault is None:
            self._answer(self._forward(self.body()))
        else:
            self._suffer(fault)

    # The base class looks methods up by these names.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve  # noqa: N815

    def _suffer(self, fault: Fault) -> None:
        match fault:
            case Refuse() | Hang() | Cut(part="request"):
                self._withhold(fault)
            case Lose():
                self._forward(self.body())
                self._drop()
            case Cut():
                self._answer(self._forward(self.body()), half=True)
            case Garble():
                self._garble(fault)
            case Delay(seconds):
                with self._kept_body() as body:
                    self.server.stopping.wait(seconds)
                    self._answer(self._forward(body))
            case Hold("before"):
                with self._kept_body() as body:
                    if self._hold(fault):
                        self._answer(self._forward(body))
            case Hold():
                response = self._forward(self.body())
                if self._hold(fault):
                    self._answer(response)

    def _withhold(self, fault: Refuse | Hang | Cut) -> None:
        """Take the request, or half of it, and keep it from the emulator."""
        if isinstance(fault, Cut):
            for _ in self.exactly(self.length // 2):
                pass
        else:
            for _ in self.body():
                pass
        if isinstance(fault, Refuse):
            self._refuse(fault)
            return
        if isinstance(fault, Hang):
            self._wait_for_the_client_to_go()
        self._drop()

    def _hold(self, hold: Hold) -> bool:
        with self.server.proxy.holding(hold):
            released = hold.decision.result()
        if not released:
            self._drop()
        return released

    def _refuse(self, fault: Refuse) -> None:
        status = fault.http_status
        error = {"code": status, "message": "on purpose: a test's proxy", "status": fault.grpc_code}
        body = json.dumps({"error": error}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", f"{len(body)}")
        if fault.retry_after_s is not None:
            self.send_header("Retry-After", f"{math.ceil(fault.retry_after_s)}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _drop(self) -> None:
        """End both connections; what was not sent to either is never sent."""
        self.close_connection = True
        self._upstream.close()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _forward(self, body: Iterable[bytes]) -> http.client.HTTPResponse:
        """Send the request on and return the emulator's answer, its body still to be read."""
        upstream = self._upstream
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _OF_ONE_CONNECTION:
                upstream.putheader(name, value)
        if self.is_chunked:
            upstream.putheader("Transfer-Encoding", "chunked")
        upstream.endheaders()
        for block in body:
            upstream.send(_chunk(block) if self.is_chunked else block)
        if self.is_chunked:
            upstream.send(_chunk(b""))
        return upstream.getresponse()

    def _answer(self, response: http.client.HTTPResponse, *, half: bool = False) -> None:
        """Pass on the emulator's answer, or half of it."""
        chunked = response.length is None
        if half and response.length == 0:
            self._drop()
            return
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        left = (response.length or 0) // 2 if half else sys.maxsize
        while left and (block := response.read(min(left, _BLOCK_BYTES))):
            self.wfile.write(_chunk(block) if chunked else block)
            left -= len(block)
        if half:
            self._drop()
        elif chunked:
            self.wfile.write(_chunk(b""))

    def _garble(self, fault: Garble) -> None:
        """Pass on the request with another body; or the emulator's answer, under the length of that."""
        if fault.part == "request":
            self._answer(self._forward([fault.change(b"".join(self.body()))]))
            return
        response = self._forward(self.body())
        status = fault.status or response.status
        if self.command == "HEAD" or status in _WITHOUT_BODY:
            self._answer(response)
            return
        body = fault.change(response.read())
        self.send_response_only(status)
        for name, value in response.getheaders() if fault.with_headers else ():
            if name.lower() not in _OF_ONE_CONNECTION | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    @contextmanager
    def _kept_body(self) -> Iterator[Iterator[bytes]]:
        """Take the request's body to its end, a large one into a file; give its blocks."""
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as kept:
            for block in self.body():
                kept.write(block)
            kept.seek(0)
            yield iter(lambda: kept.read(_BLOCK_BYTES), b"")

    def _wait_for_the_client_to_go(self) -> None:
        self.connection.settimeout(None)
        with suppress(OSError):
            # Any data, or the end of the connection: a waiting client sends nothing.
            self.connection.recv(1, socket.MSG_PEEK)


def _chunk(block: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(block), block)

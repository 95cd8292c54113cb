"""Serve HTTP on 127.0.0.1 to code under test, and note what it asks."""

import contextlib
import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, as it arrived."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    """Names in lower case; what came several times under one name, with commas between."""
    body: str


@dataclass(kw_only=True)
class Web:
    """A server: paths answer as they are called, others with what was asked."""

    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Asked:
        """The latest request."""
        return self.asked[-1]


@contextlib.contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Run a server in a thread for a block; with *context* it speaks HTTPS."""
    server = _Server(("127.0.0.1", 0), _Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.web = Web(port=server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.web  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that had enough: what they got is what tests look at."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        asked = Asked(
            method=self.command,
            path=url.path,
            query=parse_qsl(url.query, keep_blank_values=True),
            headers={name.lower(): ", ".join(self.headers.get_all(name, ())) for name in self.headers},
            body=self.rfile.read(length).decode(),
        )
        web: Web = self.server.web  # type: ignore[attr-defined]
        web.asked.append(asked)
        status, headers, body = _made(asked)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):  # a client that had enough
                self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer  # noqa: N815  # its names

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _made(asked: Asked) -> tuple[int, dict[str, str], bytes]:  # noqa: PLR0911  # one for each path
    wanted = dict(asked.query)
    match asked.path:
        case "/redirect":
            return int(wanted.get("status", 302)), {"location": wanted["to"]}, b"elsewhere"
        case "/status":
            return int(wanted["code"]), {}, b"said"
        case "/large":
            return 200, {}, b"x" * int(wanted["bytes"])
        case "/packed":
            packed = gzip.compress(b"x" * int(wanted["bytes"])) * int(wanted.get("times", 1))
            return 200, {"content-encoding": "gzip"}, packed[: len(packed) - int(wanted.get("cut", 0))]
        case "/brotli":
            return 200, {"content-encoding": "br"}, b"unreadable"
        case "/charset":
            return 200, {"content-type": f"text/plain; charset={wanted['is']}"}, bytes.fromhex(wanted["hex"])
        case "/cookie":
            return 200, {"set-cookie": "seen=1; Path=/"}, b"{}"
        case _:
            body = json.dumps({"method": asked.method, "path": asked.path, "query": asked.query})
            return 200, {"content-type": "application/json"}, body.encode()

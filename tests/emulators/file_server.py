"""Serve one file over HTTP on 127.0.0.1, well or in a way that a test chooses for each request."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ETAG = '"one"'


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    files: "FileServer"

    def do_GET(self) -> None:
        """Answer as the test says, by default well."""
        self.close_connection = True
        files = self.files
        files.requests.append((self.path, dict(self.headers)))
        answer = files.answers.pop(0) if files.answers else well
        answer(self)

    def head(self, status: int, length: int | None, **headers: str) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", f"{length}")
        self.end_headers()

    def asked_from(self) -> int:
        """Return the first byte that the request asks for, of the content that its condition names."""
        if self.headers.get("If-Range", self.files.etag) != self.files.etag:
            return 0
        return int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Answer = Callable[[Handler], None]


@dataclass
class FileServer:
    """What is served, and what was asked."""

    content: bytes
    etag: str = ETAG
    answers: list[Answer] = field(default_factory=list)
    """Of the next requests; those after them are answered well."""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers of each request."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Is set when the test is over: what stalls until then waits for it."""
    url: str = ""

    @property
    def ranges(self) -> list[str | None]:
        """What each request asked for."""
        return [headers.get("Range") for _, headers in self.requests]


@contextmanager
def serving(content: bytes) -> Iterator[FileServer]:
    """Serve *content* while the block runs."""
    files = FileServer(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"files": files}))
    files.url = f"http://127.0.0.1:{server.server_port}/file"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield files
    finally:
        files.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def well(handler: Handler) -> None:
    """Answer with all, or with the part that is asked for, as HTTP has it."""
    content, start = handler.files.content, handler.asked_from()
    if start == 0:
        handler.head(200, len(content), ETag=handler.files.etag)
    elif start >= len(content):
        handler.head(416, 0)
        return
    else:
        part = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.head(206, len(content) - start, ETag=handler.files.etag, Content_Range=part)
    handler.wfile.write(content[start:])


def cut_after(size: int) -> Answer:
    """Answer well, and end the connection after *size* bytes of the body."""

    def answer(handler: Handler) -> None:
        content, start = handler.files.content, handler.asked_from()
        part = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.head(206 if start else 200, len(content) - start, ETag=handler.files.etag, Content_Range=part)
        handler.wfile.write(content[start : start + size])
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    return answer


def whole(handler: Handler) -> None:
    """Answer with all, whatever part is asked for."""
    handler.head(200, len(handler.files.content))
    handler.wfile.write(handler.files.content)


def announcing(length: int | None, body: bytes) -> Answer:
    """Announce *length* bytes and send *body*."""

    def answer(handler: Handler) -> None:
        handler.head(200, length)
        handler.wfile.write(body)

    return answer


def status(code: int, **headers: str) -> Answer:
    """Answer with a status and nothing else."""
    return lambda handler: handler.head(code, 0, **headers)


def part_of_another(handler: Handler) -> None:
    """Answer with a part that was not asked for."""
    content = handler.files.content
    handler.head(206, len(content), Content_Range=f"bytes 0-{len(content) - 1}/{len(content)}")
    handler.wfile.write(content)


def silent(handler: Handler) -> None:
    """Answer nothing until the test is over."""
    handler.files.closing.wait()


def stalling_after(size: int) -> Answer:
    """Send *size* bytes of the body, then nothing until the test is over."""

    def answer(handler: Handler) -> None:
        handler.head(200, len(handler.files.content))
        handler.wfile.write(handler.files.content[:size])
        handler.wfile.flush()
        handler.files.closing.wait()

    return answer


def trickling(what: bytes) -> Answer:
    """Send *what*, and then a byte each now and then until the client goes or the test is over."""

    def answer(handler: Handler) -> None:
        try:
            handler.wfile.write(what)
            while not handler.files.closing.wait(0.02):
                handler.wfile.write(b"x")
        except OSError:
            pass  # the client went

    return answer

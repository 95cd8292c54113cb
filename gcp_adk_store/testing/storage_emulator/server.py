"""Speak HTTP/1.1 to many clients at once and guard the storage with one lock."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import ClassVar, Final, cast

from gcp_storage_emulator.handlers import (
    buckets as gse,
)

from gcp_adk_store.testing.faults.proxy import HttpServer
from gcp_adk_store.testing.storage_emulator.exchange import (
    CLIENT_CLOSED_REQUEST,
    ApiError,
    Request,
    Response,
    bad_request,
    check_bucket_name,
    error_body,
    json_response,
)
from gcp_adk_store.testing.storage_emulator.routing import answer_request
from gcp_adk_store.testing.storage_emulator.storage import StrictStorage

logger = logging.getLogger(__name__)

_PHRASES: Final = {
    HTTPStatus.PERMANENT_REDIRECT: "Resume Incomplete",
    CLIENT_CLOSED_REQUEST: "Client Closed Request",
}
_BODILESS: Final = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class StorageEmulator(HttpServer):
    """A listening server with its own empty storage.

    Opening it binds the port; ``serve_forever`` answers until ``shutdown``.

    Raises:
        OSError: the port is taken or not permitted.
        ApiError: a bucket's name is not legal.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, buckets: Sequence[str] = ()) -> None:
        self.storage = StrictStorage()
        self.lock = threading.Lock()
        super().__init__(host, port, _Handler)
        for name in buckets:
            bucket = gse.create_bucket(check_bucket_name(name), self.storage)
            if bucket:
                bucket["selfLink"] = f"{self.url}/storage/v1/b/{name}"

    @property
    def url(self) -> str:
        """The address clients use, without a trailing slash."""
        host, port = cast("tuple[str, int]", self.server_address[:2])
        return f"http://{host}:{port}"

    def server_close(self) -> None:
        """Stop listening and end every connection."""
        super().server_close()
        self.cut()


@contextmanager
def running_emulator(
    *, host: str = "127.0.0.1", port: int = 0, buckets: Sequence[str] = ()
) -> Iterator[StorageEmulator]:
    """Serve from a thread for the length of a ``with`` block.

    Port 0 takes a free one; read it from ``url``.
    """
    with StorageEmulator(host=host, port=port, buckets=buckets) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="storage-emulator"
        )
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One connection: read a request whole, answer it under the lock, write, repeat."""

    protocol_version = "HTTP/1.1"
    server_version = "gcs-emulator"
    disable_nagle_algorithm = True
    timeout: ClassVar[float] = 600.0  # A connection that says nothing gives up its thread.
    server: StorageEmulator

    def answer(self) -> None:
        """Answer one request; the lock is held neither for reading nor for writing it."""
        try:
            request = self._read_request()
        except ApiError as exc:
            # Where the next request begins is unknown now.
            self.send_error(exc.status, exc.message)
            return
        except (ConnectionError, TimeoutError):
            raise
        except Exception as exc:
            logger.exception("failed to read a request for %s", self.path)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(exc).__name__}: {exc}")
            return
        with self.server.lock:
            response = answer_request(self.server.storage, request)
        self._write(response)

    # The base class looks methods up by these names.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer as JSON a request that cannot be understood, then close the connection."""
        text = message or explain or HTTPStatus(code).phrase
        response = json_response(error_body(code, text), status=code, headers={"Connection": "close"})
        self._write(response)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # inherited name
        """Log to the module's logger, not to stderr."""
        logger.debug(format, *args)

    def _read_request(self) -> Request:
        body = self._read_body()
        host = self.headers.get("Host")
        # Links must lead back the way the client came, which the bound address may not
        # (0.0.0.0, a forwarded port).
        try:
            return Request.parse(
                method=self.command,
                target=self.path,
                headers=self.headers,
                body=body,
                base_url=f"http://{host}" if host else self.server.url,
            )
        except ValueError as exc:
            raise bad_request("Invalid request target") from exc

    def _read_body(self) -> bytes:
        encoding = self.headers.get("Transfer-Encoding")
        if encoding is not None:
            if encoding.lower() != "chunked":
                raise bad_request(f"Invalid Transfer-Encoding: {encoding!r}")
            return b"".join(self._read_chunks())
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()):
            raise bad_request(f"Invalid Content-Length: {length!r}")
        return self._read_exactly(int(length))

    def _read_chunks(self) -> Iterator[bytes]:
        while True:
            try:
                size = int(self.rfile.readline(1024).split(b";")[0], 16)
            except ValueError as exc:
                raise bad_request("Invalid chunk size") from exc
            if size < 0:
                raise bad_request("Invalid chunk size")
            if size == 0:
                break
            yield self._read_exactly(size)
            self.rfile.readline(1024)
        # Trailers, up to the empty line that ends them.
        while self.rfile.readline(65536).strip():
            pass

    def _read_exactly(self, size: int) -> bytes:
        content = self.rfile.read(size)
        if len(content) < size:
            msg = "the client closed the connection inside a request"
            raise ConnectionAbortedError(msg)
        return content

    def _write(self, response: Response) -> None:
        self.send_response(response.status, _PHRASES.get(response.status))
        for name, value in response.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in response.headers and response.status not in _BODILESS:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

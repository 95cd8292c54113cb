"""Speak HTTP/1.1 to many clients at once and guard the storage with one lock."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, cast

from gcp_storage_emulator.handlers import buckets as gse

from gcp_adk_store.testing.faults.proxy import HttpHandler, HttpServer
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


class _Handler(HttpHandler):
    """One connection: read a request whole, answer it under the lock, write, repeat."""

    server_version = "gcs-emulator"
    server: StorageEmulator

    def answer(self) -> None:
        """Answer one request; the lock is held neither for reading nor for writing it."""
        try:
            request = self._read_request()
        except ApiError as exc:
            # Where the next request begins is unknown now.
            self.send_error(exc.status, exc.message)
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

    def _read_request(self) -> Request:
        try:
            body = b"".join(self.body())
        except ValueError as exc:
            raise bad_request(str(exc)) from exc
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

    def _write(self, response: Response) -> None:
        self.send_response(response.status, _PHRASES.get(response.status))
        for name, value in response.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in response.headers and response.status not in _BODILESS:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

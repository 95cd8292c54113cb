"""Answer what the sample's tools ask: accounts, and whether services work.

``python -m examples.ces.api`` runs it on 127.0.0.1:8791; another port may be added.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

PORT: Final = 8791
ACCOUNTS: Final = {"12345678": {"name": "Ada", "postal_code": "10115", "owed_cents": 24650}}
OUTAGES: Final = {("electricity", "10115"): "18:00"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer one of the two paths."""
        url = urlsplit(self.path)
        kind, _, name = url.path.strip("/").partition("/")
        if kind == "accounts" and name in ACCOUNTS:
            self._answer(200, ACCOUNTS[name])
        elif kind == "services" and name in {"electricity", "gas", "water"}:
            until = OUTAGES.get((name, parse_qs(url.query).get("postal_code", [""])[0]))
            self._answer(200, {"service": name, "working": until is None, "until": until})
        else:
            self._answer(404, {"error": "not found"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as the base class calls it
        """Stay silent."""


@contextmanager
def account_server(port: int = 0) -> Iterator[str]:
    """Run the server on this machine; yield its URL.

    Args:
        port: 0 is one that is free.
    """
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with account_server(int(sys.argv[1]) if sys.argv[1:] else PORT) as url:
        print(url, flush=True)
        Event().wait()

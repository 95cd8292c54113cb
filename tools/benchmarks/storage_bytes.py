"""Count requests to Cloud Storage and the bytes of their bodies."""

import threading
from typing import Any

import requests

from gcp_adk_store.testing.meters import MeteredSession


class CountingSession(MeteredSession):
    """A metered session that also counts bytes, as the proxy for Firestore does: bodies, no headers."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = [0, 0]
        self._bytes_guard = threading.Lock()

    def take_bytes(self) -> tuple[int, int]:
        """Return bytes sent and received since the last call, and start again at zero."""
        with self._bytes_guard:
            (sent, received), self._bytes = self._bytes, [0, 0]
        return sent, received

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # whatever the client passes
        """Send a request, and count it."""
        response = super().request(method, url, *args, **kwargs)
        with self._bytes_guard:
            self._bytes[0] += int(response.request.headers.get("Content-Length") or 0)
            self._bytes[1] += int(response.headers.get("Content-Length") or 0)
        return response

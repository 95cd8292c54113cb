"""Count the requests that a Cloud Storage client sends, as Google bills them."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from gcp_adk_store.testing.faults.storage_requests import is_bucket_look, request_kind

_KINDS: Final = frozenset({"upload", "list", "metadata", "media", "delete"})


@dataclass(slots=True)
class StorageFigures:
    """The requests to Cloud Storage."""

    requests: Counter[str] = field(default_factory=Counter)
    """Kind of request (``upload``, ``list``, ``metadata``, ``media``, ``delete``, ``other``) -> how often.

    Without the look at the bucket itself that the client makes on its own, once a process, for traces.
    """

    @property
    def request_count(self) -> int:
        """All requests together."""
        return self.requests.total()

    @property
    def class_a(self) -> int:
        """Operations of Class A: those that write or list."""
        return self.requests["upload"] + self.requests["list"] + self.requests["other"]

    @property
    def class_b(self) -> int:
        """Operations of Class B: those that read one object. Deletes are free."""
        return self.requests["metadata"] + self.requests["media"]


class MeteredSession(AuthorizedSession):
    """An HTTP session for a ``storage.Client(_http=...)`` on an emulator that counts its requests."""

    def __init__(self) -> None:
        super().__init__(AnonymousCredentials())  # type: ignore[no-untyped-call]  # google-auth types half
        self._figures = StorageFigures()
        self._guard = threading.Lock()

    def take(self) -> StorageFigures:
        """Return what was counted since the last call, and start again at zero."""
        with self._guard:
            taken, self._figures = self._figures, StorageFigures()
        return taken

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # any arguments of the client
        """Send a request, and count it."""
        if not is_bucket_look(method, url):
            kind = request_kind(method, url)
            with self._guard:
                self._figures.requests[kind if kind in _KINDS else "other"] += 1
        response: requests.Response = super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]  # as above
        return response

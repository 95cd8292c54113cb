"""Count the requests and billed operations that clients send.

A proxy in front of the emulator, so that any client is measured by the same meter: ours, ADK's, a user's.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.firestore_v1.types import firestore

from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import is_bucket_look, request_kind

_REQUESTS: Final = {"Commit": firestore.CommitRequest.pb(), "BatchWrite": firestore.BatchWriteRequest.pb()}
_ANSWERS: Final = {
    "BatchGetDocuments": firestore.BatchGetDocumentsResponse.pb(),
    "RunQuery": firestore.RunQueryResponse.pb(),
    "Listen": firestore.ListenResponse.pb(),
}
_REPORTED: Final = frozenset({"document_change", "document_delete", "document_remove"})
"""Answers of ``Listen`` that are billed."""


@dataclass(slots=True)
class FirestoreFigures:
    """The requests to Firestore, counted as Google bills them."""

    rpcs: Counter[str] = field(default_factory=Counter)
    """RPC's name -> how often."""
    reads: int = 0
    """Documents read, missing ones included; a query that finds none counts one."""
    writes: int = 0
    deletes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    @property
    def rpc_count(self) -> int:
        """All RPCs together."""
        return self.rpcs.total()


class FirestoreMeter(FirestoreProxy):
    """A metering proxy; ``with`` starts and stops it.

    Point ``FIRESTORE_EMULATOR_HOST`` at :attr:`address` for the clients to be measured.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream, observe=self._count)
        self._counted = FirestoreFigures()

    def take(self) -> FirestoreFigures:
        """Return what was counted since the last call, and start again at zero."""
        with self._guard:
            taken, self._counted = self._counted, FirestoreFigures()
        return taken

    def _count(self, rpc: str, requests: list[bytes], answers: list[bytes]) -> None:
        reads, writes, deletes = _billed(rpc, requests, answers)
        with self._guard:
            figures = self._counted
            if requests:  # a conversation is reported answer by answer
                figures.rpcs[rpc] += 1
            figures.reads += reads
            figures.writes += writes
            figures.deletes += deletes
            figures.sent_bytes += sum(map(len, requests))
            figures.received_bytes += sum(map(len, answers))


def _billed(rpc: str, requests: list[bytes], answers: list[bytes]) -> tuple[int, int, int]:
    """Return reads, writes and deletes; an RPC that was refused (no answer) bills nothing."""
    if not answers:
        return 0, 0, 0
    if rpc in _REQUESTS:
        kinds = [
            write.WhichOneof("operation")
            for raw in requests
            for write in _REQUESTS[rpc].FromString(raw).writes
        ]
        return 0, len(kinds) - kinds.count("delete"), kinds.count("delete")
    if rpc in _ANSWERS:
        messages = [_ANSWERS[rpc].FromString(raw) for raw in answers]
        if rpc == "RunQuery":
            return max(1, sum(message.HasField("document") for message in messages)), 0, 0
        if rpc == "Listen":
            return sum(message.WhichOneof("response_type") in _REPORTED for message in messages), 0, 0
        return sum(message.WhichOneof("result") is not None for message in messages), 0, 0
    return 0, 0, 0


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

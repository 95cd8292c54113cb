"""Start one strict emulator a test module and give every test its own bucket."""

import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from gcp_adk_store.testing.storage_emulator import StorageEmulator, running_emulator

_numbers = itertools.count()


class Answer(NamedTuple):
    """A raw HTTP response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)

    def code(self) -> str | None:
        """Return the code of the XML API's error document, None if the body is none."""
        if self.headers["Content-Type"] != "application/xml; charset=UTF-8" or not self.body:
            return None
        return ET.fromstring(self.body).findtext("Code")  # noqa: S314  # the emulator's own


Call = Callable[..., Answer]


@pytest.fixture(scope="module")
def emulator() -> Iterator[StorageEmulator]:
    """Serve on a free port."""
    with running_emulator() as server:
        yield server


@pytest.fixture(scope="module")
def client(emulator: StorageEmulator) -> Iterator[storage.Client]:
    """Point the real client at the emulator."""
    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": emulator.url},
    )
    yield client
    client.close()


@pytest.fixture
def bucket(client: storage.Client) -> storage.Bucket:
    """Create an empty bucket of the test's own."""
    return client.create_bucket(f"bucket-{next(_numbers)}")


@pytest.fixture
def call(emulator: StorageEmulator) -> Call:
    """Send one raw request over a connection of its own."""

    def send(method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        host = urlsplit(emulator.url)
        connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=60)
        try:
            encoded = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, target, body=body, headers=encoded)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    return send

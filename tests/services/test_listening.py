"""What Firestore may send on a stream of changes, beside what its emulator sends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
import pytest
from google.adk.platform import time as platform_time
from google.cloud.firestore_v1.types import firestore

from gcp_adk_store import AccessDeniedError, UnavailableError
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE
from tests.support.clock import PassingTime
from tests.support.stores import firestore_documents

ROOT = "projects/demo/databases/(default)/documents"
PATH = "things/one"


def changed(second: int) -> Any:
    """Return the message of a version of the document."""
    document = {
        "name": f"{ROOT}/{PATH}",
        "fields": {"n": {"integer_value": second}},
        "update_time": {"seconds": second},
    }
    return firestore.ListenResponse(document_change={"document": document, "target_ids": [1]})


def snapshot(second: int) -> Any:
    """Return the message that completes a snapshot."""
    return firestore.ListenResponse(target_change={"read_time": {"seconds": second}})


def target(kind: str, code: int = 0) -> Any:
    """Return a message about the target."""
    change = {"target_change_type": kind, "target_ids": [1], "cause": {"code": code}}
    return firestore.ListenResponse(target_change=change)


GONE = firestore.ListenResponse(document_delete={"document": f"{ROOT}/{PATH}"})
NONE_LEFT = firestore.ListenResponse(filter={"target_id": 1, "count": 0})
ONE_LEFT = firestore.ListenResponse(filter={"target_id": 1, "count": 1})


class Streams:
    """A server that answers each stream with the next list of messages, and leaves the last one open."""

    def __init__(self, *streams: list[Any], then: Callable[[], None] = lambda: None) -> None:
        self.opened = 0
        self.asked: list[Any] = []
        self._streams = streams
        self._then = then

    async def listen(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Answer a stream."""
        del context
        self.asked.append(await anext(requests))
        mine = self._streams[min(self.opened, len(self._streams) - 1)]
        self.opened += 1
        for message in mine:
            yield message
        if self.opened >= len(self._streams):
            self._then()
            await asyncio.Event().wait()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve on a port of this machine; yield its address."""
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self.listen,
            request_deserializer=firestore.ListenRequest.pb().FromString,
            response_serializer=firestore.ListenResponse.serialize,
        )
        services = grpc.method_handlers_generic_handler("google.firestore.v1.Firestore", {"Listen": handler})
        server.add_generic_rpc_handlers((services,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(grace=None)


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Make the documents of the server at an address."""

    def made(address: str) -> Any:
        monkeypatch.setenv(FIRESTORE_VARIABLE, address)
        return firestore_documents("demo")

    return made


@pytest.mark.parametrize(
    ("streams", "seen"),
    [
        pytest.param([[changed(1), snapshot(1), changed(2), snapshot(2)]], [1, 2], id="each version"),
        pytest.param([[changed(1), changed(2), snapshot(2)]], [2], id="the last version of a snapshot"),
        pytest.param(
            [[changed(1), snapshot(1), snapshot(2), changed(3), snapshot(3)]], [1, 3], id="no version twice"
        ),
        pytest.param([[GONE, snapshot(1), changed(2), snapshot(2)]], [None, 2], id="a missing document"),
        pytest.param(
            [[changed(1), snapshot(1), target("RESET"), changed(2), snapshot(2)]], [1, 2], id="a reset"
        ),
        pytest.param(
            [[changed(1), snapshot(1), ONE_LEFT, changed(2), snapshot(2)]], [1, 2], id="a count that fits"
        ),
        pytest.param(
            [[changed(1), snapshot(1), NONE_LEFT], [GONE, snapshot(2)]], [1, None], id="a deletion was missed"
        ),
        pytest.param(
            [[changed(1), snapshot(1)], [changed(1), snapshot(2), changed(3), snapshot(3)]],
            [1, 3],
            id="a stream that ends",
        ),
        pytest.param(
            [[changed(1), snapshot(1), target("REMOVE", 14)], [changed(2), snapshot(2)]],
            [1, 2],
            id="a target that is removed for now",
        ),
    ],
)
async def test_snapshots_are_yielded_as_they_are(
    documents: Callable[[str], Any], streams: list[list[Any]], seen: list[int | None]
) -> None:
    """Each once; a stream that is lost, or that lost something, is opened again."""
    server = Streams(*streams)
    async with server.served() as address:
        opened = documents(address)
        found: list[Any] = []
        async with aclosing(opened.watch(PATH)) as changes, asyncio.timeout(60):
            while len(found) < len(seen):
                document = await anext(changes)
                found.append(None if document is None else document.fields["n"])
        await opened.close()

    assert seen == found
    assert len(streams) == server.opened
    (name,) = server.asked[0].add_target.documents.documents
    assert f"{ROOT}/{PATH}" == name


@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize(
    ("code", "error"), [(7, AccessDeniedError), (16, AccessDeniedError), (14, UnavailableError)]
)
async def test_a_target_that_is_refused_is_a_typed_error(
    documents: Callable[[str], Any], code: int, error: type[Exception]
) -> None:
    """What does not pass ends the watch; what may pass is tried until the deadline."""
    server = Streams(*[[target("REMOVE", code)]] * 200)
    async with server.served() as address:
        opened = documents(address)
        with pytest.raises(error):
            await anext(opened.watch(PATH))
        await opened.close()

    assert (server.opened > 1) == (error is UnavailableError)


async def test_a_silent_server_is_reported(documents: Callable[[str], Any], passing: PassingTime) -> None:
    """As unavailable, after the deadline."""
    server = Streams([], then=lambda: passing.after(60))
    async with server.served() as address:
        opened = documents(address)
        with pytest.raises(UnavailableError, match="no answer of the stream of changes in"):
            await anext(opened.watch(PATH))
        await opened.close()


async def test_streams_leave_a_clock_right_that_is_behind(documents: Callable[[str], Any]) -> None:
    """By Firestore's time, sessions end no earlier, whatever was answered before."""
    now = 4_000_000_000
    server = Streams([changed(now), snapshot(now)])
    platform_time.set_time_provider(lambda: now - 3600.0)
    try:
        async with server.served() as address:
            opened = documents(address)
            for _ in range(2):
                async with aclosing(opened.watch(PATH)) as changes, asyncio.timeout(60):
                    await anext(changes)
                assert now == opened.clock.now()
            await opened.close()
    finally:
        platform_time.reset_time_provider()

"""What is certain of a request that found no connection: it was not sent, so nothing was written."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import (
    EmulatorMissingError,
    GcsArtifactService,
    OutcomeUnknownError,
    Store,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import event
from tests.services.conftest import WHO
from tests.support.clock import PassingTime
from tests.support.logs import of_ours
from tests.support.stored import overwrite
from tests.support.stores import documents_at, sessions_over

FILE = {**WHO, "filename": "f"}
WANTED = {"c/d": {"a": 1}}
IN_FIRESTORE: dict[str, Callable[[Store, Any], Any]] = {
    "get_session": lambda store, _: store.sessions.get_session(**WHO),
    "list_sessions": lambda store, _: store.sessions.list_sessions(app_name="app"),
    "iter_events": lambda store, _: anext(store.sessions.iter_events(follow=True, **WHO)),
    "create_session": lambda store, _: store.sessions.create_session(**WHO),
    "append_event": lambda store, session: store.sessions.append_event(session, event("x")),
    "delete_session": lambda store, _: store.sessions.delete_session(**WHO),
    "take": lambda store, _: store.turns.take(**WHO),
}
IN_STORAGE: dict[str, Callable[[Store, Any], Any]] = {
    "load_artifact": lambda store, _: store.artifacts.load_artifact(**FILE),
    "save_artifact": lambda store, _: store.artifacts.save_artifact(**FILE, artifact=types.Part(text="x")),
    "save_artifact_file": lambda store, _: store.artifacts.save_artifact_file(**FILE, source=Path(__file__)),
    "delete_artifact": lambda store, _: store.artifacts.delete_artifact(**FILE),
}


@pytest.fixture
def deserted() -> Iterator[str]:
    """An address that is taken, and at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def no_emulators(deserted: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address that both variables name, at which nothing listens."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", deserted)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{deserted}")
    return deserted


@pytest.mark.parametrize("is_lent", [False, True], ids=["own", "lent"])
@pytest.mark.parametrize("name", [*IN_FIRESTORE, *IN_STORAGE])
async def test_an_emulator_that_is_not_there_is_reported_at_the_first_attempt(
    no_emulators: str,
    name: str,
    is_lent: bool,  # noqa: FBT001  # two cases
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Reads and writes alike: nothing was sent, and the message says how to start it."""
    variable = "FIRESTORE_EMULATOR_HOST" if name in IN_FIRESTORE else "STORAGE_EMULATOR_HOST"
    if is_lent:
        client = Client(project="p", credentials=AnonymousCredentials())
        lent: Any = {"firestore": AsyncClient(project="demo-p"), "storage": client}
        store = Store.from_clients(bucket="a-bucket", **lent)
    else:
        store = Store.connect(project="demo-p", bucket="a-bucket")
    async with Store.local(":memory:") as other:
        session = await other.sessions.create_session(**WHO)
    with caplog.at_level(logging.WARNING), pytest.raises(EmulatorMissingError) as caught:
        await (IN_FIRESTORE | IN_STORAGE)[name](store, session)
    await store.close()

    assert isinstance(caught.value, UnavailableError)
    assert str(caught.value).endswith(
        f"nothing listens at {no_emulators}; start `gcp-adk-store emulators`, or unset {variable}"
    )
    assert 1 == caught.value.attempts
    assert [] == of_ours(caplog)


@pytest.mark.usefixtures("passing")
async def test_a_server_that_refuses_connections_is_asked_again_and_nothing_was_written(
    deserted: str,
) -> None:
    """In the cloud a refused connection may pass; the outcome of a write stays known."""
    opened = documents_at(deserted)
    for call in (opened.get(["c/d"]), overwrite(opened, WANTED)):
        with pytest.raises(UnavailableError, match="nothing was sent") as caught:
            await call
        assert not isinstance(caught.value, EmulatorMissingError)
        assert caught.value.attempts > 1
    await opened.close()


async def test_a_write_that_found_no_connection_in_time_was_not_sent(passing: PassingTime) -> None:
    """A server that takes connections and never completes one gets no request."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        opened = documents_at(f"127.0.0.1:{silent.getsockname()[1]}")
        silent.settimeout(0)
        commit = asyncio.create_task(overwrite(opened, WANTED))
        taken, _ = await asyncio.get_running_loop().sock_accept(silent)
        passing.after(60)
        with taken, pytest.raises(UnavailableError, match="nothing was sent"):
            await commit
        await opened.close()


PREFACE_BYTES, HEAD_BYTES, HEADERS = 24, 9, 1
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""An empty frame of settings, with which a server completes a connection of HTTP/2 (RFC 9113, 3.4)."""


@asynccontextmanager
async def going() -> AsyncIterator[str]:
    """Serve connections of gRPC's channels until the first RPC is sent, and answer none."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS)
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has gone
            await reader.readexactly(PREFACE_BYTES)
            head = bytes(HEAD_BYTES)
            while head[3] != HEADERS:
                head = await reader.readexactly(HEAD_BYTES)
                await reader.readexactly(int.from_bytes(head[:3]))
            server.close()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_a_write_that_was_sent_before_its_server_went_has_an_unknown_outcome() -> None:
    """Though the next attempt found that nothing listens; that one comes at once, and is the last."""
    async with going() as address:
        opened = documents_at(address, emulator=address)
        with pytest.raises(OutcomeUnknownError) as caught:
            await overwrite(opened, WANTED)
        await opened.close()

    assert 2 == caught.value.attempts
    assert isinstance(caught.value.__cause__, EmulatorMissingError)


@pytest.mark.usefixtures("passing")
async def test_a_bucket_that_refuses_connections_is_asked_again_and_nothing_was_written(
    deserted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server of the cloud: a refused connection may pass, and the outcome of a save stays known."""
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    options: Any = {"api_endpoint": f"http://{deserted}"}
    client = Client(project="p", credentials=AnonymousCredentials(), client_options=options)
    service = GcsArtifactService("a-bucket", client=client)
    with pytest.raises(UnavailableError, match="nothing was sent") as caught:
        await service.save_artifact(**FILE, artifact=types.Part(text="x"))

    assert not isinstance(caught.value, EmulatorMissingError)
    assert caught.value.attempts > 1


async def test_a_wait_for_a_connection_ends_with_its_caller() -> None:
    """A cancelled caller leaves nothing behind that a closed channel would wait for."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        opened = documents_at(f"127.0.0.1:{silent.getsockname()[1]}")
        call = asyncio.create_task(sessions_over(opened, None).get_session(**WHO))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await opened.close()

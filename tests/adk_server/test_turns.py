"""ADK's server runs one turn of a session at a time."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from google.adk.cli import api_server
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.service_registry import ServiceRegistry

from gcp_adk_store import Store
from gcp_adk_store.adk_server import one_turn_at_a_time, register, services
from gcp_adk_store.adk_server.services import close_services
from tests.adk_server.conftest import AGENTS

WHO: dict[str, Any] = {"app_name": "notes", "user_id": "ada", "session_id": "s1"}
TURN = {
    "appName": "notes",
    "userId": "ada",
    "sessionId": "s1",
    "newMessage": {"role": "user", "parts": [{"text": "hi"}]},
}

Serve = Callable[..., FastAPI]


@pytest.fixture
async def serve(
    registry: ServiceRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Serve]:
    """Make ADK's app with the example's agents, in a folder that it shares with ``elsewhere``."""
    monkeypatch.setattr(api_server, "_setup_telemetry", lambda **_: None)
    monkeypatch.setattr(services, "_made", [])  # a server's process has the services of its own URIs alone
    register(registry)

    def served(**options: Any) -> FastAPI:
        app = get_fast_api_app(
            agents_dir=str(AGENTS),
            session_service_uri=f"firestore+local://{tmp_path}/place",
            artifact_service_uri="memory://",
            web=False,
        )
        one_turn_at_a_time(app, **options)
        return app

    yield served
    await close_services()
    for name in [name for name in sys.modules if name.partition(".")[0] == "notes"]:
        del sys.modules[name]


@pytest.fixture
async def elsewhere(tmp_path: Path) -> Store:
    """The store of another process, with the session."""
    store = Store.local(tmp_path / "place")
    await store.sessions.create_session(**WHO)
    return store


def client_of(app: FastAPI) -> httpx.AsyncClient:
    """Return a client of *app*."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60)


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_a_request_during_another_turn_is_told_to_try_later(
    serve: Serve, elsewhere: Store, path: str
) -> None:
    """By status 409 with a time; after that turn it is served as ever."""
    async with client_of(serve()) as client:
        async with elsewhere.turns.hold(**WHO):
            refused = await client.post(path, json=TURN)
            assert 409 == refused.status_code
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
            assert "SessionBusyError" in refused.json()["detail"]
        assert 200 == (await client.post(path, json=TURN)).status_code
    found = await elsewhere.sessions.get_session(**WHO)
    assert found is not None
    assert "user" == found.events[0].author
    status = await elsewhere.turns.status(**WHO)
    assert (2, False) == (status.fence, status.is_running)


async def test_a_request_waits_for_the_end_of_another_turn(serve: Serve, elsewhere: Store) -> None:
    """Both are stored, one after the other."""
    async with client_of(serve(on_busy="wait")) as client:
        async with elsewhere.turns.hold(**WHO):
            running = asyncio.create_task(client.post("/run", json=TURN))
            other = {**TURN, "sessionId": "none"}
            assert 404 == (await client.post("/run", json=other)).status_code
            assert not running.done()
        assert 200 == (await running).status_code


async def test_a_request_interrupts_another_turn(serve: Serve, elsewhere: Store) -> None:
    """The holder is asked to stop."""
    async with client_of(serve(on_busy="interrupt")) as client:
        async with elsewhere.turns.hold(**WHO, lease_s=0.6) as turn:
            running = asyncio.create_task(client.post("/run", json=TURN))
            await asyncio.wait_for(turn.abort_signal.wait(), 10)
        assert 200 == (await running).status_code


async def test_what_is_no_request_for_a_session_passes(serve: Serve, elsewhere: Store) -> None:
    """ADK says what is wrong with it."""
    del elsewhere
    async with client_of(serve()) as client:
        assert 200 == (await client.get("/list-apps")).status_code
        assert 422 == (await client.post("/run", content="{")).status_code
        assert 422 == (await client.post("/run", content=json.dumps([1]))).status_code


async def test_a_live_connection_during_another_turn_is_closed(serve: Serve, elsewhere: Store) -> None:
    """With the code that says to try again later."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/run_live",
        "root_path": "",
        "headers": [],
        "query_string": b"app_name=notes&user_id=ada&session_id=s1",
    }
    async with elsewhere.turns.hold(**WHO):
        await serve()(scope, receive, send)
    assert [{"type": "websocket.close", "code": 1013, "reason": "SessionBusyError"}] == sent


async def test_an_app_that_serves_already_is_refused(serve: Serve, elsewhere: Store) -> None:
    """A middleware would have no effect."""
    del elsewhere
    app = serve()
    async with client_of(app) as client:
        await client.get("/list-apps")
    with pytest.raises(RuntimeError, match="before it serves"):
        one_turn_at_a_time(app)

"""ADK's server runs one turn of a session at a time."""

import asyncio
import json
import os
import platform
import re
import sys
from collections.abc import AsyncIterator, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from google.adk.cli import api_server
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.service_registry import ServiceRegistry

from gcp_adk_store import Store
from gcp_adk_store.adk_server import answer_errors, one_turn_at_a_time, register
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.turns import Turns
from tests.adk_server.conftest import AGENTS
from tests.adk_server.test_adk_app import TURN
from tests.support.server_end import close_services
from tests.support.watching import once

SCRIPTS = Path(__file__).parent / "agents"
WHO: dict[str, Any] = {"app_name": "notes", "user_id": "ada", "session_id": "s1"}

Serve = Callable[..., FastAPI]

PLUGGED = """
from google.adk.agents import BaseAgent
from google.adk.apps import App
from gcp_adk_store.adk_server.services import only_session_service
from gcp_adk_store.turns import TurnPlugin, Turns

class Failing(BaseAgent):
    async def _run_async_impl(self, ctx):
        raise RuntimeError("of its own")
        yield

plugin = TurnPlugin(Turns(only_session_service()), on_busy="reject")
app = App(name="plugged", root_agent=Failing(name="plugged"), plugins=[plugin])
"""


@pytest.fixture
async def serve(
    registry: ServiceRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Serve]:
    """Make ADK's app with the example's agents, in a folder that it shares with ``elsewhere``."""
    monkeypatch.setattr(api_server, "_setup_telemetry", lambda **_: None)
    await close_services()  # a server's process has the services of its own URIs alone
    register(registry)

    def served(
        *, agents: Path = AGENTS, fit: Callable[..., None] = one_turn_at_a_time, **options: Any
    ) -> FastAPI:
        app = get_fast_api_app(
            agents_dir=str(agents),
            session_service_uri=f"firestore+local://{tmp_path}/place",
            artifact_service_uri="memory://",
            allow_origins=["https://notes.example"],
            web=False,
        )
        fit(app, **options)
        return app

    yield served
    await close_services()
    for name in [name for name in sys.modules if name.partition(".")[0] in {"notes", "scripted", "plugged"}]:
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


@pytest.mark.parametrize(
    ("path", "also", "root"), [("/run", {}, "/r"), ("/run_sse", {"session_id": "none"}, "")]
)
async def test_a_request_during_another_turn_is_asked_to_try_later(
    serve: Serve, elsewhere: Store, path: str, also: dict[str, str], root: str
) -> None:
    """By status 409 with a time; after that turn it is served as ever. Of two notations, ADK's counts.

    Also below a prefix that a proxy removes, and that is no folder of the path.
    """
    app = serve()
    app.root_path = root
    async with client_of(app) as client:
        async with elsewhere.turns.hold(**WHO):
            refused = await client.post(path, json={**TURN, **also})
            assert 409 == refused.status_code
            assert 1 <= int(refused.headers["Retry-After"]) <= 60
            assert "SessionBusyError" in refused.json()["detail"]
            # The holder names a machine and a process, which are no client's business.
            assert platform.node() not in refused.text
            assert not re.search(rf"\b{os.getpid()}\b", refused.text)
        assert 200 == (await client.post(path, json={**TURN, **also})).status_code
    found = await read(elsewhere.sessions, WHO)
    assert "user" == found.events[0].author
    status = await elsewhere.turns.status(**WHO)
    assert (2, False) == (status.fence, status.is_running)


async def test_what_a_plugin_raises_is_answered_as_what_the_store_raises(
    serve: Serve, elsewhere: Store, tmp_path: Path
) -> None:
    """ADK raises a RuntimeError in its place; one of an agent's own stays what it is."""
    (tmp_path / "agents" / "plugged").mkdir(parents=True)
    (tmp_path / "agents" / "plugged" / "agent.py").write_text(PLUGGED)
    who = {**WHO, "app_name": "plugged"}
    await elsewhere.sessions.create_session(**who)
    async with client_of(serve(agents=tmp_path / "agents", fit=answer_errors)) as client:
        async with elsewhere.turns.hold(**who):
            busy = await client.post("/run", json={**TURN, "appName": "plugged"})
        failed = await client.post("/run", json={**TURN, "appName": "plugged"})

    assert 409 == busy.status_code, busy.text
    assert "SessionBusyError" in busy.json()["detail"]
    assert 1 <= int(busy.headers["Retry-After"])
    assert 500 == failed.status_code


async def test_a_page_of_an_allowed_origin_reads_that_a_turn_runs_and_another_takes_none(
    serve: Serve, elsewhere: Store
) -> None:
    """A browser shows a page no answer without ADK's header; ADK refuses other origins."""
    origin = "https://notes.example"
    async with client_of(serve()) as client:
        async with elsewhere.turns.hold(**WHO):
            busy = await client.post("/run", json=TURN, headers={"Origin": origin})
            hidden = await client.post("/run", json=TURN, headers={"Origin": "https://other.example"})
        refused = await client.post("/run", json=TURN, headers={"Origin": "https://other.example"})
    assert (409, origin) == (busy.status_code, busy.headers.get("Access-Control-Allow-Origin"))
    assert [403, 403] == [hidden.status_code, refused.status_code]
    assert 1 == (await elsewhere.turns.status(**WHO)).fence


async def test_a_user_with_an_empty_id_has_one_turn_at_a_time(serve: Serve, elsewhere: Store) -> None:
    """It is a user like any other; an empty id of a session is that of none.

    What is no request for a session passes: ADK says what is wrong with it.
    """
    nobody = {**WHO, "user_id": ""}
    await elsewhere.sessions.create_session(**nobody)
    async with client_of(serve()) as client, elsewhere.turns.hold(**nobody):
        of_session = [
            await client.post("/run", json={**TURN, "userId": "", "sessionId": id_}) for id_ in ("s1", "")
        ]
        listed = await client.get("/list-apps")
        malformed = [await client.post("/run", content=body) for body in ("{", json.dumps([1]))]
    assert [409, 404] == [answer.status_code for answer in of_session]
    assert [200, 422, 422] == [answer.status_code for answer in (listed, *malformed)]


async def test_a_request_waits_for_the_end_of_another_turn(serve: Serve, elsewhere: Store) -> None:
    """Both are stored, one after the other."""
    async with client_of(serve(on_busy="wait")) as client:
        async with elsewhere.turns.hold(**WHO):
            running = asyncio.create_task(client.post("/run", json=TURN))
            other = {**TURN, "sessionId": "none"}
            assert 404 == (await client.post("/run", json=other)).status_code
            assert not running.done()
        assert 200 == (await running).status_code


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_a_request_interrupts_another_turn(serve: Serve, elsewhere: Store) -> None:
    """The holder is asked to stop."""
    async with client_of(serve(on_busy="interrupt")) as client:
        async with elsewhere.turns.hold(**WHO, lease_s=60) as turn:
            running = asyncio.create_task(client.post("/run", json=TURN))
            await asyncio.wait_for(turn.abort_signal.wait(), 60)
        assert 200 == (await running).status_code


def live(who: dict[str, Any]) -> MutableMapping[str, Any]:
    """Return the scope of a live connection."""
    query = "&".join(f"{name}={value}" for name, value in {**who, "modalities": "TEXT"}.items())
    return {
        "type": "websocket",
        "path": "/run_live",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8000),
        "query_string": query.encode(),
    }


def asked(path: str, *, method: str = "POST", query: str = "", **headers: str) -> MutableMapping[str, Any]:
    """Return the scope of a request."""
    sent = {"host": "127.0.0.1", "content_type": "application/json", **headers}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8000),
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()],
    }


class Client:
    """One connection to the app, message by message."""

    def __init__(self, app: FastAPI, scope: MutableMapping[str, Any], *messages: dict[str, Any]) -> None:
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for message in messages:
            self.say(message)
        self._gone: dict[str, Any] | None = None
        self.serving = asyncio.create_task(app(scope, self._receive, self.sent.put))

    def say(self, message: dict[str, Any]) -> None:
        """Send *message* to the app."""
        self._messages.put_nowait(message)

    async def hear(self) -> MutableMapping[str, Any]:
        """Return what the app sends next."""
        return await asyncio.wait_for(self.sent.get(), 60)

    def leave(self, message: dict[str, Any]) -> None:
        """Go, which the app hears as often as it asks."""
        self._gone = message
        self.say(message)

    async def _receive(self) -> dict[str, Any]:
        if self._gone is not None and self._messages.empty():
            return self._gone
        return await self._messages.get()

    async def ended(self) -> None:
        """Wait until the app is done with it."""
        await asyncio.wait_for(self.serving, 60)


SCRIPTED = {**WHO, "app_name": "scripted"}


def body(text: str) -> dict[str, Any]:
    """Return the body of a request that says *text* to the scripted agent."""
    message = {"role": "user", "parts": [{"text": text}]}
    fields = {"appName": "scripted", "userId": "ada", "sessionId": "s1", "newMessage": message}
    return {"type": "http.request", "body": json.dumps(fields).encode(), "more_body": False}


async def first_turn_ended(store: Store) -> None:
    """Wait until the first turn of the session is over."""
    status = await once(
        store.sessions, lambda: store.turns.status(**SCRIPTED), lambda now: not now.is_running, **SCRIPTED
    )
    assert 1 == status.fence


async def said(store: Store) -> list[str | None]:
    """Return what was said in the session."""
    found = await read(store.sessions, SCRIPTED)
    return [part.text for each in found.events if each.content for part in each.content.parts or []]


async def test_a_live_conversation_is_one_turn(serve: Serve, elsewhere: Store) -> None:
    """From its connection to its end; another request meanwhile is refused until later."""
    await elsewhere.sessions.create_session(**SCRIPTED)
    app = serve(agents=SCRIPTS)
    client = Client(app, live(SCRIPTED), {"type": "websocket.connect"})
    assert "websocket.accept" == (await client.hear())["type"]
    assert (await elsewhere.turns.status(**SCRIPTED)).is_running
    for text in ("one", "two"):
        content = {"role": "user", "parts": [{"text": text}]}
        client.say({"type": "websocket.receive", "text": json.dumps({"content": content})})
        heard = json.loads((await client.hear())["text"])
        while not heard.get("content"):
            heard = json.loads((await client.hear())["text"])
        assert f"heard {text}" == heard["content"]["parts"][0]["text"]
    other = Client(app, asked("/run"), body("hi"))
    assert 409 == (await other.hear())["status"]
    await other.ended()
    client.leave({"type": "websocket.disconnect", "code": 1001})
    await client.ended()

    await first_turn_ended(elsewhere)
    assert ["one", "heard one", "two", "heard two"] == await said(elsewhere)


@pytest.mark.usefixtures("frequent_heartbeats")
async def test_a_live_conversation_that_is_asked_to_stop_ends(serve: Serve, elsewhere: Store) -> None:
    """The next one gets the turn."""
    await elsewhere.sessions.create_session(**SCRIPTED)
    client = Client(serve(agents=SCRIPTS, lease_s=60), live(SCRIPTED), {"type": "websocket.connect"})
    assert "websocket.accept" == (await client.hear())["type"]
    async with elsewhere.turns.hold(**SCRIPTED, on_busy="interrupt", wait_s=20) as turn:
        await client.ended()
        assert 2 == turn.fence


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_a_client_that_leaves_during_its_turn_releases_it(
    serve: Serve, elsewhere: Store, path: str
) -> None:
    """ADK stops its agent; the message that it answered stays."""
    await elsewhere.sessions.create_session(**SCRIPTED)
    client = Client(serve(agents=SCRIPTS), asked(path), body("wait"))
    await once(elsewhere.sessions, lambda: said(elsewhere), bool, **SCRIPTED)
    assert (await elsewhere.turns.status(**SCRIPTED)).is_running
    client.leave({"type": "http.disconnect"})
    await client.ended()

    await first_turn_ended(elsewhere)
    assert ["wait"] == await said(elsewhere)


@pytest.mark.parametrize("scope", [asked("/run"), asked("/run_sse"), live(SCRIPTED)])
async def test_a_client_that_leaves_while_it_waits_runs_nothing(
    serve: Serve, elsewhere: Store, scope: MutableMapping[str, Any]
) -> None:
    """It does not take the turn after the other one either."""
    await elsewhere.sessions.create_session(**SCRIPTED)
    first = body("hi") if scope["type"] == "http" else {"type": "websocket.connect"}
    async with elsewhere.turns.hold(**SCRIPTED):
        client = Client(serve(agents=SCRIPTS, on_busy="wait"), scope, first)
        await asyncio.sleep(0)
        kind = "http.disconnect" if scope["type"] == "http" else "websocket.disconnect"
        client.leave({"type": kind})
        await client.ended()
    async with elsewhere.turns.hold(**SCRIPTED) as turn:
        assert 2 == turn.fence
    assert client.sent.empty()
    assert [] == await said(elsewhere)


async def test_a_request_that_is_cancelled_as_it_gets_its_turn_releases_it(elsewhere: Store) -> None:
    """A server that ends cancels its requests, also between the write that takes a turn and its block."""

    class Late(Turns):
        async def take(self, **options: Any) -> Any:
            hold = await super().take(**options)
            serving.cancel()
            return hold

    app = FastAPI()
    one_turn_at_a_time(app, turns=Late(elsewhere.sessions))
    async with client_of(app) as client:
        serving = asyncio.create_task(client.post("/run", json=TURN))
        with pytest.raises(asyncio.CancelledError):
            await serving
    status = await elsewhere.turns.status(**WHO)
    assert (1, False) == (status.fence, status.is_running)


async def test_a_live_connection_during_another_turn_is_closed(serve: Serve, elsewhere: Store) -> None:
    """With the code that says to try again later; a server sends it only once the connection is accepted."""
    scope = live(WHO)
    scope["query_string"] = b"session_id=none&" + scope["query_string"]  # the last one counts
    async with elsewhere.turns.hold(**WHO):
        client = Client(serve(), scope, {"type": "websocket.connect"})
        heard = [await client.hear(), await client.hear()]
        await client.ended()
    closed = {"type": "websocket.close", "code": 1013, "reason": "SessionBusyError"}
    assert ("websocket.accept", closed) == (heard[0]["type"], heard[1])
    assert client.sent.empty()


@pytest.mark.parametrize("on_busy", ["reject", "interrupt"])
async def test_a_page_of_another_origin_takes_no_live_turn(
    serve: Serve, elsewhere: Store, on_busy: str
) -> None:
    """Nor asks one to stop: a browser sends such a page's connections to servers of its machine, too."""
    scope = live(WHO)
    scope["headers"] = [*scope["headers"], (b"origin", b"https://elsewhere.example")]
    app = serve(on_busy=on_busy)
    async with elsewhere.turns.hold(**WHO) as turn:
        client = Client(app, scope, {"type": "websocket.connect"})
        refused = await client.hear()
        await client.ended()
        status = await elsewhere.turns.status(**WHO)
        assert (1, False, False) == (status.fence, status.abort, turn.abort_signal.is_set())
    client = Client(app, scope, {"type": "websocket.connect"})
    await client.hear()
    await client.ended()

    assert ("websocket.close", 1008) == (refused["type"], refused["code"])
    assert 1 == (await elsewhere.turns.status(**WHO)).fence


async def test_a_live_connection_whose_query_is_no_text_is_answered(serve: Serve, elsewhere: Store) -> None:
    """It is that of no session: ADK closes it."""
    del elsewhere
    scope = live(WHO)
    scope["query_string"] += b"\xff"
    scope["query_string"] = scope["query_string"].replace(WHO["session_id"].encode(), b"\xff")
    client = Client(serve(), scope, {"type": "websocket.connect"})
    kinds = [(await client.hear())["type"]]
    client.leave({"type": "websocket.disconnect", "code": 1000})
    await client.ended()
    kinds += [client.sent.get_nowait()["type"] for _ in range(client.sent.qsize())]

    assert "websocket.close" in kinds

"""Scenarios of ADK's server over HTTP, with the services made of URIs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
from google.adk.cli.fast_api import get_fast_api_app

from tests.adk_server.conftest import AGENTS
from tests.contract.stage import Stage

SESSIONS: Final = "/apps/notes/users/ada/sessions"
S1: Final = f"{SESSIONS}/s1"


class Client:
    """Asks a server, and sees each answer with its status."""

    def __init__(self, stage: Stage, client: httpx.AsyncClient) -> None:
        self._stage = stage
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what the server answers; where an artifact lies is each service's own."""
        answer = await self._client.request(method, path, json=body)
        kind = answer.headers.get("content-type", "")
        found: Any = answer.text
        if kind.startswith("application/json"):
            found = answer.json()
        elif kind.startswith("text/event-stream"):
            found = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, dict):
                each.pop("canonicalUri", None)
        self._stage.see([answer.status_code, found])
        return found

    async def run(self, text: str, *, session: str = "s1", path: str = "/run", **more: Any) -> Any:
        """Take a turn."""
        message = {"role": "user", "parts": [{"text": text}]}
        who = {"appName": "notes", "userId": "ada", "sessionId": session}
        return await self.ask("POST", path, {**who, "newMessage": message, **more})


@asynccontextmanager
async def serving(stage: Stage) -> AsyncIterator[Client]:
    """Run ADK's app with the example's agent."""
    app = get_fast_api_app(
        agents_dir=str(AGENTS),
        session_service_uri=stage.session_uri,
        artifact_service_uri=stage.artifact_uri,
        web=False,
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield Client(stage, client)


async def turns_are_taken_over_http(stage: Stage) -> None:
    """Whole, streamed, and with changes of state; the session is read after each."""
    async with serving(stage) as server:
        await server.ask("POST", SESSIONS, {"sessionId": "s1", "state": {"user:name": "Ada", "n": 1.5}})
        await server.run("buy milk")
        await server.run("call Bob", path="/run_sse", streaming=True)
        await server.run("sleep", stateDelta={"mood": "tired", "app:seen": 1})
        session = await server.ask("GET", S1)
    assert ["buy milk", "call Bob", "sleep"] == session["state"]["notes"]
    assert ("tired", "Ada", 1) == tuple(session["state"][key] for key in ("mood", "user:name", "app:seen"))


async def sessions_are_kept_over_http(stage: Stage) -> None:
    """Made, listed, patched, read and deleted; what is missing or there already is answered so."""
    async with serving(stage) as server:
        await server.ask("GET", S1)
        await server.run("too early")
        await server.ask("POST", SESSIONS, {"sessionId": "s1", "state": {"topic": "errands"}})
        await server.ask("POST", SESSIONS, {"sessionId": "s1"})
        await server.ask("POST", SESSIONS, {"sessionId": "s2"})
        await server.ask("PATCH", S1, {"stateDelta": {"topic": None, "app:n": [1, [2]]}})
        listed = await server.ask("GET", SESSIONS)
        await server.ask("DELETE", f"{SESSIONS}/s2")
        await server.ask("DELETE", f"{SESSIONS}/s2")
        await server.ask("GET", f"{SESSIONS}/s2")
        await server.ask("PATCH", f"{SESSIONS}/s2", {"stateDelta": {}})
        await server.ask("GET", SESSIONS)
    assert {"s1", "s2"} == {each["id"] for each in listed}
    assert 409 in [status for status, _ in stage.seen]


async def artifacts_are_kept_over_http(stage: Stage) -> None:
    """Saved, listed with versions and metadata, loaded and deleted."""
    async with serving(stage) as server:
        await server.ask("POST", SESSIONS, {"sessionId": "s1"})
        await server.run("buy milk")
        picture = {"inlineData": {"mimeType": "image/png", "data": "AP8="}}
        for name, part in (
            ("p.png", picture),
            ("user:t.txt", {"text": "ä"}),
            ("p.png", {"text": "now words"}),
        ):
            body = {"filename": name, "artifact": part, "customMetadata": {"by": "test", "n": 1}}
            await server.ask("POST", f"{S1}/artifacts", body)
        names = await server.ask("GET", f"{S1}/artifacts")
        for rest in ("", "/versions", "/versions/0", "/versions/7", "/versions/latest/metadata"):
            await server.ask("GET", f"{S1}/artifacts/p.png{rest}")
        await server.ask("GET", f"{S1}/artifacts/no.such")
        await server.ask("DELETE", f"{S1}/artifacts/p.png")
        await server.ask("GET", f"{S1}/artifacts")
    assert ["notes.txt", "p.png", "user:t.txt"] == names
    assert [200, ["notes.txt", "user:t.txt"]] == stage.seen[-1]

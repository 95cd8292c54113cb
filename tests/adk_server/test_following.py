"""Clients of ADK's server follow a session by server-sent events."""

import asyncio
import json
import os
import signal
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import InvalidInputError, Point, Store
from gcp_adk_store.adk_server import answer_errors, follow_sessions
from tests.adk_server.conftest import ROOT
from tests.adk_server.process import Server
from tests.adk_server.test_turns import Client, asked
from tests.support.documents import blocks
from tests.support.ready_programs import ready_programs

WHO: dict[str, Any] = {"app_name": "notes", "user_id": "ada", "session_id": "s1"}
PATH = "/apps/notes/users/ada/sessions/s1/events"
_SOON_S = 60


def event(text: str) -> Event:
    """Return an event of an agent."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author="agent", invocation_id="i", content=content)


class Stream(Client):
    """What a client of the app gets, as it comes."""

    status = 0
    body = ""
    is_over = False

    async def begin(self) -> None:
        """Wait for the status."""
        message = await self.hear()
        self.status = message["status"]
        self.headers = {name.decode(): value.decode() for name, value in message["headers"]}

    async def message(self) -> dict[str, str]:
        """Return the fields of the next message; a comment is one without a name."""
        while "\n\n" not in self.body:
            got = await self.hear()
            self.body += got["body"].decode()
            self.is_over = not got["more_body"]
            if self.is_over and "\n\n" not in self.body:
                return {}
        block, _, self.body = self.body.partition("\n\n")
        return {
            name: value.strip() for name, _, value in (line.partition(":") for line in block.splitlines())
        }

    async def said(self) -> tuple[str, str]:
        """Return the text of the next event, and its id."""
        while True:
            received = await self.message()
            assert received, "the stream ended"
            if "data" in received:
                return json.loads(received["data"])["content"]["parts"][0]["text"], received["id"]


@asynccontextmanager
async def streaming(
    app: FastAPI, *, query: str = "", method: str = "GET", **headers: str
) -> AsyncIterator[Stream]:
    """Open a stream of *app*; its client leaves at the end."""
    stream = Stream(app, asked(PATH, method=method, query=query, **headers))
    try:
        await stream.begin()
        yield stream
    finally:
        stream.leave({"type": "http.disconnect"})
        await stream.ended()


Serve = Callable[..., tuple[FastAPI, Any]]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """The store of the server."""
    async with Store.local(tmp_path / "place") as store:
        yield store


@pytest.fixture
def serve(store: Store) -> Serve:
    """Make an app, and its followers."""

    def served(**options: Any) -> tuple[FastAPI, Any]:
        app = FastAPI()
        options = {"authorize": None, "sessions": store.sessions, **options}
        followers = follow_sessions(app, **options)
        answer_errors(app)
        return app, followers

    return served


async def appended(store: Store, *said: str) -> None:
    """Append events to the session, which may be new."""
    held = await store.sessions.get_session(**WHO) or await store.sessions.create_session(**WHO)
    for text in said:
        await store.sessions.append_event(held, event(text))


async def test_events_come_as_they_are_appended(serve: Serve, store: Store, tmp_path: Path) -> None:
    """In the JSON of ADK's server, also those of another process' store."""
    await appended(store, "0")
    app, followers = serve()
    async with Store.local(tmp_path / "place") as other, streaming(app) as stream:
        assert 200 == stream.status
        assert "text/event-stream; charset=utf-8" == stream.headers["content-type"]
        assert "no-store" == stream.headers["cache-control"]
        assert {"retry": "5000"} == await stream.message()
        first = await stream.message()
        assert "invocationId" in json.loads(first["data"])
        await appended(other, "1")
        assert "1" == (await stream.said())[0]
        assert 1 == followers.count
    assert 0 == followers.count


async def test_who_asks_for_headers_alone_follows_nothing(serve: Serve, store: Store) -> None:
    """HEAD is answered as GET, without a stream that would take the place of a client."""
    await appended(store, "0")
    app, followers = serve()
    async with streaming(app, method="HEAD") as stream:
        assert (200, "text/event-stream; charset=utf-8") == (stream.status, stream.headers["content-type"])
        assert {} == await stream.message()
        assert 0 == followers.count
    async with streaming(app, method="HEAD", query="last=x") as stream:
        assert 400 == stream.status


async def test_a_client_goes_on_after_its_last_event(serve: Serve, store: Store) -> None:
    """By the header that browsers send; without it, it begins with as many as it asks for.

    Half of an emoji does not end a stream: a client would connect again, and never come farther.
    """
    await appended(store, "0 \ud83d", "1", "2")
    app, _ = serve()
    async with streaming(app) as stream:
        assert "0 \ufffd" == (await stream.said())[0]
        _, place = await stream.said()
    async with streaming(app, last_event_id=place, query="last=3") as stream:
        assert "2" == (await stream.said())[0]
    for last, first in ((1, "2"), (2, "1"), (9, "0 \ufffd")):
        async with streaming(app, query=f"last={last}") as stream:
            assert first == (await stream.said())[0], last


async def test_a_client_begins_with_the_next_event(serve: Serve, store: Store) -> None:
    """It gets the place first, so that it misses nothing if it connects again."""
    await appended(store, "0", "1")
    app, _ = serve()
    async with streaming(app, query="last=0") as stream:
        assert {"retry": "5000"} == await stream.message()
        place = await stream.message()
        assert ["id"] == list(place)
    await appended(store, "2")
    async with streaming(app, query="last=0", last_event_id=place["id"]) as stream:
        assert "2" == (await stream.said())[0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "last_event_id",
            [
                "x",
                "é",
                "W10=",
                "WyJlIiwwXQ==",
                "WyJlIiwtMSwwXQ==",
                "WyJlIiwwLDBd" + "ICAg" * 150,
                "%00",
                "e30=",
            ],
        ),
        ("query", ["last=-1", "last=x", "last=1001", "last=" + "9" * 5000, "last=٣", "last="]),
    ],
)
async def test_a_hostile_place_is_refused(serve: Serve, store: Store, name: str, values: list[str]) -> None:
    """With 400, as any malformed request, so that a browser does not connect again."""
    await appended(store, "0")
    app, followers = serve()
    for value in values:
        async with streaming(app, **{name: value}) as stream:
            assert 400 == stream.status, value
    assert 0 == followers.count


async def test_a_place_of_another_session_and_no_session_are_not_found(serve: Serve, store: Store) -> None:
    """Browsers stop at that answer."""
    app, _ = serve()
    async with streaming(app) as stream:
        assert 404 == stream.status
    await appended(store, "0")
    async with streaming(app, last_event_id="WyJlIiwwLDBd") as stream:
        assert 404 == stream.status


async def test_a_restore_and_the_end_of_the_session_are_reported(serve: Serve, store: Store) -> None:
    """By an event of its own, after which the stream ends; after a restore the client reads it again."""
    await appended(store, "0", "1")
    app, _ = serve()
    async with streaming(app) as stream:
        await stream.said()
        await stream.said()
        await store.sessions.restore_session(**WHO, at=Point.position(1))
        assert {"event": "end", "data": '{"error": "SessionConflictError"}'} == await stream.message()
    async with streaming(app) as stream:
        await stream.said()
        await store.sessions.delete_session(**WHO)
        assert {"event": "end", "data": '{"error": "SessionMissingError"}'} == await stream.message()
        assert {} == await stream.message()
        assert stream.is_over


async def test_followers_are_bounded(serve: Serve, store: Store) -> None:
    """One more learns when to try again; a client that leaves makes room."""
    await appended(store, "0")
    app, followers = serve(max_followers=1)
    async with streaming(app) as first:
        await first.said()
        async with streaming(app) as second:
            assert (503, "5") == (second.status, second.headers["retry-after"])
        assert 1 == followers.count
    async with streaming(app) as third:
        assert 200 == third.status
    with pytest.raises(InvalidInputError):
        serve(max_followers=0)


async def test_an_idle_stream_has_comments(serve: Serve, store: Store) -> None:
    """Proxies end connections that are silent.

    A server that closes ends its streams, each with its last part.
    """
    await appended(store, "0")
    app, followers = serve(heartbeat_s=0.01)
    async with streaming(app) as stream:
        await stream.said()
        assert {"": ""} == await stream.message()
        assert {"": ""} == await stream.message()
        await appended(store, "1")
        assert "1" == (await stream.said())[0]
        followers.close()
        while await stream.message():
            pass
        assert stream.is_over


async def test_only_those_who_are_authorized_follow(serve: Serve, store: Store) -> None:
    """An answer that is not True refuses; the hook may answer itself."""
    await appended(store, "0")
    asked = []

    async def by_header(request: Request, app_name: str, user_id: str) -> bool:
        asked.append((app_name, user_id))
        if "x-user" not in request.headers:
            raise HTTPException(401)
        return request.headers["x-user"] == user_id

    app, _ = serve(authorize=by_header)
    for headers, status in (({}, 401), ({"x_user": "eve"}, 403), ({"x_user": "ada"}, 200)):
        async with streaming(app, **headers) as stream:
            assert status == stream.status
    assert [("notes", "ada")] * 3 == asked
    app, _ = serve(authorize=lambda *_: None)
    async with streaming(app) as stream:
        assert 403 == stream.status


@pytest.mark.processes
def test_a_server_ends_while_clients_follow(tmp_path: Path) -> None:
    """ADK's server with its own routes, at SIGTERM."""
    environ = {**os.environ, "PLACE": f"{tmp_path}/place", "PYTHONPATH": str(ROOT)}
    command = (str(ready_programs() / "python"), "-m", "tests.adk_server.following_server")
    log = tmp_path / "log"
    asyncio.run(_prepared(tmp_path / "place"))
    with Server(command, environ=environ, cwd=ROOT, log=log) as server:
        with httpx.stream("GET", server.url + PATH, timeout=_SOON_S) as response:
            lines = response.iter_lines()
            assert "retry: 5000" == next(lines)
            server.send(signal.SIGTERM)
            list(lines)
        assert server.ended() in (0, 128 + signal.SIGTERM)
    assert "Traceback" not in log.read_text()


async def _prepared(place: Path) -> None:
    async with Store.local(place) as store:
        await appended(store, "0")


async def test_the_blocks_of_the_document_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In their order, on a store with a session."""
    async with Store.local(tmp_path / "store") as store:
        held = await store.sessions.create_session(app_name="support", user_id="ada", session_id="s1")
        call = types.Part(function_call=types.FunctionCall(name="look"))
        for author, part in (("user", call), ("agent", types.Part(text="hi"))):
            content = types.Content(role=author.replace("agent", "model"), parts=[part])
            await store.sessions.append_event(held, Event(author=author, invocation_id="i", content=content))
        app = FastAPI()
        before = len(app.routes)
        code = "\n".join(blocks("docs/following.md", "python"))
        names = {"store": store, "app": app}
        exec(f"async def run():\n{textwrap.indent(code, '    ')}", names)  # noqa: S102  # the document's
        await names["run"]()  # type: ignore[operator]  # as the line before defines it

    out = capsys.readouterr().out.splitlines()
    assert ["user", "agent", "user", "agent"] == [line.split()[0] for line in out]
    assert before + 1 == len(app.routes)

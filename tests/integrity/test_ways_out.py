"""No way out of the store shows people or clients the metadata that only ADK may write; whole exports do.

Each test finds the ways itself, so that a new one is looked at, too.
"""

import asyncio
import html
import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import click
import httpx
import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from google.adk.events import Event, EventActions
from google.genai import types
from starlette.routing import Route

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.adk_server import add_store_routes, follow_sessions
from gcp_adk_store.cli.command import command
from gcp_adk_store.inspector import create_app
from tests.adk_server.test_following import streaming

INTERNAL: Final = "__adk_internal_"
STAMP: Final = "v1:" + "5ec4e7" * 10 + "5ec4"
WHO: Final[dict[str, Any]] = {"app_name": "notes", "user_id": "ada", "session_id": "s1"}
EVENT: Final = "event-3"
LIMITS: Final = SessionLimits(seal_tail_bytes=2000)


def event(number: int) -> Event:
    """Return an event with a tool call, whose metadata is ADK's and the app's."""
    call = types.FunctionCall(id=f"call-{number}", name="pay", args={"amount": number})
    content = types.Content(
        role="model", parts=[types.Part(text=f"pays {number}"), types.Part(function_call=call)]
    )
    return Event(
        id=f"event-{number}",
        author="agent",
        invocation_id=f"turn-{number}",
        content=content,
        actions=EventActions(state_delta={"paid": number}),
        custom_metadata={"of-the-app": number, f"{INTERNAL}fc_hmac": {call.id: STAMP}},
    )


async def fill(store: Store) -> None:
    """Make a session with events in segments and after them, a redacted one, and a fork."""
    session = await store.sessions.create_session(**WHO)
    for number in range(10):
        await store.sessions.append_event(session, event(number))
    await store.memory.add_session_to_memory(session)
    await store.redact_event(**WHO, event_id="event-4", reason="ticket 7")
    await store.fork_session(**WHO, to_session_id="f")
    now = await store.sessions.get_session(**WHO)
    assert now is not None
    await store.sessions.append_event(now, event(10))
    await store.artifacts.save_artifact(**WHO, filename="a.txt", artifact=types.Part(text="a"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store with that session."""
    async with Store.local(tmp_path / "store", session_limits=LIMITS) as store:
        await fill(store)
        yield store


def require_public(text: str, where: object) -> None:
    """Require that *text* has nothing of ADK's metadata, however it is escaped."""
    for shown in (text, html.unescape(text), text.replace("\\", "")):
        assert INTERNAL not in shown, where
        assert STAMP not in shown, where


BODIES: Final[dict[str, Any]] = {
    "fork": {},
    "restore": {"at": {"position": 8}, "keep_as": "kept"},
    "redact": {"event_id": EVENT, "reason": "ticket 8"},
    "uploads": {"filename": "b.txt"},
    "uploads/{upload_id}": {"filename": "b.txt"},
    "": {"title": "t"},
}
"""What the routes for applications get, by how their paths end."""


async def test_the_routes_for_applications(store: Store) -> None:
    """All of them, from reading to erasing."""
    app = FastAPI()
    add_store_routes(app, authorize=lambda *_: True, store=store)
    routes = [(method, path) for path, operations in app.openapi()["paths"].items() for method in operations]
    order = ["get", "patch", "post", "delete"]
    shown = []
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        for method, path in sorted(routes, key=lambda route: order.index(route[0])):
            ending = re.sub(r"^.*\{session_id\}/?", "", path)
            query = {"filename": "a.txt"} if "artifacts/" in path else {}
            body = BODIES[ending] if method in ("patch", "post") else None
            answer = await client.request(method, path.format(**WHO, upload_id="u"), params=query, json=body)
            require_public(answer.text, path)
            shown.append((ending, answer.status_code, answer.text))

    (events,) = [text for ending, _, text in shown if ending == "events"]
    assert [{"of-the-app": 0}] == [json.loads(events)["events"][0]["event"]["customMetadata"]]
    assert 12 == events.count("customMetadata")
    assert {200, 201, 204} >= {
        status for ending, status, _ in shown if ending in ("", "events", "fork", "redact")
    }
    assert [*BODIES] == [ending for ending in BODIES if ending in {ending for ending, *_ in shown}]


async def test_the_stream_of_a_session(store: Store) -> None:
    """What follows a session by server-sent events."""
    app = FastAPI()
    follow_sessions(app, authorize=None, sessions=store.sessions)
    events: list[dict[str, Any]] = []
    async with streaming(app) as stream:
        while len(events) < 10:
            message = await stream.message()
            require_public(json.dumps(message), "stream")
            events += [json.loads(message["data"])] if "data" in message else []

    assert [{"of-the-app": number} for number in range(4)] == [each["customMetadata"] for each in events[:4]]


async def test_the_pages_of_the_inspector(store: Store) -> None:
    """Each page and each form of it, with content revealed; documents as they are stored, too."""
    app = create_app(store, authorize=lambda *_: True, hosts=["app"], reveal="always", allow_writes=True)
    place = {"app": "notes", "user": "ada", "session": "s1"}
    given: dict[str, Any] = {
        **place,
        "event": EVENT,
        "key": "paid",
        "name": "a.txt",
        "reason": "r",
        "q": "pays",
    }
    routes = [route for route in app.routes if isinstance(route, Route)]
    shown = [route for route in routes if route.path not in ("/news", "/static/{name}")]
    pages = [(method, route.path) for route in shown for method in (route.methods or set()) - {"HEAD"}]
    segments = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        for method, path in sorted(pages):
            where = {"params": given} if method == "GET" else {"data": given}
            answer = await client.request(method, path, headers={"Origin": "http://app"}, **where)  # type: ignore[arg-type]  # one of both
            require_public(answer.text, (method, path))
            if (method, path) == ("GET", "/event"):
                assert "of-the-app" in answer.text
            if (method, path) == ("GET", "/raw"):
                assert "of-the-app" in answer.text
                segments = re.findall(r"document=([^\"&]+)", answer.text)
        for segment in segments:
            answer = await client.get("/raw", params={**place, "document": segment})
            require_public(answer.text, segment)

    assert len(app.routes) == len(routes) == len(shown) + 2
    assert segments


def leaves(group: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the names of each command that opens a store, and the command."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            made = group.get_command(context, name)
            assert made is not None
            yield from leaves(made, *names, name)
    elif any(parameter.name == "local" for parameter in group.params):
        yield names, group


WHOLE: Final = {("export",), ("sessions", "export")}
"""The commands that write whole events, and say so."""

ELSEWHERE: Final = {"inspect", "bulk", "ces", "template", "anchor"}
"""The pages have a test of their own, Apache Beam writes the rows of an export, two run an app's code or read
its prompts, and anchors are hashes."""

GIVEN: Final[dict[str, str]] = {
    "app_name": "notes",
    "user_id": "ada",
    "session_id": "s1",
    "event_id": EVENT,
    "reason": "ticket 9",
    "message_id": "m",
    "filename": "a.txt",
    "query": "pays",
    "out": "-",
}
"""Values of options and arguments; a command that requires another one needs it here."""


def arguments_of(made: click.Command, folder: Path) -> list[str]:
    """Return arguments with which a command shows and does as much as it can."""
    found = ["--local", str(folder / "store")]
    last = []
    for parameter in made.params:
        value = GIVEN.get(parameter.name or "")
        if isinstance(parameter, click.Argument):
            last += [GIVEN.get(parameter.name or "", str(folder / "file"))] if parameter.required else []
        elif value is not None:
            found += [parameter.opts[0], value]
        elif parameter.required:
            pytest.fail(f"{made.name} requires {parameter.opts}", pytrace=False)
        elif parameter.name in ("as_json", "yes"):
            found += [parameter.opts[0]]
    return [*found, "--", *last]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder with that store in it."""

    async def make() -> None:
        async with Store.local(tmp_path / "filled/store", session_limits=LIMITS) as store:
            await fill(store)

    asyncio.run(make())
    return tmp_path / "filled"


def test_the_commands(filled: Path, tmp_path: Path) -> None:
    """Each that opens a store, as text and as JSON, on a store of its own."""
    answers = {}
    for names, made in leaves(command):
        if names[0] in ELSEWHERE:
            continue
        for number, left_out in enumerate(("--json", "")):
            folder = tmp_path / "-".join(names) / str(number)
            shutil.copytree(filled, folder)
            arguments = [one for one in arguments_of(made, folder) if one != left_out]
            answer = CliRunner().invoke(command, [*names, *arguments])
            answers[names, number] = answer
            if names in WHOLE:
                assert STAMP in answer.output, names
                assert "only ADK may write" in " ".join((made.help or "").split()), names
            else:
                require_public(answer.output, names)

    for number in range(2):
        shown = answers[("sessions", "show"), number]
        assert (0, True) == (shown.exit_code, "pays 3" in shown.output), shown.output
    assert '"of-the-app": 3' in answers[("sessions", "show"), 1].output
    assert {0, 1, 2} >= {answer.exit_code for answer in answers.values()}
    assert 20 <= len(answers)

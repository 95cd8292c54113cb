"""The routes for applications do what the store does, for those who may."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import GcsArtifactService, InvalidInputError, Store
from gcp_adk_store.adk_server import (
    add_store_routes,
    follow_sessions,
    memory_service,
    one_turn_at_a_time,
    session_service,
)
from gcp_adk_store.model.erasures import digest_of
from gcp_adk_store.testing.conformance.running import read
from tests.services.test_artifact_links import signing_credentials
from tests.support.server_end import close_services

APP = "notes"
ADA = f"/store/apps/{APP}/users/ada"
SESSION = f"{ADA}/sessions/s1"
WHO: dict[str, Any] = {"app_name": APP, "user_id": "ada", "session_id": "s1"}


def authorize(request: Request, app_name: str, user_id: str) -> bool:
    """Let users see what is theirs; administrators see all."""
    if "x-user" not in request.headers:
        raise HTTPException(401)
    return app_name == APP and request.headers["x-user"] in (user_id, "admin")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store with one session of three turns."""
    async with Store.local(":memory:") as store:
        session = await store.sessions.create_session(**WHO, state={"topic": "none"})
        for turn in range(3):
            for author, words in (("user", f"question {turn}"), ("agent", f"answer {turn}")):
                await store.sessions.append_event(session, event(turn, author, words))
        yield store


def event(turn: int, author: str, words: str) -> Event:
    """Return an event of a turn, which changes a key of state."""
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=words)])
    actions = EventActions(state_delta={"topic": words})
    return Event(
        id=f"{author}-{turn}", invocation_id=f"turn-{turn}", author=author, content=content, actions=actions
    )


@pytest.fixture
def app(store: Store) -> FastAPI:
    """An app with the routes."""
    app = FastAPI()
    add_store_routes(app, authorize=authorize, store=store)
    return app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the user whose sessions they are."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://app", headers={"x-user": "ada"}
    ) as client:
        yield client


def texts(events: list[dict[str, Any]]) -> list[str]:
    """Return the texts of events of a page."""
    return [each["event"]["content"]["parts"][0]["text"] for each in events]


@pytest.mark.parametrize(
    "body", ['{"title": NaN}', '{"labels": {"a": -Infinity}}', '{"\\ud800": ["\\udfff"]}', "NaN"]
)
async def test_a_body_that_is_no_json_is_refused_with_a_message(client: httpx.AsyncClient, body: str) -> None:
    """Also one that Python reads, and cannot send back."""
    answer = await client.patch(SESSION, content=body, headers={"content-type": "application/json"})

    assert 422 == answer.status_code
    assert "body" in answer.json()["detail"][0]["loc"]


async def test_sessions_are_listed_by_pages(client: httpx.AsyncClient, store: Store) -> None:
    """With titles, labels and the last message; filtered by labels and time."""
    other = await store.sessions.create_session(app_name=APP, user_id="ada", session_id="s2")
    await store.sessions.append_event(other, event(9, "user", "later"))
    await client.patch(SESSION, json={"title": "Invoices", "labels": {"team": "a", "kind": "x"}})
    first = (await client.get(f"{ADA}/sessions", params={"limit": 1})).json()
    second = (await client.get(f"{ADA}/sessions", params={"limit": 1, "cursor": first["next_cursor"]})).json()
    labelled = (await client.get(f"{ADA}/sessions", params={"label": ["team=a", "kind=x"]})).json()
    after = second["sessions"][0]["last_update_time"]
    newer = (await client.get(f"{ADA}/sessions", params={"updated_after": after})).json()

    assert ["s2", "s1"] == [page["sessions"][0]["session_id"] for page in (first, second)]
    (info,) = labelled["sessions"]
    assert ("Invoices", {"kind": "x", "team": "a"}, 6, 3, "answer 2") == tuple(
        info[name] for name in ("title", "labels", "events", "turns", "last_text")
    )
    assert ["s2"] == [each["session_id"] for each in newer["sessions"]]


async def test_events_are_listed_in_both_directions(client: httpx.AsyncClient) -> None:
    """A page goes on where the one before ended, and the last one has no successor; usage is by turn."""
    newest = (await client.get(f"{SESSION}/events", params={"limit": 4, "direction": "backward"})).json()
    rest = (
        await client.get(
            f"{SESSION}/events",
            params={"limit": 4, "direction": "backward", "cursor": newest["next_cursor"]},
        )
    ).json()
    oldest = (await client.get(f"{SESSION}/events", params={"limit": 1})).json()
    whole = (await client.get(f"{SESSION}/events", params={"limit": 6})).json()
    usage = (await client.get(f"{SESSION}/usage")).json()

    assert ["answer 2", "question 2", "answer 1", "question 1"] == texts(newest["events"])
    assert ["answer 0", "question 0"] == texts(rest["events"])
    assert rest["next_cursor"] is None
    assert (6, None) == (len(whole["events"]), whole["next_cursor"])
    assert ["question 0"] == texts(oldest["events"])
    assert "turn-0" == oldest["events"][0]["event"]["invocationId"]
    assert ["turn-0", "turn-1", "turn-2"] == [turn["invocation_id"] for turn in usage["turns"]]
    assert 6 == usage["events"]


async def test_what_json_lacks_is_shown_as_near_as_it_can_be(client: httpx.AsyncClient, store: Store) -> None:
    """Half of an emoji that was cut is U+FFFD, and NaN is null; one such event ended each page with it."""
    session = await read(store.sessions, WHO)
    cut = event(3, "agent", "cut \ud83d")
    call = types.FunctionCall(name="f", args={"half": "\ude00", "nan": float("nan")})
    cut.content.parts.append(types.Part(function_call=call))  # type: ignore[union-attr]
    cut.invocation_id = "turn \ud83d"
    cut.actions.state_delta["half\ud83d"] = "cut \ud83d"
    cut.actions.state_delta["map"] = {"half\ud83d": 1}
    await store.sessions.append_event(session, cut)
    metadata = {"half": "\ud83d"}
    part = types.Part(text="x")
    await store.artifacts.save_artifact(**WHO, filename="f", artifact=part, custom_metadata=metadata)
    newest: dict[str, Any] = {"limit": 1, "direction": "backward"}
    (found,) = (await client.get(f"{SESSION}/events", params=newest)).json()["events"]
    (version,) = (await client.get(f"{SESSION}/artifacts/versions", params={"filename": "f"})).json()
    usage = (await client.get(f"{SESSION}/usage")).json()
    redacted = await client.post(f"{SESSION}/redact", json={"event_id": cut.id, "reason": "cut"})

    said, called = found["event"]["content"]["parts"]
    assert "cut \ufffd" == said["text"]
    assert {"half": "\ufffd", "nan": None} == called["functionCall"]["args"]
    delta = found["event"]["actions"]["stateDelta"]
    assert {"topic": "cut \ufffd", "half\ufffd": "cut \ufffd", "map": {"half\ufffd": 1}} == delta
    assert {"half": "\ufffd"} == version["customMetadata"]
    assert "turn \ufffd" == usage["turns"][-1]["invocation_id"]
    assert "half\ufffd" in redacted.json()["state_keys"]


async def test_a_fork_and_a_restore_go_back_to_a_point(client: httpx.AsyncClient, store: Store) -> None:
    """Before a message that the user edits, after an event, by position or by time.

    An administrator hands a session to another user, as after a guest logged in.
    """
    before = {"before_invocation": "turn-1"}
    fork = await client.post(f"{SESSION}/fork", json={"at": before, "to_session_id": "f"})
    whole = await client.post(f"{SESSION}/fork")
    handed = await client.post(f"{SESSION}/fork", json={"to_user_id": "eve"}, headers={"x-user": "admin"})
    restored = await client.post(
        f"{SESSION}/restore", json={"at": {"after_event": "agent-0"}, "keep_as": "kept"}
    )
    kept = await store.sessions.get_session(app_name=APP, user_id="ada", session_id="kept")
    session = await read(store.sessions, WHO)

    assert (201, "f", 2) == (fork.status_code, fork.json()["session_id"], fork.json()["events"])
    assert {"app_name": APP, "user_id": "ada", "session_id": "s1", "position": 2} == fork.json()["origin"]
    assert 6 == whole.json()["events"]
    assert (201, "eve") == (handed.status_code, handed.json()["user_id"])
    assert (200, 2) == (restored.status_code, restored.json()["events"])
    assert kept is not None
    assert (6, 2, "answer 0") == (len(kept.events), len(session.events), session.state["topic"])


async def test_an_event_is_redacted(client: httpx.AsyncClient, store: Store) -> None:
    """A dry run reports the same and changes nothing."""
    session = await read(store.sessions, WHO)
    body = {"event_id": session.events[0].id, "reason": "ticket 7"}
    dry = await client.post(f"{SESSION}/redact", json={**body, "dry_run": True})
    done = await client.post(f"{SESSION}/redact", json=body)
    missing = await client.post(f"{SESSION}/redact", json={**body, "event_id": "nothing"})
    after = await read(store.sessions, WHO)

    assert (200, 200, 404) == (dry.status_code, done.status_code, missing.status_code)
    assert dry.json()["sha256"] == done.json()["sha256"]
    assert [len(session.events) + 1, done.json()["audit_id"]] == [len(after.events), after.events[-1].id]


async def test_a_session_is_deleted_with_its_artifacts(client: httpx.AsyncClient, store: Store) -> None:
    """Twice does no harm."""
    await store.artifacts.save_artifact(**WHO, filename="report", artifact=types.Part(text="x"))
    names = (await client.get(f"{SESSION}/artifacts")).json()
    versions = (await client.get(f"{SESSION}/artifacts/versions", params={"filename": "report"})).json()
    deleted = [(await client.delete(SESSION)).status_code for _ in range(2)]
    left = await store.artifacts.list_artifact_keys(**WHO)

    assert (["report"], [0]) == (names, [each["version"] for each in versions])
    assert ([204, 204], []) == (deleted, left)
    assert 404 == (await client.get(SESSION)).status_code


@pytest.mark.emulators
async def test_a_browser_uploads_and_downloads_by_links(store: Store, adk_store_bucket: str) -> None:
    """Past the server; what it uploads becomes a version once."""
    artifacts = GcsArtifactService(adk_store_bucket, credentials=signing_credentials())
    app = FastAPI()
    add_store_routes(app, authorize=authorize, store=Store(sessions=store.sessions, artifacts=artifacts))
    transport = httpx.ASGITransport(app)
    headers = {"x-user": "ada"}
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://app", headers=headers) as client,
        httpx.AsyncClient(timeout=60) as browser,
    ):
        asked = {"filename": "photo.png", "mime_type": "image/png"}
        upload = (await client.post(f"{SESSION}/uploads", json=asked)).json()
        put = await browser.put(upload["url"], content=b"pixels", headers=upload["headers"])
        finish = f"{SESSION}/uploads/{upload['upload_id']}"
        versions = [(await client.post(finish, json={"filename": "photo.png"})).json() for _ in range(2)]
        link = (await client.get(f"{SESSION}/artifacts/link", params={"filename": "photo.png"})).json()
        missing = await client.get(f"{SESSION}/artifacts/link", params={"filename": "none"})
        shown = await browser.get(link["url"])

    assert 200 == put.status_code
    assert [{"version": 0}] * 2 == versions
    assert b"pixels" == shown.content
    assert 404 == missing.status_code


async def test_a_user_is_erased_with_a_receipt(client: httpx.AsyncClient, store: Store) -> None:
    """A dry run counts, and removes nothing."""
    streams = [(await client.delete(ADA, params=params)).text for params in ({"dry_run": True}, {})]
    receipts = [
        [json.loads(line.partition(": ")[2]) for line in stream.splitlines() if line.startswith("data")]
        for stream in streams
    ]

    assert all("event: receipt" in stream for stream in streams)
    assert [True, False] == [each[-1]["is_dry_run"] for each in receipts]
    assert all(1 == each[-1]["erased"]["sessions"]["count"] for each in receipts)
    assert receipts[1][-1]["digest"] == digest_of(receipts[1][-1])
    assert await store.sessions.get_session(**WHO) is None


async def test_an_erasure_that_fails_has_its_reason_in_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees the error's name."""
    async with Store.local(tmp_path) as damaged:
        (tmp_path / "store.sqlite3").write_text("no database " * 1000)
        add_store_routes(app := FastAPI(), authorize=authorize, store=damaged)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://app", headers={"x-user": "ada"}
        ) as client:
            stream = (await client.delete(ADA)).text

    assert 'event: error\ndata: {"error": "InvalidInputError"}\n\n' == stream
    assert f"{tmp_path}" in caplog.text


def described(app: FastAPI) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what OpenAPI has of the routes, by method and path."""
    return {
        (
            method.upper(),
            path.format(app_name=APP, user_id="ada", session_id="s1", upload_id="0" * 32),
        ): operation
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }


async def test_each_route_asks_who_may(app: FastAPI, client: httpx.AsyncClient, store: Store) -> None:
    """Before anything else, and nothing happens for others.

    In OpenAPI each has a sentence, and all are under one heading beside ADK's own.
    """
    before = await store.sessions.get_session(**WHO)
    operations = described(app)
    routes = [*operations, ("GET", f"{SESSION}/follow")]  # an event stream is not in OpenAPI
    refused = [await client.request(method, path, headers={"x-user": "eve"}) for method, path in routes]
    unknown = [await client.request(method, path, headers={"x-user": ""}) for method, path in routes]
    for_another = await client.post(f"{SESSION}/fork", json={"to_user_id": "eve"})

    assert 16 == len(routes)
    assert all(operation["description"] for operation in operations.values())
    assert {"store"} == {tag for operation in operations.values() for tag in operation["tags"]}
    assert {403} == {each.status_code for each in (*refused, *unknown, for_another)}
    assert before == await store.sessions.get_session(**WHO)


REFUSED: list[tuple[str, str, Any, int]] = [
    ("GET", f"{ADA}/sessions?limit=0", None, 422),
    ("GET", f"{ADA}/sessions?limit=201", None, 422),
    ("GET", f"{ADA}/sessions?label=x", None, 400),
    ("GET", f"{ADA}/sessions?label=team=a&label=team=b", None, 400),
    ("GET", f"{ADA}/sessions?cursor=x", None, 400),
    ("GET", f"{SESSION}/events?cursor=x", None, 400),
    ("GET", f"{SESSION}/events?direction=up", None, 422),
    ("GET", f"{ADA}/sessions/none/events", None, 404),
    ("GET", f"{ADA}/sessions/none", None, 404),
    ("GET", f"{ADA}/sessions/none/usage", None, 404),
    ("PATCH", SESSION, {"title": "two\nlines"}, 400),
    ("PATCH", SESSION, {"other": 1}, 422),
    ("POST", f"{SESSION}/fork", {"at": {}}, 422),
    ("POST", f"{SESSION}/fork", {"at": {"position": 1, "after_event": "x"}}, 422),
    ("POST", f"{SESSION}/fork", {"at": {"position": -1}}, 422),
    ("POST", f"{SESSION}/fork", {"at": {"as_of": "2026-01-01T00:00:00"}}, 400),
    ("POST", f"{SESSION}/fork", {"to_session_id": "s1"}, 409),
    ("POST", f"{SESSION}/restore", {"at": {"after_event": "none"}}, 404),
    ("POST", f"{SESSION}/restore", {}, 422),
    ("POST", f"{SESSION}/uploads", {"filename": "x"}, 400),
    ("POST", f"{SESSION}/uploads/x", {"filename": "x"}, 400),
    ("POST", f"{SESSION}/uploads/{'0' * 32}", {"filename": "x"}, 404),
    ("GET", f"{SESSION}/artifacts/link?filename=x", None, 404),
]
"""Method, path, body, and the status of the answer."""


async def test_what_cannot_be_is_reported_by_its_status(client: httpx.AsyncClient, store: Store) -> None:
    """What the client can repair; nothing of it is an error of the server, and nothing happens."""
    before = await store.sessions.get_session(**WHO)
    for method, path, given, status in REFUSED:
        answer = await client.request(method, path, json=given)
        assert status == answer.status_code, (method, path, given)

    assert before == await store.sessions.get_session(**WHO)


@pytest.mark.parametrize(
    ("add", "given", "path", "argument"),
    [
        (add_store_routes, {"authorize": authorize}, f"{ADA}/sessions", "store"),
        (add_store_routes, {"authorize": authorize}, f"{SESSION}/follow", "store"),
        (follow_sessions, {"authorize": authorize}, SESSION.removeprefix("/store") + "/events", "sessions"),
        (one_turn_at_a_time, {}, "/run", "turns"),
    ],
)
async def test_an_app_without_uris_is_told_which_argument_it_lacks(
    add: Any, given: dict[str, Any], path: str, argument: str
) -> None:
    """As an error of the server: its client cannot repair it, and sees no message."""
    await close_services()  # those of other tests
    add(app := FastAPI(), **given)
    body = {"appName": APP, "userId": "ada", "sessionId": "s1"}
    asked: dict[str, Any] = {"method": "POST" if path == "/run" else "GET", "url": path, "json": body}
    for raises in (False, True):
        transport = httpx.ASGITransport(app, raise_app_exceptions=raises)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://app", headers={"x-user": "ada"}
        ) as client:
            if raises:
                with pytest.raises(RuntimeError, match=rf"0 session services .*, not one; pass {argument}="):
                    await client.request(**asked)
            else:
                answer = await client.request(**asked)

    assert (500, False) == (answer.status_code, "URI" in answer.text)


@pytest.mark.parametrize(
    ("sessions", "memories"),
    [
        ("firestore+local:///nowhere?prefix=one", "firestore+local:///nowhere"),
        ("firestore://project-one", "firestore://project-two"),
    ],
)
async def test_routes_on_uris_of_several_places_are_refused(sessions: str, memories: str) -> None:
    """An erasure would leave the memories, and its receipt would not say so."""
    session_service(sessions)
    memory_service(memories)
    add_store_routes(app := FastAPI(), authorize=authorize)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://app", headers={"x-user": "ada"}
    ) as client:
        with pytest.raises(RuntimeError, match="in 2 places, and a store has one; pass store="):
            await client.delete(ADA)
    await close_services()


@pytest.mark.parametrize(
    ("add", "given", "says"),
    [
        (add_store_routes, {"authorize": None}, "authorize must be a function, not NoneType"),
        (add_store_routes, {"authorize": authorize, "prefix": "store"}, "prefix is 'store', it must be"),
        (add_store_routes, {"authorize": authorize, "prefix": "/store/"}, "prefix is '/store/', it must be"),
        (follow_sessions, {"authorize": "me"}, "authorize must be a function or None, not str"),
        (follow_sessions, {"authorize": None, "heartbeat_s": "9"}, "heartbeat_s must be a number, not str"),
        (one_turn_at_a_time, {"wait_s": "9"}, "wait_s must be a number, not str"),
    ],
)
def test_arguments_of_another_kind_are_refused(add: Any, given: dict[str, Any], says: str) -> None:
    """When the app is made, not at the first request."""
    with pytest.raises(InvalidInputError, match=says):
        add(FastAPI(), **given)

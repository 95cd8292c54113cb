"""What ADK's app asks of the services for each request, and what it makes of their errors."""

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from google.adk.artifacts import InMemoryArtifactService
from google.adk.cli import api_server, service_registry
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.sessions import InMemorySessionService

from gcp_adk_store import errors
from gcp_adk_store.adk_server import answer_errors, one_turn_at_a_time
from gcp_adk_store.testing.faults import Refuse, from_nth, no_faults, only
from gcp_adk_store.testing.faults.services import FaultyArtifactService, FaultySessionService
from tests.adk_server.conftest import AGENTS, ROOT

SESSIONS = "/apps/notes/users/ada/sessions"
SESSION = f"{SESSIONS}/s1"
TURN = {
    "appName": "notes",
    "userId": "ada",
    "sessionId": "s1",
    "newMessage": {"role": "user", "parts": [{"text": "hi"}]},
}
ARTIFACT = {"filename": "a.txt", "artifact": {"text": "a"}}


@dataclass(frozen=True)
class Served:
    """ADK's app on services in memory that fail as a plan says."""

    app: FastAPI
    client: httpx.AsyncClient
    sessions: FaultySessionService
    artifacts: FaultyArtifactService

    def calls(self) -> Counter[str]:
        """Return the calls so far, by method."""
        return self.sessions.figures.calls + self.artifacts.figures.calls


@pytest.fixture(scope="module")
def apps() -> Iterator[tuple[Served, Served]]:
    """The example's agents in ADK's app alone, and in one that was fitted to the store's errors."""
    with pytest.MonkeyPatch.context() as patch:
        # Else ADK decides for the whole process where traces go.
        patch.setattr(api_server, "_setup_telemetry", lambda **_: None)
        patch.setattr(service_registry, "_service_registry_instance", None)
        patch.setattr(sys, "path", list(sys.path))
        alone, fitted = new_app(), new_app()
        answer_errors(fitted.app)
        yield alone, fitted
    for name in [name for name in sys.modules if name.partition(".")[0] == "notes"]:
        del sys.modules[name]


def new_app() -> Served:
    """Make one."""
    sessions = FaultySessionService(InMemorySessionService())
    artifacts = FaultyArtifactService(InMemoryArtifactService())
    registry = service_registry.get_service_registry()
    registry.register_session_service("faulty", lambda uri, **_: sessions)  # noqa: ARG005  # ADK's
    registry.register_artifact_service("faulty", lambda uri, **_: artifacts)  # noqa: ARG005  # ADK's
    app = get_fast_api_app(
        agents_dir=str(AGENTS),
        session_service_uri="faulty://",
        artifact_service_uri="faulty://",
        web=False,
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
    return Served(app=app, client=client, sessions=sessions, artifacts=artifacts)


async def renewed(served: Served) -> Served:
    """Return it with the session ``s1`` and nothing else."""
    served.sessions.inner, served.artifacts.inner = InMemorySessionService(), InMemoryArtifactService()
    served.sessions.plan = served.artifacts.plan = no_faults
    await served.sessions.create_session(app_name="notes", user_id="ada", session_id="s1")
    return served


@pytest.fixture
async def alone(apps: tuple[Served, Served]) -> Served:
    """ADK's app as it is."""
    return await renewed(apps[0])


@pytest.fixture
async def fitted(apps: tuple[Served, Served]) -> Served:
    """The app that was fitted."""
    return await renewed(apps[1])


async def request(served: Served, what: str) -> int:
    """Make the request that a row of the document names; return its status."""
    return (await answer_to(served, what)).status_code


async def answer_to(served: Served, what: str) -> httpx.Response:
    """Make the request that a row of the document names."""
    method, path = what.split()
    path = re.sub(r"^(\.\.\.|/apps/A/users/U/sessions/S)", SESSION, path)
    path = path.replace("/apps/A/users/U/sessions", SESSIONS).replace("NAME", "notes.txt")
    bodies: dict[str, Any] = {
        "/run": TURN,
        "/run_sse": TURN,
        SESSIONS: {"sessionId": "s2"},
        SESSION: {"stateDelta": {"n": 1}},
        f"{SESSION}/artifacts": ARTIFACT,
    }
    body = bodies[path] if method in ("POST", "PATCH") else None
    return await served.client.request(method, path, json=body)


async def test_each_request_asks_of_the_store_what_the_document_says(alone: Served) -> None:
    """For each row of its table."""
    text = (ROOT / "docs/adk-server.md").read_text()
    rows = re.findall(r"^\| `((?:GET|POST|PATCH|DELETE) \S+)` \|(.*)\|(.*)\|$", text, re.MULTILINE)
    assert await request(alone, "POST /run") == 200  # an artifact to ask for
    for what, sessions, artifacts in rows:
        before = alone.calls()
        status = await request(alone, what)
        documented = re.findall(r"(\d+) `(\w+)`", f"{sessions} {artifacts}")

        assert (what, 200) == (what, status)
        assert (what, {name: int(number) for number, name in documented}) == (what, alone.calls() - before)
    assert len(rows) == 10


@pytest.mark.parametrize(
    ("what", "method", "error", "by_adk", "by_fitted"),
    [
        # The oldest ADK that is supported answers 500.
        ("POST /apps/A/users/U/sessions", "create_session", errors.InvalidInputError, {400, 500}, 400),
        ("POST .../artifacts", "save_artifact", errors.InvalidInputError, {400}, 400),
        ("GET .../artifacts", "list_artifact_keys", errors.InvalidInputError, {500}, 400),
        ("POST /run", "append_event", errors.SessionMissingError, {404}, 404),
        ("PATCH /apps/A/users/U/sessions/S", "append_event", errors.SessionMissingError, {500}, 404),
        ("POST /run", "append_event", errors.SessionConflictError, {500}, 409),
        ("PATCH /apps/A/users/U/sessions/S", "append_event", errors.SessionConflictError, {500}, 409),
        ("POST /apps/A/users/U/sessions", "create_session", errors.SessionExistsError, {409}, 409),
        ("POST .../artifacts", "save_artifact", errors.ArtifactConflictError, {500}, 409),
        ("POST /apps/A/users/U/sessions", "create_session", errors.UnavailableError, {500}, 503),
        ("POST .../artifacts", "save_artifact", errors.OverloadedError, {500}, 503),
        ("POST /run", "get_session", errors.UnavailableError, {500}, 503),
        ("POST /run_sse", "get_session", errors.OverloadedError, {500}, 503),
        ("POST /apps/A/users/U/sessions", "create_session", errors.OutcomeUnknownError, {500}, 500),
        ("POST /run", "append_event", errors.OutcomeUnknownError, {500}, 500),
        ("GET .../artifacts", "list_artifact_keys", errors.AccessDeniedError, {500}, 500),
    ],
)
async def test_errors_are_answered_as_the_document_says(
    alone: Served,
    fitted: Served,
    what: str,
    method: str,
    error: type[errors.StoreError],
    by_adk: set[int],
    by_fitted: int,
) -> None:
    """By ADK alone, and by an app that was fitted to them."""
    for each in (alone, fitted):
        plan = only(method, from_nth(0, Refuse(error=lambda: error("no answer"))))
        each.sessions.plan = each.artifacts.plan = plan

    assert await request(alone, what) in by_adk
    assert by_fitted == await request(fitted, what)


async def test_an_answer_says_what_happened_and_when_to_come_again(fitted: Served) -> None:
    """In seconds, rounded up; a second where the service asked for no time."""
    waits = iter([0.2, None, 2.5])
    fitted.sessions.plan = only(
        "get_session",
        from_nth(0, Refuse(error=lambda: errors.UnavailableError("no answer", retry_after_s=next(waits)))),
    )
    answers = [await fitted.client.get(SESSION) for _ in range(3)]

    assert ["1", "1", "3"] == [answer.headers["Retry-After"] for answer in answers]
    assert {"detail": "UnavailableError"} == answers[0].json()


@pytest.mark.parametrize(
    ("what", "method"),
    [
        ("POST /apps/A/users/U/sessions", "create_session"),
        ("POST .../artifacts", "save_artifact"),
        ("GET /apps/A/users/U/sessions/S", "get_session"),
    ],
)
async def test_what_only_an_operator_can_mend_is_in_the_log_and_not_in_the_answer(
    fitted: Served, what: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers do not contain accounts, files, projects and buckets."""
    reason = "no token for the service account key of agent@demo from /secrets/key.json"
    for error in (errors.UnavailableError, errors.CredentialsError, errors.StoreError):
        raising = Refuse(error=functools.partial(error, reason))
        fitted.sessions.plan = fitted.artifacts.plan = only(method, from_nth(0, raising))
        caplog.clear()
        answer = await answer_to(fitted, what)

        assert answer.status_code in (500, 503), error
        assert {"detail": error.__name__} == answer.json()
        assert reason in caplog.text


async def test_answers_that_are_adks_own_stay(fitted: Served) -> None:
    """What is not there is 404 and what is no request 422, with ADK's words."""
    missing = await fitted.client.get(f"{SESSIONS}/none")
    unknown = await fitted.client.get("/no/such/path")

    assert (404, {"detail": "Session not found"}) == (missing.status_code, missing.json())
    assert 404 == unknown.status_code
    assert 422 == (await fitted.client.post("/run", json={"streaming": "x"})).status_code


async def test_an_error_within_a_stream_is_its_last_event(fitted: Served) -> None:
    """The answer has begun with 200 before the turn does."""
    fitted.sessions.plan = only(
        "append_event", from_nth(1, Refuse(error=lambda: errors.SessionConflictError("no answer")))
    )
    answer = await fitted.client.post("/run_sse", json=TURN)

    assert 200 == answer.status_code
    assert answer.text.splitlines()[-2].startswith('data: {"error": "SessionConflictError: no answer"')


@pytest.mark.parametrize("fit", [answer_errors, one_turn_at_a_time])
async def test_an_app_that_serves_already_is_refused(alone: Served, fit: Callable[[FastAPI], object]) -> None:
    """A handler of errors or a middleware would have no effect then."""
    await alone.client.get("/health")
    with pytest.raises(RuntimeError, match="before it serves"):
        fit(alone.app)

"""Whatever becomes of the request for a token, an operation ends by its deadline, and keeps no thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import (
    ArtifactLimits,
    SessionLimits,
    Store,
    StoreCredentials,
    StoreError,
    UnavailableError,
)
from tests.credentials.conftest import Written
from tests.credentials.token_endpoints import TokenEndpoints
from tests.support.clock import PassingTime

DEADLINE_S = 10
HANGS_S = 60
WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}

CALLS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "documents": lambda store: store.sessions.create_session(**WHO),
    "objects": lambda store: store.artifacts.save_artifact(
        **WHO, filename="f", artifact=types.Part(text="x")
    ),
    "a read of objects": lambda store: store.artifacts.load_artifact(**WHO, filename="f"),
}


@pytest.fixture
def token_uri(request: pytest.FixtureRequest, endpoints: TokenEndpoints) -> Iterator[str]:
    """Where the token is asked for: an endpoint that is as the test says."""
    if request.param == "hangs":
        endpoints.may_answer.clear()
    elif request.param == "answers 503":
        endpoints.refusals = {number: (503, {"error": "unavailable"}) for number in range(1000)}
    yield {
        "refuses": "http://127.0.0.1:9/token",
        "has no address": "http://no-such-name.invalid/token",
    }.get(request.param, f"{endpoints.url}/token")
    endpoints.may_answer.set()


async def failure_of(
    call: str,
    key_file: Written,
    token_uri: str,
    then: Callable[[], Coroutine[Any, Any, None]] | None = None,
    **limits: Any,
) -> StoreError:
    """Return what *call* ends with; *then* happens after it began."""
    of_sessions = call == "documents"
    store = Store.connect(
        project="demo",
        bucket="bucket",
        credentials=StoreCredentials(file=key_file(token_uri=token_uri)),
        session_limits=SessionLimits(**limits) if of_sessions else None,
        artifact_limits=None if of_sessions else ArtifactLimits(**limits),
    )
    async with store:
        running = asyncio.create_task(CALLS[call](store))
        if then is not None:
            await then()
        await asyncio.wait([running], timeout=HANGS_S)
        failure = running.exception()
    assert isinstance(failure, StoreError)
    return failure


@pytest.fixture
def over(
    endpoints: TokenEndpoints, passing: PassingTime, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Let the deadline pass once the token was asked for; nothing else ends the wait for it."""
    monkeypatch.setattr("gcp_adk_store.cloud.auth.tokens._LONGEST_WAIT_S", 1000)

    async def pass_on() -> None:
        assert await asyncio.to_thread(endpoints.arrived.wait, HANGS_S)
        passing.after(DEADLINE_S)

    return pass_on


@pytest.mark.parametrize("token_uri", ["hangs"], indirect=True)
@pytest.mark.parametrize("of_its_own", [False, True])
@pytest.mark.parametrize("call", CALLS)
async def test_a_call_without_a_token_ends_by_its_deadline(
    key_file: Written,
    token_uri: str,
    call: str,
    over: Callable[[], Coroutine[Any, Any, None]],
    *,
    of_its_own: bool,
) -> None:
    """That of all operations, or one of its own.

    As an error to try again, which names the operation; no thread of the store waits for the token.
    """
    before = set(threading.enumerate())
    name = {"documents": "create_session", "objects": "save_artifact"}.get(call, "load_artifact")
    own = {"deadlines_s": {name: DEADLINE_S}, "deadline_s": 1000}
    limits: dict[str, Any] = own if of_its_own else {"deadline_s": DEADLINE_S}
    failure = await failure_of(call, key_file, token_uri, over, **limits)

    assert UnavailableError is type(failure)
    assert failure.operation
    assert "no token for the service account key" in str(failure)
    begun = set(threading.enumerate()) - before
    assert not [thread for thread in begun if thread.name.startswith("adk-store-gcs")]


@pytest.mark.sample(3)
@pytest.mark.parametrize("token_uri", ["refuses", "answers 503", "has no address"], indirect=True)
@pytest.mark.parametrize("call", CALLS)
async def test_a_token_that_is_refused_for_now_is_reported_at_once(
    key_file: Written, token_uri: str, call: str
) -> None:
    """However much time the operation would have: who asks again is the caller. It names the operation."""
    failure = await failure_of(call, key_file, token_uri, deadline_s=1000)

    assert UnavailableError is type(failure)
    assert failure.operation
    assert "no token for the service account key" in str(failure)

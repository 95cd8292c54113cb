"""A token is fetched once for all who use it, refreshed in time, and waited for no longer than a deadline."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.auth.credentials import TokenState
from google.auth.transport.requests import AuthorizedSession
from google.genai import types
from google.oauth2.credentials import Credentials

from gcp_adk_store import (
    ArtifactLimits,
    CredentialsError,
    SessionLimits,
    Store,
    StoreCredentials,
    StoreError,
    UnavailableError,
)
from tests.credentials.conftest import EMAIL, TARGET, Written
from tests.credentials.token_endpoints import TokenEndpoints
from tests.support.clock import PassingTime
from tests.support.small_pieces import set_numbers

STALE_S = 100  # a token is refreshed in its last 225 seconds


@pytest.fixture
def token(key_file: Written) -> Any:
    """The token of a service account."""
    return StoreCredentials(file=key_file()).find().token


async def test_tasks_threads_and_loops_share_one_refresh(token: Any, endpoints: TokenEndpoints) -> None:
    """All wait for the request that the first of them sent."""
    endpoints.may_answer.clear()
    begun = threading.Barrier(5)

    def in_a_thread() -> None:
        begun.wait()
        token.wait()

    def in_a_loop() -> None:
        begun.wait()
        asyncio.run(token.ready())

    threads = [threading.Thread(target=work) for work in (in_a_thread, in_a_thread, in_a_loop, in_a_loop)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(begun.wait)
    tasks = [asyncio.create_task(token.ready()) for _ in range(50)]
    await asyncio.to_thread(endpoints.arrived.wait)
    endpoints.may_answer.set()
    await asyncio.gather(*tasks)
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert 1 == len(endpoints.asked)
    assert token.credentials.valid


async def test_who_gives_up_gives_up_alone(token: Any, endpoints: TokenEndpoints) -> None:
    """The others get the token for which it began to ask."""
    endpoints.may_answer.clear()
    first = asyncio.create_task(token.ready())
    await asyncio.to_thread(endpoints.arrived.wait)
    second = asyncio.create_task(token.ready())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    endpoints.may_answer.set()
    await second

    assert 1 == len(endpoints.asked)


async def test_an_endpoint_that_never_ends_its_answer_is_given_up(
    token: Any, endpoints: TokenEndpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while another request is sent; and nothing keeps the process from ending meanwhile."""
    endpoints.may_answer.clear()
    first = asyncio.create_task(token.ready())
    await asyncio.to_thread(endpoints.arrived.wait)
    asking = [thread for thread in threading.enumerate() if thread.name.startswith("adk-store-token")]
    set_numbers(monkeypatch, refresh_wait_s=0.0)
    endpoints.arrived.clear()
    second = asyncio.create_task(token.ready())
    arrived = await asyncio.to_thread(endpoints.arrived.wait, 10)
    endpoints.may_answer.set()
    await asyncio.gather(first, second)

    assert arrived
    assert 2 == len(endpoints.asked)
    assert [True] == [thread.daemon for thread in asking]
    assert token._running is None


async def test_a_token_that_has_ended_is_replaced(token: Any, endpoints: TokenEndpoints) -> None:
    """Before the next request, and then no more."""
    endpoints.lives_s = 0
    await token.ready()
    endpoints.lives_s = 3600
    before = token.credentials.token
    for _ in range(3):
        await token.ready()

    assert ("token-1", "token-2") == (before, token.credentials.token)
    assert 2 == len(endpoints.asked)


async def test_a_token_in_its_last_minutes_serves_while_another_is_fetched(
    token: Any, endpoints: TokenEndpoints
) -> None:
    """Nobody waits for a token endpoint that takes its time."""
    endpoints.lives_s = STALE_S
    await token.ready()
    endpoints.arrived.clear()
    endpoints.may_answer.clear()
    await token.ready()
    await asyncio.to_thread(token.wait)
    await asyncio.to_thread(endpoints.arrived.wait)
    served = token.credentials.token
    running = token._running
    endpoints.may_answer.set()
    assert running is not None
    running.result()

    assert "token-1" == served
    assert "token-2" == token.credentials.token
    assert 2 == len(endpoints.asked)


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, {"error": "invalid_grant", "error_description": "content"}), (200, b"<html>content</html>")],
    ids=["a refusal", "the page of a proxy"],
)
async def test_a_token_endpoint_that_is_away_is_not_noticed_while_the_token_serves(
    token: Any, endpoints: TokenEndpoints, caplog: pytest.LogCaptureFixture, status: int, body: Any
) -> None:
    """It is reported in the log, and asked again only after a while."""
    endpoints.lives_s = STALE_S
    await token.ready()
    endpoints.refuse_after(0, status, body)
    endpoints.may_answer.clear()
    await token.ready()
    running = token._running
    endpoints.may_answer.set()
    assert running is not None
    with caplog.at_level(logging.WARNING):
        running.result()
    for _ in range(3):
        await token.ready()

    assert 2 == len(endpoints.asked)
    assert TokenState.STALE is token.credentials.token_state
    assert ["the current token stays in use" in record.getMessage() for record in caplog.records] == [True]
    assert "content" not in caplog.text


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[str]]]:
    """A server that refuses every token but the second; its URL, and what it was sent."""
    sent: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.send_response(200 if sent[-1] == "Bearer token-2" else 401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", sent
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_token_that_a_server_refuses_is_replaced_once(
    key_file: Written, endpoints: TokenEndpoints, refusing: tuple[str, list[str]]
) -> None:
    """However many requests were sent with it."""
    url, sent = refusing
    shared = StoreCredentials(file=key_file()).find().token
    sent_with_the_first = threading.Barrier(4)
    statuses: list[int] = []

    def ask() -> None:
        with AuthorizedSession(shared) as session:
            shared.before_request(None, "GET", url, {})
            sent_with_the_first.wait()
            statuses.append(session.get(url, timeout=60).status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [200] * 4 == statuses
    assert 2 == len(endpoints.asked)
    assert {"Bearer token-1", "Bearer token-2"} == set(sent)


INVALID = {"error": "invalid_grant", "error_description": "secret content of the answer"}
FORBIDDEN = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "secret content"}}


@pytest.fixture
def make(
    request: pytest.FixtureRequest, login: Credentials, endpoints: TokenEndpoints
) -> Callable[[str], StoreCredentials]:
    """Make credentials of a kind."""

    def of(kind: str) -> StoreCredentials:
        if kind == "login":
            return StoreCredentials(login)
        if kind == "acting":
            return StoreCredentials(login, impersonate_service_account=TARGET, iam_endpoint=endpoints.url)
        return StoreCredentials(file=request.getfixturevalue(f"{kind}_file")())

    return of


async def failure_of(credentials: StoreCredentials) -> StoreError:
    """Return what a caller gets instead of a token; threads get the same."""
    token = credentials.find().token
    with pytest.raises(StoreError) as caught:
        await token.ready()
    return caught.value


@pytest.mark.parametrize(
    ("kind", "before", "status", "body", "says"),
    [
        ("login", 0, 400, INVALID, "run `gcloud auth application-default login`"),
        ("key", 0, 400, INVALID, "gcloud iam service-accounts keys list"),
        ("key", 0, 401, INVALID, f"service account key of {EMAIL}"),
        ("pool", 0, 400, INVALID, "gcloud iam workload-identity-pools providers describe"),
        ("pool", 0, 403, FORBIDDEN, "attribute condition"),
        ("acting", 0, 400, INVALID, "run `gcloud auth application-default login`"),
        ("acting", 1, 403, FORBIDDEN, f"add-iam-policy-binding {TARGET} --member=MEMBER"),
        ("acting", 1, 404, FORBIDDEN, "roles/iam.serviceAccountTokenCreator"),
    ],
)
async def test_a_refused_refresh_names_what_to_do(
    make: Callable[[str], StoreCredentials],
    endpoints: TokenEndpoints,
    kind: str,
    before: int,
    status: int,
    body: dict[str, Any],
    says: str,
) -> None:
    """As an error of its own, with the command; what the endpoint answered stays in the cause."""
    credentials = make(kind)
    endpoints.refuse_after(before, status, body)
    error = await failure_of(credentials)

    assert isinstance(error, CredentialsError)
    assert says in str(error)
    assert f"status {status}" in str(error)
    assert "secret" not in str(error)
    assert error.__cause__ is not None


@pytest.mark.parametrize(
    ("kind", "before", "status"),
    [("pool", 0, 503), ("pool", 0, 429), ("acting", 1, 503), ("acting", 1, 500)],
)
async def test_a_token_endpoint_that_is_away_for_now_is_one_to_try_again(
    make: Callable[[str], StoreCredentials], endpoints: TokenEndpoints, kind: str, before: int, status: int
) -> None:
    """Not a matter of credentials; and the next call succeeds."""
    credentials = make(kind)
    endpoints.refuse_after(before, status, {"error": "unavailable"})
    error = await failure_of(credentials)
    await credentials.find().token.ready()

    assert UnavailableError is type(error)
    assert f"status {status}" in str(error)
    assert credentials.find().token.credentials.valid


@pytest.mark.parametrize(
    "body",
    [
        b"<html>secret of a proxy</html>",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"access_token": "secret", "expires_in": "soon"}',
        b'{"access_token": "secret", "expires_in": 1e300}',
    ],
)
@pytest.mark.parametrize(("kind", "before"), [("login", 0), ("key", 0), ("pool", 0), ("acting", 1)])
async def test_an_answer_that_is_no_token_is_one_to_try_again(
    make: Callable[[str], StoreCredentials], endpoints: TokenEndpoints, kind: str, before: int, body: bytes
) -> None:
    """Such as the page of a proxy, with the status of success; it is not shown."""
    credentials = make(kind)
    endpoints.refuse_after(before, 200, body)
    error = await failure_of(credentials)
    await credentials.find().token.ready()

    assert UnavailableError is type(error)
    assert "status 200, and no token" in str(error)
    assert "secret" not in str(error)
    assert credentials.find().token.credentials.valid


@pytest.mark.parametrize("client", ["documents", "objects"])
async def test_an_operation_without_a_token_was_not_sent(
    key_file: Written, endpoints: TokenEndpoints, client: str
) -> None:
    """Also a write of either client gets that error at once, with its name: it never happened."""
    endpoints.refuse_after(0, 400, INVALID)
    credentials = StoreCredentials(file=key_file())
    who: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
    async with Store.connect(project="demo", bucket="bucket", credentials=credentials) as store:
        part = types.Part(text="text")
        calls: dict[str, Coroutine[Any, Any, Any]] = {
            "documents": store.sessions.create_session(**who),
            "objects": store.artifacts.save_artifact(**who, filename="f", artifact=part),
        }
        calls.pop({"documents": "objects", "objects": "documents"}[client]).close()
        with pytest.raises(CredentialsError) as caught:
            await calls[client]

    assert ("documents" == client) == (caught.value.operation == "create_session")
    assert "user_id='user'" in caught.value.key
    assert "gcloud iam service-accounts keys list" in str(caught.value)
    assert 1 == len(endpoints.asked)


async def test_an_endpoint_that_cannot_be_reached_is_one_to_try_again(
    key_file: Written, endpoints: TokenEndpoints
) -> None:
    """Each of those who waited gets an error of its own."""
    credentials = StoreCredentials(file=key_file(token_uri="http://127.0.0.1:9/token"))  # noqa: S106  # an address
    first, second = await asyncio.gather(failure_of(credentials), failure_of(credentials))

    assert UnavailableError is type(first) is type(second)
    assert first is not second
    assert "TransportError" in str(first)
    assert [] == endpoints.asked


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


async def failure_of_call(
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
    failure = await failure_of_call(call, key_file, token_uri, over, **limits)

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
    failure = await failure_of_call(call, key_file, token_uri, deadline_s=1000)

    assert UnavailableError is type(failure)
    assert failure.operation
    assert "no token for the service account key" in str(failure)

"""Attempts, conflicts, large content, caches and waiting calls, as spans and metrics show them."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from gcp_adk_store import (
    AccessDeniedError,
    ArtifactConflictError,
    ArtifactLimits,
    GcsArtifactService,
    InvalidInputError,
    OutcomeUnknownError,
    Point,
    PointMissingError,
    SessionBusyError,
    SessionConflictError,
    SessionLimits,
    SessionMissingError,
    SessionService,
    Store,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import event, read
from gcp_adk_store.testing.faults import Fault, Hold, Lose, Plan, Refuse, from_nth, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy, is_bucket_look
from tests.support.repeating_model import RepeatingModel
from tests.telemetry.watched import Watched, attributes_of, own

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
FILE: dict[str, Any] = {**WHO, "filename": "f"}
Connect = Callable[..., SessionService]


def ended(span: ReadableSpan) -> tuple[str, str | None, StatusCode]:
    """Return how an operation ended."""
    return own(span)["outcome"], attributes_of(span).get("error.type"), span.status.status_code


def first(count: int, fault: Fault) -> Plan:
    """Return a plan with *fault* for the first *count* calls."""
    return lambda call: fault if call.number < count else None


@pytest.mark.parametrize(
    ("fault", "error"), [(Refuse("RESOURCE_EXHAUSTED"), "UnavailableError"), (Lose(), "OutcomeUnknownError")]
)
async def test_requests_that_are_sent_again_are_counted(
    watched: Watched, firestore_proxy: FirestoreProxy, connect: Connect, fault: Fault, error: str
) -> None:
    """Each as an RPC and a retry, with what went wrong before it."""
    service = connect()
    held = await service.create_session(**WHO)
    watched.take_spans()
    firestore_proxy.plan = only("Commit", first(2, fault))
    await service.append_event(held, event())
    span, measured = watched.take_span(), watched.take_metrics()
    looks = 1 if isinstance(fault, Lose) else 0  # whether the one that was refused is its own

    assert (2 + 1 + looks, 3, 2) == tuple(own(span)[of] for of in ("firestore.rpcs", "attempts", "retries"))
    assert 2 == measured.of("retries", "append_event", error__type=error)
    assert ("ok", None, StatusCode.UNSET) == ended(span)


@pytest.mark.usefixtures("passing")
async def test_an_outage_ends_as_failed_with_all_its_attempts(
    watched: Watched, firestore_proxy: FirestoreProxy, connect: Connect
) -> None:
    """The error's type, and as many attempts as the error says; so does a write that is never answered."""
    service = connect()
    held = await service.create_session(**WHO)
    watched.take_spans()
    watched.take_metrics()
    firestore_proxy.plan = from_nth(0, Refuse("RESOURCE_EXHAUSTED"))
    with pytest.raises(UnavailableError) as caught:
        await service.append_event(held, event())
    span, measured = watched.take_span(), watched.take_metrics()

    assert ("failed", "UnavailableError", StatusCode.ERROR) == ended(span)
    assert caught.value.attempts == own(span)["attempts"] == own(span)["firestore.rpcs"]
    assert 1 == measured.of("operation.duration", "append_event", error__type="UnavailableError")
    assert () == span.events
    assert span.status.description is None

    firestore_proxy.plan = from_nth(0, Lose())
    with pytest.raises(OutcomeUnknownError):
        await service.append_event(held, event())

    assert ("failed", "OutcomeUnknownError", StatusCode.ERROR) == ended(watched.take_span())


async def test_requests_to_cloud_storage_that_are_sent_again_are_counted(
    watched: Watched, storage_proxy: StorageProxy, store: Store
) -> None:
    """An answer that was lost is asked for again, and its object recognised."""
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="first"))
    watched.take_spans()
    storage_proxy.plan = only("upload", nth(0, Lose()))
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="second"))
    span, measured = watched.take_span(), watched.take_metrics()

    assert ("ok", None, StatusCode.UNSET) == ended(span)
    # The upload, the upload again, which is refused, and a look at whose object is there.
    assert (3, 2, 1) == tuple(own(span)[of] for of in ("storage.requests", "attempts", "retries"))
    assert 1 == measured.of("retries", "save_artifact", error__type="OutcomeUnknownError")


async def test_a_conflict_is_reported_for_the_writer_who_lost(watched: Watched, connect: Connect) -> None:
    """As refused where the caller gets an error, as well where the event is merged."""
    service, merging = connect(), connect(on_conflict="merge")
    held = [await service.create_session(**WHO)]
    held += [await read(service, WHO), await read(merging, WHO)]
    await service.append_event(held[0], event("one"))
    watched.take_spans()
    watched.take_metrics()
    with pytest.raises(SessionConflictError):
        await service.append_event(held[1], event("two"))
    refused = watched.take_span()
    await merging.append_event(held[2], event("three"))
    merged = watched.take_span()

    assert ("refused", "SessionConflictError", StatusCode.ERROR) == ended(refused)
    assert ("ok", None, StatusCode.UNSET) == ended(merged)
    assert 1 == own(refused)["conflicts"] == own(merged)["conflicts"]
    assert 2 == watched.take_metrics().of("conflicts", "append_event")


async def test_what_the_caller_decides_about_is_no_failure_of_the_store(
    watched: Watched, tmp_path: Path
) -> None:
    """An alert on failures would meet each request during another turn of its session."""
    async with Store.local(tmp_path) as store, Store.local(tmp_path) as elsewhere:
        await store.sessions.create_session(**WHO)
        async with elsewhere.turns.hold(**WHO):
            watched.take_spans()
            with pytest.raises(SessionBusyError):
                async with store.turns.hold(**WHO, on_busy="reject"):
                    pass
            busy = watched.take_span()
            with pytest.raises(PointMissingError):
                await store.sessions.get_session_at(**WHO, at=Point.position(1))
            missing = watched.take_span()

    assert ("refused", "SessionBusyError", StatusCode.ERROR) == ended(busy)
    assert ("refused", "PointMissingError", StatusCode.ERROR) == ended(missing)


async def test_a_version_that_others_took_is_a_conflict(watched: Watched, adk_store_bucket: str) -> None:
    """The next number is tried, or the save is refused."""
    services = [
        GcsArtifactService(adk_store_bucket, limits=ArtifactLimits(save_attempts=attempts))
        for attempts in (1, 2, 2)
    ]
    for service in services:
        await service.save_artifact(**FILE, artifact=types.Part(text="known"))
    watched.take_spans()
    watched.take_metrics()
    with pytest.raises(ArtifactConflictError, match="1 version numbers were taken"):
        await services[0].save_artifact(**FILE, artifact=types.Part(text="late"))
    await services[1].save_artifact(**FILE, artifact=types.Part(text="late"))
    refused, saved = watched.take_spans()

    assert [1, 1] == [own(saved)["conflicts"], own(refused)["conflicts"]]
    assert ("ok", None, StatusCode.UNSET) == ended(saved)
    assert ("refused", "ArtifactConflictError", StatusCode.ERROR) == ended(refused)
    assert 2 == watched.take_metrics().of("conflicts", "save_artifact")
    for service in services:
        await service.close()


async def test_large_state_that_leaves_for_documents_is_counted(watched: Watched, connect: Connect) -> None:
    """By the place where it goes, as it is stored: packed."""
    service = connect(limits=SessionLimits(state_value_bytes=10))
    await service.create_session(**WHO, state={"mine": "a long value", "user:theirs": "another one"})
    span, measured = watched.take_span(), watched.take_metrics()

    assert 0 < own(span)["spilled.bytes"] == measured.of("spilled", "create_session", place="chunks")
    assert 0 == measured.of("spilled", "create_session", place="bucket")


async def test_what_is_remembered_and_what_is_not_is_counted(watched: Watched, connect: Connect) -> None:
    """Segments are read once a process, by whoever wrote them, too."""
    service = connect(limits=SessionLimits(seal_tail_bytes=1))
    held = await service.create_session(**WHO)
    for number in range(3):
        await service.append_event(held, event(f"{number}"))
    other = connect()
    watched.take_spans()
    watched.take_metrics()
    spans = []
    for reader in (other, other, service):
        await reader.get_session(**WHO)
        spans.append(own(watched.take_span()))
    measured = watched.take_metrics()
    segments = [(one["cache.segments.hits"], one["cache.segments.misses"]) for one in spans]

    assert [(0, 3), (3, 0), (0, 3)] == segments
    assert 3 == measured.of("cache.hits", "get_session", cache__name="segments")
    assert 6 == measured.of("cache.misses", "get_session", cache__name="segments")


async def test_versions_that_this_process_knows_are_counted(
    watched: Watched, store: Store, adk_store_bucket: str
) -> None:
    """One that others outdated is none that was known."""
    other = GcsArtifactService(adk_store_bucket)
    lookups = []
    for service in (store.artifacts, store.artifacts, other):
        await service.save_artifact(**FILE, artifact=types.Part(text="new"))
        lookups.append(own(watched.take_span()))
    await store.artifacts.load_artifact(**FILE)
    lookups.append(own(watched.take_span()))
    await store.artifacts.load_artifact(**FILE)
    lookups.append(own(watched.take_span()))

    assert [0, 1, 0, 0, 1] == [one["cache.versions.hits"] for one in lookups]
    assert [1, 0, 1, 1, 0] == [one["cache.versions.misses"] for one in lookups]
    await other.close()


async def test_a_save_that_fails_has_looked_for_its_version_too(
    watched: Watched, storage_proxy: StorageProxy, store: Store
) -> None:
    """The ratio of hits is that of all saves."""
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="first"))
    watched.take_spans()
    storage_proxy.plan = only("upload", from_nth(0, Refuse(403)))
    with pytest.raises(AccessDeniedError):
        await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="second"))

    assert 1 == own(watched.take_span())["cache.versions.hits"]


async def test_operations_that_run_and_those_that_wait_are_observed(
    watched: Watched, firestore_proxy: FirestoreProxy, connect: Connect
) -> None:
    """While one is on its way and another waits for its turn; then that one, then none."""
    service = connect(limits=SessionLimits(max_in_flight=1))
    held = [
        await service.create_session(app_name="app", user_id="user", session_id=f"{number}")
        for number in range(2)
    ]
    on_their_way = [Hold(), Hold()]
    firestore_proxy.plan = only("Commit", lambda call: on_their_way[call.number])
    others = in_flight(watched, "append_event")
    appends = [asyncio.create_task(service.append_event(session, event())) for session in held]
    observed = []
    for hold in on_their_way:
        assert await asyncio.to_thread(hold.reached.wait, 60)
        observed.append(watched.take_metrics())
        hold.release()
    await asyncio.gather(*appends)
    observed.append(watched.take_metrics())

    system = "gcp.firestore"
    assert [2, 1, 0] == [
        one.of("operations.in_flight", "append_event", db__system__name=system) - others for one in observed
    ]
    assert [1, 0, 0] == [one.of("operations.waiting", "append_event") for one in observed]


async def test_a_caller_that_is_cancelled_is_no_failure(
    watched: Watched, firestore_proxy: FirestoreProxy, connect: Connect
) -> None:
    """Its span ends then; what its append goes on to do is in the metrics."""
    service = connect()
    held = await service.create_session(**WHO)
    watched.take_spans()
    watched.take_metrics()
    on_its_way = Hold()
    firestore_proxy.plan = only("Commit", nth(0, on_its_way))
    append = asyncio.create_task(service.append_event(held, event()))
    assert await asyncio.to_thread(on_its_way.reached.wait, 60)
    append.cancel()
    await asyncio.wait([append])
    span = watched.take_span()
    firestore_proxy.plan = only("Commit", first(1, Refuse("UNAVAILABLE")))
    on_its_way.release(forward=False)
    await service.flush()
    measured = watched.take_metrics()

    assert ("cancelled", "CancelledError", StatusCode.UNSET) == (
        own(span)["outcome"],
        attributes_of(span)["error.type"].rpartition(".")[2],
        span.status.status_code,
    )
    assert 1 == own(span)["firestore.rpcs"]
    assert 1 < measured.of("requests", "append_event", backend="firestore")
    assert 1 == measured.of("operation.duration", "append_event", outcome="cancelled")


async def test_what_a_caller_does_between_two_events_is_its_own(watched: Watched, connect: Connect) -> None:
    """Its spans are not of the iteration, which is not in flight then; one that is left early ends well."""
    service = connect()
    held = await service.create_session(**WHO)
    for number in range(3):
        await service.append_event(held, event(f"{number}"))
    watched.take_all_spans()
    others = in_flight(watched, "iter_events")
    tracer = trace.get_tracer("caller")
    with tracer.start_as_current_span("outer") as outer:
        events = service.iter_events(**WHO)
        await anext(events)
        with tracer.start_as_current_span("between") as between:
            await service.get_user_state(app_name="app", user_id="user")
        meanwhile = watched.take_metrics()
        await events.aclose()
        with pytest.raises(SessionMissingError):
            await anext(service.iter_events(**{**WHO, "session_id": "none"}))
    read, left, missing = watched.take_spans()

    assert between.get_span_context().span_id == parent_of(read)
    assert outer.get_span_context().span_id == parent_of(left) == parent_of(missing)
    assert others == meanwhile.of("operations.in_flight", "iter_events")
    assert 1 == own(left)["firestore.rpcs"]
    assert ("ok", None, StatusCode.UNSET) == ended(left)
    assert ("refused", "SessionMissingError", StatusCode.ERROR) == ended(missing)


def in_flight(watched: Watched, operation: str) -> float:
    """Return how many calls other tests of this process left behind with event loops that they closed."""
    return watched.take_metrics().of("operations.in_flight", operation)


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of a span's parent."""
    return span.parent.span_id if span.parent else None


class TracedSession(AuthorizedSession):
    """A caller's HTTP session with spans of its own."""

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # whatever the client passes
        """Send a request in a span."""
        # The client looks at the bucket itself once a process, of its own accord.
        name = "look" if is_bucket_look(method, url) else "http"
        with trace.get_tracer("http").start_as_current_span(name):
            response: requests.Response = super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half
            return response


async def test_what_is_traced_on_threads_is_of_the_operation(watched: Watched, adk_store_bucket: str) -> None:
    """Requests of the storage client, which blocks."""
    session = TracedSession(AnonymousCredentials())  # type: ignore[no-untyped-call]  # as above
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=session)
    service = GcsArtifactService(adk_store_bucket, client=client)
    await service.save_artifact(**FILE, artifact=types.Part(text="new"))
    spans = watched.take_all_spans()
    (save,) = [span for span in spans if span.name == "gcp_adk_store.save_artifact"]
    sent = [span for span in spans if span.name == "http"]

    assert sent
    assert {save.context.span_id} == {parent_of(span) for span in sent}
    await service.close()


def test_spans_of_a_turn_are_below_those_of_adk(watched: Watched, adk_store: Store) -> None:
    """In one trace, also in the event loop that a synchronous run makes."""
    agent = LlmAgent(name="agent", model=RepeatingModel(), instruction="You help.")
    runner = Runner(app_name="app", agent=agent, session_service=adk_store.sessions)
    asyncio.run(adk_store.sessions.create_session(**WHO))
    watched.take_all_spans()
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    list(runner.run(user_id="user", session_id="session", new_message=message))
    spans = watched.take_all_spans()
    known = {span.context.span_id: span for span in spans}
    appends = [span for span in spans if span.name == "gcp_adk_store.append_event"]

    assert 2 == len(appends)
    for span in appends:
        parent = known[parent_of(span) or 0]
        assert "gcp.vertex.agent" == (parent.instrumentation_scope and parent.instrumentation_scope.name)
        assert parent.context.trace_id == span.context.trace_id


async def test_an_operation_of_a_trace_that_nobody_keeps_is_in_the_metrics_alone(
    watched: Watched, connect: Connect
) -> None:
    """What is called in it learns that it is not kept either, instead of beginning a trace of its own."""
    service = connect()
    context = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(0))
    with trace.use_span(trace.NonRecordingSpan(context)):
        await service.get_user_state(app_name="app", user_id="user")

    assert [] == watched.take_all_spans()
    assert 1 == watched.take_metrics().of("operation.duration", "get_user_state", outcome="ok")


async def test_users_and_sessions_are_named_where_that_is_asked_for(
    watched: Watched, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ADK_STORE_TELEMETRY_IDS; by default spans name the app alone."""
    named = {"user.id": "user", "gen_ai.conversation.id": "session"}
    for setting, wanted in (("", {}), ("false", {}), ("true", named)):
        monkeypatch.setenv("ADK_STORE_TELEMETRY_IDS", setting)
        service = connect()
        held = await service.get_session(**WHO) or await service.create_session(**WHO)
        await service.append_event(held, event())

        for span in watched.take_spans():
            found = attributes_of(span)
            assert wanted == {name: found[name] for name in named if name in found}, setting
    monkeypatch.setenv("ADK_STORE_TELEMETRY_IDS", "maybe")
    with pytest.raises(InvalidInputError, match="ADK_STORE_TELEMETRY_IDS is 'maybe'"):
        await connect().get_session(**WHO)


async def test_ids_of_any_kind_can_be_exported(
    watched: Watched, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As UTF-8, at most 128 characters: an attribute that cannot be encoded ends the export of a batch."""
    monkeypatch.setenv("ADK_STORE_TELEMETRY_IDS", "1")
    service = connect()
    shown = {
        "support": "support",
        "line\nbreak": "line\nbreak",
        "a" * 128: "a" * 128,
        "a" * 129: "a" * 127 + "…",
        "ü" * 400: "ü" * 127 + "…",
        "\ud800" * 2: "\\ud800\\ud800",
        "\ud800" * 100: ("\\ud800" * 100)[:127] + "…",
    }
    for name in shown:
        with pytest.raises(InvalidInputError) if "\ud800" in name else contextlib.nullcontext():
            await service.get_user_state(app_name=name, user_id=name)
    found = [attributes_of(span) for span in watched.take_spans()]

    for attribute in ("gcp_adk_store.app", "user.id"):
        assert [*shown.values()] == [of[attribute] for of in found]

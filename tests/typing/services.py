"""What type checkers say of the services: mypy reads this as a user's program, and nothing runs it."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import Any, assert_type

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.genai import types

from gcp_adk_store import (
    Anchor,
    ArtifactLimits,
    ArtifactReader,
    ArtifactService,
    Checked,
    DlpRedactor,
    Erasure,
    ErasureProgress,
    ErasureReceipt,
    Fault,
    FirestoreSessionService,
    FoundMemory,
    FunctionEmbedder,
    Garbage,
    GcsArtifactService,
    GenaiEmbedder,
    HistoryProof,
    KmsEnvelope,
    LocalKeyWrapper,
    MemoryLimits,
    MemoryPage,
    MemoryService,
    Point,
    PruneReport,
    RedactedCallWarning,
    Redaction,
    ReindexedMemories,
    RotationReport,
    SessionArchive,
    SessionEvent,
    SessionInfo,
    SessionLimits,
    SessionPage,
    SessionService,
    SessionUsage,
    SignedUpload,
    Store,
    StoreCredentials,
    StoredArtifactVersion,
    StoreOptions,
    StoreSettings,
    UnreadableSession,
    UserEvent,
    register,
)
from gcp_adk_store.turns import TurnLease, Turns, TurnStatus


async def stores_are_made_in_three_ways() -> None:
    credentials = StoreCredentials(impersonate_service_account="agent@my-project.iam.gserviceaccount.com")
    cloud = Store.connect(
        project="my-project",
        bucket="my-bucket",
        credentials=credentials,
        on_conflict="merge",
        durability="turn",
        session_limits=SessionLimits(max_in_flight=8),
        artifact_limits=ArtifactLimits(),
        memory_limits=MemoryLimits(),
    )
    assert_type(cloud, Store)
    options: StoreOptions = {"durability": "turn", "session_limits": SessionLimits(max_in_flight=8)}
    assert_type(Store.from_env(**options), Store)
    async with Store.local(":memory:") as store:
        assert_type(store, Store)
        assert_type(store.sessions, SessionService)
        assert_type(store.artifacts, ArtifactService)
        assert_type(store.memory, MemoryService)
        assert_type(store.turns, Turns)
        assert_type(store.has_artifacts, bool)
    assert_type(StoreSettings.from_env(), StoreSettings)
    assert_type(register(), None)


def the_services_are_adks(store: Store) -> None:
    sessions: BaseSessionService = store.sessions
    artifacts: BaseArtifactService = store.artifacts
    memory: BaseMemoryService = store.memory
    Runner(app_name="support", session_service=sessions, artifact_service=artifacts, memory_service=memory)


def services_of_the_cloud_are_those_of_any_storage() -> None:
    sessions: SessionService = FirestoreSessionService(project="my-project", on_conflict="merge")
    assert_type(sessions.limits, SessionLimits)
    artifacts: ArtifactService = GcsArtifactService("my-bucket")
    assert_type(artifacts.bucket_name, str)


async def sessions_are_adks(sessions: SessionService) -> None:
    made = await sessions.create_session(app_name="a", user_id="u", state={"x": 1}, ttl_seconds=60)
    assert_type(made, Session)
    assert_type(await sessions.get_session(app_name="a", user_id="u", session_id="s"), Session | None)
    assert_type(await sessions.append_event(made, Event(author="user")), Event)
    assert_type(await sessions.delete_session(app_name="a", user_id="u", session_id="s"), None)
    assert_type(await sessions.get_user_state(app_name="a", user_id="u"), dict[str, Any])
    page = await sessions.list_sessions_page(app_name="a", order="oldest", labels={"team": "x"})
    assert_type(page, SessionPage)
    assert_type(page.unreadable, list[UnreadableSession])
    assert_type(page.sessions, list[Session])
    assert_type(page.infos, list[SessionInfo])
    assert_type(page.next_cursor, str | None)


async def histories_have_types_of_their_own(sessions: SessionService) -> None:
    events = sessions.iter_events(app_name="a", user_id="u", session_id="s", direction="backward")
    assert_type(events, AsyncGenerator[SessionEvent, None])
    async for each in events:
        assert_type(each.event, Event)
        assert_type(each.cursor, str)
    async for found in sessions.iter_user_events(app_name="a", user_id="u"):
        assert_type(found, UserEvent)
        assert_type(found.session_id, str)
    for at in (
        Point.position(3),
        Point.after_event("e"),
        Point.before_invocation("i"),
        Point.as_of(datetime.now(UTC)),
    ):
        assert_type(at, Point)
        past = await sessions.get_session_at(app_name="a", user_id="u", session_id="s", at=at)
        assert_type(past, Session | None)
    who: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s"}
    assert_type(await sessions.get_session_usage(**who), SessionUsage)
    assert_type(await sessions.get_session_info(**who), SessionInfo | None)
    assert_type(
        await sessions.update_session_info(**who, title="Order 17", labels={"team": None}), SessionInfo
    )
    assert_type(await sessions.verify_session(**who, anchors_of=anchors_of), HistoryProof)
    archive = await sessions.archive_session(**who, before=Point.position(3), dry_run=True)
    assert_type(archive, SessionArchive)


async def anchors_of(epoch: str) -> list[Anchor]:
    return [Anchor(epoch=epoch, revision=1, head="0" * 64, binding=None)]


async def artifacts_are_adks_and_more(artifacts: ArtifactService) -> None:
    part = types.Part(text="notes")
    assert_type(await artifacts.save_artifact(app_name="a", user_id="u", filename="f", artifact=part), int)
    assert_type(await artifacts.load_artifact(app_name="a", user_id="u", filename="f"), types.Part | None)
    assert_type(await artifacts.list_artifact_keys(app_name="a", user_id="u"), list[str])
    assert_type(await artifacts.list_versions(app_name="a", user_id="u", filename="f"), list[int])
    versions = await artifacts.list_artifact_versions(app_name="a", user_id="u", filename="f")
    assert_type(versions, list[ArtifactVersion])
    version = await artifacts.get_artifact_version(app_name="a", user_id="u", filename="f")
    assert_type(version, StoredArtifactVersion | None)
    assert_type(
        await artifacts.save_artifact_file(app_name="a", user_id="u", filename="f", source="plot.png"), int
    )
    reader = await artifacts.open_artifact(app_name="a", user_id="u", filename="f")
    assert_type(reader, ArtifactReader | None)
    if reader:
        assert_type(await reader.read(1024), bytes)
        assert_type(reader.size, int)
    assert_type(await artifacts.get_signed_url(app_name="a", user_id="u", filename="f"), str | None)
    upload = await artifacts.create_upload(app_name="a", user_id="u", filename="f")
    assert_type(upload, SignedUpload)
    assert_type(upload.expires_at, datetime)
    assert_type(await artifacts.delete_user_artifacts(app_name="a", user_id="u", dry_run=True), list[str])


async def memories_are_found_with_scores(memory: MemoryService) -> None:
    found = await memory.search_memories(app_name="a", user_id="u", query="window seat")
    assert_type(found, list[FoundMemory])
    assert_type(found[0].score, float)
    assert_type(await memory.list_memories(app_name="a", user_id="u"), MemoryPage)
    assert_type(await memory.reindex_memories(app_name="a", user_id="u"), ReindexedMemories)
    Store.local(":memory:", embedder=GenaiEmbedder(dimensions=256))
    Store.local(":memory:", embedder=FunctionEmbedder(vectors, name="mine", dimensions=2))


def vectors(texts: object, kind: object) -> list[list[float]]:
    return [[1.0, 0.0] for _ in (texts, kind)]


async def a_store_acts_on_both(store: Store) -> None:
    who: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s"}
    assert_type(await store.fork_session(**who, at=Point.position(1), to_user_id="bob"), Session)
    assert_type(await store.restore_session(**who, at=Point.position(1), keep_as="before"), Session)
    assert_type(await store.delete_session(**who, artifacts=True), None)
    assert_type(await store.prune(app_name="a", idle_days=90, dry_run=True), PruneReport)
    erasure = store.erase_user(app_name="a", user_id="u")
    assert_type(erasure, Erasure)
    assert_type([step async for step in erasure], list[ErasureProgress | ErasureReceipt])
    assert_type(await erasure, ErasureReceipt)
    garbage = store.find_garbage()
    assert_type(garbage, AsyncIterator[Garbage])
    async for each in garbage:
        assert_type(await store.remove_garbage(each), bool)
    faults = [fault async for fault in store.check(app_name="a", full=True, on_progress=checked)]
    assert_type(faults, list[Fault])
    assert_type(await store.repair(faults), list[Fault])


def checked(so_far: Checked) -> None:
    assert_type(so_far.sessions, int)


async def content_is_encrypted(store: Store) -> None:
    Store.local(
        ":memory:", encryption=KmsEnvelope(key=LocalKeyWrapper(bytes(32)), per="user", artifacts=True)
    )
    assert_type(await store.rotate_keys(), RotationReport)


async def turns_run_one_at_a_time(store: Store, runner: Runner) -> None:
    who: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s"}
    async with store.turns.hold(**who, wait_s=5) as hold:
        assert_type(hold, TurnLease)
        assert_type(hold.fence, int)
        assert_type(hold.abort_signal, asyncio.Event)
        assert_type(hold.is_lost, bool)
    assert_type(await store.turns.status(**who), TurnStatus)
    assert_type(await store.turns.request_abort(**who), bool)
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    events = store.turns.run(runner, user_id="u", session_id="s", new_message=message)
    assert_type(events, AsyncGenerator[Event, None])


async def redactors_and_redactions_are_typed() -> None:
    warnings.simplefilter("error", RedactedCallWarning)
    store = Store.local("store", redactors=[DlpRedactor("my-project", info_types=["EMAIL_ADDRESS"])])
    redacted = await store.redact_event(
        app_name="support", user_id="ada", session_id="s", event_id="e", reason="asked for"
    )
    assert_type(redacted, Redaction)

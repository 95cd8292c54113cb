"""A policy that forbids a request answers 412, like a condition that does not hold; errors distinguish it."""

import asyncio
import io
from datetime import timedelta
from typing import Any

import pytest
import requests
from google.adk.events import Event

from gcp_adk_store import AccessDeniedError, ArtifactService, OutcomeUnknownError, SessionService, StoreError
from gcp_adk_store.testing.faults import Call, Fault, Plan, Refuse, no_faults, nth, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import FILE, LARGE, NAME, TEXT, WHO, Act, Stored, garbage_of
from tests.support.clock import Clock

KNOWN: dict[str, Any] = {**WHO, "filename": "known"}
FORBIDDEN = Refuse(412)
HANDFUL = 6


def always(methods: str | tuple[str, ...]) -> Plan:
    """Return a plan that forbids all requests of these kinds."""
    return only(methods, lambda _: FORBIDDEN)


def last_piece(call: Call) -> Fault | None:
    """Forbid what would complete an upload of two pieces: its third request."""
    return FORBIDDEN if call.number % 3 == 2 else None


async def finalize(service: ArtifactService) -> None:
    """Put a file as a browser does, and make it a version."""
    upload = await service.create_upload(**FILE, mime_type="a/b", expiration=timedelta(minutes=1))
    await asyncio.to_thread(requests.put, upload.url, data=b"put", headers=dict(upload.headers), timeout=60)
    await service.finalize_upload(**FILE, upload_id=upload.upload_id)


@pytest.mark.parametrize(
    ("call", "plan", "requests_sent"),
    [
        (lambda s: s.save_artifact(**FILE, artifact=TEXT), always("upload"), HANDFUL),
        (lambda s: s.save_artifact_file(**FILE, source=io.BytesIO(b"x")), always("upload"), HANDFUL),
        (lambda s: s.save_artifact_file(**FILE, source=io.BytesIO(LARGE)), always("upload"), HANDFUL),
        (
            lambda s: s.save_artifact_file(**FILE, source=io.BytesIO(LARGE)),
            only("upload", last_piece),
            HANDFUL + 4,
        ),
        (lambda s: s.copy_artifact(**KNOWN, to_filename="file"), always("rewrite"), HANDFUL + 1),
        (finalize, always("rewrite"), HANDFUL + 2),
    ],
    ids=["insert", "file", "resumable", "piece", "rewrite", "finalize"],
)
async def test_what_a_policy_forbids_to_make_is_no_conflict(
    storage_proxy: StorageProxy,
    service: ArtifactService,
    stored_objects: Stored,
    call: Act,
    plan: Plan,
    requests_sent: int,
) -> None:
    """The error names the bucket and what to check, after a handful of requests."""
    await service.save_artifact(**KNOWN, artifact=TEXT)
    before = storage_proxy.figures.calls.total()
    storage_proxy.plan = plan
    with pytest.raises(StoreError) as caught:
        await call(service)
    sent = storage_proxy.figures.calls.total() - before

    assert AccessDeniedError is type(caught.value)
    assert f"bucket '{service.bucket_name}'" in str(caught.value)
    assert "gcloud org-policies list" in str(caught.value)
    assert caught.value.attempts
    assert sent <= requests_sent
    assert NAME not in stored_objects()


async def test_one_refusal_that_nothing_explains_is_not_believed(
    storage_proxy: StorageProxy, service: ArtifactService
) -> None:
    """Another writer may have been there and gone: the next try decides."""
    storage_proxy.plan = only("upload", nth(0, FORBIDDEN))

    assert 0 == await service.save_artifact(**FILE, artifact=TEXT)
    assert TEXT == await service.load_artifact(**FILE)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("upload", lambda s: s.save_artifact(**FILE, artifact=TEXT)),
        ("delete", lambda s: s.delete_artifact(**KNOWN)),
    ],
    ids=["save", "deletion"],
)
async def test_a_write_that_was_lost_and_then_forbidden_is_unknown(
    storage_proxy: StorageProxy, service: ArtifactService, kind: str, call: Act
) -> None:
    """Its first request may be on its way: AccessDeniedError would say that nothing was written."""
    await service.save_artifact(**KNOWN, artifact=TEXT)
    storage_proxy.plan = only(kind, lambda call: Refuse(503) if call.number == 0 else FORBIDDEN)
    with pytest.raises(StoreError) as caught:
        await call(service)

    assert OutcomeUnknownError is type(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.delete_artifact(**FILE),
        lambda s: s.delete_session_artifacts(**WHO),
        lambda s: s.delete_user_artifacts(app_name="app", user_id="user"),
        lambda s: s._objects.delete(NAME, generation=None),
    ],
    ids=["artifact", "session", "user", "any generation"],
)
async def test_what_a_policy_forbids_to_delete_is_not_called_deleted(
    storage_proxy: StorageProxy, service: ArtifactService, stored_objects: Stored, call: Act
) -> None:
    """It is there, as the request required."""
    await service.save_artifact(**FILE, artifact=TEXT)
    storage_proxy.plan = always("delete")
    with pytest.raises(StoreError) as caught:
        await call(service)

    assert AccessDeniedError is type(caught.value)
    assert f"bucket '{service.bucket_name}'" in str(caught.value)
    assert {NAME: b"one"} == stored_objects()


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("metadata", lambda s: s.get_artifact_version(**FILE, version=0)),
        ("metadata", lambda s: s.load_artifact(**FILE, version=0)),
        ("media", lambda s: s.load_artifact(**FILE)),
        ("media", lambda s: s.load_artifact_to(**FILE, target=io.BytesIO())),
        ("list", lambda s: s.list_versions(**FILE)),
        ("list", lambda s: s.list_artifact_versions(**FILE)),
        ("list", lambda s: s.list_artifact_keys(**WHO)),
    ],
)
async def test_what_a_policy_forbids_to_read_is_a_typed_error(
    storage_proxy: StorageProxy, service: ArtifactService, kind: str, call: Act
) -> None:
    """No read has a condition: nothing internal reaches the caller, and nothing is read again and again."""
    await service.save_artifact(**FILE, artifact=TEXT)
    before = storage_proxy.figures.calls.total()
    storage_proxy.plan = always(kind)
    with pytest.raises(AccessDeniedError, match="gcloud org-policies list"):
        await call(service)

    assert storage_proxy.figures.calls.total() - before <= HANDFUL


async def test_large_content_that_a_policy_forbids_to_put_is_a_typed_error(
    storage_proxy: StorageProxy, sessions: SessionService
) -> None:
    """After a handful of requests; no session is made."""
    storage_proxy.plan = always("upload")
    with pytest.raises(StoreError) as caught:
        await sessions.create_session(**WHO, state={"large": "x" * 100})
    sent = storage_proxy.figures.calls.total()
    storage_proxy.plan = no_faults

    assert AccessDeniedError is type(caught.value)
    assert sent <= HANDFUL
    assert await sessions.get_session(**WHO) is None


async def test_large_content_that_a_policy_forbids_to_renew_is_a_typed_error(
    storage_proxy: StorageProxy, clock: Clock, sessions: SessionService
) -> None:
    """Its custom time stays, and nothing is asked again and again."""
    session = await sessions.create_session(**WHO, state={"large": "x" * 100}, ttl_seconds=7200)
    clock.after(7000)
    await sessions.append_event(session, Event(author="me"))
    clock.after(7000)
    before = storage_proxy.figures.calls.total()
    storage_proxy.plan = always("patch")
    with pytest.raises(AccessDeniedError, match="gcloud org-policies list"):
        await sessions.append_event(session, Event(author="me"))

    assert storage_proxy.figures.faults["refuse"] == 1
    assert storage_proxy.figures.calls.total() - before <= HANDFUL


async def test_a_session_whose_large_content_a_policy_keeps_says_so(
    storage_proxy: StorageProxy, sessions: SessionService, stored_objects: Stored
) -> None:
    """The session is gone, its payload is not: calling again completes it."""
    await sessions.create_session(**WHO, state={"large": "x" * 100})
    storage_proxy.plan = always("delete")
    with pytest.raises(OutcomeUnknownError, match="gcloud org-policies list"):
        await sessions.delete_session(**WHO)
    left = len(stored_objects())
    storage_proxy.plan = no_faults
    await sessions.delete_session(**WHO)

    assert (1, {}) == (left, stored_objects())


async def test_garbage_that_a_policy_keeps_is_not_called_gone(
    storage_proxy: StorageProxy,
    firestore_proxy: FirestoreProxy,
    sessions: SessionService,
    stored_objects: Stored,
) -> None:
    """Neither False, which says that somebody put it again, nor True."""
    assert firestore_proxy.address
    (garbage,) = await garbage_of(sessions)
    storage_proxy.plan = always("delete")
    with pytest.raises(AccessDeniedError, match="gcloud org-policies list"):
        await sessions.remove_garbage(garbage)
    storage_proxy.plan = no_faults

    assert 1 == len(stored_objects())
    assert await sessions.remove_garbage(garbage)
    assert {} == stored_objects()

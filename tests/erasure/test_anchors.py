"""Anchors in another bucket report a history that was written anew."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as google_storage

from gcp_adk_store import (
    AnchorReport,
    InvalidInputError,
    NotProvisionedError,
    Point,
    SessionMissingError,
    Store,
)
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.emulators import Emulator
from tests.erasure.conftest import LIMITS, said
from tests.support.clock import in_days
from tests.support.stored import change, fields_of, session_path
from tests.support.traces import in_folder, traces

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store with a session of several segments and a tail."""
    async with Store.local(tmp_path / "store", session_limits=LIMITS) as store:
        await make(store, "event")
        yield store


@pytest.fixture
def where(tmp_path: Path) -> str:
    """The folder of the anchors."""
    return f"{tmp_path / 'anchors'}"


async def make(store: Store, text: str, count: int = 9) -> None:
    """Make a session whose events say *text*."""
    session = await store.sessions.create_session(**WHO)
    for number in range(count):
        await store.sessions.append_event(session, said(f"{text} {number} {'x' * 150}"))


async def append(store: Store, text: str) -> None:
    """Append one event."""
    session = await read(store.sessions, WHO)
    await store.sessions.append_event(session, said(text))


async def test_what_was_anchored_is_proven(store: Store, tmp_path: Path, where: str) -> None:
    """Each head takes one object, and a second run takes none; later events go beyond the newest anchor."""
    first = await store.anchor(app_name="app", anchors=where)
    again = await store.anchor(app_name="app", user_id="user", anchors=where)
    await append(store, "later")
    other = await store.anchor(**WHO, anchors=where)
    await append(store, "latest")

    proof = await store.verify_session(**WHO, anchors=where)

    assert [(1, 1), (1, 0), (1, 1)] == [(one.sessions, one.written) for one in (first, again, other)]
    assert (11, None, 2, 10) == (proof.events, proof.broken, proof.anchors, proof.anchored)
    assert [] == traces(in_folder(tmp_path / "anchors"), "user")


async def test_an_anchor_shows_a_history_that_was_written_anew(store: Store, where: str) -> None:
    """Its own chain is right, and an older anchor still proves the first events."""
    await store.anchor(app_name="app", anchors=where)
    await append(store, "said")
    await store.anchor(app_name="app", anchors=where)
    real = await fields_of(store, session_path(WHO))
    await store.restore_session(**WHO, at=Point.position(9))
    await append(store, "never said")
    await change(store, session_path(WHO), {"rev": real["rev"]}, without=["restores", "restore_id"])

    alone = await store.verify_session(**WHO)
    broken = (await store.verify_session(**WHO, anchors=where)).broken

    assert alone.broken is None
    assert broken is not None
    assert (9, "rewritten") == (broken.position, broken.change)


async def test_a_restore_is_reported_as_such(store: Store, where: str) -> None:
    """Its events are gone for good, so the anchor does not fit."""
    await store.anchor(app_name="app", anchors=where)
    await store.restore_session(**WHO, at=Point.position(4))

    broken = (await store.verify_session(**WHO, anchors=where)).broken

    assert broken is not None
    assert "it was restored 1 times" in broken.says


async def test_sessions_that_cannot_be_anchored_are_counted(store: Store, where: str) -> None:
    """Those of another format, too; the others are anchored, and one that has ended is none of them."""
    for session_id, fields in (("old", {"format": 1}), ("bad", {"format": "x"})):
        who = {**WHO, "session_id": session_id}
        await store.sessions.create_session(**who)
        await change(store, session_path(who), fields)

    await store.sessions.create_session(**{**WHO, "session_id": "ended"}, ttl_seconds=1)
    with in_days(1):
        report = await store.anchor(app_name="app", anchors=where)

    assert AnchorReport(sessions=3, written=1, unreadable=2) == report


async def test_what_is_missing_or_half_given_is_an_error(store: Store, tmp_path: Path, where: str) -> None:
    """Nothing is written."""
    with pytest.raises(InvalidInputError, match="needs user_id"):
        await store.anchor(app_name="app", session_id="s", anchors=where)
    with pytest.raises(SessionMissingError):
        await store.anchor(**{**WHO, "session_id": "nothing"}, anchors=where)
    ended = {**WHO, "session_id": "ended"}
    await store.sessions.create_session(**ended, ttl_seconds=1)
    with in_days(1), pytest.raises(SessionMissingError):
        await store.anchor(**ended, anchors=where)
    over = Store(sessions=store.sessions, artifacts=None)
    with pytest.raises(InvalidInputError, match=r"use Store\.connect"):
        await over.anchor(app_name="app", anchors=where)
    for nowhere in ("", ":memory:"):
        with pytest.raises(InvalidInputError, match="path of a folder"):
            await store.anchor(app_name="app", anchors=nowhere)
    with pytest.raises(NotProvisionedError, match="gcp-adk-store anchor makes them"):
        await store.verify_session(**WHO, anchors=f"{tmp_path / 'wrong'}")
    with pytest.raises(InvalidInputError, match="ENAMETOOLONG"):
        await store.verify_session(**WHO, anchors="x" * 2000)
    assert not (tmp_path / "wrong").exists()


@pytest.mark.emulators
async def test_a_bucket_of_google_keeps_anchors(
    project: str, adk_store_bucket: str, storage_emulator: Emulator
) -> None:
    """Each is JSON that names nobody; an object that is there is never written again."""
    async with Store.connect(project=project) as store:
        await make(store, "event", 2)
        for _ in range(2):
            await store.anchor(app_name="app", anchors=adk_store_bucket)
        proof = await store.verify_session(**WHO, anchors=adk_store_bucket)
    client = google_storage.Client(
        project=project,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": storage_emulator.address},
    )
    (blob,) = client.list_blobs(adk_store_bucket)

    assert (2, 1) == (proof.anchored, blob.metageneration)
    assert {"format", "epoch", "rev", "head", "binding"} == json.loads(blob.download_as_bytes()).keys()

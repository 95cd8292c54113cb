"""A collector finds what is in nobody's use and nothing else, and takes nothing from under a writer."""

import asyncio
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from click.testing import CliRunner
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    Garbage,
    GarbageKind,
    OutcomeUnknownError,
    SessionLimits,
    SessionService,
    Store,
)
from gcp_adk_store.cli.command import command
from gcp_adk_store.codec.documents import Deletion
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.sessions.lifecycle.format import note_write
from gcp_adk_store.testing.conformance.running import event
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.faults import Refuse, from_nth, no_faults, only
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from tests.services.conftest import APP, USER, WHO, Connect, on_emulators, picture
from tests.support.clock import in_days
from tests.support.stored import change, overwrite, session_path

SMALL = SessionLimits(inline_bytes=10, event_text_bytes=500, state_value_bytes=10, seal_tail_bytes=1000)
RawDocuments = Callable[[], dict[str, dict[str, Any]]]


async def found_by(service: SessionService | ArtifactService | Store) -> list[Garbage]:
    """Return what the collector finds in two days."""
    with in_days(2):
        return [garbage async for garbage in service.find_garbage()]


@pytest.fixture(params=["chunks", "bucket"])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where payloads go: settings of a service."""
    bucket: object = None
    if request.param == "bucket":
        bucket = request.getfixturevalue("adk_store_bucket") if on_emulators(request) else "files"
    return {"bucket": bucket, "limits": SMALL}


@pytest.fixture
def service(request: pytest.FixtureRequest, connect: Connect, place: dict[str, Any]) -> SessionService:
    """A service for which everything is large, on emulators through the clock of the test."""
    if on_emulators(request):
        request.getfixturevalue("firestore_proxy")
    return connect(**place)


@pytest.mark.parametrize("sealed", [False, True])
async def test_what_a_session_was_created_with_stays(
    connect: Connect, place: dict[str, Any], *, sealed: bool
) -> None:
    """A large initial state and a large value in it, also after others replaced them and in a segment."""
    small = {f"key{number}": "x" * 1000 for number in range(70)}
    limits = SessionLimits(state_value_bytes=2000, seal_tail_bytes=1 if sealed else 100_000)
    service = connect(**{**place, "limits": limits})
    held = await service.create_session(**WHO, state={**small, "large": "x" * 3000})
    for letter in "yz":
        await service.append_event(held, event(delta={"large": letter * 3000, "key0": "other"}))
    (garbage,) = await found_by(service)
    assert await service.remove_garbage(garbage), "the value between the first and the last"

    assert [] == await found_by(service)


async def test_what_is_in_use_is_never_found(service: SessionService) -> None:
    """Payloads of events in tail and segments, of texts, of events as a whole, of state in every scope."""
    large = {"mine": "m" * 50, "user:mine": "u" * 50, "app:mine": "a" * 50}
    held = await service.create_session(**WHO, state={"first": "f" * 50, "user:first": "g" * 50})
    for number in range(8):
        await service.append_event(held, picture(os.urandom(20)))
        both = picture(os.urandom(20))
        both.content.parts.append(types.Part(text=f"{number}" * 1000))  # type: ignore[union-attr]  # has parts
        await service.append_event(held, both)
    await service.append_event(held, event("last", delta=large))

    assert [] == await found_by(service)
    assert held == await service.get_session(**WHO)


async def test_payloads_of_values_that_were_replaced_are_removed(
    service: SessionService, connect: Connect, place: dict[str, Any]
) -> None:
    """One of each scope; what replaced them stays."""
    names = ("mine", "user:mine", "app:mine")
    held = await service.create_session(**WHO)
    for letter in "ab":
        await service.append_event(held, event(delta={name: f"{name} {letter}" * 20 for name in names}))
    found = await found_by(service)

    assert [GarbageKind.PAYLOAD] * 3 == [garbage.kind for garbage in found]
    assert [True] * 3 == [await service.remove_garbage(garbage) for garbage in found]
    assert [] == await found_by(service)
    assert held == await connect(**place).get_session(**WHO)


async def test_what_a_session_left_that_firestore_removed_is_found(service: SessionService) -> None:
    """A TTL policy, or somebody's hand, takes the document and leaves what belongs to it."""
    held = await service.create_session(**WHO)
    await service.append_event(held, picture(b"picture" * 10))
    await overwrite(service.storage.documents, {session_path(WHO): None})
    found = await found_by(service)

    assert [GarbageKind.PAYLOAD] == [garbage.kind for garbage in found]
    assert await service.remove_garbage(found[0])
    assert [] == await found_by(service)


async def delete_half(service: SessionService, proxy: FirestoreProxy, **which: Any) -> None:
    """Delete a session, with an outage after the first commit."""
    proxy.plan = only("Commit", from_nth(1, Refuse("UNAVAILABLE")))
    with pytest.raises(OutcomeUnknownError):
        await service.delete_session(**which)
    proxy.plan = no_faults


@pytest.mark.emulators
@pytest.mark.usefixtures("passing")
async def test_an_interrupted_deletion_is_completed(
    service: SessionService, firestore_proxy: FirestoreProxy, raw_documents: RawDocuments
) -> None:
    """With segments and payloads, even where a new session has the id."""
    held = await service.create_session(**WHO)
    for _ in range(6):
        await service.append_event(held, picture(os.urandom(400)))
    await delete_half(service, firestore_proxy, **WHO)
    new = await service.create_session(**WHO)
    await service.append_event(new, picture(b"new" * 100))
    found = await found_by(service)
    assert GarbageKind.DELETION in {garbage.kind for garbage in found}
    for garbage in found:
        assert await service.remove_garbage(garbage)

    assert [] == await found_by(service)
    assert new == await service.get_session(**WHO)
    assert {new._storage_update_marker.split("/")[0]} == {  # type: ignore[union-attr]  # it has one
        fields["epoch"] for fields in raw_documents().values() if "epoch" in fields
    }


async def test_nothing_of_a_document_that_cannot_be_read_is_removed(service: SessionService) -> None:
    """A newer release's, or a damaged one: what it refers to is unknown."""
    held = await service.create_session(**WHO)
    await service.append_event(held, picture(b"picture" * 10))
    documents, path = service.storage.documents, session_path(WHO)
    (before,) = await documents.get([path])
    assert before is not None
    for damage in ({"format": 3}, {"sealed": 7}, {"tail": ['{"adk_store_payloads": 3}']}):
        await overwrite(documents, {path: {**before.fields, **damage}})
        (garbage,) = await found_by(service)

        assert GarbageKind.UNREADABLE is garbage.kind
        assert garbage.reason
        assert not await service.remove_garbage(garbage)
        assert [garbage] == await found_by(service)


Put = Callable[..., None]


@pytest.fixture
def put(storage_emulator: Emulator) -> Put:
    """Put an object of one byte, which may say whose it is, into a bucket, round the library."""

    def post(bucket: str, name: str, owner: str | None = None) -> None:
        objects = f"{storage_emulator.address}/upload/storage/v1/b/{bucket}/o"
        asked = {"uploadType": "media", "name": name}
        requests.post(objects, params=asked, data=b"x", timeout=60).raise_for_status()
        if owner is not None:
            one = f"{storage_emulator.address}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
            requests.patch(one, json={"metadata": {"adkStoreOwner": owner}}, timeout=60).raise_for_status()

    return post


@pytest.mark.emulators
@pytest.mark.usefixtures("firestore_proxy")
@pytest.mark.parametrize("owner", [None, "adk_apps/__x__", "adk_apps/", "adk_apps/a/adk_users/"])
async def test_a_foreign_object_among_payloads_is_left_alone(
    connect: Connect, adk_store_bucket: str, put: Put, owner: str | None
) -> None:
    """It says not what it belongs to, or what cannot be; what comes after it is found."""
    name = "adk-payloads/strange"
    if owner is not None:
        name = f"adk-payloads/{sha256(owner.encode()).hexdigest()[:32]}/shared/{'a' * 64}"
    put(adk_store_bucket, name, owner)
    service = connect(bucket=adk_store_bucket, limits=SMALL)
    held = await service.create_session(**WHO)
    for letter in "ab":
        await service.append_event(held, event(delta={"mine": letter * 50}))
    found = {garbage.kind: garbage for garbage in await found_by(service)}

    assert {GarbageKind.UNREADABLE, GarbageKind.PAYLOAD} == found.keys()
    assert name == found[GarbageKind.UNREADABLE].name
    assert not await service.remove_garbage(found[GarbageKind.UNREADABLE])


async def test_stores_of_other_prefixes_are_not_looked_at(
    service: SessionService, connect: Connect, place: dict[str, Any]
) -> None:
    """Each collects its own."""
    other = connect(**place, prefix="other")
    held = await other.create_session(**WHO)
    for letter in "ab":
        await other.append_event(held, event(delta={"mine": letter * 50}))

    assert [] == await found_by(service)
    assert 1 == len(await found_by(other))


@pytest.mark.emulators
@pytest.mark.usefixtures("passing")
async def test_more_than_a_page_of_payloads_is_scanned_whole(
    service: SessionService,
    place: dict[str, Any],
    firestore_proxy: FirestoreProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Payloads of several chunks, too, whose chunks lie on two pages."""
    monkeypatch.setattr("gcp_adk_store.sessions.read.payloads._SCANNED_AT_ONCE", 2)
    monkeypatch.setattr("gcp_adk_store.cloud.storage.objects._SCANNED_AT_ONCE", 2)
    monkeypatch.setattr("gcp_adk_store.codec.documents.CHUNK_BYTES", 8)
    held = await service.create_session(**WHO)
    for number in range(7):
        await service.append_event(held, event(delta={"mine": f"{number}" * 50}))
    gone = [await service.create_session(app_name=APP, user_id=USER) for _ in range(3)]
    for session in gone:
        await service.append_event(session, picture(b"gone" * 10))
        await delete_half(service, firestore_proxy, app_name=APP, user_id=USER, session_id=session.id)
    found = await found_by(service)
    kinds = [garbage.kind for garbage in found]

    assert 3 == kinds.count(GarbageKind.DELETION)
    # Objects go before the commit that was lost, chunks with it.
    assert (9 if place["bucket"] is None else 6) == kinds.count(GarbageKind.PAYLOAD)
    assert all([await service.remove_garbage(garbage) for garbage in found])
    assert [] == await found_by(service)
    assert held == await service.get_session(**WHO)


@pytest.mark.emulators
async def test_uploads_that_nobody_finalized_are_removed(adk_store: Store, put: Put) -> None:
    """What a browser put a day ago; versions of artifacts stay."""
    name = f"adk-store-uploads/{'a' * 32}/{'b' * 32}"
    put(adk_store.artifacts.bucket_name, name)
    await adk_store.artifacts.save_artifact(**WHO, filename="f", artifact=types.Part(text="stays"))
    (garbage,) = await found_by(adk_store)

    assert (GarbageKind.UPLOAD, name, 1) == (garbage.kind, garbage.name, garbage.size)
    assert await adk_store.remove_garbage(garbage)
    assert [] == await found_by(adk_store)
    assert types.Part(text="stays") == await adk_store.artifacts.load_artifact(**WHO, filename="f")


def test_the_command_leaves_alone_what_cannot_be_read(folder: Path) -> None:
    """With a status that a job notices; a store that it cannot look at has another one."""

    async def damage() -> None:
        async with Store.local(folder, session_limits=SMALL) as store:
            await store.sessions.create_session(**WHO, state={"mine": "a" * 50})
            await change(store, session_path(WHO), {"format": 3})

    asyncio.run(damage())
    with in_days(2):
        left = CliRunner().invoke(command, ["gc", "--local", f"{folder}"])
    wrong = CliRunner().invoke(command, ["gc", "--bucket", "gs://no"])

    assert (1, 2) == (left.exit_code, wrong.exit_code)
    assert "left alone" in left.stdout
    assert "bucket" in wrong.stderr


def test_the_command_without_a_bucket_leaves_what_may_have_artifacts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It remains, with a status that a job notices; with the bucket it goes."""
    key = SessionKey(app=APP, user=USER, session="fork")
    unfinished = Deletion("epoch", sealed=0, spilled=frozenset(), making=True, artifacts=True)

    async def begin() -> None:
        async with Store.local(folder) as store:
            storage = store.sessions.storage
            await storage.documents.commit([note_write(storage.layout, key, unfinished)])

    asyncio.run(begin())
    with in_days(2):
        with monkeypatch.context() as patched:
            patched.setattr(Store, "has_artifacts", False)
            patched.setattr(Store, "_session_artifacts", lambda _: None)
            left = CliRunner().invoke(command, ["gc", "--local", f"{folder}"])
        removed = CliRunner().invoke(command, ["gc", "--local", f"{folder}"])

    assert (1, 0) == (left.exit_code, removed.exit_code), left.output
    assert "name the bucket" in left.stderr
    assert "1 left alone" in left.stdout
    assert "1 removed" in removed.stdout

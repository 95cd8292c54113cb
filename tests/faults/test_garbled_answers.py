"""An answer that cannot be read is a lost one; what it lacks is named with the object that lacks it."""

import io
import json
from collections import Counter
from typing import Any

import pytest
import requests
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    GcsArtifactService,
    OutcomeUnknownError,
    SessionService,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.testing.faults import Fault, Garble, Plan, Refuse, from_nth, no_faults, nth, only
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import FILE, LARGE, NAME, TEXT, WHO, Act, garbage_of

WORDS = types.Part(text="some words")


def answers(body: bytes, *, with_headers: bool = True) -> Garble:
    """Return the fault that answers *body* instead."""
    return Garble(lambda _: body, with_headers=with_headers)


GARBLES: dict[str, Garble] = {
    "half": Garble(),
    "nothing": answers(b""),
    "page": answers(b"<html>secret</html>"),
    "page of a proxy": answers(b"<html>secret</html>", with_headers=False),
    "null": answers(b"null"),
    "list": answers(b'["secret", 1]'),
    "text": answers(b'"secret"', with_headers=False),
}


async def read_in_parts(service: ArtifactService) -> list[bytes]:
    """Return an artifact's bytes as a reader gives them."""
    reader = await service.open_artifact(**FILE)
    assert reader is not None
    return [await reader.read(5), await reader.read()]


READS: list[tuple[str, Act]] = [
    ("metadata", lambda service: service.get_artifact_version(**FILE, version=0)),
    ("metadata", lambda service: service.load_artifact(**FILE, version=0)),
    ("media", lambda service: service.load_artifact(**FILE, version=0)),
    ("media", lambda service: service.load_artifact(**FILE)),
    ("media", read_in_parts),
    ("list", lambda service: service.list_artifact_versions(**FILE)),
    ("list", lambda service: service.load_artifact(**FILE)),
    ("list", lambda service: service.list_artifact_keys(**WHO)),
]
WRITES: list[tuple[str, Act]] = [
    ("upload", lambda service: service.save_artifact(**FILE, artifact=WORDS)),
    ("upload", lambda service: service.save_artifact_file(**FILE, source=io.BytesIO(LARGE))),
    ("rewrite", lambda service: service.copy_artifact(**FILE, to_filename="file")),
    ("list", lambda service: service.save_artifact(**FILE, artifact=WORDS)),
]
GARBLED = [(*write, 0) for write in WRITES] + [(*WRITES[1], number) for number in (1, 2)]
"""Each request of each write: what is large goes in three."""


@pytest.fixture
async def bucket(storage_proxy: StorageProxy, adk_store_bucket: str) -> str:
    """A bucket with one version of an artifact, behind the proxy."""
    assert storage_proxy.address
    service = GcsArtifactService(adk_store_bucket)
    await service.save_artifact(**FILE, artifact=WORDS)
    await service.close()
    return adk_store_bucket


@pytest.mark.sample(9)
@pytest.mark.parametrize(("kind", "read"), READS)
@pytest.mark.parametrize("garble", GARBLES)
async def test_a_read_whose_answer_is_garbled_is_repeated(
    storage_proxy: StorageProxy, bucket: str, kind: str, read: Act, garble: str
) -> None:
    """Once, it is not noticed."""
    expected = await read(GcsArtifactService(bucket))
    storage_proxy.plan = only(kind, nth(0, GARBLES[garble]))

    assert expected == await read(GcsArtifactService(bucket))
    assert Counter(garble=1) == storage_proxy.figures.faults


@pytest.mark.sample(9)
@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize(("kind", "read"), READS)
@pytest.mark.parametrize("garble", GARBLES)
async def test_a_read_whose_answers_are_all_garbled_says_that_the_service_does_not_answer(
    storage_proxy: StorageProxy, bucket: str, kind: str, read: Act, garble: str
) -> None:
    """At its deadline, and without the words of who answered."""
    storage_proxy.plan = only(kind, lambda _: GARBLES[garble])
    with pytest.raises(StoreError) as caught:
        await read(GcsArtifactService(bucket))

    assert UnavailableError is type(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.sample(9)
@pytest.mark.parametrize(("kind", "write", "number"), GARBLED)
@pytest.mark.parametrize("garble", GARBLES)
async def test_a_write_whose_answer_is_garbled_happens_once(
    storage_proxy: StorageProxy, bucket: str, kind: str, write: Act, garble: str, number: int
) -> None:
    """Whichever of its requests it is; the object is recognised by its save id, a piece by what arrived."""
    storage_proxy.plan = only(kind, nth(number, GARBLES[garble]))

    assert 1 == await write(GcsArtifactService(bucket))
    assert Counter(garble=1) == storage_proxy.figures.faults
    assert [0, 1] == await GcsArtifactService(bucket).list_versions(**FILE)


@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize("garble", ["half", "page of a proxy", "list"])
async def test_an_upload_whose_last_answers_are_all_garbled_is_unknown(
    storage_proxy: StorageProxy, bucket: str, garble: str
) -> None:
    """All of it arrived, and nobody could get the answer."""

    def plan(call: Any) -> Fault | None:
        return GARBLES[garble] if call.number > 1 else None

    storage_proxy.plan = only("upload", plan)
    service = GcsArtifactService(bucket)
    with pytest.raises(OutcomeUnknownError):
        await service.save_artifact_file(**FILE, source=io.BytesIO(LARGE))

    assert [0, 1] == await GcsArtifactService(bucket).list_versions(**FILE)


async def test_an_upload_of_which_nothing_is_kept_ends(storage_proxy: StorageProxy, bucket: str) -> None:
    """Each answer says that no byte arrived: it is not sent for ever."""
    storage_proxy.plan = only("upload", lambda call: Garble(with_headers=False) if call.number else None)
    with pytest.raises(UnavailableError, match="stored none of the sent bytes"):
        await GcsArtifactService(bucket).save_artifact_file(**FILE, source=io.BytesIO(LARGE))

    assert storage_proxy.figures.faults["garble"] <= 10


def flipped(body: bytes) -> bytes:
    """Return *body* with other bytes where the artifact's are, of the same length."""
    return body.replace(b"some words", b"same words").replace(LARGE[:1000], LARGE[:1000][::-1], 1)


async def to_a_file(service: ArtifactService) -> None:
    """Load an artifact to a file."""
    await service.load_artifact_to(**FILE, target=io.BytesIO())


async def whole(service: ArtifactService) -> None:
    """Read all of an artifact by its reader."""
    reader = await service.open_artifact(**FILE)
    assert reader is not None
    await reader.read()


@pytest.mark.parametrize(
    "read",
    [
        lambda service: service.load_artifact(**FILE),
        lambda service: service.load_artifact(**FILE, version=0),
        to_a_file,
        whole,
    ],
    ids=["latest", "version", "file", "parts"],
)
async def test_bytes_that_changed_are_reported_at_once_by_every_reader(
    storage_proxy: StorageProxy, bucket: str, read: Act
) -> None:
    """TLS would have ended the connection, so a repetition hardly helps; a later call may."""
    service = GcsArtifactService(bucket)
    storage_proxy.plan = only("media", lambda _: Garble(flipped))
    before = storage_proxy.figures.calls["media"]
    with pytest.raises(StoredDataError, match="the bytes do not match their CRC32C"):
        await read(service)
    assert 1 == storage_proxy.figures.calls["media"] - before

    storage_proxy.plan = no_faults
    await read(service)


TO_SPOIL: list[tuple[str, Act, Plan]] = [
    ("small", WRITES[0][1], lambda _: Garble(flipped, part="request")),
    ("large", WRITES[1][1], lambda _: Garble(flipped, part="request")),
    ("refused with 412", WRITES[0][1], lambda call: Refuse(412) if call.number < 2 else None),
]


@pytest.mark.parametrize(
    ("write", "plan"), [each[1:] for each in TO_SPOIL], ids=[each[0] for each in TO_SPOIL]
)
async def test_an_upload_whose_bytes_change_on_the_way_stores_nothing_and_blames_no_policy(
    storage_proxy: StorageProxy, bucket: str, write: Act, plan: Plan
) -> None:
    """Cloud Storage refuses it with 400, other servers with 412; it takes the same request without bytes."""
    service = GcsArtifactService(bucket)
    storage_proxy.plan = only("upload", plan)
    with pytest.raises(StoreError, match="other bytes arrived than were sent") as caught:
        await write(service)
    assert UnavailableError is type(caught.value)
    assert [0] == await service.list_versions(**FILE)

    storage_proxy.plan = no_faults
    assert 1 == await write(service)


async def test_a_deletion_that_is_answered_without_a_body_is_done(
    storage_proxy: StorageProxy, bucket: str
) -> None:
    """Cloud Storage answers 204, other servers of its API 200: no request is repeated."""
    service = GcsArtifactService(bucket)
    for _ in range(19):
        await service.save_artifact(**FILE, artifact=WORDS)
    storage_proxy.plan = only("delete", lambda _: Garble(lambda _: b"", status=200))
    before = storage_proxy.figures.calls.total()
    await service.delete_artifact(**FILE)

    assert 1 + 20 == storage_proxy.figures.calls.total() - before
    assert [] == await service.list_versions(**FILE)


async def test_a_deletion_that_is_answered_with_a_page_is_repeated(
    storage_proxy: StorageProxy, bucket: str
) -> None:
    """It is not an answer of Cloud Storage."""
    service = GcsArtifactService(bucket)
    storage_proxy.plan = only("delete", nth(0, Garble(lambda _: b"<html>", status=200)))
    await service.delete_artifact(**FILE)

    assert 2 == storage_proxy.figures.calls["delete"]


def test_a_garbled_answer_has_the_length_of_what_comes(storage_proxy: StorageProxy, bucket: str) -> None:
    """Its status stays, its headers as the fault says; what has no body stays as it is."""
    name = f"{storage_proxy.address}/storage/v1/b/{bucket}/o/app%2Fuser%2Fsession%2Ffile%2F0"
    found = []
    with requests.Session() as client:
        for with_headers in (True, False):
            storage_proxy.plan = from_nth(0, Garble(with_headers=with_headers))
            found.append(client.get(name, params={"alt": "media"}, timeout=60))
        gone = client.delete(name, timeout=60)

    assert [(200, b"some ", "5")] * 2 == [
        (answer.status_code, answer.content, answer.headers["Content-Length"]) for answer in found
    ]
    assert [True, False] == ["X-Goog-Generation" in answer.headers for answer in found]
    assert (204, b"") == (gone.status_code, gone.content)


FIELDS = {"size": "size", "generation": "generation", "timeCreated": "time_created"}


def without(field: str, value: str | None = None) -> Garble:
    """Return the fault that takes *field* out of objects, or gives it another *value*."""

    def change(body: bytes) -> bytes:
        answer = json.loads(body)
        for resource in answer.get("items", [answer]):
            resource.pop(field, None)
            if value is not None:
                resource[field] = value
        return json.dumps(answer).encode()

    return Garble(change)


@pytest.fixture
async def saved(service: ArtifactService, adk_store_bucket: str) -> ArtifactService:
    """The service, which does not know that it has one version."""
    await GcsArtifactService(adk_store_bucket).save_artifact(**FILE, artifact=TEXT)
    return service


@pytest.mark.parametrize(
    "read",
    [
        lambda service: service.list_artifact_versions(**FILE),
        lambda service: service.get_artifact_version(**FILE),
        lambda service: service.get_artifact_version(**FILE, version=0),
        lambda service: service.load_artifact(**FILE),
        lambda service: service.load_artifact(**FILE, version=0),
        lambda service: service.load_artifact_to(**FILE, target=io.BytesIO()),
        lambda service: service.open_artifact(**FILE),
        lambda service: service.copy_artifact(**FILE, to_filename="other"),
    ],
)
async def test_an_object_without_a_field_is_named(
    storage_proxy: StorageProxy, saved: ArtifactService, read: Act
) -> None:
    """By whichever method reads it."""
    for field, name in FIELDS.items():
        storage_proxy.plan = only(("list", "metadata"), from_nth(0, without(field)))
        with pytest.raises(StoredDataError) as caught:
            await read(saved)

        assert str(caught.value).endswith(f": object '{NAME}' has no {name}")


async def test_an_object_whose_field_is_damaged_is_named(
    storage_proxy: StorageProxy, saved: ArtifactService
) -> None:
    """Without what stands there."""
    for field, name in FIELDS.items():
        storage_proxy.plan = only("list", from_nth(0, without(field, "secret")))
        with pytest.raises(StoredDataError) as caught:
            await saved.list_artifact_versions(**FILE)

        assert str(caught.value).endswith(f": the {name} of object '{NAME}' cannot be read")


async def test_a_payload_without_a_size_is_named_to_a_collector(
    storage_proxy: StorageProxy, sessions: SessionService
) -> None:
    """It is neither collected nor passed over."""
    storage_proxy.plan = only("list", lambda _: without("size"))
    with pytest.raises(StoredDataError, match=r"object 'adk-payloads/.*' has no size"):
        await garbage_of(sessions)

"""Damage what an artifact service stored, at random, and call everything that reads it."""

import asyncio
import io
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    ArtifactService,
    GcsArtifactService,
    InvalidInputError,
    StoredArtifactVersion,
    StoredDataError,
    StoreError,
)
from tests.support.damage import BROKEN_JSON, HUSH, JSON
from tests.support.lengths import at_length

T = TypeVar("T")

BOUNDS = settings(max_examples=at_length(5, 40), derandomize=True, suppress_health_check=list(HealthCheck))

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
ROOM = 7000
"""Bytes that fit into metadata."""

URIS = st.sampled_from(
    [
        "gs://bucket/file",
        "artifact://",
        "artifact://apps/app/users/user/sessions/session/artifacts/f/versions/0",
        "artifact://apps/app/users/user/sessions/session/artifacts/whole/versions/0",
        "artifact://apps/app/users/user/sessions/session/artifacts/none/versions/0",
        "artifact://apps/app/users/other/artifacts/f/versions/0",
        f"artifact://apps/app/users/user/sessions/session/artifacts/f/versions/{'9' * 400}",
        f"artifact://apps/app/users/user/sessions/session/artifacts/{'f' * 2000}/versions/0",
        "",
        "\x00",
    ]
)
TEXTS = (
    BROKEN_JSON.filter(lambda text: len(text) < ROOM)
    | st.just("[" * ROOM)
    | JSON.map(lambda value: json.dumps({"k": value}))
    | st.sampled_from(["true", "false", '{"a":1}', '[["a",1]]', "ü"])
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "adkStoreJson": TEXTS,
        "adkIsText": st.sampled_from(["true", "false", ""]),
        "adkDisplayName": st.sampled_from(["", "ü"]),
        "adkFileUri": URIS,
        "file_uri": URIS,
        "adkFileMimeType": st.sampled_from(["", "a/b", "ü"]),
        "adkStoreSaveId": st.just("another"),
        "source": st.just("text"),
    },
).filter(lambda metadata: sum(map(len, metadata.values())) < ROOM)
TYPES = st.sampled_from(["text/plain", "application/octet-stream", "", "x"])
NAMES = st.sampled_from(["0", "1", "00", "01", "-1", "x", "", "9" * 30, "0/0", "1e3", "١"])
DATA = st.sampled_from([b"", b"words", b"\xff\xfe", HUSH.encode()])


@pytest.fixture
def service(adk_store_bucket: str, runner: asyncio.Runner) -> Iterator[ArtifactService]:
    """A service on a bucket of its own."""
    service = GcsArtifactService(adk_store_bucket, project="demo")
    yield service
    runner.run(service.close())


@pytest.fixture
def bucket(service: ArtifactService) -> Iterator[Any]:
    """The same bucket with Google's client."""
    client = storage.Client(project="demo", credentials=AnonymousCredentials())
    yield client.bucket(service.bucket_name)
    client.close()


async def outcomes(service: ArtifactService, named: dict[str, Any]) -> dict[str, Any]:
    """Return what each call gives, or the error of this library that it raises."""

    async def opened() -> bytes | None:
        reader = await service.open_artifact(**named)
        return None if reader is None else await reader.read()

    async def written() -> bytes:
        target = io.BytesIO()
        await service.load_artifact_to(**named, target=target)
        return target.getvalue()

    calls: dict[str, Coroutine[Any, Any, Any]] = {
        "load": service.load_artifact(**named),
        "load_first": service.load_artifact(**named, version=0),
        "written": written(),
        "opened": opened(),
        "keys": service.list_artifact_keys(**WHO),
        "numbers": service.list_versions(**named),
        "versions": service.list_artifact_versions(**named),
        "version": service.get_artifact_version(**named),
        "url": service.get_authenticated_url(**named),
        "copied": service.copy_artifact(**named, to_filename="copy"),
        "saved": service.save_artifact(**named, artifact=types.Part(text="after")),
        "removed": service.delete_artifact(**named),
    }
    found: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            found[name] = await call
        except StoreError as exc:
            found[name] = exc
    return found


def test_no_damage_of_an_object_crashes_a_reader(
    service: ArtifactService, bucket: Any, runner: asyncio.Runner
) -> None:
    """Every call on an artifact with one strange object: its bytes, or a typed error that says which."""
    runner.run(service.save_artifact(**WHO, filename="whole", artifact=types.Part(text="whole")))
    files = iter(range(10**6))

    @BOUNDS
    @given(METADATA, TYPES, NAMES, DATA)
    def damage_one(metadata: dict[str, str], kind: str, name: str, data: bytes) -> None:
        # Names of their own: nothing has to be restored.
        filename = f"f{next(files)}"
        named = {**WHO, "filename": filename}
        # By others: who saves knows what is the latest, and looks no further than the next number.
        bucket.blob(f"app/user/session/{filename}/0").upload_from_string("first", "text/plain")
        blob = bucket.blob(f"app/user/session/{filename}/{name}")
        blob.metadata = metadata
        blob.upload_from_string(data, content_type=kind)
        found = runner.run(outcomes(service, named))
        for call, result in found.items():
            if isinstance(result, StoreError):
                assert isinstance(result, (StoredDataError, InvalidInputError)), (call, result)
                assert HUSH not in str(result)
                assert filename in str(result) or type(result) is InvalidInputError
        numbers = found["numbers"]
        valid = name if name in {"0", "1", "9" * 30} else None
        elsewhere = metadata.get("adkFileUri") or metadata.get("file_uri")

        assert sorted({0, *([int(valid)] if valid else [])}) == numbers
        assert {filename, "whole"} <= set(found["keys"])
        if valid and not elsewhere:
            assert data == (found["opened"] or b"")
            assert isinstance(found["written"], StoredDataError) or data == found["written"]
        for result in (found["version"], *(found["versions"] if isinstance(found["versions"], list) else ())):
            assert isinstance(result, (StoredArtifactVersion, StoreError))

    damage_one()


async def test_a_file_stays_as_it_was_where_metadata_is_damaged(
    service: ArtifactService, bucket: Any, tmp_path: Path
) -> None:
    """The bytes are there, but the caller gets an error: then nothing is replaced."""
    blob = bucket.blob("app/user/session/f/0")
    blob.metadata = {"adkStoreJson": "{"}
    blob.upload_from_string(b"new")
    target = tmp_path / "target"
    target.write_bytes(b"old")
    with pytest.raises(StoredDataError, match="adkStoreJson of object 'app/user/session/f/0'"):
        await service.load_artifact_to(**WHO, filename="f", target=target)

    assert b"old" == target.read_bytes()


@pytest.mark.parametrize(
    ("metadata", "data", "message"),
    [
        ({"adkStoreJson": "[" * ROOM}, b"", "object 'app/user/session/f/0' is not a JSON object"),
        (
            {"adkIsText": "true"},
            b"\xff",
            "object 'app/user/session/f/0' is marked as text, but its bytes are not UTF-8",
        ),
    ],
)
async def test_a_damaged_artifact_is_reported_by_its_object(
    adk_store_bucket: str, metadata: dict[str, str], data: bytes, message: str
) -> None:
    """Whoever repairs it knows where to look."""
    client: Any = storage.Client(project="demo", credentials=AnonymousCredentials())
    blob = client.bucket(adk_store_bucket).blob("app/user/session/f/0")
    blob.metadata = metadata
    blob.upload_from_string(data)
    client.close()
    service = GcsArtifactService(adk_store_bucket, project="demo")
    call = service.load_artifact if "adkIsText" in metadata else service.get_artifact_version
    with pytest.raises(StoredDataError, match=message):
        await call(**WHO, filename="f")
    await service.close()

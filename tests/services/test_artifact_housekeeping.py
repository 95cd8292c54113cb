"""Artifacts are copied, kept for a while, and removed by session and by user."""

import asyncio
import gzip
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
from google.adk.platform import time as platform_time
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client
from google.genai import types

from gcp_adk_store import ArtifactService, GcsArtifactService, InvalidInputError
from gcp_adk_store.testing.conformance.running import text
from tests.services.conftest import APP, SESSION, USER, WHO

REPORT: dict[str, Any] = {**WHO, "filename": "report.txt"}
KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"


@pytest.fixture
def bucket(artifacts: ArtifactService) -> Bucket:
    """The bucket, seen by Google's own client."""
    return Client(project="demo", credentials=AnonymousCredentials()).bucket(artifacts.bucket_name)


async def save_some(artifacts: ArtifactService) -> None:
    """Save artifacts of two users, in two sessions and of their own, with several versions."""
    for user in (USER, "other"):
        for session in (SESSION, "second/ü"):
            for name in ("a", "a/0", "user:shared"):
                where: dict[str, Any] = {"app_name": APP, "user_id": user, "session_id": session}
                for words in ("old", "new"):
                    await artifacts.save_artifact(**where, filename=name, artifact=text(words))


async def keys(artifacts: ArtifactService, user: str, session: str) -> list[str]:
    """Return the filenames that a session shows."""
    return await artifacts.list_artifact_keys(app_name=APP, user_id=user, session_id=session)


async def test_artifacts_go_with_their_session_or_their_user(artifacts: ArtifactService) -> None:
    """Others stay, of the user's own as well; a dry run removes nothing; numbers start again."""
    await save_some(artifacts)
    planned = await artifacts.delete_session_artifacts(**WHO, dry_run=True)
    kept = await keys(artifacts, USER, SESSION)
    removed = await artifacts.delete_session_artifacts(**WHO)

    assert ["a", "a/0"] == planned == removed
    assert ["a", "a/0", "user:shared"] == kept
    assert ["user:shared"] == await keys(artifacts, USER, SESSION)
    assert kept == await keys(artifacts, USER, "second/ü") == await keys(artifacts, "other", SESSION)
    assert [] == await artifacts.delete_session_artifacts(**WHO)
    assert 0 == await artifacts.save_artifact(**WHO, filename="a", artifact=text("again"))
    assert 4 == await artifacts.save_artifact(**WHO, filename="user:shared", artifact=text("again"))
    with pytest.raises(InvalidInputError, match="reserved value 'user'"):
        await artifacts.delete_session_artifacts(app_name=APP, user_id=USER, session_id="user")

    planned = await artifacts.delete_user_artifacts(app_name=APP, user_id=USER, dry_run=True)
    left = await keys(artifacts, USER, SESSION)
    removed = await artifacts.delete_user_artifacts(app_name=APP, user_id=USER)

    assert (
        sorted([f"{SESSION}/a", "second%2Fü/a", "second%2Fü/a/0", "user/user:shared"]) == planned == removed
    )
    assert ["a", "user:shared"] == left
    assert [[], []] == [await keys(artifacts, USER, session) for session in (SESSION, "second/ü")]
    assert kept == await keys(artifacts, "other", SESSION)
    assert 0 == await artifacts.save_artifact(**WHO, filename="user:shared", artifact=text("again"))


@pytest.mark.emulators
async def test_a_packed_object_is_copied_and_unpacked_whole(
    artifacts: ArtifactService, bucket: Bucket
) -> None:
    """As others may put it there; parts of it cannot be read."""
    blob = bucket.blob(f"{APP}/{USER}/{SESSION}/report.txt/0")
    blob.content_encoding = "gzip"
    blob.metadata = {"adkIsText": "true"}
    blob.upload_from_string(gzip.compress(b"packed words"), content_type="text/plain")
    await artifacts.copy_artifact(**REPORT, to_filename="copy")
    written = io.BytesIO()
    await artifacts.load_artifact_to(**WHO, filename="copy", target=written)

    assert text("packed words") == await artifacts.load_artifact(**WHO, filename="copy")
    assert b"packed words" == written.getvalue()
    with pytest.raises(InvalidInputError, match="stored as gzip"):
        await artifacts.open_artifact(**REPORT)


@pytest.mark.emulators
async def test_what_is_no_artifact_is_not_removed(artifacts: ArtifactService, bucket: Bucket) -> None:
    """A neighbour's objects below the same names stay."""
    await artifacts.save_artifact(**REPORT, artifact=text("words"))
    strays = [f"{APP}/{USER}/{SESSION}/7", f"{APP}/{USER}/{SESSION}/report.txt/readme"]
    for name in strays:
        bucket.blob(name).upload_from_string(b"")
    await artifacts.delete_session_artifacts(**WHO)
    await artifacts.delete_user_artifacts(app_name=APP, user_id=USER)

    assert strays == [blob.name for blob in bucket.list_blobs()]


@pytest.mark.parametrize(
    "part",
    [
        text("ünï"),
        types.Part(inline_data=types.Blob(data=b"\x00", mime_type="image/png", display_name="Ünï")),
        types.Part(file_data=types.FileData(file_uri="gs://a/b", mime_type="text/csv")),
    ],
    ids=["text", "bytes", "file"],
)
async def test_a_copy_is_the_next_version_of_its_target(artifacts: ArtifactService, part: types.Part) -> None:
    """With content type, names and metadata, but a save of its own."""
    await artifacts.save_artifact(**REPORT, artifact=part, custom_metadata={"n": [1], "s": "t"})
    await artifacts.save_artifact(**REPORT, artifact=text("newer"))
    await artifacts.save_artifact(**WHO, filename="copy", artifact=text("there already"))
    numbers = [
        await artifacts.copy_artifact(**REPORT, version=0, to_filename="copy"),
        await artifacts.copy_artifact(**REPORT, version=0, to_filename="user:copy"),
        await artifacts.copy_artifact(**REPORT, version=0, to_session_id="elsewhere"),
        await artifacts.copy_artifact(**REPORT, to_user_id="other"),
    ]
    described = await artifacts.get_artifact_version(**WHO, filename="copy")

    assert [1, 0, 0, 0] == numbers
    assert part == await artifacts.load_artifact(**WHO, filename="copy")
    assert part == await artifacts.load_artifact(**WHO, filename="user:copy")
    assert part == await artifacts.load_artifact(**{**REPORT, "session_id": "elsewhere"})
    assert text("newer") == await artifacts.load_artifact(**{**REPORT, "user_id": "other"})
    assert described is not None
    assert {"n": [1], "s": "t"} == described.custom_metadata


async def test_what_is_absent_is_not_copied(artifacts: ArtifactService) -> None:
    """Nothing is made of nothing; a copy that could not be loaded is refused."""
    uri = f"artifact://apps/{APP}/users/{USER}/sessions/{SESSION}/artifacts/a/versions/0"
    part = types.Part(file_data=types.FileData(file_uri=uri))
    await artifacts.save_artifact(**REPORT, artifact=part)

    assert None is await artifacts.copy_artifact(**WHO, filename="none", to_filename="copy")
    with pytest.raises(InvalidInputError, match="must stay within the same app and user scope"):
        await artifacts.copy_artifact(**REPORT, to_user_id="other")
    with pytest.raises(InvalidInputError, match="must stay within the same session scope"):
        await artifacts.copy_artifact(**REPORT, to_session_id="elsewhere")
    with pytest.raises(InvalidInputError, match="reserved value 'user'"):
        await artifacts.copy_artifact(**REPORT, to_session_id="user")
    assert [] == await artifacts.list_artifact_keys(app_name=APP, user_id=USER, session_id="elsewhere")


@pytest.mark.emulators
async def test_a_version_may_be_kept_for_a_while(artifacts: ArtifactService, bucket: Bucket) -> None:
    """Its custom time is for a lifecycle rule of the bucket; until that acts it can be loaded."""
    now = datetime.now(UTC).replace(microsecond=0)
    platform_time.set_time_provider(now.timestamp)
    week = timedelta(days=7)
    await artifacts.save_artifact(**REPORT, artifact=text("0"), expires_after=week)
    await artifacts.save_artifact(**REPORT, artifact=text("1"))
    upload = await artifacts.create_upload(**REPORT)
    await asyncio.to_thread(requests.put, upload.url, b"2", headers=dict(upload.headers), timeout=60)
    await artifacts.finalize_upload(**REPORT, upload_id=upload.upload_id, expires_after=week)
    times = [bucket.get_blob(f"{APP}/{USER}/{SESSION}/report.txt/{n}").custom_time for n in range(3)]

    assert [now + week, None, now + week] == times
    assert text("0") == await artifacts.load_artifact(**REPORT, version=0)


@pytest.mark.emulators
async def test_key_and_storage_class_go_with_what_is_saved(
    artifacts: ArtifactService, bucket: Bucket
) -> None:
    """Those of the service, or of one save; in one request, from a file, and in copies."""
    service = GcsArtifactService(artifacts.bucket_name, kms_key_name=KEY, storage_class="NEARLINE")
    await service.save_artifact(**REPORT, artifact=text("0"))
    await service.save_artifact(**REPORT, artifact=text("1"), storage_class="ARCHIVE")
    await service.save_artifact_file(**REPORT, source=io.BytesIO(b"x" * 9 * 2**20))
    await service.copy_artifact(**REPORT, version=0, to_filename="report.txt")
    await artifacts.save_artifact(**REPORT, artifact=text("4"))
    found = [bucket.get_blob(f"{APP}/{USER}/{SESSION}/report.txt/{n}") for n in range(5)]

    assert ["NEARLINE", "ARCHIVE", "NEARLINE", "NEARLINE", "STANDARD"] == [one.storage_class for one in found]
    assert [f"{KEY}/cryptoKeyVersions/1"] * 4 + [None] == [one.kms_key_name for one in found]

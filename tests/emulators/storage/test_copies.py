"""Show what objects made from objects look like, and what deletion leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.api_core.exceptions import BadRequest, NotFound

from gcp_adk_store.testing.storage_emulator import storage as limits

if TYPE_CHECKING:
    from google.cloud import storage

    from gcp_adk_store.testing.storage_emulator import StorageEmulator
    from tests.emulators.storage.conftest import Call


@pytest.fixture
def source(bucket: storage.Bucket) -> storage.Blob:
    """Create an object with a content type and custom metadata."""
    blob = bucket.blob("source")
    blob.metadata = {"k": "v"}
    blob.upload_from_string(b"content", content_type="a/b;c=d")
    return blob


def test_a_copy_takes_bytes_and_metadata(bucket: storage.Bucket, source: storage.Blob) -> None:
    """Copy and rewrite make a new generation with the same content and description."""
    copied = bucket.copy_blob(source, bucket, "copied")
    rewritten = bucket.blob("rewritten")
    outcome = rewritten.rewrite(source)

    assert (None, 7, 7) == outcome
    for blob in (copied, rewritten):
        assert ({"k": "v"}, "a/b;c=d", source.md5_hash, 1) == (
            blob.metadata,
            blob.content_type,
            blob.md5_hash,
            blob.metageneration,
        )
        assert blob.generation > source.generation
        assert b"content" == blob.download_as_bytes()


def test_metadata_given_to_a_copy_replaces_the_sources(
    bucket: storage.Bucket, source: storage.Blob, call: Call
) -> None:
    """A body describes the copy completely."""
    path = f"/storage/v1/b/{bucket.name}/o/{source.name}/copyTo/b/{bucket.name}/o/new"
    resource = call("POST", path, b'{"contentType": "x/y"}').json()

    assert ("x/y", None) == (resource["contentType"], resource.get("metadata"))


def test_copying_a_missing_object_or_into_a_missing_bucket_is_refused(
    bucket: storage.Bucket, source: storage.Blob
) -> None:
    """Either end that does not exist answers 404."""
    with pytest.raises(NotFound):
        bucket.copy_blob(bucket.blob("missing"), bucket, "new")
    with pytest.raises(NotFound):
        bucket.copy_blob(source, bucket.client.bucket("missing-bucket"), "new")
    with pytest.raises(NotFound):
        bucket.copy_blob(source, bucket, "new", source_generation=1)

    assert ["source"] == [blob.name for blob in bucket.list_blobs()]


def test_a_move_leaves_nothing_behind(bucket: storage.Bucket, source: storage.Blob) -> None:
    """The new name has the content and the old name is gone."""
    moved = bucket.move_blob(source, "moved")

    assert b"content" == moved.download_as_bytes()
    assert ["moved"] == [blob.name for blob in bucket.list_blobs()]


def test_compose_joins_in_order(bucket: storage.Bucket) -> None:
    """The result counts its components and has no MD5, also when composed again."""
    parts = [bucket.blob(name) for name in "ab"]
    for part in parts:
        part.upload_from_string(part.name)
    joined = bucket.blob("joined")
    joined.content_type = "x/y"
    joined.compose([parts[1], parts[0]])
    again = bucket.blob("again")
    again.compose([joined, parts[0]])

    assert (b"ba", 2, None, "x/y") == (
        joined.download_as_bytes(),
        joined.component_count,
        joined.md5_hash,
        joined.content_type,
    )
    assert (b"baa", 3) == (again.download_as_bytes(), again.component_count)


def test_compose_takes_one_to_thirty_two_sources(bucket: storage.Bucket, source: storage.Blob) -> None:
    """None or thirty-three sources answer 400; a missing one answers 404."""
    for sources in ([], [source] * 33):
        with pytest.raises(BadRequest):
            bucket.blob("joined").compose(sources)
    with pytest.raises(NotFound):
        bucket.blob("joined").compose([bucket.blob("missing")])

    assert not bucket.blob("joined").exists()


def test_a_deleted_or_overwritten_generation_can_be_restored(bucket: storage.Bucket) -> None:
    """Soft-deleted generations are listed, described and restored as new generations."""
    blob = bucket.blob("o")
    blob.upload_from_string(b"first")
    first = blob.generation
    blob.upload_from_string(b"second")
    second = blob.generation
    blob.delete()
    listed = [(old.name, old.generation) for old in bucket.list_blobs(soft_deleted=True)]
    described = bucket.get_blob("o", generation=first, soft_deleted=True)
    restored = bucket.restore_blob("o", generation=first)

    assert [("o", first), ("o", second)] == listed
    assert (5, True) == (described.size, described.soft_delete_time is not None)
    assert (b"first", True) == (restored.download_as_bytes(), restored.generation > second)


def test_a_bucket_without_soft_deletion_keeps_nothing(
    bucket: storage.Bucket, emulator: StorageEmulator
) -> None:
    """With a retention of zero a deleted object's bytes are freed."""
    bucket.soft_delete_policy.retention_duration_seconds = 0
    bucket.patch()
    bucket.blob("o").upload_from_string(b"x")
    bucket.blob("o").delete()

    assert [] == list(bucket.list_blobs(soft_deleted=True))
    assert not [path for path in emulator.storage._store._files if bucket.name in path]


def test_soft_deleted_bytes_are_bounded(bucket: storage.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit the oldest deleted generations are gone for good."""
    monkeypatch.setattr(limits, "MAX_SOFT_DELETED_BYTES", 10)
    blob = bucket.blob("o")
    generations = []
    for _ in range(4):
        blob.upload_from_string(b"1234")
        generations.append(blob.generation)
    kept = [old.generation for old in bucket.list_blobs(soft_deleted=True)]

    assert generations[1:3] == kept

"""Show what objects made from objects look like, and what deletion leaves behind."""

import pytest
from google.api_core.exceptions import BadRequest, NotFound
from google.cloud import storage

from gcp_adk_store.testing.storage_emulator import StorageEmulator
from gcp_adk_store.testing.storage_emulator import storage as limits
from tests.emulators.storage.conftest import Call


@pytest.fixture
def source(bucket: storage.Bucket) -> storage.Blob:
    """Create an object with a content type and custom metadata."""
    blob = bucket.blob("source")
    blob.metadata = {"k": "v"}
    blob.upload_from_string(b"content", content_type="a/b;c=d")
    return blob


def test_a_copy_takes_bytes_and_metadata(bucket: storage.Bucket, source: storage.Blob, call: Call) -> None:
    """Copy and rewrite make a new generation with the same description; a body replaces it completely."""
    copied = bucket.copy_blob(source, bucket, "copied")
    rewritten = bucket.blob("rewritten")
    outcome = rewritten.rewrite(source)
    path = f"/storage/v1/b/{bucket.name}/o/{source.name}/copyTo/b/{bucket.name}/o/new"
    described = call("POST", path, b'{"contentType": "x/y"}').json()

    assert (None, 7, 7) == outcome
    for blob in (copied, rewritten):
        assert ({"k": "v"}, "a/b;c=d", source.md5_hash) == (blob.metadata, blob.content_type, blob.md5_hash)
        assert (1, True) == (blob.metageneration, blob.generation > source.generation)
        assert b"content" == blob.download_as_bytes()
    assert ("x/y", None) == (described["contentType"], described.get("metadata"))


def test_what_is_copied_or_moved_is_there(bucket: storage.Bucket, source: storage.Blob) -> None:
    """Either end that does not exist answers 404; a move leaves nothing behind."""
    for missing, into, generation in (
        (bucket.blob("missing"), bucket, None),
        (source, bucket.client.bucket("missing-bucket"), None),
        (source, bucket, 1),
    ):
        with pytest.raises(NotFound):
            bucket.copy_blob(missing, into, "new", source_generation=generation)
    assert ["source"] == [blob.name for blob in bucket.list_blobs()]
    assert b"content" == bucket.move_blob(source, "moved").download_as_bytes()
    assert ["moved"] == [blob.name for blob in bucket.list_blobs()]


def test_compose_joins_in_order(bucket: storage.Bucket) -> None:
    """The result counts its components and has no MD5; it takes one to thirty-two sources that exist."""
    first, second = parts = [bucket.blob(name) for name in "ab"]
    for part in parts:
        part.upload_from_string(part.name)
    joined, again, refused = (bucket.blob(name) for name in ("joined", "again", "refused"))
    joined.content_type = "x/y"
    joined.compose([second, first])
    again.compose([joined, first])
    for sources in ([], [first] * 33):
        with pytest.raises(BadRequest):
            refused.compose(sources)
    with pytest.raises(NotFound):
        refused.compose([bucket.blob("missing")])

    assert (2, None, "x/y") == (joined.component_count, joined.md5_hash, joined.content_type)
    assert (b"ba", b"baa", 3) == (
        joined.download_as_bytes(),
        again.download_as_bytes(),
        again.component_count,
    )
    assert not refused.exists()


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


def test_soft_deleted_bytes_are_bounded(
    bucket: storage.Bucket, emulator: StorageEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the limit the oldest deleted generations are gone for good; with a retention of zero, all are."""
    monkeypatch.setattr(limits, "MAX_SOFT_DELETED_BYTES", 10)
    blob = bucket.blob("o")
    generations = []
    for _ in range(4):
        blob.upload_from_string(b"1234")
        generations.append(blob.generation)

    assert generations[1:3] == [old.generation for old in bucket.list_blobs(soft_deleted=True)]
    forgetful = bucket.client.create_bucket(f"{bucket.name}-kept-nothing")
    forgetful.soft_delete_policy.retention_duration_seconds = 0
    forgetful.patch()
    forgetful.blob("o").upload_from_string(b"x")
    forgetful.blob("o").delete()
    assert [] == list(forgetful.list_blobs(soft_deleted=True))
    assert not [path for path in emulator.storage._store._files if forgetful.name in path]

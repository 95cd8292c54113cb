"""Show what objects made from objects look like, and what deletion leaves behind.

Show that the name of a Cloud KMS key is kept with what is written under it.
"""

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


CHUNK = 256 * 1024
KEY = "projects/p/locations/europe-west1/keyRings/ring/cryptoKeys/key"
VERSION = f"{KEY}/cryptoKeyVersions/1"
NOT_KEYS = [
    "key",
    KEY.removeprefix("projects/p/"),
    f"{KEY}/",
    VERSION,
    KEY.replace("europe-west1", ""),
    KEY.replace("ring/", "r ng/"),
]


@pytest.fixture
def keyed(bucket: storage.Bucket) -> storage.Blob:
    """Create an object under the key."""
    blob = bucket.blob("source", kms_key_name=KEY)
    blob.upload_from_string(b"content")
    return blob


@pytest.mark.parametrize("chunk_size", [None, CHUNK])
def test_an_upload_shows_its_keys_version(bucket: storage.Bucket, call: Call, chunk_size: int | None) -> None:
    """Of the client's uploads, whole and resumable, a plain media upload, and a header of the XML API."""
    blob = bucket.blob("o", chunk_size=chunk_size, kms_key_name=KEY)
    blob.upload_from_string(b"content")
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=media&kmsKeyName={KEY}"
    resource = call("POST", target, b"x").json()
    call("PUT", f"/{bucket.name}/xml", b"x", x_goog_encryption_kms_key_name=KEY)

    assert [VERSION] * 2 == [blob.kms_key_name, resource["kmsKeyName"]]
    assert [VERSION] * 2 == [bucket.get_blob(name).kms_key_name for name in ("o", "xml")]
    assert b"content" == bucket.blob("o").download_as_bytes()


@pytest.mark.parametrize("name", NOT_KEYS)
@pytest.mark.parametrize("chunk_size", [None, CHUNK])
def test_an_upload_under_what_is_no_key_is_refused(
    bucket: storage.Bucket, call: Call, name: str, chunk_size: int | None
) -> None:
    """Anything but a key's full name, without a version, answers 400 and stores nothing."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?name=o&kmsKeyName={name.replace(' ', '%20')}"
    kind = "media" if chunk_size is None else "resumable"
    refused = [
        call("POST", f"{target}&uploadType={kind}", b""),
        call("PUT", f"/{bucket.name}/o", b"", x_goog_encryption_kms_key_name=name),
    ]

    assert [400, 400] == [answer.status for answer in refused]
    assert not bucket.blob("o").exists()


def test_a_key_stays_until_the_object_is_replaced(bucket: storage.Bucket, keyed: storage.Blob) -> None:
    """A patch, a move and a restoring keep it; an upload without one does not."""
    keyed.metadata = {"k": "v"}
    keyed.patch()
    patched = bucket.get_blob("source").kms_key_name
    moved = bucket.move_blob(keyed, "moved")
    generation = moved.generation
    moved.delete()
    restored = bucket.restore_blob("moved", generation=generation)
    bucket.blob("moved").upload_from_string(b"new")

    assert [VERSION] * 3 == [patched, moved.kms_key_name, restored.kms_key_name]
    assert bucket.get_blob("moved").kms_key_name is None


def test_a_copy_names_a_key_of_its_own(bucket: storage.Bucket, keyed: storage.Blob, call: Call) -> None:
    """Or has its bucket's default, none here; so has a composition. What is no key makes nothing."""
    other = KEY.replace("ring", "other")
    path = f"/storage/v1/b/{bucket.name}/o/{keyed.name}/copyTo/b/{bucket.name}/o"
    copied = bucket.copy_blob(keyed, bucket, "copied")
    keyless, rewritten = bucket.blob("keyless"), bucket.blob("rewritten", kms_key_name=other)
    keyless.rewrite(keyed)
    rewritten.rewrite(keyed)
    named = call("POST", f"{path}/named?destinationKmsKeyName={other}").json()
    with pytest.raises(BadRequest):
        bucket.blob("new", kms_key_name="key").rewrite(keyed)

    assert (None, None) == (copied.kms_key_name, keyless.kms_key_name)
    assert f"{other}/cryptoKeyVersions/1" == rewritten.kms_key_name == named["kmsKeyName"]
    assert 400 == call("POST", f"{path}/new?destinationKmsKeyName=key").status
    assert not bucket.blob("new").exists()

    path = f"/storage/v1/b/{bucket.name}/o/joined/compose"
    body = b'{"sourceObjects": [{"name": "%s"}]}' % keyed.name.encode()
    keys = [call("POST", path + query, body).json().get("kmsKeyName") for query in ("", f"?kmsKeyName={KEY}")]

    assert [None, VERSION] == keys
    assert 400 == call("POST", f"{path}?kmsKeyName=key", body).status

"""Show that the name of a Cloud KMS key is kept with what is written under it."""

import pytest
from google.api_core.exceptions import BadRequest
from google.cloud import storage

from tests.emulators.storage.conftest import Call

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
def source(bucket: storage.Bucket) -> storage.Blob:
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


def test_a_key_stays_until_the_object_is_replaced(bucket: storage.Bucket, source: storage.Blob) -> None:
    """A patch, a move and a restoring keep it; an upload without one does not."""
    source.metadata = {"k": "v"}
    source.patch()
    patched = bucket.get_blob("source").kms_key_name
    moved = bucket.move_blob(source, "moved")
    generation = moved.generation
    moved.delete()
    restored = bucket.restore_blob("moved", generation=generation)
    bucket.blob("moved").upload_from_string(b"new")

    assert [VERSION] * 3 == [patched, moved.kms_key_name, restored.kms_key_name]
    assert bucket.get_blob("moved").kms_key_name is None


def test_a_copy_names_a_key_of_its_own(bucket: storage.Bucket, source: storage.Blob, call: Call) -> None:
    """Or has its bucket's default, none here; so has a composition. What is no key makes nothing."""
    other = KEY.replace("ring", "other")
    path = f"/storage/v1/b/{bucket.name}/o/{source.name}/copyTo/b/{bucket.name}/o"
    copied = bucket.copy_blob(source, bucket, "copied")
    keyless, rewritten = bucket.blob("keyless"), bucket.blob("rewritten", kms_key_name=other)
    keyless.rewrite(source)
    rewritten.rewrite(source)
    named = call("POST", f"{path}/named?destinationKmsKeyName={other}").json()
    with pytest.raises(BadRequest):
        bucket.blob("new", kms_key_name="key").rewrite(source)

    assert (None, None) == (copied.kms_key_name, keyless.kms_key_name)
    assert f"{other}/cryptoKeyVersions/1" == rewritten.kms_key_name == named["kmsKeyName"]
    assert 400 == call("POST", f"{path}/new?destinationKmsKeyName=key").status
    assert not bucket.blob("new").exists()

    path = f"/storage/v1/b/{bucket.name}/o/joined/compose"
    body = b'{"sourceObjects": [{"name": "%s"}]}' % source.name.encode()
    keys = [call("POST", path + query, body).json().get("kmsKeyName") for query in ("", f"?kmsKeyName={KEY}")]

    assert [None, VERSION] == keys
    assert 400 == call("POST", f"{path}?kmsKeyName=key", body).status

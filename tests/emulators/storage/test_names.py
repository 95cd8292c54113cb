"""Show that every legal object name works in every place and no illegal one does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from google.api_core.exceptions import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.cloud import storage

    from tests.emulators.storage.conftest import Call

LEGAL = [
    *("space here", "hash#", "question?", "percent%2Fescape", "plus+", "amp&", "quotes'\"", "angles<>"),
    *("colon:", "snow☃/雪", "tab\there", "/lead", "a//b", "trail/", "back\\slash", "x/acl"),
    *("x/copyTo/b/y/o/z", "x/compose", "a/../b", "../up", "a/./b", "n" * 1024, "☃" * 341),
]
ILLEGAL = ["", ".", "..", "new\nline", "carriage\rreturn", "n" * 1025, "☃" * 342]
ILLEGAL_PREFIX = ".well-known/acme-challenge/x"


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_name_is_opaque(bucket: storage.Bucket, call: Call, name: str) -> None:
    """All operations mean the same object, and so do its links, which are percent-encoded."""
    bucket.blob(name).upload_from_string(b"x")
    bucket.blob(name, chunk_size=256 * 1024).upload_from_string(name)
    listed = [blob.name for blob in bucket.list_blobs()]
    found = bucket.get_blob(name)
    found.metadata = {"k": "v"}
    found.patch()
    copied = bucket.copy_blob(found, bucket, "copy")
    path = f"/storage/v1/b/{bucket.name}/o/{quote(name, safe='')}"
    media = f"/download{path}?generation={found.generation}&alt=media"

    assert ([name], name, {"k": "v"}) == (listed, found.name, copied.metadata)
    assert name.encode() == bucket.blob(name).download_as_bytes() == copied.download_as_bytes()
    assert [bucket.client.api_endpoint + each for each in (path, media)] == [
        found.self_link,
        found.media_link,
    ]
    assert (name, name.encode()) == (call("GET", path).json()["name"], call("GET", media).body)

    bucket.delete_blobs([name, "copy"])

    assert [] == list(bucket.list_blobs())


def test_names_that_differ_only_by_escaping_or_by_their_folder_are_different(bucket: storage.Bucket) -> None:
    """What a path would fold into one stays apart, and ends apart."""
    encodings = ["a", "a/b", "a%2Fb", "a//b", "/a/b", "a/./b", "a\\b", "A/b"]
    for name in encodings:
        bucket.blob(name).upload_from_string(name)
    bucket.blob("a").delete()

    assert encodings[1:] == [bucket.blob(name).download_as_bytes().decode() for name in encodings[1:]]
    assert not bucket.blob("a").exists()


@pytest.mark.parametrize("name", [*ILLEGAL, ILLEGAL_PREFIX])
def test_an_illegal_name_is_refused_by_uploads(bucket: storage.Bucket, call: Call, name: str) -> None:
    """Multipart, media and resumable uploads answer 400 and store nothing."""
    target = f"/upload/storage/v1/b/{bucket.name}/o"
    statuses = [
        call("POST", f"{target}?uploadType=media&name={quote(name, safe='')}", b"x").status,
        call("POST", f"{target}?uploadType=resumable", json.dumps({"name": name}).encode()).status,
    ]
    with pytest.raises(BadRequest):
        bucket.blob(name).upload_from_string(b"x")

    assert [400, 400] == statuses
    assert [] == list(bucket.list_blobs())


@pytest.mark.parametrize("name", ["new\nline", "n" * 1025, ILLEGAL_PREFIX])
def test_an_illegal_name_is_refused_by_copies(bucket: storage.Bucket, name: str) -> None:
    """Copy, rewrite and compose do not create what an upload could not."""
    source = bucket.blob("source")
    source.upload_from_string(b"x")
    new = bucket.blob(name)
    attempts: list[Callable[[], object]] = [
        lambda: bucket.copy_blob(source, bucket, name),
        lambda: new.rewrite(source),
        lambda: new.compose([source]),
    ]
    for attempt in attempts:
        with pytest.raises(BadRequest):
            attempt()

    assert ["source"] == [blob.name for blob in bucket.list_blobs()]


def test_what_utf8_does_not_have_is_refused(bucket: storage.Bucket, call: Call) -> None:
    """JSON can encode half a surrogate pair, and a path a lone byte; such names and metadata answer 400."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable"
    bodies = [rb'{"name": "\ud800"}', rb'{"name": "o", "metadata": {"k": "\ud800"}}']

    assert [400, 400] == [call("POST", target, body).status for body in bodies]
    assert 400 == call("GET", f"/storage/v1/b/{bucket.name}/o/%FF").status

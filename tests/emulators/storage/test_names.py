"""Show that every legal object name works in every place and no illegal one does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest
from google.api_core.exceptions import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.cloud import storage

    from tests.emulators.storage.conftest import Call

LEGAL = [
    "space here",
    "hash#",
    "question?",
    "percent%2Fescape",
    "plus+",
    "amp&",
    "quotes'\"",
    "angles<>",
    "colon:",
    "snow☃/雪",
    "tab\there",
    "/lead",
    "a//b",
    "trail/",
    "back\\slash",
    "x/acl",
    "x/copyTo/b/y/o/z",
    "x/compose",
    "a/../b",
    "../up",
    "a/./b",
    "n" * 1024,
    "☃" * 341,
]
ILLEGAL = ["", ".", "..", "new\nline", "carriage\rreturn", "n" * 1025, "☃" * 342]
ILLEGAL_PREFIX = ".well-known/acme-challenge/x"


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_name_is_opaque(bucket: storage.Bucket, name: str) -> None:
    """Write, list, get, patch, copy, download and delete all mean the same object."""
    bucket.blob(name).upload_from_string(b"x")
    bucket.blob(name, chunk_size=256 * 1024).upload_from_string(name)
    listed = [blob.name for blob in bucket.list_blobs()]
    found = bucket.get_blob(name)
    found.metadata = {"k": "v"}
    found.patch()
    copied = bucket.copy_blob(found, bucket, "copy")

    assert ([name], name, {"k": "v"}) == (listed, found.name, copied.metadata)
    assert name.encode() == bucket.blob(name).download_as_bytes()
    assert name.encode() == copied.download_as_bytes()

    bucket.delete_blobs([name, "copy"])

    assert [] == list(bucket.list_blobs())


@pytest.mark.parametrize("name", LEGAL)
def test_links_lead_to_the_object(bucket: storage.Bucket, call: Call, name: str) -> None:
    """Both links are percent-encoded; the media link names the generation."""
    blob = bucket.blob(name)
    blob.upload_from_string(b"content")
    origin = bucket.client.api_endpoint
    path = f"/storage/v1/b/{bucket.name}/o/{quote(name, safe='')}"

    assert f"{origin}{path}" == blob.self_link
    assert f"{origin}/download{path}?generation={blob.generation}&alt=media" == blob.media_link
    assert name == call("GET", path).json()["name"]
    media = urlsplit(blob.media_link)
    assert b"content" == call("GET", f"{media.path}?{media.query}").body


def test_a_name_may_be_another_names_folder(bucket: storage.Bucket) -> None:
    """Objects "d" and "d/e" exist side by side and end apart."""
    bucket.blob("d").upload_from_string(b"outer")
    bucket.blob("d/e").upload_from_string(b"inner")
    bucket.blob("d").delete()

    assert b"inner" == bucket.blob("d/e").download_as_bytes()
    assert not bucket.blob("d").exists()


def test_names_that_differ_only_by_escaping_are_different(bucket: storage.Bucket) -> None:
    """Encodings that a path would fold into one stay apart."""
    encodings = ["a/b", "a%2Fb", "a//b", "/a/b", "a/./b", "a\\b", "A/b"]
    for name in encodings:
        bucket.blob(name).upload_from_string(name)

    assert encodings == [bucket.blob(name).download_as_bytes().decode() for name in encodings]


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
    attempts: list[Callable[[], object]] = [
        lambda: bucket.copy_blob(source, bucket, name),
        lambda: bucket.blob(name).rewrite(source),
        lambda: bucket.blob(name).compose([source]),
    ]
    for attempt in attempts:
        with pytest.raises(BadRequest):
            attempt()

    assert ["source"] == [blob.name for blob in bucket.list_blobs()]


def test_half_a_surrogate_pair_is_refused(bucket: storage.Bucket, call: Call) -> None:
    """JSON can encode what UTF-8 cannot; such names and metadata answer 400."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable"
    bodies = [rb'{"name": "\ud800"}', rb'{"name": "o", "metadata": {"k": "\ud800"}}']

    assert [400, 400] == [call("POST", target, body).status for body in bodies]


def test_a_path_that_is_no_utf8_is_refused(bucket: storage.Bucket, call: Call) -> None:
    """A percent escape of a lone byte answers 400."""
    assert 400 == call("GET", f"/storage/v1/b/{bucket.name}/o/%FF").status

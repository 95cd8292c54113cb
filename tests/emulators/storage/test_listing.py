"""Show that every legal name works in every place, and which names a listing has, in which order."""

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import pytest
from google.api_core.exceptions import BadRequest
from google.cloud import storage

from gcp_adk_store.testing.storage_emulator.exchange import ApiError, parse_fields, project
from gcp_adk_store.testing.storage_emulator.storage import ListQuery, select_page
from tests.emulators.storage.conftest import Call

TREE = ["a", "a/1", "a/2", "a/b/3", "b/4", "z", "ä", "～", "😀"]


@pytest.fixture
def tree(bucket: storage.Bucket) -> storage.Bucket:
    """Fill a bucket with the names of TREE, written in another order."""
    for name in reversed(TREE):
        bucket.blob(name).upload_from_string(b"x")
    return bucket


def names(listing: Iterable[storage.Blob]) -> list[str]:
    """Return the names of the listed blobs."""
    return [blob.name for blob in listing]


@pytest.mark.parametrize(
    ("arguments", "items", "prefixes"),
    [
        ({}, TREE, set()),
        ({"prefix": "a/"}, ["a/1", "a/2", "a/b/3"], set()),
        ({"prefix": "a/", "delimiter": "/"}, ["a/1", "a/2"], {"a/b/"}),
        ({"delimiter": "/"}, ["a", "z", "ä", "～", "😀"], {"a/", "b/"}),
        ({"start_offset": "a/2", "end_offset": "z"}, ["a/2", "a/b/3", "b/4"], set()),
        ({"start_offset": "a/b", "delimiter": "/", "end_offset": "c"}, [], {"a/", "b/"}),
        ({"match_glob": "a/*"}, ["a/1", "a/2"], set()),
        ({"match_glob": "**/[34]"}, ["a/b/3", "b/4"], set()),
        ({"match_glob": "*", "delimiter": "/"}, ["a", "z", "ä", "～", "😀"], set()),
        ({"prefix": "nothing"}, [], set()),
    ],
)
@pytest.mark.parametrize("page_size", [1, 1000])
def test_a_listing_is_filtered(
    tree: storage.Bucket,
    arguments: dict[str, str],
    items: list[str],
    prefixes: set[str],
    page_size: int,
) -> None:
    """The same names in one page or in many, in the order of their bytes: emoji follow full-width forms."""
    listing = tree.list_blobs(page_size=page_size, **arguments)

    assert (sorted(items, key=str.encode), prefixes) == (names(listing), listing.prefixes)


def test_a_page_holds_what_was_asked_for(tree: storage.Bucket, call: Call) -> None:
    """Items and prefixes fill a page together; the token leads to the rest."""
    target = f"/storage/v1/b/{tree.name}/o?delimiter=/&maxResults=3"
    first = call("GET", target).json()
    second = call("GET", f"{target}&pageToken={first['nextPageToken']}").json()

    assert (["a"], ["a/", "b/"]) == ([item["name"] for item in first["items"]], first["prefixes"])
    assert ["z", "ä", "～"] == [item["name"] for item in second["items"]]


def test_a_page_holds_a_thousand_entries_at_most() -> None:
    """Without maxResults, and with a larger one, a page ends after 1000 names."""
    stored = [(f"{number:04}", 0) for number in range(1001)]
    for args in ({}, {"maxResults": "5000"}):
        page = select_page(stored, ListQuery.parse(args), matches=lambda _: True)
        rest = ListQuery.parse({"pageToken": page.next_token or ""})

        assert stored[:1000] == page.items
        assert stored[1000:] == select_page(stored, rest, matches=lambda _: True).items


def test_a_trailing_delimiter_may_be_listed_twice() -> None:
    """On request an object that ends with the delimiter is an item beside its prefix."""
    query = ListQuery.parse({"delimiter": "/", "includeTrailingDelimiter": "true"})
    page = select_page([("d/", 0), ("d/e", 0)], query, matches=lambda _: True)

    assert ([("d/", 0)], ["d/"]) == (page.items, page.prefixes)


@pytest.mark.parametrize(
    ("parse", "wrong"),
    [
        *((ListQuery.parse, {"maxResults": size}) for size in ("x", "-1")),
        *((ListQuery.parse, {"pageToken": token}) for token in ("x", "e30=", "WyJhIixmYWxzZSwxZTk5OV0=")),
        *((parse_fields, fields) for fields in ("a(", "a)", "a(b", ",", "a,", "a//b", "a b")),
        pytest.param(parse_fields, "a/" * 5_000 + "b", id="deeper than Python goes"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(parse: Callable[[Any], object], wrong: Any) -> None:
    """A size or a token the service never gave, and what is no selection, answer 400."""
    with pytest.raises(ApiError) as caught:
        parse(wrong)

    assert 400 == caught.value.status


def test_fields_project_a_listing(tree: storage.Bucket, call: Call) -> None:
    """Only what is selected is answered, on every level; the client's paging works together with it."""
    answer = call("GET", f"/storage/v1/b/{tree.name}/o?delimiter=/&maxResults=2&fields=items(name),prefixes")
    listing = tree.list_blobs(fields="items(name,generation),nextPageToken", page_size=2)

    assert {"items": [{"name": "a"}], "prefixes": ["a/"]} == answer.json()
    assert {"name": "a"} == call("GET", f"/storage/v1/b/{tree.name}/o/a?fields=name,nothing").json()
    assert [(name, None, True) for name in TREE] == [
        (blob.name, blob.size, blob.generation is not None) for blob in listing
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("a", {"a": {"b": 1, "c": {"d": 2}}}),
        ("a/b", {"a": {"b": 1}}),
        ("a(b,c/d)", {"a": {"b": 1, "c": {"d": 2}}}),
        ("a/b,a/c", {"a": {"b": 1, "c": {"d": 2}}}),
        ("a/c/d,a/c/x,a/c/d", {"a": {"c": {"d": 2}}}),
        ("a(c/x),a(c/d)", {"a": {"c": {"d": 2}}}),
        ("a/b,a", {"a": {"b": 1, "c": {"d": 2}}}),
        ("l(x)", {"l": [{"x": 1}, {"x": 2}]}),
        ("l/y", {"l": [{"y": 1}, {}]}),
        ("*", {"a": {"b": 1, "c": {"d": 2}}, "l": [{"x": 1, "y": 1}, {"x": 2}]}),
        ("missing", {}),
    ],
)
def test_a_projection_keeps_what_is_selected(fields: str, expected: dict[str, Any]) -> None:
    """Paths, groups, lists and the wildcard select parts of a resource."""
    resource = {"a": {"b": 1, "c": {"d": 2}}, "l": [{"x": 1, "y": 1}, {"x": 2}]}

    assert expected == project(resource, parse_fields(fields))


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
    new: Any = bucket.blob(name)
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

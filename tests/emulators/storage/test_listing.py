"""Show which names a listing answers with, in which order, and how much of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gcp_adk_store.testing.storage_emulator.exchange import ApiError, parse_fields, project
from gcp_adk_store.testing.storage_emulator.storage import ListQuery, select_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from google.cloud import storage

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
        *((ListQuery.parse, {"pageToken": token}) for token in ("x", "e30=")),
        *((parse_fields, fields) for fields in ("a(", "a)", "a(b", ",", "a,", "a//b", "a b")),
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

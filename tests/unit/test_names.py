"""Show that ids are encoded legally and that no two ids share an encoding."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError
from gcp_adk_store.codec.names import escape_name, escape_segment, unescape_name, unescape_segment

# Dense in what is escaped and in what escapes look like, so that collisions would be found.
TRICKY = st.text(st.sampled_from("%/.`\\_25EF0a\x00\n\x7f\x80ü"), max_size=8)
IDS = st.one_of(TRICKY, st.text(max_size=40))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "%"),
        ("plain", "plain"),
        ("user@example.com", "user@example.com"),
        ("a b", "a b"),
        ("Grüße 雪", "Grüße 雪"),
        ("a/b", "a%2Fb"),
        ("%", "%25"),
        ("%2F", "%252F"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("__x__", "%5F_x__"),
        ("____", "%5F___"),
        ("__a\nb__", "%5F_a%0Ab__"),
        ("___", "___"),
        ("__x", "__x"),
        ("`\\", "%60%5C"),
        ("\x00\x1f\x7f", "%00%1F%7F"),
    ],
)
def test_a_name_is_encoded_as_documented(text: str, name: str) -> None:
    """These encodings are in stored documents: changing one loses data."""
    assert (name, text) == (escape_name(text, what="id"), unescape_name(name))


@given(IDS)
def test_a_name_is_legal_in_firestore(text: str) -> None:
    """Whatever the id, its name breaks none of Firestore's rules and needs no further quoting."""
    name = escape_name(text, what="id")

    assert name
    assert name not in {".", ".."}
    assert re.search(r"[/`\\\x00-\x1f\x7f]", name) is None
    assert re.fullmatch(r"__.*__", name) is None


@given(IDS)
def test_a_name_is_reversible(text: str) -> None:
    """An id is read back from its name, to the letter."""
    assert text == unescape_name(escape_name(text, what="id"))


@given(st.lists(TRICKY, unique=True, max_size=12))
def test_two_ids_never_share_a_name(texts: list[str]) -> None:
    """No id can be chosen so that it opens another one's document."""
    names = {escape_name(text, what="id") for text in texts}

    assert len(texts) == len(names)


@pytest.mark.parametrize("text", ["a" * 1500, "/" * 500, "ü" * 750, "__" + "a" * 1494 + "__"])
def test_a_name_of_1500_bytes_is_taken(text: str) -> None:
    """Firestore's limit is used to the last byte, counted on the escaped form."""
    assert 1500 == len(escape_name(text, what="id").encode())


@pytest.mark.parametrize(
    ("text", "size"),
    [("a" * 1501, 1501), ("/" * 501, 1503), ("ü" * 751, 1502), ("__" + "a" * 1495 + "__", 1501)],
)
def test_a_longer_name_is_refused(text: str, size: int) -> None:
    """The error names the field, the size as stored and the limit."""
    with pytest.raises(InvalidInputError) as caught:
        escape_name(text, what="user_id")

    assert f"user_id takes {size} bytes as a Firestore name, the limit is 1500; use a shorter one" == str(
        caught.value
    )


@pytest.mark.parametrize(
    ("text", "segment"),
    [
        ("a/b", "a%2Fb"),
        ("%2F", "%252F"),
        ("%25", "%2525"),
        ("%%2F", "%%252F"),
        ("%2f", "%2f"),
        ("100%", "100%"),
        ("%2E", "%2E"),
        ("%/", "%%2F"),
        ("..", ".."),
        ("a b%20c", "a b%20c"),
    ],
)
def test_a_segment_is_encoded_as_documented(text: str, segment: str) -> None:
    """These encodings are in object names: changing one loses artifacts."""
    assert segment == escape_segment(text)


@given(st.text())
def test_a_segment_is_adks_where_adk_would_not_collide(text: str) -> None:
    """A bucket that ADK's own service wrote is read under the same names."""
    harmless = text.replace("/", "-").replace("%2F", "").replace("%25", "")

    assert harmless == escape_segment(harmless)


@given(st.lists(st.text(st.sampled_from("%/25Fa"), max_size=7), unique=True, max_size=12))
def test_two_ids_never_share_a_segment(texts: list[str]) -> None:
    """Ids with slashes cannot reach into each other's artifacts."""
    segments = {escape_segment(text) for text in texts}

    assert len(texts) == len(segments)
    assert not any("/" in segment for segment in segments)
    assert texts == [unescape_segment(escape_segment(text)) for text in texts]

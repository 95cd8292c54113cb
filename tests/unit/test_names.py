"""Show that ids are encoded legally and that no two ids share an encoding."""

import asyncio
import re
from typing import Any

import pytest
from google.genai import types
from hypothesis import assume, given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, Store
from tests.support.stored import collection

# Dense in what is escaped and in what escapes look like, so that collisions would be found.
TRICKY = st.text(st.sampled_from("%/.`\\_25EF0a\x00\n\x7f\x80ü"), max_size=8)
IDS = st.one_of(TRICKY, st.text(max_size=40)).filter(str.strip)


def names_of(*ids: str) -> list[str]:
    """Return the names of the documents of users with these ids, each of which is read back."""

    async def work() -> list[str]:
        async with Store.local(":memory:") as store:
            for each in ids:
                await store.sessions.create_session(app_name="app", user_id=each, session_id="s")
            listed = await store.sessions.list_sessions(app_name="app")
            assert sorted(ids) == sorted(one.user_id for one in listed.sessions)
            return [path.split("/")[3] for path in await collection(store, "adk_sessions")]

    return asyncio.run(work())


def segments_of(*users: str) -> set[str]:
    """Return the segments of these ids of users in the names of objects, each of which is read back."""

    async def work() -> set[str]:
        async with Store.local(":memory:") as store:
            for user in users:
                of_user: dict[str, Any] = {"app_name": "app", "user_id": user}
                await store.artifacts.save_artifact(
                    **of_user, filename="user:f", artifact=types.Part(text=user)
                )
            for user in users:
                found = await store.artifacts.load_artifact(app_name="app", user_id=user, filename="user:f")
                assert found == types.Part(text=user)
            objects = store.sessions.storage.payloads.objects
            assert objects is not None
            names = await objects.names("app/", delimiter=None)
            return {name.removeprefix("app/").removesuffix("/user/user:f/0") for name in names}

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "name"),
    [
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
    assert [name] == names_of(text)


@given(IDS)
def test_a_name_is_legal_in_firestore(text: str) -> None:
    """Whatever the id, its name breaks none of Firestore's rules and needs no further quoting."""
    (name,) = names_of(text)

    assert name
    assert name not in {".", ".."}
    assert re.search(r"[/`\\\x00-\x1f\x7f]", name) is None
    assert re.fullmatch(r"__.*__", name) is None


@given(st.lists(TRICKY.filter(str.strip), unique=True, max_size=12))
def test_two_ids_never_share_a_name(texts: list[str]) -> None:
    """No id can be chosen so that it opens another one's document."""
    assert len(texts) == len({*names_of(*texts)})


@pytest.mark.parametrize(
    ("text", "more", "size"),
    [("a" * 1500, "a", 1501), ("/" * 500, "/", 1503), ("ü" * 750, "ü", 1502)],
)
def test_a_name_of_1500_bytes_is_taken_and_none_of_more(text: str, more: str, size: int) -> None:
    """As stored; the error names the field, the size and the limit."""
    assert [1500] == [len(name.encode()) for name in names_of(text)]
    says = f"user_id takes {size} bytes as a Firestore name, the limit is 1500; use a shorter one"
    with pytest.raises(InvalidInputError, match=f"{says}$"):
        names_of(text + more)


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
        ("a b%20c", "a b%20c"),
    ],
)
def test_a_segment_is_encoded_as_documented(text: str, segment: str) -> None:
    """These encodings are in object names: changing one loses artifacts."""
    assert {segment} == segments_of(text)


@given(
    st.text(
        st.characters(exclude_characters="/\\\0", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40
    )
)
def test_a_segment_is_adks_where_adk_would_not_collide(text: str) -> None:
    """A bucket that ADK's own service wrote is read under the same names."""
    harmless = text.replace("%2F", "").replace("%25", "")
    assume(harmless.strip() and harmless.strip(".") and not re.match("[A-Za-z]:", harmless))

    assert {harmless} == segments_of(harmless)

"""Ranges of users have each user once, whatever their names are."""

import string
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import Store
from gcp_adk_store.bulk.reading import first_characters, ranges_of, sessions_within, user_ranges
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import NameRange, in_order_of_names
from gcp_adk_store.model.keys import SessionKey, UserKey
from tests.moving.hardest import APP, fill, many

LAYOUT = Layout("adk")
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)


def has(within: NameRange, path: str) -> bool:
    """Return whether a path is in a range."""
    at = in_order_of_names(path)
    return (within.start is None or in_order_of_names(within.start) <= at) and (
        within.end is None or at < in_order_of_names(within.end)
    )


async def read_in(store: Store, most: int) -> tuple[Sequence[NameRange], list[tuple[str, str]]]:
    """Return ranges, and user and id of the sessions that are found in them, one after the other."""
    storage = store.sessions.storage
    ranges = await ranges_of(storage, APP, most=most)
    return ranges, [
        (info.user_id, info.session_id)
        for within in ranges
        async for info in sessions_within(storage, APP, within, lambda _: None)
    ]


@given(users=st.lists(IDS, min_size=1, max_size=8), points=st.lists(st.tuples(IDS, IDS), max_size=6))
def test_a_user_is_in_one_range_with_all_sessions(users: list[str], points: list[tuple[str, str]]) -> None:
    """Points lie anywhere, also in another app and within the sessions of a user."""
    paths = [LAYOUT.session(SessionKey(app=APP, user=user, session=name)) for user, name in points]
    paths.append(LAYOUT.session(SessionKey(app="another", user="u", session="s")))
    ranges = user_ranges(LAYOUT, APP, paths)
    for user in users:
        owner = UserKey(app=APP, user=user)
        mine = [within for within in ranges if has(within, LAYOUT.user(owner))]
        assert 1 == len(mine)
        for name in ("", "\U0010ffff", "x"):
            assert has(mine[0], LAYOUT.user(owner) + f"/adk_sessions/{name}")


def test_first_characters_are_in_order_and_no_more_than_asked_for() -> None:
    """So that they are points."""
    for most in (1, 5, 61, 62, 1000):
        points = first_characters(LAYOUT, APP, most=most)
        assert points == sorted(points)
        assert 1 <= len(points) <= min(most, len(string.digits + string.ascii_letters))


async def test_every_session_is_read_once() -> None:
    """However many ranges there are; the sessions of a user follow each other."""
    users = ["ada", "Bob", "b/ob", "\U0001f600", "zoe", "0", *(f"u{number}" for number in range(20))]
    async with Store.local(":memory:") as store:
        await fill(store.sessions, [(user, f"s{n}", many(n)) for user in users for n in range(2)])
        await store.sessions.create_session(app_name="another", user_id="ada", session_id="s9")
        for most in (1, 2, 7, 256):
            ranges, ids = await read_in(store, most)
            owners = [user for user, _ in ids]

            assert len(ranges) <= most
            assert (len(ranges) > 1) == (most > 1)
            assert sorted((user, f"s{n}") for user in users for n in range(2)) == sorted(ids)
            assert len(users) == 1 + sum(one != other for one, other in pairwise(owners))


@pytest.mark.emulators
async def test_the_emulator_gets_ranges_by_first_characters(adk_store: Store) -> None:
    """It does not know where documents lie; each session is read once, too."""
    await fill(adk_store.sessions, [(user, "s", []) for user in ("0", "ada", "Ada", "m", "z", "\u00e9")])
    ranges, ids = await read_in(adk_store, 8)

    assert 8 == len(ranges)
    assert sorted(["0", "ada", "Ada", "m", "z", "\u00e9"]) == sorted(user for user, _ in ids)

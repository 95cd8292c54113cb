"""Create, list and delete sessions."""

import asyncio

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.platform import time as platform_time
from google.adk.sessions import BaseSessionService, Session

from gcp_adk_store.testing.conformance.running import Ids, event, ids, in_loops_of_their_own, read

_ODD_IDS = (
    "a/b",
    "/",
    ".",
    "..",
    "__x__",
    "%2F",
    "a b",
    "é\u0301",
    "日本語",
    "tab\there",
    "`\\`",
    "'\"",
    "x" * 128,
)


@in_loops_of_their_own
class CreatingSessions:
    """Tests of ``create_session``."""

    async def test_a_new_session_has_its_ids_state_and_time(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The maker holds a complete session, made not later than now, without events."""
        made = await session_service.create_session(**who, state={"mine": 1})

        assert (who["app_name"], who["user_id"], who["session_id"]) == (made.app_name, made.user_id, made.id)
        assert ({"mine": 1}, []) == (made.state, made.events)
        assert 0 < made.last_update_time <= platform_time.get_time()

    async def test_a_session_comes_back_equal_to_the_one_that_create_returned(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """State of all scopes, times and what the service keeps for itself are the same."""
        made = await session_service.create_session(**who, state={"mine": [1], "user:a": {}, "app:b": None})

        assert made == await session_service.get_session(**who)

    async def test_initial_state_is_sorted_into_scopes(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """App and user keys reach the next session; ``temp:`` keys reach nobody."""
        made = await session_service.create_session(
            **who, state={"mine": 1, "user:a": 2, "app:b": 3, "temp:c": 4}
        )
        following = await session_service.create_session(**{**who, "session_id": "following"})

        assert {"mine": 1, "user:a": 2, "app:b": 3} == made.state
        assert {"user:a": 2, "app:b": 3} == following.state

    async def test_the_state_given_stays_the_callers_own(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """It is not changed, and what its owner does to it later changes nothing."""
        given = {"mine": [1], "temp:c": 1}
        await session_service.create_session(**who, state=given)
        given["mine"].append(2)  # type: ignore[attr-defined]  # it is a list

        assert {"mine": [1, 2], "temp:c": 1} == given
        assert {"mine": [1]} == (await read(session_service, who)).state

    async def test_sessions_without_an_id_draw_different_ones(
        self, session_service: BaseSessionService, user: Ids
    ) -> None:
        """``None`` and blanks alike, and each is found by what it drew."""
        made = [
            await session_service.create_session(**user, session_id=given) for given in (None, None, "", "  ")
        ]
        found = [await session_service.get_session(**user, session_id=one.id) for one in made]

        assert 4 == len({one.id.strip() for one in made} - {""})
        assert made == found

    async def test_an_id_that_is_taken_is_refused_by_name(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The session that was there first stays as it was."""
        made = await session_service.create_session(**who, state={"mine": 1})
        with pytest.raises(AlreadyExistsError, match=who["session_id"]):
            await session_service.create_session(**who, state={"mine": 2})

        assert made == await session_service.get_session(**who)

    async def test_padding_makes_no_other_id(self, session_service: BaseSessionService, who: Ids) -> None:
        """A padded duplicate is a duplicate."""
        await session_service.create_session(**who)
        with pytest.raises(AlreadyExistsError):
            await session_service.create_session(**{**who, "session_id": f" {who['session_id']}\n"})

    async def test_a_padded_id_is_read_and_deleted_with_the_text_given_to_create(
        self, session_service: BaseSessionService, user: Ids
    ) -> None:
        """Whatever became of the padding."""
        await session_service.create_session(**user, session_id="order-42\n", state={"mine": 1})
        found = await session_service.get_session(**user, session_id="order-42\n")
        await session_service.delete_session(**user, session_id="order-42\n")

        assert found is not None
        assert {"mine": 1} == found.state
        assert None is await session_service.get_session(**user, session_id="order-42\n")

    async def test_a_refused_create_changes_no_shared_state(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Neither the app's nor the user's."""
        await session_service.create_session(**who, state={"user:kept": 1})
        with pytest.raises(AlreadyExistsError):
            await session_service.create_session(**who, state={"user:kept": 2, "app:lost": 1})

        assert {"user:kept": 1} == (await read(session_service, who)).state

    async def test_of_concurrent_creates_of_one_id_exactly_one_wins(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The others get the error that the session exists, and it is the winner's."""
        outcomes = await asyncio.gather(
            *(session_service.create_session(**who, state={"n": n}) for n in range(4)), return_exceptions=True
        )
        winners = [one for one in outcomes if isinstance(one, Session)]

        assert 3 == sum(isinstance(one, AlreadyExistsError) for one in outcomes)
        assert [await session_service.get_session(**who)] == winners

    async def test_one_id_may_be_used_by_every_user_and_app(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Each has its own session."""
        places = [who, {**who, "user_id": "another"}, {**who, "app_name": f"{who['app_name']}-2"}]
        made = [
            await session_service.create_session(**place, state={"place": n})
            for n, place in enumerate(places)
        ]

        assert made == [await session_service.get_session(**place) for place in places]

    @pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
    @pytest.mark.parametrize("odd", _ODD_IDS)
    async def test_an_odd_id_is_an_id(
        self, session_service: BaseSessionService, who: Ids, field: str, odd: str
    ) -> None:
        """It is kept as it is, beside its neighbour, found, listed and deleted."""
        strange = {**who, field: f"{who['app_name']}{odd}" if field == "app_name" else odd}
        await session_service.create_session(**who)
        made = await session_service.create_session(**strange, state={"odd": True})
        listed = await session_service.list_sessions(app_name=strange["app_name"], user_id=strange["user_id"])
        assert strange == {"app_name": made.app_name, "user_id": made.user_id, "session_id": made.id}
        assert made == await session_service.get_session(**strange)
        await session_service.delete_session(**strange)

        assert strange["session_id"] in ids(listed.sessions)
        assert None is await session_service.get_session(**strange)
        assert {} == (await read(session_service, who)).state


@in_loops_of_their_own
class ListingSessions:
    """Tests of ``list_sessions``."""

    async def test_sessions_are_listed_oldest_activity_first(
        self, session_service: BaseSessionService, user: Ids
    ) -> None:
        """A session that is appended to moves to the end; times count, not ids or ages."""
        held = {
            name: await session_service.create_session(**user, session_id=name) for name in ("a", "c", "b")
        }
        for at, name in ((1.0, "c"), (2.0, "b"), (10.0, "a"), (9.0, "c")):
            await session_service.append_event(held[name], event(at=at))

        assert ["b", "c", "a"] == ids((await session_service.list_sessions(**user)).sessions)

    async def test_sessions_of_one_time_are_listed_by_user_and_id(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The order of a listing is never left to chance."""
        places = [("v", "a"), ("u", "c"), ("u", "b")]
        for owner, name in places:
            held = await session_service.create_session(**{**who, "user_id": owner, "session_id": name})
            await session_service.append_event(held, event(at=1.0))
        listed = await session_service.list_sessions(app_name=who["app_name"])

        assert sorted(places) == [(one.user_id, one.id) for one in listed.sessions]

    async def test_a_listing_is_of_one_user_or_of_all(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """Of this app only."""
        await session_service.create_session(**who)
        await session_service.create_session(**{**who, "user_id": "another"})
        await session_service.create_session(**{**who, "app_name": f"{who['app_name']}-2"})
        mine = await session_service.list_sessions(**user)
        everyones = await session_service.list_sessions(app_name=who["app_name"])

        assert [who["user_id"]] == [one.user_id for one in mine.sessions]
        assert {who["user_id"], "another"} == {one.user_id for one in everyones.sessions}
        assert {who["app_name"]} == {one.app_name for one in everyones.sessions}

    async def test_listed_sessions_have_their_whole_state(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Each with its own user's, and no temporary key."""
        first, second = who, {**who, "user_id": "another", "session_id": "second"}
        held = await session_service.create_session(**first, state={"mine": 1, "user:a": 1, "app:c": 1})
        await session_service.create_session(**second, state={"mine": 2, "user:a": 2})
        await session_service.append_event(held, event(delta={"temp:t": 1, "user:b": None, "app:c": 3}))
        listed = await session_service.list_sessions(app_name=who["app_name"])

        assert {
            who["session_id"]: {"mine": 1, "user:a": 1, "user:b": None, "app:c": 3},
            "second": {"mine": 2, "user:a": 2, "app:c": 3},
        } == {one.id: one.state for one in listed.sessions}

    async def test_listed_sessions_have_no_events(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """But the time of the last one; reading one gives them back."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event(at=5.0))
        listed = (await session_service.list_sessions(**user)).sessions

        assert [([], 5.0)] == [(one.events, one.last_update_time) for one in listed]
        assert 1 == len((await read(session_service, who)).events)

    async def test_the_empty_user_is_a_user_like_any_other(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """It lists its own sessions, not everyone's."""
        await session_service.create_session(**who)
        await session_service.create_session(**{**who, "user_id": "", "session_id": "of-nobody"})
        listed = await session_service.list_sessions(app_name=who["app_name"], user_id="")

        assert ["of-nobody"] == ids(listed.sessions)

    async def test_listings_of_the_unknown_are_empty(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Unknown users and apps raise no errors."""
        await session_service.create_session(**who)
        unknown = {"app_name": f"{who['app_name']}-2"}

        assert [] == (await session_service.list_sessions(app_name=who["app_name"], user_id="x")).sessions
        assert [] == (await session_service.list_sessions(**unknown)).sessions
        assert [] == (await session_service.list_sessions(**unknown, user_id=who["user_id"])).sessions

    async def test_listed_sessions_are_the_callers_own(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """Nested state of every scope too."""
        await session_service.create_session(**who, state={"mine": [1], "user:a": [1], "app:b": [1]})
        (spoilt,) = (await session_service.list_sessions(**user)).sessions
        for values in spoilt.state.values():
            values.append("spoilt")

        assert {"mine": [1], "user:a": [1], "app:b": [1]} == (await read(session_service, who)).state


@in_loops_of_their_own
class DeletingSessions:
    """Tests of ``delete_session``."""

    async def test_a_deleted_session_is_gone(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """For reads and listings; its neighbours of the same id are not."""
        neighbours = [
            {**who, "session_id": "neighbour"},
            {**who, "user_id": "neighbour"},
            {**who, "app_name": f"{who['app_name']}-2"},
        ]
        for place in (who, *neighbours):
            await session_service.create_session(**place)
        await session_service.delete_session(**who)

        assert None is await session_service.get_session(**who)
        assert ["neighbour"] == ids((await session_service.list_sessions(**user)).sessions)
        assert [] == [place for place in neighbours if await session_service.get_session(**place) is None]

    async def test_deleting_what_is_not_there_is_no_error(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """A session that never was, and one that is gone."""
        await session_service.delete_session(**who)
        await session_service.create_session(**who)
        await session_service.delete_session(**who)
        await session_service.delete_session(**who)

        assert None is await session_service.get_session(**who)

    async def test_shared_state_outlives_the_session(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """A new session of that id has it, and nothing else of the old one."""
        held = await session_service.create_session(**who, state={"mine": 1, "user:a": 1, "app:b": 1})
        await session_service.append_event(held, event(delta={"more": 1}))
        await session_service.delete_session(**who)
        made = await session_service.create_session(**who)

        assert ({"user:a": 1, "app:b": 1}, []) == (made.state, made.events)
        assert made == await session_service.get_session(**who)

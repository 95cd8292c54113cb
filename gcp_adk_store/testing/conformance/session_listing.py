"""State what listing and deleting sessions promise."""
# ruff: noqa: SIM300  # expected values stand first

from google.adk.sessions import BaseSessionService

from gcp_adk_store.testing.conformance.running import in_its_own_loop
from gcp_adk_store.testing.conformance.session_examples import Ids, event, ids, read


class ListingSessions:
    """Tests of ``list_sessions``."""

    @in_its_own_loop
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

    @in_its_own_loop
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

    @in_its_own_loop
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

    @in_its_own_loop
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

    @in_its_own_loop
    async def test_listed_sessions_have_no_events(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """But the time of the last one; reading one gives them back."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event(at=5.0))
        listed = (await session_service.list_sessions(**user)).sessions

        assert [([], 5.0)] == [(one.events, one.last_update_time) for one in listed]
        assert 1 == len((await read(session_service, who)).events)

    @in_its_own_loop
    async def test_the_empty_user_is_a_user_like_any_other(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """It lists its own sessions, not everyone's."""
        await session_service.create_session(**who)
        await session_service.create_session(**{**who, "user_id": "", "session_id": "of-nobody"})
        listed = await session_service.list_sessions(app_name=who["app_name"], user_id="")

        assert ["of-nobody"] == ids(listed.sessions)

    @in_its_own_loop
    async def test_listings_of_the_unknown_are_empty(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Unknown users and apps raise no errors."""
        await session_service.create_session(**who)
        unknown = {"app_name": f"{who['app_name']}-2"}

        assert [] == (await session_service.list_sessions(app_name=who["app_name"], user_id="x")).sessions
        assert [] == (await session_service.list_sessions(**unknown)).sessions
        assert [] == (await session_service.list_sessions(**unknown, user_id=who["user_id"])).sessions

    @in_its_own_loop
    async def test_listed_sessions_are_the_callers_own(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """Nested state of every scope too."""
        await session_service.create_session(**who, state={"mine": [1], "user:a": [1], "app:b": [1]})
        (spoilt,) = (await session_service.list_sessions(**user)).sessions
        for values in spoilt.state.values():
            values.append("spoilt")

        assert {"mine": [1], "user:a": [1], "app:b": [1]} == (await read(session_service, who)).state


class DeletingSessions:
    """Tests of ``delete_session``."""

    @in_its_own_loop
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

    @in_its_own_loop
    async def test_deleting_what_is_not_there_is_no_error(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """A session that never was, and one that is gone."""
        await session_service.delete_session(**who)
        await session_service.create_session(**who)
        await session_service.delete_session(**who)
        await session_service.delete_session(**who)

        assert None is await session_service.get_session(**who)

    @in_its_own_loop
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

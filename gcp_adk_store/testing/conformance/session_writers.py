"""State what several writers of one session may rely on: who is told, and that nothing is lost."""
# ruff: noqa: SIM300  # expected values stand first

import asyncio
import contextlib

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session

from gcp_adk_store.testing.conformance.running import in_its_own_loop
from gcp_adk_store.testing.conformance.session_examples import Ids, event, read, texts


class WritingTogether:
    """Tests of ``append_event`` by several writers."""

    @in_its_own_loop
    async def test_the_second_writer_of_two_is_told(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Its error is a ``ValueError`` too, and says what happened."""
        await session_service.create_session(**who)
        winner, loser = await read(session_service, who), await read(session_service, who)
        await session_service.append_event(winner, event("first"))
        with pytest.raises(StaleSessionError, match="modified in storage") as caught:
            await session_service.append_event(loser, event("second"))

        assert isinstance(caught.value, ValueError)

    @in_its_own_loop
    async def test_a_stale_append_changes_nothing(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Neither storage of any scope nor the session of the one that lost; after a reload it goes on."""
        await session_service.create_session(**who, state={"user:a": 1, "app:b": 1})
        winner, loser = await read(session_service, who), await read(session_service, who)
        await session_service.append_event(winner, event("first"))
        before = loser.model_copy(deep=True)
        with pytest.raises(StaleSessionError):
            await session_service.append_event(
                loser, event("second", delta={"user:a": 2, "app:b": 2, "c": 2})
            )
        assert before == loser
        assert winner == await session_service.get_session(**who)
        await session_service.append_event(await read(session_service, who), event("reloaded"))

        assert ["first", "reloaded"] == texts(await read(session_service, who))

    @in_its_own_loop
    async def test_of_two_racing_writers_exactly_one_wins_each_round(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Eight rounds, each from two fresh copies."""
        await session_service.create_session(**who)
        outcomes = []
        for number in range(8):
            pair = [await read(session_service, who), await read(session_service, who)]
            outcomes.append(
                await asyncio.gather(
                    *(session_service.append_event(one, event(f"{number}")) for one in pair),
                    return_exceptions=True,
                )
            )
        won = [sum(isinstance(one, Event) for one in pair) for pair in outcomes]
        told = [sum(isinstance(one, StaleSessionError) for one in pair) for pair in outcomes]

        assert ([1] * 8, [1] * 8) == (won, told)
        assert list("01234567") == texts(await read(session_service, who))

    @in_its_own_loop
    async def test_a_writer_that_delivers_anothers_event_again_stays_stale(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """That it knows the newest event does not mean that it has seen those before."""
        held = await session_service.create_session(**who)
        stale = await read(session_service, who)
        await session_service.append_event(held, event("missed"))
        known = event("known")
        await session_service.append_event(held, known.model_copy(deep=True))
        with contextlib.suppress(StaleSessionError):
            await session_service.append_event(stale, known)
        with pytest.raises(StaleSessionError):
            await session_service.append_event(stale, event("late"))

        assert ["missed", "known"] == texts(await read(session_service, who))

    @in_its_own_loop
    async def test_events_of_one_time_by_one_writer_are_not_stale(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Nor events from before the last one."""
        held = await session_service.create_session(**who)
        for number, at in enumerate((3.0, 3.0, 2.0, 2.0)):
            await session_service.append_event(held, event(f"{number}", at=at))

        assert list("0123") == texts(await read(session_service, who))

    @pytest.mark.parametrize("drift", [-1e-4, -1e-6])
    @in_its_own_loop
    async def test_a_drifting_update_time_is_not_stale(
        self, session_service: BaseSessionService, who: Ids, drift: float
    ) -> None:
        """Times lose digits on their way through other systems."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event("one", at=1727500000.25))
        held.last_update_time += drift
        await session_service.append_event(held, event("two"))

        assert ["one", "two"] == texts(await read(session_service, who))

    @in_its_own_loop
    async def test_a_current_session_that_travelled_as_json_may_append(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """What the service keeps in private fields was lost on the way."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event("one"))
        travelled = Session.model_validate_json((await read(session_service, who)).model_dump_json())
        await session_service.append_event(travelled, event("two"))

        assert ["one", "two"] == texts(travelled)
        assert ["one", "two"] == texts(await read(session_service, who))

    @in_its_own_loop
    async def test_tasks_that_share_one_session_all_land(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Parallel branches of an agent append to one object; it is in step with storage afterwards."""
        held = await session_service.create_session(**who)
        await asyncio.gather(
            *(session_service.append_event(held, event(f"{n}", delta={f"k{n}": n})) for n in range(8))
        )
        found = await read(session_service, who)

        assert {f"k{n}": n for n in range(8)} == found.state
        assert sorted("01234567") == sorted(text or "" for text in texts(found))
        assert held == found

    @pytest.mark.parametrize("old", [0, 1])
    @in_its_own_loop
    async def test_a_session_that_was_made_anew_is_not_written_by_holders_of_the_old_one(
        self, session_service: BaseSessionService, who: Ids, old: int
    ) -> None:
        """They are told that theirs is gone, or stale, also if both have as many events."""
        held = await session_service.create_session(**who)
        for _ in range(old):
            await session_service.append_event(held, event("old"))
        await session_service.delete_session(**who)
        made = await session_service.create_session(**who)
        with pytest.raises((SessionNotFoundError, StaleSessionError)):
            await session_service.append_event(held, event("late", delta={"a": 1}))

        assert made == await session_service.get_session(**who)

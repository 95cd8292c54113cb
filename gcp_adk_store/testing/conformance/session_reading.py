"""State what reading a session promises: which events, and that the caller owns them."""
# ruff: noqa: SIM300  # expected values stand first

import pytest
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.testing.conformance.running import in_its_own_loop
from gcp_adk_store.testing.conformance.session_examples import Ids, event, read, texts


class ReadingSessions:
    """Tests of ``get_session``."""

    @pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
    @in_its_own_loop
    async def test_an_unknown_session_is_none(
        self, session_service: BaseSessionService, who: Ids, field: str
    ) -> None:
        """Whichever of its ids is the unknown one."""
        await session_service.create_session(**who)

        assert None is await session_service.get_session(**{**who, field: f"{who['app_name']}-unknown"})

    @pytest.mark.parametrize(
        ("recent", "after", "expected"),
        [
            (None, None, "12345"),
            (0, None, ""),
            (1, None, "5"),
            (3, None, "345"),
            (5, None, "12345"),
            (6, None, "12345"),
            (None, 0.0, "12345"),
            (None, 3.0, "345"),
            (None, 3.5, "45"),
            (None, 5.0, "5"),
            (None, 4e9, ""),
            (2, 1.0, "45"),
            (4, 4.0, "45"),
            (0, 1.0, ""),
        ],
    )
    @in_its_own_loop
    async def test_a_filter_chooses_events_and_nothing_else(
        self,
        session_service: BaseSessionService,
        who: Ids,
        recent: int | None,
        after: float | None,
        expected: str,
    ) -> None:
        """The last so many, at or after a time; order, state and times are those of the whole session."""
        held = await session_service.create_session(**who, state={"user:a": 1})
        for number in range(1, 6):
            await session_service.append_event(
                held, event(f"{number}", at=float(number), delta={"n": number})
            )
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        found = await read(session_service, who, config=config)

        assert list(expected) == texts(found)
        assert ({"user:a": 1, "n": 5}, 5.0) == (found.state, found.last_update_time)

    @in_its_own_loop
    async def test_a_filtered_session_may_append(self, session_service: BaseSessionService, who: Ids) -> None:
        """It is not stale for the events it was not given."""
        held = await session_service.create_session(**who)
        for number in range(3):
            await session_service.append_event(held, event(f"{number}"))
        for recent in (1, 0):
            view = await read(session_service, who, config=GetSessionConfig(num_recent_events=recent))
            await session_service.append_event(view, event(f"from a view of {recent}"))

        assert ["0", "1", "2", "from a view of 1", "from a view of 0"] == texts(
            await read(session_service, who)
        )

    @in_its_own_loop
    async def test_what_a_reader_does_to_a_session_stays_with_it(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Nested state of every scope, the list of events and what is in them."""
        state = {"mine": [1], "user:a": [1], "app:b": [1]}
        held = await session_service.create_session(**who, state=state)
        await session_service.append_event(held, event("said", at=1.0))
        before = await read(session_service, who)
        spoilt = await read(session_service, who)
        for values in spoilt.state.values():
            values.append("spoilt")
        spoilt.state["more"] = "spoilt"
        spoilt.events[0].author = "spoilt"
        spoilt.events.clear()
        spoilt.last_update_time = 99.0

        assert before == await session_service.get_session(**who)

    @in_its_own_loop
    async def test_what_a_maker_does_to_a_session_stays_with_it(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Nested state of every scope of the session that create returned."""
        made = await session_service.create_session(**who, state={"mine": [1], "user:a": [1], "app:b": [1]})
        for values in made.state.values():
            values.append("spoilt")

        assert {"mine": [1], "user:a": [1], "app:b": [1]} == (await read(session_service, who)).state

"""Appends to sessions, by one writer and by several."""

import asyncio
import contextlib
import copy

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from gcp_adk_store.testing.conformance.running import Ids, event, in_loops_of_their_own, read, texts

_SAID = types.Content(role="model", parts=[types.Part(text="said")])

_EVENTS = {
    "bytes": Event(
        author="agent",
        content=types.Content(
            role="model",
            parts=[types.Part(inline_data=types.Blob(data=b"\x00\xff\x80", mime_type="image/png"))],
        ),
    ),
    "grounding": Event(
        author="agent",
        content=_SAID,
        grounding_metadata=types.GroundingMetadata(web_search_queries=["one", "two"]),
    ),
    "function call and response": Event(
        author="agent",
        content=types.Content(
            role="model",
            parts=[
                types.Part(
                    function_call=types.FunctionCall(id="1", name="f", args={"rows": [[1], [2, [3]]]})
                ),
                types.Part(function_response=types.FunctionResponse(id="1", name="f", response={"": None})),
            ],
        ),
        long_running_tool_ids={"1"},
    ),
    "actions": Event(
        author="agent",
        content=_SAID,
        actions=EventActions(
            skip_summarization=True,
            artifact_delta={"report.txt": 3},
            transfer_to_agent="another",
            escalate=True,
            requested_tool_confirmations={"1": ToolConfirmation(hint="sure?", payload={"a": [1]})},
        ),
    ),
    "everything else": Event(
        id="drawn elsewhere",
        invocation_id="invocation",
        author="agent",
        timestamp=1700000000.123,
        content=_SAID,
        branch="root.child",
        turn_complete=True,
        error_code="CODE",
        error_message="what went wrong",
        interrupted=True,
        custom_metadata={"a": [None, {"b": 0.5}]},
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=7),
    ),
    "no content": Event(author="agent"),
}


@in_loops_of_their_own
class AppendingEvents:
    """Tests of ``append_event`` by one writer."""

    async def test_an_append_changes_the_callers_session_in_place(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The event joins the list that the caller holds; state and time follow; the event is returned."""
        held = await session_service.create_session(**who, state={"a": 1})
        events = held.events
        given = event("said", at=7.5, delta={"a": 2, "user:b": 3})
        returned = await session_service.append_event(held, given)

        assert events is held.events
        assert [returned] == held.events
        assert (given.id, {"a": 2, "user:b": 3}) == (returned.id, returned.actions.state_delta)
        assert ({"a": 2, "user:b": 3}, 7.5) == (held.state, held.last_update_time)

    @pytest.mark.parametrize("kind", _EVENTS)
    async def test_an_event_comes_back_as_it_was_appended(
        self, session_service: BaseSessionService, who: Ids, kind: str
    ) -> None:
        """Every field of it; and the session is equal to the one that its writer holds."""
        given = _EVENTS[kind].model_copy(deep=True)
        held = await session_service.create_session(**who)
        await session_service.append_event(held, given.model_copy(deep=True))
        found = await read(session_service, who)

        assert [given] == found.events
        assert held == found

    async def test_events_come_back_in_the_order_of_their_appends(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Whatever their timestamps and ids: branches of an agent create before they append."""
        held = await session_service.create_session(**who)
        for number, at in enumerate((5.0, 5.0, 5.0, 1.0, 3.0)):
            made = event(f"{number}", at=at)
            made.id = f"id-{9 - number}"
            await session_service.append_event(held, made)

        assert list("01234") == texts(await read(session_service, who))

    @pytest.mark.parametrize("at", [1.0, 1700000000.123, 1727500000.1234567, 1730606399.5, 1730609999.5])
    async def test_the_last_update_is_the_events_own_time_exactly(
        self, session_service: BaseSessionService, who: Ids, at: float
    ) -> None:
        """For reader and writer; it may lie in the past, and in an hour that clocks repeat."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event(at=at))
        found = await read(session_service, who)

        assert [at] * 3 == [held.last_update_time, found.last_update_time, found.events[0].timestamp]

    async def test_a_partial_event_is_not_stored(self, session_service: BaseSessionService, who: Ids) -> None:
        """It is returned as it is, and neither the session nor storage learns of it."""
        held = await session_service.create_session(**who)
        before = held.model_copy(deep=True)
        partial = event("half a sen", delta={"a": 1, "temp:b": 1})
        partial.partial = True
        returned = await session_service.append_event(held, partial)

        assert returned is partial
        assert {"a": 1, "temp:b": 1} == partial.actions.state_delta
        assert before == held
        assert before == await session_service.get_session(**who)

    async def test_an_equal_event_delivered_again_is_stored_once(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """From the same session and from one that was read anew; its change of state is not made again."""
        held = await session_service.create_session(**who)
        first = event("once", at=1.0, delta={"a": 1})
        again = copy.deepcopy(first)
        await session_service.append_event(held, first)
        await session_service.append_event(held, event("between", at=2.0, delta={"a": 2}))
        await session_service.append_event(held, again)
        await session_service.append_event(await read(session_service, who), copy.deepcopy(again))
        found = await read(session_service, who)

        assert ["once", "between"] == texts(found)
        assert ({"a": 2}, 2.0) == (found.state, found.last_update_time)

    @pytest.mark.parametrize("reader", ["filtered", "travelled as JSON"])
    async def test_an_equal_event_is_recognised_from_a_session_that_does_not_hold_it(
        self, session_service: BaseSessionService, who: Ids, reader: str
    ) -> None:
        """Such as one that was read without events, after a crash between two deliveries."""
        held = await session_service.create_session(**who)
        first = event("once", at=1.0, delta={"a": 1})
        await session_service.append_event(held, copy.deepcopy(first))
        await session_service.append_event(held, event("between", at=2.0, delta={"a": 2}))
        view = await read(session_service, who, config=GetSessionConfig(num_recent_events=0))
        if reader != "filtered":
            view = Session.model_validate_json(view.model_dump_json())
        await session_service.append_event(view, first)
        found = await read(session_service, who)

        assert ["once", "between"] == texts(found)
        assert ({"a": 2}, 2.0) == (found.state, found.last_update_time)

    async def test_different_events_with_one_id_are_both_stored(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """An id is not what makes an event."""
        held = await session_service.create_session(**who)
        for text in ("one", "two"):
            made = event(text)
            made.id = "the same"
            await session_service.append_event(held, made)

        assert ["one", "two"] == texts(await read(session_service, who))

    async def test_an_event_stays_as_it_was_appended(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """What its owner does to it afterwards reaches no reader."""
        held = await session_service.create_session(**who)
        given = event("said", delta={"a": [1]})
        await session_service.append_event(held, given)
        given.author = "spoilt"
        given.actions.state_delta["a"].append("spoilt")
        found = await read(session_service, who)

        assert ["user"] == [one.author for one in found.events]
        assert {"a": [1]} == found.state

    async def test_an_append_to_an_unknown_session_is_refused(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """Nothing is applied: not to the caller's session, not to shared state."""
        never = Session(id=who["session_id"], app_name=who["app_name"], user_id=who["user_id"])
        with pytest.raises(SessionNotFoundError):
            await session_service.append_event(never, event(delta={"a": 1, "user:b": 1}))

        assert ([], {}) == (never.events, never.state)
        assert {} == await session_service.get_user_state(**user)
        assert None is await session_service.get_session(**who)

    async def test_an_append_to_a_deleted_session_is_refused(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """It does not bring the session back."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event("before"))
        await session_service.delete_session(**who)
        with pytest.raises(SessionNotFoundError):
            await session_service.append_event(held, event("late", delta={"a": 1, "user:b": 1}))

        assert (["before"], {}) == (texts(held), held.state)
        assert {} == await session_service.get_user_state(**user)
        assert None is await session_service.get_session(**who)


@in_loops_of_their_own
class WritingTogether:
    """Tests of ``append_event`` by several writers."""

    async def test_the_second_writer_of_two_is_refused(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Its error is a ``ValueError`` too, and says what happened."""
        await session_service.create_session(**who)
        winner, loser = await read(session_service, who), await read(session_service, who)
        await session_service.append_event(winner, event("first"))
        with pytest.raises(StaleSessionError, match="modified in storage") as caught:
            await session_service.append_event(loser, event("second"))

        assert isinstance(caught.value, ValueError)

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
        stale = [sum(isinstance(one, StaleSessionError) for one in pair) for pair in outcomes]

        assert ([1] * 8, [1] * 8) == (won, stale)
        assert list("01234567") == texts(await read(session_service, who))

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

    async def test_events_of_one_time_by_one_writer_are_not_stale(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Nor events from before the last one."""
        held = await session_service.create_session(**who)
        for number, at in enumerate((3.0, 3.0, 2.0, 2.0)):
            await session_service.append_event(held, event(f"{number}", at=at))

        assert list("0123") == texts(await read(session_service, who))

    @pytest.mark.parametrize("drift", [-1e-4, -1e-6])
    async def test_a_drifting_update_time_is_not_stale(
        self, session_service: BaseSessionService, who: Ids, drift: float
    ) -> None:
        """Times lose digits on their way through other systems."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event("one", at=1727500000.25))
        held.last_update_time += drift
        await session_service.append_event(held, event("two"))

        assert ["one", "two"] == texts(await read(session_service, who))

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
    async def test_a_session_that_was_made_anew_is_not_written_by_holders_of_the_old_one(
        self, session_service: BaseSessionService, who: Ids, old: int
    ) -> None:
        """They get the error that theirs is gone, or stale, also if both have as many events."""
        held = await session_service.create_session(**who)
        for _ in range(old):
            await session_service.append_event(held, event("old"))
        await session_service.delete_session(**who)
        made = await session_service.create_session(**who)
        with pytest.raises((SessionNotFoundError, StaleSessionError)):
            await session_service.append_event(held, event("late", delta={"a": 1}))

        assert made == await session_service.get_session(**who)

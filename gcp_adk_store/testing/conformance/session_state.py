"""State and events of sessions, as readers see them."""

import asyncio
from typing import Any

import pytest
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.testing.conformance.running import SCOPES, Ids, event, in_loops_of_their_own, read, texts

_VALUES: tuple[Any, ...] = (
    True,
    False,
    0,
    0.0,
    0.1 + 0.2,
    1727500000.1234567,
    2**53 + 1,
    -(2**63),
    2**70,
    "",
    "日本語\n",
    [],
    {},
    [[1, [2.5]], {}, None],
    {"": None, "__x__": {"a.b`c": [True]}},
)

_KEYS = (
    "",
    " ",
    "a.b",
    "a/b",
    "__name__",
    "`",
    "%25",
    "0",
    "ключ",
    "user",
    "app",
    "temp",
    "tempo:x",
    "x:app:y",
)


@in_loops_of_their_own
class KeepingState:
    """Tests of the state of sessions, users and apps."""

    async def test_app_state_is_shared_by_all_users_of_the_app(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Also what is written later, also for sessions made before; other apps see none of it."""
        held = await session_service.create_session(**who, state={"app:a": 1})
        others = {**who, "user_id": "another"}
        elsewhere = {**who, "app_name": f"{who['app_name']}-2"}
        await session_service.create_session(**others)
        await session_service.create_session(**elsewhere)
        await session_service.append_event(held, event(delta={"app:b": 2}))

        assert {"app:a": 1, "app:b": 2} == (await read(session_service, others)).state
        assert {} == (await read(session_service, elsewhere)).state

    async def test_user_state_is_shared_by_the_users_sessions(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Of this app only; another user, and the same user of another app, see none of it."""
        held = await session_service.create_session(**who, state={"user:a": 1})
        places: dict[str, Ids] = {
            "same user": {**who, "session_id": "another"},
            "another user": {**who, "user_id": "another"},
            "another app": {**who, "app_name": f"{who['app_name']}-2"},
        }
        for place in places.values():
            await session_service.create_session(**place)
        await session_service.append_event(held, event(delta={"user:b": 2}))
        found = {name: (await read(session_service, place)).state for name, place in places.items()}

        assert {"same user": {"user:a": 1, "user:b": 2}, "another user": {}, "another app": {}} == found

    async def test_session_state_is_the_sessions_own(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The user's next session starts without it."""
        held = await session_service.create_session(**who, state={"a": 1})
        await session_service.append_event(held, event(delta={"b": 2}))
        following = {**who, "session_id": "following"}

        assert {} == (await session_service.create_session(**following)).state
        assert {"a": 1, "b": 2} == (await read(session_service, who)).state

    @pytest.mark.parametrize("scope", SCOPES)
    async def test_none_is_a_value(self, session_service: BaseSessionService, who: Ids, scope: str) -> None:
        """It replaces what was there and is kept: no key is ever removed."""
        held = await session_service.create_session(**who, state={f"{scope}old": 1})
        await session_service.append_event(held, event(delta={f"{scope}old": None, f"{scope}new": None}))

        assert {f"{scope}old": None, f"{scope}new": None} == (await read(session_service, who)).state

    @pytest.mark.parametrize("scope", SCOPES)
    async def test_a_dictionary_replaces_the_one_before(
        self, session_service: BaseSessionService, who: Ids, scope: str
    ) -> None:
        """Nothing below a key is merged."""
        held = await session_service.create_session(**who, state={f"{scope}d": {"old": 1, "deep": {"a": 1}}})
        await session_service.append_event(held, event(delta={f"{scope}d": {"deep": {"b": 2}}}))

        assert {f"{scope}d": {"deep": {"b": 2}}} == (await read(session_service, who)).state

    @pytest.mark.parametrize("value", _VALUES, ids=repr)
    async def test_a_value_keeps_its_exact_type(
        self, session_service: BaseSessionService, who: Ids, value: Any
    ) -> None:
        """In every scope, from create and from an append, across an unrelated change."""
        given = {f"{scope}given": value for scope in SCOPES}
        appended = {f"{scope}appended": value for scope in SCOPES}
        held = await session_service.create_session(**who, state=given)
        await session_service.append_event(held, event(delta=appended))
        held = await read(session_service, who)
        await session_service.append_event(held, event(delta={f"{scope}unrelated": 1 for scope in SCOPES}))
        found = await read(session_service, who)

        assert [repr(value)] * 6 == [repr(found.state[key]) for key in (*given, *appended)]

    @pytest.mark.parametrize("scope", SCOPES)
    async def test_any_text_is_a_key(self, session_service: BaseSessionService, who: Ids, scope: str) -> None:
        """Keys are text, not paths, and never meet one another."""
        given = {f"{scope}{key}": f"given {key}" for key in _KEYS[::2]}
        appended = {f"{scope}{key}": f"appended {key}" for key in _KEYS[1::2]}
        held = await session_service.create_session(**who, state=given)
        await session_service.append_event(held, event(delta=appended))

        assert {**given, **appended} == (await read(session_service, who)).state

    async def test_temp_state_lives_in_the_callers_session_only(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The next agent of the invocation reads it there; neither event nor storage has it."""
        held = await session_service.create_session(**who)
        returned = await session_service.append_event(held, event(delta={"temp:mood": "busy", "kept": 1}))
        found = await read(session_service, who)

        assert {"temp:mood": "busy", "kept": 1} == held.state
        assert {"kept": 1} == returned.actions.state_delta
        assert {"kept": 1} == found.state
        assert [{"kept": 1}] == [one.actions.state_delta for one in found.events]

    async def test_only_what_an_event_changes_is_stored(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """A key that was put into the session without an event stays with its caller."""
        held = await session_service.create_session(**who)
        held.state["uncommitted"] = 1
        await session_service.append_event(held, event(delta={"committed": 1}))

        assert {"committed": 1} == (await read(session_service, who)).state

    async def test_what_json_cannot_hold_does_not_lose_the_event(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """The event is kept and the session goes on."""
        held = await session_service.create_session(**who)
        await session_service.append_event(held, event("odd", delta={"odd": object(), "even": 2}))
        await session_service.append_event(held, event("next"))
        found = await read(session_service, who)

        assert ["odd", "next"] == texts(found)
        assert 2 == found.state["even"]  # as it was given

    @pytest.mark.parametrize("scope", ["user:", "app:"])
    async def test_writers_of_different_sessions_lose_no_key_of_each_other(
        self, session_service: BaseSessionService, who: Ids, scope: str
    ) -> None:
        """Six sessions change shared state at once."""
        held = [
            await session_service.create_session(**{**who, "session_id": f"session-{n}"}) for n in range(6)
        ]
        await asyncio.gather(
            *(
                session_service.append_event(one, event(delta={f"{scope}{n}": n}))
                for n, one in enumerate(held)
            )
        )

        assert {f"{scope}{n}": n for n in range(6)} == (await session_service.create_session(**who)).state

    async def test_user_state_is_read_without_a_session(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """Raw keys, the latest values; empty for users and apps that wrote none."""
        before = await session_service.get_user_state(**user)
        held = await session_service.create_session(**who, state={"user:a": 1, "app:c": 1, "d": 1})
        await session_service.append_event(held, event(delta={"user:a": 2, "user:b": [None]}))
        await session_service.delete_session(**who)

        assert {} == before
        assert {"a": 2, "b": [None]} == await session_service.get_user_state(**user)
        assert {} == await session_service.get_user_state(**{**user, "user_id": "another"})
        assert {} == await session_service.get_user_state(**{**user, "app_name": f"{user['app_name']}-2"})

    async def test_user_state_that_was_read_is_the_callers_own(
        self, session_service: BaseSessionService, who: Ids, user: Ids
    ) -> None:
        """Nested values too."""
        await session_service.create_session(**who, state={"user:a": [1]})
        spoilt = await session_service.get_user_state(**user)
        spoilt["a"].append("spoilt")
        spoilt["b"] = "spoilt"

        assert {"a": [1]} == await session_service.get_user_state(**user)


@in_loops_of_their_own
class ReadingSessions:
    """Tests of ``get_session``."""

    @pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
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

    async def test_what_a_maker_does_to_a_session_stays_with_it(
        self, session_service: BaseSessionService, who: Ids
    ) -> None:
        """Nested state of every scope of the session that create returned."""
        made = await session_service.create_session(**who, state={"mine": [1], "user:a": [1], "app:b": [1]})
        for values in made.state.values():
            values.append("spoilt")

        assert {"mine": [1], "user:a": [1], "app:b": [1]} == (await read(session_service, who)).state

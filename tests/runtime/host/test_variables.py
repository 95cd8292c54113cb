"""Variables are the session's state, removed ones and those of other scopes included."""

from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.runtime import RuntimeSettings
from tests.runtime.host.runs import MakeRuntime, ran, result_of, stored


async def test_a_removed_variable_is_gone_for_code(make: MakeRuntime, sessions: BaseSessionService) -> None:
    """For ADK, whose state knows no removal, it is None, and a mark says what that means."""
    runtime = make()
    await ran(runtime, 'remove_variable("name")')

    seen = await result_of(
        runtime, 'return [get_variable("name"), context.get_variable("name", 1), "name" in context.state]'
    )
    assert seen == [None, 1, False]
    assert (await stored(sessions)).state == {"name": None, "ces_removed:name": True}
    again = await ran(runtime, 'remove_variable("name")')
    assert again.error is not None
    assert again.error.type == "KeyError"


async def test_none_is_a_value_of_a_variable(make: MakeRuntime) -> None:
    """Also of one that was removed before."""
    runtime = make()
    body = 'return ["name" in context.state, context.get_variable("name", 1)]'
    await ran(runtime, 'set_variable("name", None)')
    assert await result_of(runtime, body) == [True, None]

    await ran(runtime, 'remove_variable("name")')
    assert await result_of(runtime, body) == [False, 1]

    await ran(runtime, 'set_variable("name", None)')
    assert await result_of(runtime, body) == [True, None]


async def test_a_variable_that_others_set_again_is_there(
    make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """Whatever mark there is: agents of ADK know nothing of it."""
    runtime = make()
    await ran(runtime, 'remove_variable("name")')
    event = Event(author="other", actions=EventActions(state_delta={"name": "Grace"}))
    await sessions.append_event(await stored(sessions), event)

    assert await result_of(runtime, 'return get_variable("name")') == "Grace"


async def test_variables_of_users_and_apps_are_shared(
    make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """Removed in one session, they are gone in the other."""
    await sessions.create_session(app_name="shop", user_id="ada", session_id="s2")
    runtime = make()
    await ran(runtime, 'set_variable("user:plan", "gold"); set_variable("app:open", True)')
    body = 'return {name: value for name, value in context.state.items() if ":" in name}'
    assert await result_of(runtime, body, key="shop/ada/s2") == {"user:plan": "gold", "app:open": True}

    await ran(runtime, 'remove_variable("user:plan")', key="shop/ada/s2")
    assert await result_of(runtime, body) == {"app:open": True}


async def test_variables_of_users_and_apps_can_be_kept_from_code(
    make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """It neither sees nor sets them."""
    await ran(make(), 'set_variable("user:plan", "gold")')
    runtime = make(settings=RuntimeSettings(shared_variables=False))

    assert await result_of(runtime, "return dict(context.state)") == {"name": "Ada"}
    with pytest.raises(InvalidInputError, match="shared_variables"):
        await ran(runtime, 'set_variable("app:open", False)')
    assert (await stored(sessions)).state == {"name": "Ada", "user:plan": "gold"}


async def test_a_variable_of_adks_fleeting_scope_lasts_for_its_run(
    make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """Its author is told."""
    run = await ran(make(), 'set_variable("temp:draft", 1); return get_variable("temp:draft")')

    assert (run.result, run.event_id) == (1, None)
    assert any("temp:draft" in warning for warning in run.warnings)
    assert (await stored(sessions)).state == {"name": "Ada"}


@pytest.mark.parametrize("name", ["ces_removed:name", "user:ces_removed:name", "app:ces_removed:x"])
async def test_the_names_of_marks_are_not_for_variables(
    name: str, make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """Code could take away what it may not change."""
    with pytest.raises(InvalidInputError, match="name"):
        await ran(make(), f'set_variable("{name}", True)')
    assert (await stored(sessions)).events == []


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {1: 2}}, object()])
async def test_a_variable_of_others_that_is_no_json_is_named(
    value: Any, make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """Before any code runs; ADK's state takes such."""
    event = Event(author="other", actions=EventActions.model_construct(state_delta={"odd": value}))
    await sessions.append_event(await stored(sessions), event)

    with pytest.raises(InvalidInputError, match="the variable 'odd'"):
        await ran(make(), "return 1")


async def test_a_history_with_numbers_that_are_no_json_can_be_read(
    make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """They are null there, as in events that this library stores; the variable has been set again since."""
    for value in (float("nan"), 1):
        event = Event(author="other", actions=EventActions(state_delta={"odd": value}))
        await sessions.append_event(await stored(sessions), event)

    body = "return [event.actions.state_delta for event in context.events]"
    assert await result_of(make(), body) == [{"odd": None}, {"odd": 1}]


async def test_five_megabytes_of_variables_are_set_by_one_run(
    make: MakeRuntime, sessions: BaseSessionService
) -> None:
    """As on the platform: in 20 of them, each as large as one may be."""
    body = 'for number in range(20): set_variable(f"large_{number}", "x" * 260_000)'

    run = await ran(make(), body)
    assert run.error is None
    assert sum(len(value) for value in (await stored(sessions)).state.values()) > 5_000_000
    more = await ran(make(), 'set_variable("large_0", get_variable("large_0")[1:])')
    assert (more.error, len(more.variables["large_0"])) == (None, 259_999)

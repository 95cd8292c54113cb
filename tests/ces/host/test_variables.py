"""Variables are the session's state, removed ones and those of other scopes included."""

from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService

from gcp_adk_store.ces import PythonTool, RuntimeSettings, SessionKey
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.runs import Make, error_of, ran, result_of, stored, tool


def deep(levels: int) -> list[Any]:
    """Return lists within each other."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


async def test_none_is_a_value_of_a_variable(make: Make) -> None:
    """A removed one is gone for code. ADK's state knows no removal: it is None, and a mark says what that is.

    One that others set again is there, whatever mark there is: agents of ADK know nothing of it.
    """
    runtime = make()
    body = 'return [get_variable("name"), context.get_variable("name", 1), "name" in context.state]'
    for _ in range(2):
        await ran(runtime, 'set_variable("name", None)')
        assert await result_of(runtime, body) == [None, None, True]

        await ran(runtime, 'remove_variable("name")')
        assert await result_of(runtime, body) == [None, 1, False]
        assert (await stored(make.sessions)).state == {"name": None, "ces_removed:name": True}
        assert error_of(await ran(runtime, 'remove_variable("name")')).type == "KeyError"
    event = Event(author="other", actions=EventActions(state_delta={"name": "Grace"}))
    await make.sessions.append_event(await stored(make.sessions), event)
    assert await result_of(runtime, body) == ["Grace", "Grace", True]


async def test_variables_of_users_and_apps_are_shared_by_name(make: Make) -> None:
    """Removed in one session, they are gone in the other. Other names would share nothing, or too much."""
    wrong: tuple[Any, ...] = (True, "app:theme", ("theme",), ("temp:theme",), (1,), ("app:ces_removed:a",))
    for shared in wrong:
        with pytest.raises(InvalidInputError, match="shared_variables"):
            RuntimeSettings(shared_variables=shared)
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2")
    runtime = make(settings=RuntimeSettings(shared_variables=("user:plan", "app:open")))
    await ran(runtime, 'set_variable("user:plan", "gold"); set_variable("app:open", True)')
    body = 'return {name: value for name, value in context.state.items() if ":" in name}'
    assert await result_of(runtime, body, key="shop/ada/s2") == {"user:plan": "gold", "app:open": True}

    await ran(runtime, 'remove_variable("user:plan")', key="shop/ada/s2")
    assert await result_of(runtime, body) == {"app:open": True}


@pytest.mark.parametrize("name", ["app:open", "user:plan", "app:theme.dark", "app:*"])
async def test_code_neither_sees_nor_sets_other_variables_of_users_and_apps(name: str, make: Make) -> None:
    """Code of one user would steer the runs of others; a name that is shared shares no longer one."""
    event = Event(author="agent", actions=EventActions(state_delta={name: "set by the agent"}))
    await make.sessions.append_event(await stored(make.sessions), event)
    for shared in ((), ("app:theme", "user:planet")):
        runtime = make(settings=RuntimeSettings(shared_variables=shared))
        assert await result_of(runtime, "return dict(context.state)") == {"name": "Ada"}
        for body in (f'set_variable("{name}", False)', f'set_variable("{name}", 1); remove_variable("name")'):
            run = await ran(runtime, body)
            assert run.error is not None
            assert (run.error.type, "shared_variables" in run.error.message) == ("InvalidInputError", True)
    assert (await stored(make.sessions)).state == {"name": "Ada", name: "set by the agent"}


async def test_a_variable_of_adks_fleeting_scope_lasts_for_its_run(make: Make) -> None:
    """Its author gets a warning. In a history, numbers that are no JSON are null."""
    run = await ran(make(), 'set_variable("temp:draft", 1); return get_variable("temp:draft")')

    assert (run.result, run.event_id) == (1, None)
    assert any("temp:draft" in warning for warning in run.warnings)
    assert (await stored(make.sessions)).state == {"name": "Ada"}

    for value in (float("nan"), 1):
        event = Event(author="other", actions=EventActions(state_delta={"odd": value}))
        await make.sessions.append_event(await stored(make.sessions), event)

    body = "return [event.actions.state_delta for event in context.events]"
    assert await result_of(make(), body) == [{"odd": None}, {"odd": 1}]


@pytest.mark.parametrize("name", ["ces_removed:name", "user:ces_removed:name", "app:ces_removed:x"])
async def test_the_names_of_marks_are_not_for_variables(name: str, make: Make) -> None:
    """Code could take away what it may not change; the run fails, whose caller did nothing wrong."""
    run = await ran(make(), f'set_variable("{name}", True); return 1')

    assert run.error is not None
    assert (run.error.type, "name" in run.error.message) == ("InvalidInputError", True)
    assert (run.result, run.variables) == ({"error": str(run.error)}, {"name": "Ada"})
    assert (await stored(make.sessions)).events == []


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {1: 2}}, object(), "\ud800", deep(95)])
async def test_a_variable_of_others_that_code_cannot_have_stays_away_from_it(value: Any, make: Make) -> None:
    """ADK's state takes such; the run begins, a warning names it, and code can set it."""
    state = {"name": "Ada", "odd": value}
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2", state=state)
    runtime, key = make(), "shop/ada/s2"

    run = await ran(runtime, 'return [dict(context.state), get_variable("odd")]', key=key)
    assert run.result == [{"name": "Ada"}, None]
    assert any("'odd'" in warning for warning in run.warnings)
    again = await ran(runtime, 'set_variable("odd", 1)', key=key)
    assert (again.ok, again.variables, again.warnings) == (True, {"name": "Ada", "odd": 1}, run.warnings)
    assert (await ran(runtime, "return 1", key=key)).warnings == ()


@pytest.mark.parametrize("body", ['remove_variable("odd")', "tools.forget({})", "async_tools.forget({})"])
async def test_code_removes_a_variable_that_it_cannot_have(body: str, make: Make) -> None:
    """Also in a tool that it calls, and does not wait for; once it is removed, it is missing."""
    forget = PythonTool(name="forget", code=tool('remove_variable("odd")', name="forget"))
    state = {"name": "Ada", "odd": float("nan"), "\ud800": 1}
    await make.sessions.create_session(app_name="shop", user_id="ada", session_id="s2", state=state)
    runtime, key = make(tools=[forget]), SessionKey("shop", "ada", "s2")

    for twice in ('remove_variable("odd"); remove_variable("odd")', 'remove_variable("\\ud800")'):
        assert error_of(await ran(runtime, twice, key=key)).type == "KeyError"
    run = await ran(runtime, f'{body}; return "odd" in context.state', key=key)
    assert (run.result, run.variables) == (False, {"name": "Ada"})
    removed = {"odd": None, "ces_removed:odd": True}
    assert (await stored(make.sessions, key)).state == {"name": "Ada", "\ud800": 1, **removed}
    assert error_of(await ran(runtime, 'remove_variable("odd")', key=key)).type == "KeyError"


SMALL = RuntimeSettings(
    shared_variables=("user:a", "user:b", "app:a", "app:b"),
    session_variables_bytes=1000,
    user_variables_bytes=500,
    app_variables_bytes=300,
    variables_per_scope=5,
)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('set_variable("a", "x" * 600); set_variable("b", "x" * 600)', "1000 of session_variables_bytes"),
        ('set_variable("x" * 1001, 1)', "1000 of session_variables_bytes"),
        ('set_variable("a", "\u00e9" * 200)', "1000 of session_variables_bytes"),
        (
            'set_variable("user:a", "x" * 300); set_variable("user:b", "x" * 300)',
            "500 of user_variables_bytes",
        ),
        ('set_variable("app:a", "x" * 400)', "300 of app_variables_bytes"),
        ("for n in range(5): set_variable(str(n), n)", "5 of variables_per_scope"),
        ('tools.put({"n": "x" * 2000})', "1000 of session_variables_bytes"),
    ],
)
async def test_more_variables_than_a_scope_may_have_fail_the_run(body: str, says: str, make: Make) -> None:
    """Nothing is stored, and the next run begins as if it had not been."""
    put = PythonTool(name="put", code=tool('set_variable("put", n)', name="put", parameters="n"))
    runtime = make(settings=SMALL, tools=[put])

    run = await ran(runtime, f"{body}\nreturn 1")
    assert run.error is not None
    assert (run.error.type, says in run.error.message) == ("VariablesTooLargeError", True), run.error
    assert (run.event_id, run.variables) == (None, {"name": "Ada"})
    assert (await stored(make.sessions)).state == {"name": "Ada"}
    assert await result_of(runtime, "return context.state") == {"name": "Ada"}


async def overfill(sessions: BaseSessionService, *, size: int) -> None:
    """Let an agent set what code may not: 104 variables of so many bytes."""
    delta = {f"large{n:03}": "x" * size for n in range(104)}
    event = Event(author="agent", actions=EventActions(state_delta=delta))
    await sessions.append_event(await stored(sessions), event)


async def test_a_run_begins_with_all_variables_that_its_request_can_hold(make: Make) -> None:
    """Also above the limits of a scope; what is larger than ``frame_bytes`` is an error that says so."""
    runtime = make(settings=RuntimeSettings(session_variables_bytes=600_000, history_bytes=0))
    await overfill(make.sessions, size=100_000)

    assert await result_of(runtime, 'return [len(context.state), get_variable("name")]') == [105, "Ada"]
    await overfill(make.sessions, size=250_000)
    with pytest.raises(InvalidInputError, match="frame_bytes"):
        await ran(runtime, "return 1")


async def test_an_overfull_scope_takes_what_does_not_make_it_larger(make: Make) -> None:
    """Smaller values and other scopes; nothing else until it is within its limits. Code can delete."""
    await overfill(make.sessions, size=25_000)
    shared = ("user:large",)
    runtime = make(settings=RuntimeSettings(session_variables_bytes=600_000, shared_variables=shared))

    assert (await ran(runtime, 'set_variable("large103", 1)')).ok
    assert (await ran(runtime, 'set_variable("user:large", 1)')).ok
    run = await ran(runtime, 'set_variable("more", "x" * 10)')
    assert error_of(run).type == "VariablesTooLargeError"
    assert (await ran(runtime, 'for n in range(103): remove_variable(f"large{n:03}")')).ok
    assert (await ran(runtime, 'set_variable("more", "x" * 10)')).ok
    assert sorted((await ran(runtime, "pass")).variables) == ["large103", "more", "name", "user:large"]


async def test_names_of_removed_variables_are_bounded(make: Make) -> None:
    """ADK's state keeps them for good; each can be used again."""
    runtime = make(settings=SMALL)
    for name in ("a", "b", "c", "d"):
        assert (await ran(runtime, f'set_variable("{name}", 1)')).ok
        assert (await ran(runtime, f'remove_variable("{name}")')).ok

    run = await ran(runtime, 'set_variable("e", 1)')
    assert "variables_per_scope" in error_of(run).message
    assert (await ran(runtime, 'set_variable("a", 2)')).ok
    assert len((await stored(make.sessions)).state) == 1 + 2 * 4

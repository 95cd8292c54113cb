"""Calls go on in the background, and end with their run."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gcp_adk_store.ces import MockConfig, MockTool, PythonTool, RuntimeSettings, Tool
from gcp_adk_store.ces.sandbox import Limits, SandboxTimeoutError
from tests.ces.host.runs import Acted, Gate, MakeRuntime, error_of, ran, stored, tool
from tests.ces.host.test_tools import DOUBLE, FAIL, FORGET
from tests.ces.host.test_untrusted import HONEST

PUT = PythonTool(name="put", code=tool('set_variable("put", n)', name="put", parameters="n"))
ANSWERS = MockTool(name="large", response="x" * 300)
CHANGES = PythonTool(name="large", code=tool('set_variable("large", "x" * 300)', name="large"))
NAME = PythonTool(name="rename", code=tool('set_variable("name", "Grace")', name="rename"))


async def test_background_calls_that_nobody_awaits_are_finished(make: MakeRuntime) -> None:
    """Before the run is; a warning says so."""
    done = []

    async def note(args: Mapping[str, Any]) -> dict[str, Any]:
        done.append(args["n"])
        return {}

    runtime = make(tools=[MockTool(name="note", response=note)])
    run = await ran(runtime, 'async_tools.note({"n": 1}); async_tools.note({"n": 2})')

    assert sorted(done) == [1, 2]
    assert any("background" in warning for warning in run.warnings)


@pytest.mark.parametrize(
    ("body", "delta"),
    [
        ('async_tools.put({"n": 1}); async_tools.put({"n": 2})', {"put": 2}),
        ('async_tools.put({"n": 1}); set_variable("put", 3)', {"put": 1}),
        ('one = async_tools.put({"n": 1}); async_tools.put({"n": 2}); one()', {"put": 2}),
        ("async_tools.forget({})", {"name": None, "ces_removed:name": True}),
        ('async_tools.forget({}); set_variable("name", "Eve")', {"name": None, "ces_removed:name": True}),
        ("async_tools.forget({}); async_tools.rename({})", {"name": "Grace"}),
        ("async_tools.rename({}); async_tools.forget({})", {"name": None, "ces_removed:name": True}),
        ('async_tools.rename({}); remove_variable("name")', {"name": "Grace"}),
        ('async_tools.fail({}); set_variable("put", 3)', {"put": 3}),
    ],
)
async def test_what_they_change_counts_last(body: str, delta: dict[str, Any], make: MakeRuntime) -> None:
    """In the order of their begin; of those that were awaited, there."""
    run = await ran(make(tools=[PUT, FORGET, NAME, FAIL]), body)

    (event,) = (await stored(make.sessions)).events
    assert (run.ok, event.actions.state_delta) == (True, delta)
    visible = {
        name: value for name, value in (await stored(make.sessions)).state.items() if value is not None
    }
    assert run.variables == {name: value for name, value in visible.items() if ":" not in name}


async def begin_a_call(_: Any, answer: Any, **__: Any) -> dict[str, Any]:
    """Begin a call of ``slow``, and end."""
    begin = {"call": "tool", "id": 1, "tool": "slow", "args": {}, "state": {}, "background": True}
    assert await answer(begin) == {}
    await asyncio.sleep(0)
    return HONEST


async def test_they_have_the_time_of_a_run(make: MakeRuntime) -> None:
    """Then the run has failed: without their end nobody knows what it did."""
    runtime = make(
        tools=[MockTool(name="slow", response=Gate())],
        settings=RuntimeSettings(limits=Limits(wall_s=0.1)),
        sandbox=Acted(begin_a_call),
    )
    with pytest.raises(SandboxTimeoutError, match="did not wait for"):
        await ran(runtime, "pass")
    assert (await stored(make.sessions)).events == []


async def test_one_that_ends_the_run_ends_it_though_nobody_awaits_it(make: MakeRuntime) -> None:
    """A test with a call that no mock fits must not pass."""
    run = await ran(
        make(tools=[DOUBLE]),
        'set_variable("a", 1); async_tools.double({"n": 9}); return 1',
        mocks=MockConfig(unmatched="FAIL"),
    )

    assert error_of(run).type == "UnmatchedToolCallError"
    assert (run.result, run.variables) == ({"error": str(run.error)}, {"name": "Ada"})
    assert (await stored(make.sessions)).events == []


@pytest.mark.parametrize("large", [ANSWERS, CHANGES])
async def test_answers_that_pile_up_end_the_run(make: MakeRuntime, large: Tool) -> None:
    """The host would hold them all, and what they changed; those that are asked for do not count."""
    runtime = make(tools=[large], settings=RuntimeSettings(uncollected_characters=1000))

    run = await ran(runtime, "for _ in range(9): async_tools.large({})")
    assert run.error is not None
    assert (run.error.type, len(run.calls) < 9) == ("UncollectedAnswersError", True)
    assert "uncollected_characters" in run.error.message
    assert (await ran(runtime, "for _ in range(9): async_tools.large({})()")).ok

"""Code calls tools of each kind within its own run; mocks and fakes answer in their place."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gcp_adk_store.ces import (
    FakeTools,
    HttpPolicy,
    MockConfig,
    MockedCall,
    MockTool,
    PythonTool,
    RuntimeSettings,
)
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.runs import KEY, Make, error_of, ran, result_of, stored, tool
from tests.ces.host.web import Web

DOUBLE = PythonTool(
    name="double", code=tool("return 2 * n", name="double", parameters="n"), description="Doubles a number."
)
COUNT = PythonTool(
    name="count",
    code=tool('set_variable("count", (get_variable("count") or 0) + 1)\nprint("counted")', name="count"),
)
FORGET = PythonTool(name="forget", code=tool('remove_variable("name")', name="forget"))
FAIL = PythonTool(name="fail", code=tool('set_variable("lost", 1)\nraise ValueError("no")', name="fail"))


async def test_called_tools_share_the_variables_of_their_run(make: Make) -> None:
    """One event has what all of them changed. Each is called with one dict, and answers with its result."""
    body = """
        set_variable("count", 5)
        tools.count({})
        tools.forget({})
        return [get_variable("count"), "name" in context.state, tools.double({"n": 4}).json()]
    """
    run = await ran(make(tools=[COUNT, FORGET, DOUBLE]), body)

    assert run.result == [6, False, {"result": 8}]
    (event,) = (await stored(make.sessions)).events
    assert event.actions.state_delta == {"count": 6, "name": None, "ces_removed:name": True}
    assert [call.stdout for call in run.calls] == ["counted\n", "", ""]
    call = run.calls[-1]
    assert (call.kind, call.name, call.asked, call.status_code) == ("tool", "double", {"n": 4}, 200)
    assert call.text == '{"result": 8}'


async def test_a_called_tool_that_fails_changes_nothing(make: Make) -> None:
    """Its caller sees an error, by status and by result, and may go on."""
    body = """
        answer = tools.fail({})
        try:
            answer.raise_for_status()
        except StatusError as error:
            return [error.status_code, error.reason, answer.json()["result"]]
    """
    run = await ran(make(tools=[FAIL]), body)

    assert run.result == [500, "ValueError: no", {"error": "ValueError: no"}]
    assert (await stored(make.sessions)).state == {"name": "Ada"}
    (call,) = run.calls
    assert 'File "fail.py", line 3' in error_of(call).traceback


async def test_tools_that_call_themselves_come_to_an_end(make: Make) -> None:
    """At the setting's depth."""
    endless = PythonTool(name="endless", code=tool("return tools.endless({}).json()", name="endless"))

    run = await ran(
        make(tools=[endless], settings=RuntimeSettings(max_depth=2)), "return tools.endless({}).text"
    )
    assert "ToolDepthError" in run.result
    assert "max_depth" in run.result


async def test_tools_that_do_not_fit_together_are_refused(make: Make) -> None:
    """At once, as fakes that are no Python; the error of a call of what is not there has the names."""
    wrong: tuple[Any, ...] = ([DOUBLE, DOUBLE], {"treble": DOUBLE}, [3])
    for tools in wrong:
        with pytest.raises(InvalidInputError):
            make(tools=tools)
    for source in ("def (", f"x = a{'.b' * 10_000}"):
        with pytest.raises(InvalidInputError, match=r"fakes\.py"):
            FakeTools(source=source)
    with pytest.raises(InvalidInputError, match="double"):
        await make(tools=[DOUBLE]).call_tool("treble", {}, KEY)


@pytest.mark.parametrize(
    "config",
    [
        {"mockedToolCalls": [{"mockResponse": {}}]},
        {"mockedToolCalls": [{"toolset": {"toolset": "Bank"}, "mockResponse": {}}]},
        {"mockedToolCalls": [{"toolset": "Bank", "mockResponse": {}}]},
        {"unmatchedToolCallBehavior": "GUESS"},
        {"mockedToolCalls": {}, "unmatchedToolCallBehavior": []},
        {"mocked_tool_calls": [{"toolId": "double", "mockResponse": {}}]},
        {"mockedToolCalls": [{"toolId": "double", "response": {}}]},
        {"mockedToolCalls": "double"},
        {"mockedToolCalls": ["double"]},
        {"mockedToolCalls": [{"toolId": "double", "mockResponse": [1]}]},
        {"mockedToolCalls": [{"toolId": "double", "mockResponse": {"result": float("nan")}}]},
        {"mockedToolCalls": [{"toolId": "double", "expectedArgsPattern": "n"}]},
        [],
    ],
)
def test_what_is_no_mock_config_is_refused(config: Any) -> None:
    """At once."""
    with pytest.raises(InvalidInputError):
        MockConfig.from_json(config)


async def test_a_mock_tool_answers_as_given(make: Make) -> None:
    """With a value, what a function makes of the arguments, or an error, as of a missing server."""

    async def later(args: Mapping[str, Any]) -> dict[str, Any]:
        return {"later": args}

    mocks = [
        MockTool(name="fixed", response={"result": [1]}),
        MockTool(name="made", response=lambda args: {"made": args}),
        MockTool(name="later", response=later),
        MockTool(name="bank", response={"error": "no server"}, status_code=501, reason="no server"),
    ]
    body = """
        answers = [tools.fixed({}), tools.made({"a": 1}), tools.later({"b": 2}), tools.bank({})]
        try:
            answers[-1].raise_for_status()
        except StatusError as exc:
            return [[each.json() for each in answers], answers[-1].ok, exc.status_code, exc.reason]
    """

    run = await ran(make(tools=mocks), body)
    answers = [{"result": [1]}, {"made": {"a": 1}}, {"later": {"b": 2}}, {"error": "no server"}]
    assert run.result == [answers, False, 501, "no server"]
    assert all(call.mocked for call in run.calls)
    called = await make(tools=mocks).call_tool("bank", {}, KEY)
    assert called.response == {"error": '501 no server: {"error": "no server"}'}


async def test_what_a_mocks_function_raises_is_raised(make: Make) -> None:
    """It is the test's own mistake; nothing is stored."""

    def broken(args: Mapping[str, Any]) -> dict[str, Any]:
        raise LookupError(str(args))

    with pytest.raises(LookupError):
        await ran(
            make(tools=[MockTool(name="broken", response=broken)]), 'set_variable("a", 1); tools.broken({})'
        )
    assert (await stored(make.sessions)).events == []


async def test_code_requests_the_web_through_the_host(make: Make, web: Web) -> None:
    """Where the policy allows it; else there is no answer, and its author learns why."""
    body = f"""
        answer = ces_requests.post("{web.url}/a", json={{"b": 1}}, params={{"c": "d"}})
        future = ces_requests.async_get("{web.url}/e")
        return [answer.status_code, answer.json()["path"], future().json()["path"], answer.ok]
    """
    policy = HttpPolicy(allow=[f"127.0.0.1:{web.port}"], allow_loopback=True)
    run = await ran(make(http=policy), body)
    assert run.result == [200, "/a", "/e", True]
    assert [(call.kind, call.name) for call in run.calls] == [("http", "POST"), ("http", "GET")]
    assert run.calls[0].asked == {"url": f"{web.url}/a", "json": {"b": 1}, "params": {"c": "d"}}

    refused = await ran(
        make(), f'r = ces_requests.get("{web.url}"); return [r.status_code, r.reason, r.text, r.ok]'
    )
    assert refused.result == [0, "Error fetching from URL", "", True]
    assert any("HttpPolicy.allow" in warning for warning in refused.warnings)


PLACE = "projects/p/locations/l/apps/a"
CONFIG = {
    "mockedToolCalls": [
        {
            "toolId": f"{PLACE}/tools/double",
            "expectedArgsPattern": {"n": 1},
            "mockResponse": {"result": "one"},
        },
        {"toolId": "double", "expectedArgsPattern": {"deep": {"a": 1}}, "mockResponse": {"result": "deep"}},
        {"toolId": "double", "expectedArgsPattern": {"n": [{"a": 1}]}, "mockResponse": {"result": "listed"}},
        {"toolset": {"toolset": f"{PLACE}/toolsets/Bank", "toolId": "pay"}, "mockResponse": {"paid": True}},
    ]
}


async def test_a_mock_config_answers_calls_that_fit(make: Make) -> None:
    """Of one run; other calls go to the tool."""
    bank = MockTool(name="Bank_pay", response={"paid": False})
    body = """
        return [
            tools.double({"n": 1}).json(), tools.double({"n": 1, "more": 2}).json(),
            tools.double({"deep": {"a": 1, "b": 2}}).json(), tools.double({"n": 4}).json(),
            tools.double({"n": [{"a": 1, "b": 2}]}).json(), tools.double({"n": [{"a": True}]}).json(),
            tools.double({"n": [{"a": 1}, 2]}).json(),
            tools.Bank_pay({}).json(),
        ]
    """
    runtime = make(tools=[DOUBLE, bank])

    found = await result_of(runtime, body, mocks=MockConfig.from_json(CONFIG))
    answers = ["one", "one", "deep", 8, "listed", [{"a": True}, {"a": True}], [{"a": 1}, 2, {"a": 1}, 2]]
    assert found == [*({"result": each} for each in answers), {"paid": True}]
    assert await result_of(runtime, "return tools.Bank_pay({}).json()") == {"paid": False}


async def test_a_tool_may_have_but_a_mock(make: Make) -> None:
    """What no mock fits is no tool then, and ends the run; so it does if a config refuses it."""
    mocks = MockConfig.from_json(CONFIG)
    refuses = MockConfig.from_json({**CONFIG, "unmatchedToolCallBehavior": "FAIL"})

    assert await result_of(make(), "return tools.Bank_pay({}).json()", mocks=mocks) == {"paid": True}
    for tools, body, given, kind in (
        ([], "tools.Bank_pay({})", None, "UnknownToolError"),
        ([], 'tools.double({"n": 9})', mocks, "UnknownToolError"),
        ([DOUBLE], 'tools.double({"n": 9})', refuses, "UnmatchedToolCallError"),
    ):
        caught = f"try:\n  {body}\nexcept BaseException: pass"
        assert error_of(await ran(make(tools=tools), caught, mocks=given)).type == kind


def faked(fakes: FakeTools, *tools: PythonTool) -> list[PythonTool]:
    """Return *tools* with *fakes*."""
    return [replace(each, fake=fakes) for each in tools]


async def test_fakes_answer_in_place_of_tools(make: Make) -> None:
    """One of a tool, else that of all; None lets the tool answer."""
    fakes = FakeTools(
        source="""
def fake_double(tool, input, callback_context):
    callback_context.state["faked"] = tool.description
    return {"result": "fake"} if input["n"] == 1 else None

def fake_tool_call(tool, input, callback_context):
    return {"result": tool.name} if tool.name == "count" else None
"""
    )
    body = """
        return [tools.double({"n": 1}).json(), tools.double({"n": 2}).json(), tools.count({}).json(),
                tools.fail({}).status_code, get_variable("faked")]
    """
    run = await ran(make(tools=faked(fakes, DOUBLE, COUNT, FAIL)), body)

    assert run.result == [{"result": "fake"}, {"result": 4}, {"result": "count"}, 500, "Doubles a number."]
    assert [call.mocked for call in run.calls] == [True, False, True, False]


async def test_a_models_call_is_mocked_and_faked_too(make: Make) -> None:
    """What a fake changes is stored."""
    fakes = FakeTools(
        source="def fake_count(tool, input, callback_context):\n"
        "    callback_context.state['count'] = 9\n    return {'result': 'fake'}\n"
    )
    runtime = make(tools=faked(fakes, COUNT, DOUBLE))
    mocks = MockConfig(calls=[MockedCall(tool="double", response={"result": "mock"})])

    assert (await runtime.call_tool("count", {}, KEY)).response == {"result": "fake"}
    assert (await stored(make.sessions)).state["count"] == 9
    assert (await runtime.call_tool("double", {"n": 1}, KEY, mocks=mocks)).response == {"result": "mock"}


async def test_a_models_own_call_needs_no_mock_that_fits(make: Make) -> None:
    """It is the tool under test; what it calls is mocked, or ends its run."""
    outer = PythonTool(
        name="outer", code=tool('return tools.double({"n": n}).json()', name="outer", parameters="n")
    )
    runtime = make(tools=[outer, DOUBLE, MockTool(name="bank", response={"paid": True})])
    mocks = MockConfig.from_json({**CONFIG, "unmatchedToolCallBehavior": "FAIL"})

    assert (await runtime.call_tool("outer", {"n": 1}, KEY, mocks=mocks)).result == {"result": "one"}
    assert (await runtime.call_tool("bank", {}, KEY, mocks=mocks)).response == {"paid": True}
    unmatched = await runtime.call_tool("outer", {"n": 2}, KEY, mocks=mocks)
    assert error_of(unmatched).type == "UnmatchedToolCallError"


async def test_a_failure_that_ended_a_run_is_its_response(make: Make) -> None:
    """Whether its code raised, or a fake did: that is test code, and must not look like a tool's failure."""
    fakes = FakeTools(
        source="def fake_tool_call(tool, input, callback_context):\n    raise ValueError('oops')\n"
    )
    runtime = make(tools=faked(fakes, DOUBLE))
    raised = await ran(make(), "raise KeyError(1)")
    of_fake = await runtime.call_tool("double", {"n": 1}, KEY)
    within = await ran(runtime, 'return tools.double({"n": 1}).text')

    for run in (raised, of_fake, within):
        assert run.response == {"result": {"error": str(error_of(run))}}
    assert str(error_of(within)) == "FakeToolError: fakes.py: ValueError: oops" == str(error_of(of_fake))

"""Mocks and fakes answer in place of tools."""

from dataclasses import replace
from typing import Any

import pytest

from gcp_adk_store.ces import FakeTools, MockConfig, MockedCall, MockTool, PythonTool
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.runs import KEY, MakeRuntime, error_of, ran, result_of, stored, tool
from tests.ces.host.test_tools import COUNT, DOUBLE, FAIL

CONFIG = {
    "mockedToolCalls": [
        {
            "toolId": "projects/p/locations/l/apps/a/tools/double",
            "expectedArgsPattern": {"n": 1},
            "mockResponse": {"result": "one"},
        },
        {
            "toolId": "double",
            "expectedArgsPattern": {"deep": {"a": 1}},
            "mockResponse": {"result": "deep"},
        },
        {
            "toolset": {"toolset": "projects/p/locations/l/apps/a/toolsets/Bank", "toolId": "pay"},
            "mockResponse": {"paid": True},
        },
    ]
}


async def test_a_mock_config_answers_calls_that_fit(make: MakeRuntime) -> None:
    """Of one run; other calls go to the tool."""
    bank = MockTool(name="Bank_pay", response={"paid": False})
    body = """
        return [
            tools.double({"n": 1}).json(), tools.double({"n": 1, "more": 2}).json(),
            tools.double({"deep": {"a": 1, "b": 2}}).json(), tools.double({"n": 4}).json(),
            tools.Bank_pay({}).json(),
        ]
    """
    runtime = make(tools=[DOUBLE, bank])

    found = await result_of(runtime, body, mocks=MockConfig.from_json(CONFIG))
    assert found == [{"result": "one"}, {"result": "one"}, {"result": "deep"}, {"result": 8}, {"paid": True}]
    assert await result_of(runtime, "return tools.Bank_pay({}).json()") == {"paid": False}


async def test_a_tool_may_have_but_a_mock(make: MakeRuntime) -> None:
    """One file can be tried without the others; what no mock fits is no tool then, and ends the run."""
    mocks = MockConfig.from_json(CONFIG)
    runtime = make()

    assert await result_of(runtime, "return tools.Bank_pay({}).json()", mocks=mocks) == {"paid": True}
    for body, given in (("tools.Bank_pay({})", None), ('tools.double({"n": 9})', mocks)):
        run = await ran(runtime, f"try:\n  {body}\nexcept BaseException: pass", mocks=given)
        assert error_of(run).type == "UnknownToolError"


async def test_a_mock_config_may_refuse_what_does_not_fit(make: MakeRuntime) -> None:
    """The run is over, whatever the code catches."""
    mocks = MockConfig.from_json({**CONFIG, "unmatchedToolCallBehavior": "FAIL"})

    run = await ran(
        make(tools=[DOUBLE]), 'try:\n  tools.double({"n": 9})\nexcept BaseException: pass', mocks=mocks
    )
    assert error_of(run).type == "UnmatchedToolCallError"


@pytest.mark.parametrize(
    "config",
    [
        {"mockedToolCalls": [{"mockResponse": {}}]},
        {"unmatchedToolCallBehavior": "GUESS"},
        {"mockedToolCalls": {}, "unmatchedToolCallBehavior": []},
        {"mocked_tool_calls": [{"toolId": "double", "mockResponse": {}}]},
        {"mockedToolCalls": [{"toolId": "double", "response": {}}]},
        {"mockedToolCalls": "double"},
        {"mockedToolCalls": ["double"]},
        {"mockedToolCalls": [{"toolId": "double", "mockResponse": [1]}]},
        {"mockedToolCalls": [{"toolId": "double", "expectedArgsPattern": "n"}]},
        [],
    ],
)
def test_what_is_no_mock_config_is_refused(config: Any) -> None:
    """At once."""
    with pytest.raises(InvalidInputError):
        MockConfig.from_json(config)


def faked(fakes: FakeTools, *tools: PythonTool) -> list[PythonTool]:
    """Return *tools* with *fakes*."""
    return [replace(each, fake=fakes) for each in tools]


async def test_fakes_answer_in_place_of_tools(make: MakeRuntime) -> None:
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


async def test_a_fake_that_fails_ends_the_run(make: MakeRuntime) -> None:
    """It is test code, and must not look like a tool's failure."""
    fakes = FakeTools(
        source="def fake_tool_call(tool, input, callback_context):\n    raise ValueError('oops')\n"
    )

    run = await ran(make(tools=faked(fakes, DOUBLE)), 'return tools.double({"n": 1}).text')
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("FakeToolError", "fakes.py: ValueError: oops")


def test_fakes_that_are_no_python_are_refused() -> None:
    """At once."""
    for source in ("def (", f"x = a{'.b' * 10_000}"):
        with pytest.raises(InvalidInputError, match=r"fakes\.py"):
            FakeTools(source=source)


async def test_a_models_call_is_mocked_and_faked_too(make: MakeRuntime) -> None:
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


async def test_a_models_own_call_needs_no_mock_that_fits(make: MakeRuntime) -> None:
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


async def test_a_failure_that_ended_a_run_is_its_response(make: MakeRuntime) -> None:
    """Whether its code raised, or a fake did in its place."""
    fakes = FakeTools(
        source="def fake_tool_call(tool, input, callback_context):\n    raise ValueError('oops')\n"
    )
    raised = await ran(make(), "raise KeyError(1)")
    of_fake = await make(tools=faked(fakes, DOUBLE)).call_tool("double", {"n": 1}, KEY)
    expected = [{"result": {"error": str(run.error)}} for run in (raised, of_fake)]
    assert [raised.response, of_fake.response] == expected
    assert None not in (raised.error, of_fake.error)

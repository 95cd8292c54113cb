"""Code calls tools: Python, OpenAPI, mocks and fakes, within its own run."""

from collections.abc import Mapping
from typing import Any

import pytest

from gcp_adk_store.ces import HttpPolicy, MockTool, PythonTool, RuntimeSettings
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.runs import KEY, MakeRuntime, error_of, ran, stored, tool
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


async def test_a_called_python_tool_answers_with_its_result(make: MakeRuntime) -> None:
    """Under its name, with one dict."""
    run = await ran(make(tools=[DOUBLE]), 'return tools.double({"n": 4}).json()')

    assert run.result == {"result": 8}
    (call,) = run.calls
    assert (call.kind, call.name, call.asked, call.status_code) == ("tool", "double", {"n": 4}, 200)
    assert call.text == '{"result": 8}'


async def test_called_tools_share_the_variables_of_their_run(make: MakeRuntime) -> None:
    """One event has what all of them changed."""
    body = """
        set_variable("count", 5)
        tools.count({})
        tools.forget({})
        return [get_variable("count"), "name" in context.state]
    """
    run = await ran(make(tools=[COUNT, FORGET]), body)

    assert run.result == [6, False]
    (event,) = (await stored(make.sessions)).events
    assert event.actions.state_delta == {"count": 6, "name": None, "ces_removed:name": True}
    assert [call.stdout for call in run.calls] == ["counted\n", ""]


async def test_a_called_tool_that_fails_changes_nothing(make: MakeRuntime) -> None:
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


async def test_tools_that_call_themselves_come_to_an_end(make: MakeRuntime) -> None:
    """At the setting's depth."""
    endless = PythonTool(name="endless", code=tool("return tools.endless({}).json()", name="endless"))

    run = await ran(
        make(tools=[endless], settings=RuntimeSettings(max_depth=2)), "return tools.endless({}).text"
    )
    assert "ToolDepthError" in run.result
    assert "max_depth" in run.result


@pytest.mark.parametrize("tools", [[DOUBLE, DOUBLE], {"treble": DOUBLE}, [3]])
def test_tools_that_do_not_fit_together_are_refused(tools: Any, make: MakeRuntime) -> None:
    """At once."""
    with pytest.raises(InvalidInputError):
        make(tools=tools)


async def test_a_mock_tool_answers_as_given(make: MakeRuntime) -> None:
    """With a value, or with what a function makes of the arguments."""

    async def later(args: Mapping[str, Any]) -> dict[str, Any]:
        return {"later": args}

    mocks = [
        MockTool(name="fixed", response={"result": [1]}),
        MockTool(name="made", response=lambda args: {"made": args}),
        MockTool(name="later", response=later),
    ]
    body = 'return [tools.fixed({}).json(), tools.made({"a": 1}).json(), tools.later({"b": 2}).json()]'

    run = await ran(make(tools=mocks), body)
    assert run.result == [{"result": [1]}, {"made": {"a": 1}}, {"later": {"b": 2}}]
    assert all(call.mocked for call in run.calls)


async def test_what_a_mocks_function_raises_is_raised(make: MakeRuntime) -> None:
    """It is the test's own mistake; nothing is stored."""

    def broken(args: Mapping[str, Any]) -> dict[str, Any]:
        raise LookupError(str(args))

    with pytest.raises(LookupError):
        await ran(
            make(tools=[MockTool(name="broken", response=broken)]), 'set_variable("a", 1); tools.broken({})'
        )
    assert (await stored(make.sessions)).events == []


async def test_a_model_calls_tools_of_each_kind(make: MakeRuntime) -> None:
    """By their names; what they change is stored."""
    runtime = make(tools=[COUNT, FAIL, MockTool(name="mock", response=[1])])

    run = await runtime.call_tool("count", {}, KEY)
    assert (run.response, run.stdout, run.variables["count"]) == ({"result": None}, "counted\n", 1)
    assert (await runtime.call_tool("mock", {}, KEY)).response == {"result": [1]}
    failed = await runtime.call_tool("fail", {}, KEY)
    assert (failed.ok, failed.response) == (False, {"result": {"error": "ValueError: no"}})
    assert (await stored(make.sessions)).state == {"name": "Ada", "count": 1}


async def test_a_model_cannot_call_what_is_not_there(make: MakeRuntime) -> None:
    """The error has the names that there are."""
    with pytest.raises(InvalidInputError, match="double"):
        await make(tools=[DOUBLE]).call_tool("treble", {}, KEY)


async def test_code_requests_the_web_through_the_host(make: MakeRuntime, web: Web) -> None:
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


async def test_a_mock_may_be_an_error(make: MakeRuntime) -> None:
    """As of an operation that has no server here: code that checks the status must not go on."""
    mock = MockTool(name="bank", response={"error": "no server"}, status_code=501, reason="no server")
    code = """
    answer = tools.bank({})
    try:
        answer.raise_for_status()
    except StatusError as exc:
        return [answer.ok, exc.status_code, exc.reason, answer.json()]
    """

    run = await ran(make(tools=[mock]), code)
    called = await make(tools=[mock]).call_tool("bank", {}, KEY)
    assert run.result == [False, 501, "no server", {"error": "no server"}]
    assert called.response == {"error": '501 no server: {"error": "no server"}'}


async def test_arguments_that_are_no_json_are_refused(make: MakeRuntime) -> None:
    """Before anything runs."""
    with pytest.raises(InvalidInputError, match="args"):
        await make().run_tool(tool("return a", parameters="a"), "tool", {"a": object()}, KEY)

"""Code asks the host: tools and servers, one after the other and side by side, and what ends the asking."""

from typing import Any

import pytest

from tests.ces.guest.runs import Host, Reply, as_tool, of_tool, replied, result_of


def test_a_tool_is_called_with_one_dict() -> None:
    """The call names it and carries the variables; keywords, which one template has, are warned of."""
    host = Host()
    source = as_tool(
        "set_variable('b', 2)\ntools.look_up(id=8)\nreturn tools.look_up({'id': 7}).json()['result']"
    )
    answer = of_tool(source, host=host, tools=["look_up"], state={"a": 1})

    assert answer["result"] == {"id": 7}
    assert host.calls == [
        {"call": "tool", "id": number, "tool": "look_up", "args": {"id": given}, "state": {"a": 1, "b": 2}}
        for number, given in ((1, 8), (2, 7))
    ]
    assert answer["warnings"] == [
        "tools.look_up(...) was called with keywords: the platform documents one dict"
    ]


@pytest.mark.parametrize("expression", ["tools.nope", "async_tools.nope", "ces_public.tools.nope"])
def test_an_unknown_tool_is_an_error_before_the_code_runs(expression: str) -> None:
    """No except clause catches it, for nothing was run; the line is named."""
    source = f"""
        print("ran")
        def tool():
            try:
                {expression}({{}})
            except BaseException:
                return 1
        """
    answer = of_tool(source, tools=["look_up"])

    assert answer["stdout"] == ""
    assert answer["error"]["type"] == "UnknownToolError"
    assert answer["error"]["message"].endswith("unknown tool; known: look_up")
    assert 'File "tool.py", line 5' in answer["error"]["traceback"]


def test_python_may_look_at_tools() -> None:
    """What it asks for by itself is no tool, and what the code binds itself is not looked up."""
    source = "return [hasattr(tools, '__wrapped__'), dir(tools), callable(tools), tools.__class__.__name__]"
    stands_in = """
        from unittest.mock import MagicMock
        tools = MagicMock()
        tools.anything.return_value = 3
        def tool():
            return tools.anything({})
        """

    assert result_of(source, tools=["b", "a"]) == [False, ["a", "b"], False, "Tools"]
    assert result_of("return hasattr(async_tools, '_x'), dir(async_tools)", tools=["a"]) == [False, ["a"]]
    assert of_tool(stands_in)["result"] == 3


def test_a_called_tool_removes_variables_that_may_be_gone() -> None:
    """The caller may have removed them meanwhile; its own delta has each once."""
    host = Host(lambda _: replied(1, state_delta={"changed": {"a": 2}, "removed": ["gone", "never"]}))
    body = "waiting = async_tools.look_up({})\nremove_variable('gone')\nwaiting()\nreturn context.state"
    answer = of_tool(as_tool(body), host=host, tools=["look_up"], state={"a": 1, "gone": 1})

    assert (answer["result"], answer["warnings"]) == ({"a": 2}, [])
    assert answer["state_delta"] == {"changed": {"a": 2}, "removed": ["gone"]}


def test_background_calls_run_side_by_side() -> None:
    """All are begun before the first is waited for; each answer is asked for once and stays."""
    host = Host()
    found = result_of(
        """
        waiting = [async_tools.look_up({"id": number}) for number in range(3)]
        waiting.append(ces_requests.async_get("https://a.example"))
        answers = [wait() for wait in reversed(waiting)]
        assert waiting[0]() is answers[-1]
        return [answer.json() for answer in answers]
        """,
        host=host,
        tools=["look_up"],
    )
    steps = [(call["call"], call["id"], call.get("background", False)) for call in host.calls]

    assert found == [{"method": "GET"}, *({"result": {"id": number}} for number in (2, 1, 0))]
    assert steps == [
        *(("tool", number, True) for number in (1, 2, 3)),
        ("http", 4, True),
        *(("collect", number, False) for number in (4, 3, 2, 1)),
    ]


def test_threads_of_the_code_ask_one_after_the_other() -> None:
    """The host never gets a second question while it answers the first."""
    asking: list[int] = []

    def answer(call: dict[str, Any]) -> Reply:
        asking.append(call["id"])
        assert len(asking) == 1
        asking.remove(call["id"])
        return replied(call["args"])

    found = result_of(
        """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            return sorted(pool.map(lambda number: tools.look_up({"n": number}).json()["n"], range(20)))
        """,
        host=answer,
        tools=["look_up"],
    )

    assert found == list(range(20))


@pytest.mark.parametrize(
    "call", ["tools.look_up({})", "async_tools.look_up({})", "ces_requests.get('http://a')"]
)
def test_a_refusal_of_the_host_ends_the_run(call: str) -> None:
    """Under the name that the host gave it, whatever the code catches; nothing more is asked."""
    asked: list[dict[str, Any]] = []
    refused = {"type": "TooManyCallsError", "message": "100 calls are allowed"}

    def refuse(question: dict[str, Any]) -> Reply:
        asked.append(question)
        return {"error": refused}

    body = f"for _ in range(3):\n    try:\n        {call}\n    except BaseException:\n        pass"
    error = of_tool(as_tool(body), host=refuse, tools=["look_up"])["error"]

    assert {name: error[name] for name in refused} == refused
    assert len(asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        *(None, [], {}, {"status_code": "200", "reason": "", "text": ""}, {**replied(1), "id": 9}),
        BrokenPipeError("gone"),
    ],
)
def test_a_host_that_answers_nonsense_or_nothing_ends_the_run(reply: Any) -> None:
    """As an error of the host, not of the code, which does not see it."""

    def host(_: dict[str, Any]) -> Any:
        if isinstance(reply, Exception):
            raise reply
        return reply

    body = "try:\n    tools.look_up({})\nexcept Exception:\n    print('seen')"
    answer = of_tool(as_tool(body), host=host, tools=["look_up"])

    assert (answer["error"]["type"], answer["stdout"]) == ("HostCallError", "")


@pytest.mark.parametrize("method", ["get", "post", "put", "delete", "patch", "head", "options"])
@pytest.mark.parametrize("prefix", ["", "async_"])
def test_a_request_has_its_method_and_what_it_was_given(method: str, prefix: str) -> None:
    """The four accepted keywords; what is None is left out."""
    host = Host()
    wait = "()" if prefix else ""
    result_of(
        f"""
        return ces_requests.{prefix}{method}(
            url="https://a.example", headers={{"A": "b"}}, params={{"q": [1]}}, data="x", json={{"j": None}}
        ){wait}.status_code
        """,
        host=host,
    )

    assert host.calls[0] == {
        "call": "http",
        "id": 1,
        "method": method.upper(),
        "url": "https://a.example",
        "headers": {"A": "b"},
        "params": {"q": [1]},
        "data": "x",
        "json": {"j": None},
        **({"background": True} if prefix else {}),
    }


def test_a_request_may_name_its_method() -> None:
    """As text or as HttpMethod."""
    host = Host()
    result_of(
        """
        ces_requests.request("get", "https://a.example")
        ces_requests.request(HttpMethod.PUT, "https://a.example")
        ces_requests.async_request(method="POST", url="https://a.example")()
        ces_requests.get("https://a.example", {"q": 1})
        """,
        host=host,
    )

    assert [call.get("method") for call in host.calls] == ["GET", "PUT", "POST", None, "GET"]
    assert host.calls[-1]["params"] == {"q": 1}

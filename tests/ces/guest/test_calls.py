"""Tools run, read their session and change its variables, and ask the host for others and for servers."""

from typing import Any

import pytest

from tests.ces.guest import seed
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


def test_a_host_that_answers_nonsense_or_nothing_ends_the_run() -> None:
    """As an error of the host, not of the code, which does not see it."""

    def gone(_: dict[str, Any]) -> Any:
        raise BrokenPipeError("gone")

    body = as_tool("try:\n    tools.look_up({})\nexcept Exception:\n    print('seen')")
    no_reply: dict[str, Any] = {"status_code": "200", "reason": "", "text": ""}
    replies: tuple[Any, ...] = (None, [], {}, no_reply, {**replied(1), "id": 9})
    for host in (*(lambda _, reply=reply: reply for reply in replies), gone):
        answer = of_tool(body, host=host, tools=["look_up"])
        assert (answer["error"]["type"], answer["stdout"]) == ("HostCallError", "")


def test_a_request_has_its_method_and_what_it_was_given() -> None:
    """The four accepted keywords; what is None is left out. It may name its method, or be asynchronous."""
    given: dict[str, Any] = {"headers": {"A": "b"}, "params": {"q": [1]}, "data": "x", "json": {"j": None}}
    url = {"url": "https://a.example"}
    for method in ("get", "post", "put", "delete", "patch", "head", "options"):
        for prefix, wait, background in (("", "", {}), ("async_", "()", {"background": True})):
            host = Host()
            result_of(
                f"return ces_requests.{prefix}{method}(**{ {**url, **given} }){wait}.status_code", host=host
            )
            asked = {"call": "http", "id": 1, "method": method.upper(), **url, **given, **background}
            assert host.calls[0] == asked
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


def test_without_one_its_first_function_is_called_with_a_warning() -> None:
    """As the platform names tools. A result nests as deep as documented: ninety lists in lists."""
    lenient = of_tool("def first():\n    return 1\n\ndef second():\n    return 2")

    assert lenient["result"] == 1
    assert lenient["warnings"] == ["tool.py: the function 'tool' is missing; 'first', the first, is called"]
    for levels, fails in ((90, False), (91, True)):
        body = f"value = 1\nfor _ in range({levels}):\n    value = [value]\nreturn value"
        assert (of_tool(as_tool(body))["error"] is not None) == fails


def test_subclasses_of_json_types_are_what_they_derive_from() -> None:
    """Enumerations of strings, named tuples, counters."""
    found = result_of(
        """
        import collections, enum
        Pair = collections.namedtuple("Pair", "a b")
        class Colour(str, enum.Enum):
            RED = "red"
        class Level(enum.IntEnum):
            LOW = 1
        return [Colour.RED, Level.LOW, Pair(1, (2,)), collections.Counter("aa"), {Colour.RED: True}]
        """
    )

    assert found == ["red", 1, [1, [2]], {"a": 2}, {"red": True}]


def test_names_of_typing_are_there_with_a_warning() -> None:
    """Which names the line; imported, they are none; strictly, they are missing."""
    source = "def tool(a: Optional[str] = None) -> List[int]:\n    return [1]"
    lenient = of_tool(source)
    imported = of_tool(f"from typing import List, Optional\n{source}")
    strict = of_tool(source, settings={"strict_typing": True})

    assert lenient["result"] == [1]
    assert lenient["warnings"] == [
        "tool.py:1: List is not imported from typing: the platform may refuse it",
        "tool.py:1: Optional is not imported from typing: the platform may refuse it",
    ]
    assert imported["warnings"] == []
    assert (strict["error"]["type"], strict["error"]["message"]) == (
        "NameError",
        "name 'Optional' is not defined",
    )

    for name in seed.TYPING_NAMES:
        assert result_of(f"import typing\nreturn {name} is typing.{name}") is True
        assert result_of(f"return {name!r} in globals()", settings={"strict_typing": True}) is False


@pytest.mark.parametrize(
    ("before", "missing"),
    [
        ("x: Optional[List[int]] = None\ny: Optional[int] = 1", ["1: List", "1: Optional"]),
        ("from json import *\nx: Optional[int] = None", []),
        ("from ces_public import *\nx: Optional[int] = None", ["2: Optional"]),
        ("class Any: pass\nx: Any = None", []),
        ("from ces_public import HttpMethod as tools\ntools.GET", []),
    ],
)
def test_what_the_code_binds_itself_is_its_own(before: str, missing: list[str]) -> None:
    """A star of another module may bind any name; of what nothing binds, the first line is reported."""
    answer = of_tool(f"{before}\ndef tool():\n    return 1")

    assert answer["result"] == 1
    assert answer["warnings"] == [
        f"tool.py:{each} is not imported from typing: the platform may refuse it" for each in missing
    ]


ECHO = {"result": {"n": 1}}
DATACLASSES = """
from __future__ import annotations
import dataclasses

@dataclasses.dataclass
class A:
    b: B | None = None

@dataclasses.dataclass
class B:
    n: int = 1
"""

MODELS = """
from __future__ import annotations
import pydantic

class A(pydantic.BaseModel):
    b: B | None = None

class B(pydantic.BaseModel):
    a: Optional[A] = None
"""


@pytest.mark.parametrize(
    ("source", "expression", "result"),
    [
        ("import pickle\nclass A:\n    b = 1", "pickle.loads(pickle.dumps(A())).b", 1),
        ("import ces_code", "ces_code.tool is tool", True),
        ("import inspect", "inspect.getsource(tool).splitlines()[0]", "def tool():"),
        (DATACLASSES, "dataclasses.asdict(A(B()))", {"b": {"n": 1}}),
        (MODELS, "A(b={'a': {}}).model_dump()", {"b": {"a": {"b": None}}}),
        ("import asyncio\nasync def f(): return 5", "asyncio.run(f())", 5),
        ("import asyncio", "asyncio.run(asyncio.to_thread(tools.look_up, {'n': 1})).json()", ECHO),
        ("def f():\n    yield 1\n    yield 2", "[*f()]", [1, 2]),
        ("import copy", "copy.copy(tools).look_up({}).ok", True),
        ("if __name__ == '__main__':\n    raise SystemExit", "__name__", "ces_code"),
        ("json = print = context = Part = str = dict = isinstance = None", "1", 1),
    ],
)
def test_python_is_as_in_any_module(source: str, expression: str, result: Any) -> None:
    """What the code defines has a module and lines, and its names are its own."""
    answer = of_tool(f"{source}\ndef tool():\n    return {expression}", tools=["look_up"])

    assert (answer["error"], answer["result"]) == (None, result)


def test_globals_are_all_documented_names() -> None:
    """Also those that were not seen among the globals of a tool on the platform."""
    source = """
        names = sorted(name for name in globals() if name.partition("_")[0] and name != "tool")
        def tool():
            return names
        """
    found = of_tool(source, settings={"strict_typing": True})["result"]

    assert found == sorted({*seed.MEASURED_GLOBALS, *seed.CLASSES, *seed.GLOBALS})


def said(author: str, *texts: str, **more: Any) -> dict[str, Any]:
    """Return an event in which *author* says *texts*."""
    parts = [{"text": text} for text in texts]
    event = {"id": "e", "invocationId": "i", "author": author, "timestamp": 1.75, "content": {"parts": parts}}
    return {**event, **more}


USER_THEN_AGENT = [
    *(said("user", "old"), said("root", "old answer"), said("user", "a", "b"), said("user", "c")),
    *(said("root", "x"), said("helper", "y", "z")),
]


@pytest.mark.parametrize(
    ("events", "user", "agent"),
    [
        ([], [], []),
        ([said("root", "x")], [], ["x"]),
        ([said("user", "a")], ["a"], []),
        (USER_THEN_AGENT, ["a", "b", "c"], ["x", "y", "z"]),
        ([*USER_THEN_AGENT, said("user", "new")], ["new"], ["x", "y", "z"]),
        ([said("user", "a"), said("root", "x", content=None)], ["a"], []),
    ],
)
def test_the_last_input_and_output_are_whole_blocks_in_order(
    events: list[dict[str, Any]], user: list[str], agent: list[str]
) -> None:
    """Of the user's latest run of events and of the agents', whoever spoke last."""
    found = result_of(
        """
        texts = lambda parts: [part.text for part in parts]
        return [texts(context.get_last_user_input()), texts(context.get_last_agent_output())]
        """,
        context={"events": events},
    )

    assert found == [user, agent]


def test_the_user_is_no_agent() -> None:
    """Whatever is asked for by name; an error code that is empty is none; times are whole seconds, passed."""
    found = result_of(
        """
        user, agent, silent, failed = context.events
        asked = user.is_agent("user"), agent.is_agent("user"), agent.is_agent(""), agent.is_agent("root")
        times = [event.timestamp for event in context.events]
        return [asked, silent.parts(), user.has_error(), failed.has_error(), times]
        """,
        context={
            "events": [
                said("user", errorCode=""),
                said("root", timestamp=-1.5),
                said("user", content={"role": "user"}, timestamp=7),
                said("user", errorCode="E"),
            ]
        },
    )

    assert found == [[False, False, False, True], [], False, True, [1, -2, 7, 1]]


def test_state_and_variables_are_the_same_plain_dict() -> None:
    """Either can be replaced; all functions work on it. Changed actions are reported."""
    found = result_of(
        """
        same = context.state is context.variables and type(context.state) is dict
        context.variables = {"b": 2}
        set_variable("c", 3)
        context.set_variable("d", 4)
        return [same, context.state, get_variable("b"), get_variable("a"), get_variable("a", 0),
                context.get_variable("a", 1)]
        """,
        state={"a": 1},
    )

    assert found == [True, {"b": 2, "c": 3, "d": 4}, 2, None, 0, 1]

    changed = of_tool("def tool():\n    context.actions.transfer_to_agent = 'billing'")
    unchanged = of_tool("def tool(): pass", context={"actions": {"escalate": True}})

    assert changed["actions"] == {
        "stateDelta": {},
        "artifactDelta": {},
        "requestedAuthConfigs": {},
        **dict.fromkeys(["skipSummarization", "escalate", "endInvocation"], False),
        "transferToAgent": "billing",
    }
    assert unchanged["actions"] is None


def test_the_delta_is_what_changed() -> None:
    """Set to what it was is no change; a number that becomes a truth value is one, as is a nested change."""
    same = [1, {"x": None}]
    body = f"""
        set_variable("same", {same})
        set_variable("new", "n")
        set_variable("one", True)
        set_variable("inner", {{"one": True}})
        remove_variable("gone")
        context.state["nested"]["deep"].append(2)
        set_variable("again", 1)
        remove_variable("again")
    """
    before = {"same": same, "one": 1, "inner": {"one": 1}, "gone": 1, "nested": {"deep": [1]}, "kept": 0}
    answer = of_tool(as_tool(body), state=before)

    assert answer["state_delta"] == {
        "changed": {"new": "n", "one": True, "inner": {"one": True}, "nested": {"deep": [1, 2]}},
        "removed": ["gone"],
    }
    assert any("'nested' was changed inside" in text for text in answer["warnings"])


def test_a_variable_over_the_platforms_limit_is_an_error() -> None:
    """Of its JSON in UTF-8; the setting lifts it. One that was there before, and stays, is reported."""
    source = "def tool():\n    set_variable('big', 'é' * {})"
    error = of_tool(source.format(131_072))["error"]
    state = {"large": "x" * 262_143, "small": "x" * 262_142}
    before = of_tool("def tool():\n    return 1\n", context={"state": state})

    assert of_tool(source.format(131_070))["error"] is None
    assert error["type"] == "VariableTooLargeError"
    assert "the platform ends such a turn with FAILED_PRECONDITION" in error["message"]
    assert "262,146 bytes" in error["message"]
    assert of_tool(source.format(131_072), settings={"max_variable_bytes": None})["error"] is None
    assert before["error"] is None
    assert [text.split()[1] for text in before["warnings"]] == ["'large'"]

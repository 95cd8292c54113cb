"""Tools run: which function, with which arguments, and what becomes of their result; others run first."""

import sys
from typing import Any

import pytest

from gcp_adk_store.ces.guest.first_runs import FIRST_REPLY, FIRST_RUNS
from gcp_adk_store.ces.guest.running import warm_up
from tests.ces.guest import seed
from tests.ces.guest.runs import Host, answered, as_tool, of_tool, result_of


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


@pytest.mark.parametrize("name", seed.TYPING_NAMES)
def test_a_name_of_typing_is_the_one_of_typing(name: str) -> None:
    """And goes unless it is asked for."""
    found = result_of(f"import typing\nreturn {name} is typing.{name}")

    assert found is True
    assert result_of(f"return {name!r} in globals()", settings={"strict_typing": True}) is False


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
        (
            DATACLASSES,
            "dataclasses.asdict(A(B()))",
            {"b": {"n": 1}},
        ),
        (
            MODELS,
            "A(b={'a': {}}).model_dump()",
            {"b": {"a": {"b": None}}},
        ),
        ("import asyncio\nasync def f(): return 5", "asyncio.run(f())", 5),
        (
            "import asyncio",
            "asyncio.run(asyncio.to_thread(tools.look_up, {'n': 1})).json()",
            {"result": {"n": 1}},
        ),
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


def test_each_first_run_ends_as_it_is_meant_to() -> None:
    """With host calls, changes and prints; one fails, for that is prepared too. No module or stream stays."""
    host = Host(lambda _call: FIRST_REPLY)
    tool, failed, *callbacks = [answered(request, host) for request in FIRST_RUNS]
    before = {*sys.modules}, sys.stdin, sys.stdout, sys.stderr
    warm_up()

    assert before == ({*sys.modules}, sys.stdin, sys.stdout, sys.stderr)
    assert {"found": [1, 1], "names": ["Ada"]} == tool["result"]
    assert "KeyError" == failed["error"]["type"]
    assert 4 == len(host.calls)
    assert [None] * 3 == [each["error"] for each in callbacks]

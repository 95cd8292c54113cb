"""Whatever code does is an answer, which shows the lines of the code and nothing of the runtime."""

import io
import linecache
import sys
from typing import Any

import pytest

from tests.runtime.guest.runs import answered, of_tool


def test_a_traceback_shows_the_codes_own_lines() -> None:
    """The standard library's and the runtime's frames are left out."""
    error = of_tool(
        """
        import json

        def helper(text):
            return json.loads(text)

        def tool():
            return helper("{")
        """
    )["error"]

    assert error["type"] == "JSONDecodeError"
    shown = [line for line in error["traceback"].splitlines() if "^" not in line and "~" not in line]
    assert shown[:-1] == [
        "Traceback (most recent call last):",
        '  File "tool.py", line 8, in tool',
        '    return helper("{")',
        '  File "tool.py", line 5, in helper',
        "    return json.loads(text)",
    ]


def test_what_led_to_an_error_is_shown_alike() -> None:
    """Causes, contexts and groups."""
    error = of_tool(
        """
        import json

        def tool():
            try:
                json.loads("{")
            except ValueError as error:
                raise ExceptionGroup("several", [error, KeyError("k")]) from error
        """
    )["error"]

    assert "The above exception was the direct cause" in error["traceback"]
    assert "json/" not in error["traceback"]
    assert "guest" not in error["traceback"]


def test_an_error_of_the_response_is_of_the_documented_pattern() -> None:
    """The model gets it under result; or nothing."""
    source = "def tool():\n    return {}['k']"

    assert of_tool(source)["response"] == {"result": {"error": "KeyError: k"}}
    assert of_tool(source, settings={"error_in_result": False})["response"] is None


def test_code_that_is_no_python_is_an_error_with_its_line() -> None:
    """Nothing is run."""
    error = of_tool("print(1)\ndef tool(:\n    pass")["error"]

    assert error["type"] == "SyntaxError"
    assert 'File "tool.py", line 2' in error["traceback"]
    assert of_tool("(" * 10_000)["error"]["type"] in {"SyntaxError", "MemoryError", "RecursionError"}
    assert of_tool("\0")["error"]["type"] in {"SyntaxError", "ValueError"}


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("import sys; sys.exit(3)", "SystemExit", "the code called exit (3)"),
        ("raise SystemExit", "SystemExit", "the code called exit (None)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("tool()", "RecursionError", "maximum recursion depth exceeded"),
        ("raise MemoryError", "MemoryError", ""),
        ("raise BaseExceptionGroup('g', [SystemExit(1)])", "BaseExceptionGroup", "g (1 sub-exception)"),
        ("raise StatusError(500, 'down')", "StatusError", "500: down"),
        ("input()", "EOFError", "EOF when reading a line"),
    ],
)
def test_whatever_is_raised_is_an_answer(statement: str, kind: str, message: str) -> None:
    """Also what ends a process elsewhere."""
    error = of_tool(f"def tool():\n    {statement}")["error"]

    assert error["type"] == kind
    assert error["message"].startswith(message)


@pytest.mark.parametrize("method", ["__str__", "__repr__", "__dir__"])
def test_an_exception_that_cannot_be_shown_is_an_answer(method: str) -> None:
    """Its methods are the code's too."""
    error = of_tool(
        f"""
        class Odd(AttributeError):
            def {method}(self):
                raise SystemExit
            name, obj = "x", property(lambda self: self)

        def tool():
            raise Odd()
        """
    )["error"]

    assert error["type"] == "Odd"


def test_a_result_whose_methods_fail_is_an_answer() -> None:
    """It is read while the code can still be blamed."""
    error = of_tool(
        """
        class Odd(dict):
            def items(self):
                raise SystemExit(5)

        def tool():
            return Odd(a=1)
        """
    )["error"]

    assert (error["type"], error["message"]) == ("SystemExit", "the code called exit (5)")


def test_a_long_message_is_cut() -> None:
    """The answer stays small."""
    error = of_tool("def tool():\n    raise ValueError('x' * 1_000_000)")["error"]

    assert len(error["message"]) < 9_000
    assert len(error["traceback"]) < 40_000
    assert error["message"].endswith("[cut, 1,000,000 characters]")


def test_what_is_printed_is_kept_up_to_a_limit() -> None:
    """To either stream, by whatever prints; a failure keeps it too."""
    source = """
        import pprint, sys
        print("module")
        def tool():
            pprint.pprint({"a": 1})
            print("error", file=sys.stderr)
            sys.stdout.write("x" * 100)
            raise ValueError
        """
    whole = of_tool(source)["stdout"]

    assert whole == "module\n{'a': 1}\nerror\n" + "x" * 100
    assert (
        of_tool(source, settings={"max_stdout_chars": 10})["stdout"] == "module\n{'a\n[output was cut here]\n"
    )


def test_bytes_are_no_text_to_print() -> None:
    """As on any other stream."""
    error = of_tool("import sys\ndef tool():\n    sys.stdout.write(b'x')")["error"]

    assert (error["type"], error["message"]) == ("TypeError", "write() argument must be str, not bytes")


def test_a_run_puts_everything_back() -> None:
    """Streams, modules and the lines of tracebacks."""
    before = (sys.stdin, sys.stdout, sys.stderr)
    of_tool("def tool():\n    raise ValueError")

    assert before == (sys.stdin, sys.stdout, sys.stderr)
    assert not {"ces_public", "ces_internal", "ces_code"} & set(sys.modules)
    assert "tool.py" not in linecache.cache


def test_without_capture_the_streams_are_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a debugger works."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    answer = of_tool("def tool():\n    print('seen')", settings={"capture": False})

    assert (answer["stdout"], stream.getvalue()) == ("", "seen\n")


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("ces_requests", "ces_requests"),
        ("requests", "requests"),
        ("requests.adapters as adapters", "requests"),
        ("google.cloud", "google.cloud"),
        ("google.cloud.firestore as firestore", "google.cloud.firestore"),
        ("gcp_adk_store", "gcp_adk_store"),
    ],
)
def test_what_the_platform_does_not_have_cannot_be_imported(module: str, missing: str) -> None:
    """Though it is installed here; Python's own words."""
    error = of_tool(f"import {module}\ndef tool():\n    return 1")["error"]

    assert error["type"] == "ModuleNotFoundError"
    assert error["message"] == f"No module named {missing!r}"


def test_a_member_of_a_shared_package_is_looked_at_by_itself() -> None:
    """Protobuf is there, and nothing else below google."""
    allowed = of_tool("from google import protobuf\nimport google.protobuf\ndef tool():\n    return 1")
    refused = of_tool("from google import auth\ndef tool():\n    return 1")

    assert allowed["result"] == 1
    assert (refused["error"]["type"], refused["error"]["message"]) == (
        "ImportError",
        "cannot import name 'auth' from 'google'",
    )


def test_what_the_platform_has_can_be_imported() -> None:
    """The standard library, pydantic, and the runtime's own names."""
    source = """
        import asyncio, datetime, decimal, re, uuid, zoneinfo, xml.etree.ElementTree
        from pydantic import BaseModel
        from ces_public import Part, ces_requests, get_variable, tools
        def tool():
            return Part is ces_public.Part
        """

    assert of_tool(source)["result"] is True


def test_everything_can_be_imported_on_demand() -> None:
    """Everything that is installed."""
    assert of_tool("import pytest\ndef tool():\n    return 1", settings={"importable": None})["result"] == 1


CODE = [{"source": "def tool(): pass", "filename": "t.py"}]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "kind None"),
        ({"kind": "tool"}, "code is a list"),
        ({"kind": "tool", "code": []}, "code is a list"),
        ({"kind": "tool", "code": [*CODE, *CODE]}, "code is a list"),
        ({"kind": "job", "code": CODE}, "kind 'job'"),
        ({"kind": "callback", "code": CODE}, "callback None"),
        ({"kind": "callback", "callback": "before_lunch", "code": CODE}, "before_lunch"),
        ({"kind": "callback", "callback": "before_model", "code": CODE}, "before_model needs llm_request"),
        ({"kind": "tool", "code": CODE, "version": 2}, "version 2 is not 1"),
        ({"kind": "tool", "code": CODE, "settings": {"strict": 1}}, "unknown settings: strict"),
        ({"kind": "tool", "code": CODE, "context": {"events": [{"id": "e"}]}}, "validation error"),
        ({"kind": "tool", "code": [{"source": "def tool(): pass"}]}, "code[0] needs a source and a filename"),
    ],
)
def test_a_request_that_is_none_is_an_answer(request_: dict[str, Any], message: str) -> None:
    """A host learns what is wrong with it."""
    answer = answered(request_)

    assert message in answer["error"]["message"]
    assert answer["state_delta"] == {"changed": {}, "removed": []}

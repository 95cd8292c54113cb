"""Whatever code does is an answer, which shows the lines of the code and nothing of the runtime."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.ces.guest.runs import UNCHANGED, Host, answered, of_tool, result_of
from tests.support.documents import ROOT


def test_a_traceback_shows_the_codes_own_lines() -> None:
    """The standard library's and the runtime's frames are left out, also of causes, contexts and groups."""
    source = """
        import json

        def helper(text):
            return json.loads(text)

        def tool():
            return helper("{")
        """
    error = of_tool(source)["error"]
    grouped = source.replace('return helper("{")', GROUPS)
    shown = [line for line in error["traceback"].splitlines() if "^" not in line and "~" not in line]
    of_group = of_tool(grouped)["error"]["traceback"]

    assert error["type"] == "JSONDecodeError"
    assert shown[:-1] == [
        "Traceback (most recent call last):",
        '  File "tool.py", line 8, in tool',
        '    return helper("{")',
        '  File "tool.py", line 5, in helper',
        "    return json.loads(text)",
    ]
    assert "The above exception was the direct cause" in of_group
    assert "json/" not in of_group
    assert "guest" not in of_group


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_lines_are_those_that_python_counts(end: str, last: str) -> None:
    """Form feeds and the separators of Unicode end none, and the last line may lack its end."""
    lines = ['text = "\x0c\x1c\u2028"', "", "def tool():", "    return 1 + {}['k']"]
    code = {"source": end.join(lines) + last, "filename": "tool.py", "name": "tool"}
    shown = answered({"kind": "tool", "code": [code]})["error"]["traceback"]

    assert "  File \"tool.py\", line 4, in tool\n    return 1 + {}['k']\n               ~~^^^^^\n" in shown


GROUPS = """try:
                helper("{")
            except ValueError as error:
                raise ExceptionGroup("several", [error, KeyError("k")]) from error"""


def test_code_that_is_no_python_is_an_error_with_its_line() -> None:
    """Nothing is run."""
    answer = of_tool("print(1)\ndef tool(:\n    pass")

    assert (answer["error"]["type"], answer["stdout"]) == ("SyntaxError", "")
    assert answer["error"]["traceback"].startswith(
        '  File "tool.py", line 2\n    def tool(:\n             ^\n'
    )
    compiled = of_tool("f = None\nreturn 1\n")["error"]["traceback"]  # by the compiler, not the parser
    assert compiled.startswith('  File "tool.py", line 2\n    return 1\n')
    assert of_tool("(" * 10_000)["error"]["type"] in {"SyntaxError", "MemoryError", "RecursionError"}
    assert of_tool(f"x = {'-' * 9_000}1")["error"]["type"] in {"SyntaxError", "MemoryError", "RecursionError"}
    assert of_tool("\0")["error"]["type"] in {"SyntaxError", "ValueError"}


def test_what_python_warns_of_is_a_warning() -> None:
    """And is not printed, nor an error where warnings are."""
    answer = of_tool("def tool():\n    return 1 is 1")

    assert (answer["result"], answer["stdout"]) == (True, "")
    assert [text.partition(" with")[0] for text in answer["warnings"]] == ['tool.py:2: "is"']


KEYWORDS = ("timeout", "allow_redirects", "verify", "auth", "files", "cookies")
"""Of the package requests, which the platform does not have."""


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
        (
            "set_variable('a', {1})\n    try: tools.look_up({})\n    finally: raise ValueError('then')",
            "ValueError",
            "then",
        ),
        ("input()", "EOFError", "EOF when reading a line"),
        ("raise KeyError('a', 'b')", "KeyError", "('a', 'b')"),
        ("raise KeyError(7)", "KeyError", "7"),
        ("raise ValueError('\\ud800')", "ValueError", "\\ud800"),
        ("getattr(tools, 'no' + 'pe')", "UnknownToolError", "tools.nope: unknown tool; known: look_up"),
        ("try: getattr(tools, 'nope')\n    except BaseException: pass", "UnknownToolError", "tools.nope"),
        *(
            (f"tools.look_up({given})", "TypeError", "as one dict")
            for given in ("7", "{}, {}", "'id'", "None")
        ),
        *((f"{remove}('a')", "KeyError", "a") for remove in ("remove_variable", "context.remove_variable")),
        ("del context.state['a']", "KeyError", "a"),
        ("ExternalResponse(text='<html>').json()", "JSONDecodeError", "Expecting value"),
        ("raise type('Odd', (Exception,), {'__str__': None})", "Odd", "<the exception cannot be shown>"),
        ("raise type('Meta', (type,), {'__name__': 7})('Odd', (Exception,), {})", "Odd", ""),
        (
            "import sys; return type('Odd', (dict,), {'items': lambda self: sys.exit(5)})(a=1)",
            "SystemExit",
            "exit (5)",
        ),
        ("tools.look_up({'a': '\\ud800'})", "UnicodeEncodeError", "surrogates not allowed"),
        ("tools.look_up({'a': float('nan')})", "ValueError", "Out of range float values are not JSON"),
        ("ces_requests.get('https://a', params={'a': '\\ud800'})", "UnicodeEncodeError", "surrogates"),
        ("ces_requests.post('https://a.example', data=b'x')", "TypeError", "Object of type bytes is not"),
        ("ces_requests.post('https://a.example', json=b'x')", "TypeError", "Object of type bytes is not"),
        ("ces_requests.get(b'https://a')", "TypeError", "Object of type bytes is not JSON serializable"),
        *(
            (f"ces_requests.get('https://a', {name}=1)", "TypeError", f"unexpected keyword argument {name!r}")
            for name in KEYWORDS
        ),
    ],
)
def test_whatever_is_raised_is_an_answer(statement: str, kind: str, message: str) -> None:
    """Also what ends a process elsewhere; nothing is changed, and the host is not asked."""
    host = Host()
    answer = of_tool(f"def tool():\n    {statement}", host=host, tools=["look_up"], state={"kept": 1})

    assert (answer["error"]["type"], answer["state_delta"], host.calls) == (kind, UNCHANGED, [])
    assert message in answer["error"]["message"]
    assert "gcp_adk_store" not in answer["error"]["traceback"]
    json.dumps(answer["error"], ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("return {1}", "result: Object of type set"),
        ("return {'a': [object()]}", "result['a'][0]: Object of type object"),
        ("return float('inf')", "result: inf is not a number of JSON"),
        ("return b'bytes'", "result: Object of type bytes"),
        ("return Part.from_text('x')", "result: Object of type Part"),
        ("set_variable('a', {1, 2})", "variables['a']: Object of type set"),
        ("set_variable('a', [float('nan')])", "variables['a'][0]: nan is not a number of JSON"),
        ("set_variable('a', {1: 2})", "variables['a']: the key 1 is int, JSON has only str"),
        ("set_variable(1, 2)", "variables: the key 1 is int, JSON has only str"),
        ("context.state = 5", "variables: int is not a dict"),
        ("a = []; a.append(a); set_variable('a', a)", "deeper than 90 levels, or refers to"),
        ("set_variable('a', 10 ** 5000)", "an integer of 16610 bits is too large"),
        ("set_variable('a', 2 ** 14_000)", "an integer of 14001 bits is too large"),
        ("set_variable('a', ['b\\ud800'])", "variables['a'][0]: '\\ud800' at 1 is a lone"),
        ("set_variable('\\udfff', 1)", "variables, a key: '\\udfff' at 0 is a lone surrogate"),
        ("context.actions.state_delta['a'] = {1}", "actions.state_delta['a']: "),
        ("set_variable('on', [object()]); tools.look_up({})", "variables['on'][0]: Object"),
    ],
)
def test_what_json_cannot_hold_is_an_error_that_says_where(statement: str, message: str) -> None:
    """Strict: what goes unnoticed here fails in production."""
    test_whatever_is_raised_is_an_answer(statement, "NotJsonError", message)


def test_code_without_a_function_to_call_is_an_error() -> None:
    """A name alone is none, nor is one of the runtime's, an async def, or one with other parameters."""
    for source in (
        *("", "x = 1", "tool = 5", "from json import dumps as tool"),
        "import asyncio\nasync def tool():\n    await asyncio.sleep(0)",
        "class Tool:\n    def tool(self):\n        pass",
    ):
        assert of_tool(source)["error"]["type"] == "EntryPointError"
    assert of_tool("x = 1", name="get_variable")["error"]["type"] == "EntryPointError"
    wrong = of_tool("def tool(a: int):\n    return a", args={"a": 1, "b": 2})
    assert wrong["error"]["type"] == "TypeError"


@pytest.mark.parametrize("base", ["AttributeError", "SystemExit", "KeyError"])
def test_an_exception_that_cannot_be_shown_is_an_answer(base: str) -> None:
    """What it says of itself is the code's too."""
    source = """
        class Odd(BASE):
            name, obj = "x", property(lambda self: self)
            SHOWN

        def tool():
            raise Odd(Odd())
        """
    for shown in (
        *(f"def __{name}__(self): raise SystemExit" for name in ("str", "repr", "dir")),
        "def __str__(self): return 5",
        "def __str__(self): return type('Text', (str,), {'__len__': lambda self: 1 / 0})()",
        "__class__ = property(lambda self: 1 / 0)",
        "args = code = property(lambda self: 1 / 0)",
    ):
        error = of_tool(source.replace("BASE", base).replace("SHOWN", shown))["error"]
        assert error["type"] == "Odd"
        assert "Odd" in error["traceback"]


def test_what_led_to_an_error_is_cut_at_length() -> None:
    """A long message; of many errors what came first, and what was raised in the end."""
    long = of_tool("def tool():\n    raise ValueError('x' * 1_000_000)")["error"]
    many = of_tool(
        """
        def tool():
            error = None
            for number in range(3_000):
                following = ValueError(number)
                following.__context__, error = error, following
            raise error
        """
    )["error"]

    assert len(long["message"]) < 9_000
    assert "xxx [cut, 1,000,000 characters]\nxxx" in long["message"]
    assert many["message"] == "2999"
    assert many["traceback"].startswith("ValueError: 0\n\nDuring handling")
    assert "[cut, " in many["traceback"]
    assert many["traceback"].endswith("    raise error\nValueError: 2999\n")
    assert max(len(long["traceback"]), len(many["traceback"])) < 33_000


def test_what_is_printed_is_kept_up_to_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """To either stream, with a failure too. Without capture the streams are the process'."""
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

    answer = of_tool("def tool():\n    print('seen')", settings={"capture": False})

    assert (answer["stdout"], capsys.readouterr().out) == ("", "seen\n")


PUTS_BACK = """
import linecache, sys
from tests.ces.guest.runs import UNCHANGED, Host, answered, of_tool, result_of

before = (sys.stdin, sys.stdout, sys.stderr)
ran = of_tool("def tool():\\n    raise ValueError")
assert ran["error"]["type"] == "ValueError"
assert before == (sys.stdin, sys.stdout, sys.stderr)
assert not {"ces_public", "ces_internal", "ces_code"} & set(sys.modules)
assert "tool.py" not in linecache.cache
"""


def test_a_run_puts_everything_back() -> None:
    """Streams, modules and the lines of tracebacks.

    In a process of its own: a run that another test has left goes on, and holds the modules.
    """
    subprocess.run([sys.executable, "-c", PUTS_BACK], cwd=ROOT, check=True, timeout=120)


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
    assert missing == result_of(
        f"try:\n    __import__({missing!r})\nexcept ImportError as error:\n    return error.name"
    )


def test_a_member_of_a_shared_package_is_looked_at_by_itself() -> None:
    """Other members of the package are not there."""
    for importable, name, package, missing in (
        ("google.protobuf", "protobuf", "google", "auth"),
        ("google.protobuf.struct_pb2", "struct_pb2", "google.protobuf", "json_format"),
    ):
        there, absent = (
            of_tool(
                f"from {package} import {each}\ndef tool(): return 1", settings={"importable": [importable]}
            )
            for each in (name, missing)
        )
        assert (there["result"], absent["error"]["type"]) == (1, "ImportError")
        assert f"cannot import name {missing!r} from {package!r}" == absent["error"]["message"]


def test_what_the_platform_has_can_be_imported() -> None:
    """The standard library, pydantic, and the runtime's own names; on demand everything that is installed."""
    source = """
        import asyncio, datetime, decimal, re, uuid, zoneinfo, xml.etree.ElementTree
        import annotated_types, google.protobuf, numpy, pydantic_core, typing_extensions, typing_inspection
        import pydantic.fields
        from pydantic import BaseModel
        from ces_public import Part, ces_requests, get_variable, tools
        def tool():
            return Part is ces_public.Part
        """

    assert of_tool(source)["result"] is True
    assert of_tool("import pytest\ndef tool():\n    return 1", settings={"importable": None})["result"] == 1


CODE = [{"source": "def tool(): pass", "filename": "t.py"}]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(({"kind": kind}, "kind") for kind in (None, "job")),
        *(({"code": code}, "code is a list") for code in ([], [*CODE, *CODE])),
        ({"code": [{"source": "def tool(): pass"}]}, "code.0.filename"),
        ({"code": [{**CODE[0], "name": 5}]}, "code.0.name"),
        ({"kind": "callback"}, "callback is missing"),
        ({"kind": "callback", "callback": "before_lunch"}, "callback: Input should be"),
        ({"kind": "callback", "callback": "before_model"}, "before_model needs llm_request"),
        ({"settings": {"strict": 1}}, "settings.strict: Unexpected keyword argument"),
        ({"settings": {"importable": 5}}, "settings.importable: Input should be"),
        ({"settings": {"max_stdout_chars": -1}}, "settings.max_stdout_chars: Input should be greater"),
        ({"context": None}, "context"),
        ({"context": {"state": 5}}, "state: Input should be"),
        ({"context": {"events": [{"id": "e"}]}}, "events.0."),
        ({"tools": "look_up"}, "tools"),
    ],
)
def test_a_request_that_is_none_is_an_answer(changed: dict[str, Any], message: str) -> None:
    """A host learns what is wrong with it."""
    answer = answered({"kind": "tool", "code": CODE, **changed})

    assert message in answer["error"]["message"]
    assert answer["state_delta"] == UNCHANGED


def test_the_error_of_a_request_that_is_none_has_nothing_of_its_values() -> None:
    """Hosts log errors."""
    wrong: list[dict[str, Any]] = [{name: "SECRET"} for name in ("code", "args", "kind", "tools")]
    wrong += [{"context": given} for given in (["SECRET"], {"state": "SECRET"}, {"events": ["SECRET"]})]
    errors = [str(answered({"kind": "tool", "code": CODE, **changed})["error"]) for changed in wrong]

    assert not any("SECRET" in error or error == "None" for error in errors)

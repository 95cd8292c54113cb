"""The answer has the lines of the code that ran, where the request asks for them."""

import sys
import threading

from tests.ces.guest.runs import answered, of_callbacks, of_tool

CODE = """\
import threading


def tool():
    if get_variable("fails"):
        raise ValueError
    threading.Thread(target=later).start()
    return [each for each in later() or ()]


def later():
    return None


def never():
    return 1
"""


def test_lines_that_ran_are_told_also_of_threads() -> None:
    """And none that did not."""
    assert [1, 4, 5, 7, 8, 11, 12, 15] == of_tool(CODE, lines=True)["lines"]


def test_a_run_that_fails_tells_them_too() -> None:
    """Up to its end."""
    answer = of_tool(CODE, lines=True, state={"fails": True})

    assert "ValueError" == answer["error"]["type"]
    assert [1, 4, 5, 6, 11, 15] == answer["lines"]


def test_nothing_is_told_unasked_or_of_several_files() -> None:
    """One of them could tell lines of another."""
    assert [] == of_tool(CODE)["lines"]
    callbacks = ["def before_agent_callback(callback_context):\n    pass\n"] * 2

    assert [] == of_callbacks("before_agent", *callbacks, lines=True)["lines"]
    assert [1, 2] == of_callbacks("before_agent", callbacks[0], lines=True)["lines"]


def test_code_that_cannot_be_compiled_ran_nothing() -> None:
    """Its error says why."""
    answer = answered({"kind": "tool", "code": [{"source": "def", "filename": "tool.py"}], "lines": True})

    assert "SyntaxError" == answer["error"]["type"]
    assert [] == answer["lines"]


def test_what_traced_before_traces_after_it() -> None:
    """Such as a debugger of the host's process."""
    before = sys.gettrace(), threading.gettrace()
    of_tool(CODE, lines=True)

    assert before == (sys.gettrace(), threading.gettrace())

"""Tests of tools are read from YAML with their lines; what is none is an error in its line."""

from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces.testing.matching import Expectation, JsonPath
from gcp_adk_store.ces.testing.nodes import MalformedTestError
from gcp_adk_store.ces.testing.tool_tests import ToolTest, read_tool_tests
from tests.support.documents import blocks

WHOLE = """\
tests:
  - name: finds it
    tool: find
    args: {number: "12", most: 3, deep: [1, {a: null}]}
    variables: {verified: true, plan: }
    mockConfig: {mockedToolCalls: []}
    expectations:
      response:
        - {path: $.result.owner, operator: equals, value: Ada}
        - path: $.result.note
          operator: is_null
      variables: [{path: $.account, operator: contains, value: x}]
  - {name: one, tool: find, variables: [p, a: 1], expectations: {response: [&i {path: $, operator: is_null}]}}
  - {name: with context, tool: find, agrs: {a: 1}, context: {state: {a: 1}}, expectations: {variables: [*i]}}
"""


ARGS, PLAN = '{number: "12", most: 3, deep: [1, {a: null}]}', "{verified: true, plan: }"
LAUGHS = (
    f"[&a [{'x, ' * 9}x], &b [{'*a, ' * 9}*a], &c [{'*b, ' * 9}*b], &d [{'*c, ' * 9}*c], [{'*d, ' * 9}*d]]"
)
"""Some 10^5 values in a few lines."""


def read(tmp_path: Path, text: str) -> list[ToolTest]:
    """Return the tests of *text*."""
    path = tmp_path / "find.yaml"
    path.write_text(text)
    return read_tool_tests(path)


def test_every_form_is_read(tmp_path: Path) -> None:
    """Variables by value, by name and mixed; expectations of either kind; numbers but octal ones."""
    whole, named, context = read(tmp_path, WHOLE)

    assert ("finds it", "find", 2) == (whole.name, whole.subject, whole.line)
    assert {"number": "12", "most": 3, "deep": [1, {"a": None}]} == whole.args
    assert {"verified": True, "plan": None} == whole.variables
    assert {"mockedToolCalls": []} == whole.mock_config
    assert [("$.result.owner", "equals", "Ada", 9), ("$.result.note", "is_null", None, 10)] == [
        (each.path.text, each.operator, each.value, each.line) for each in whole.response
    ]
    assert ["$.account"] == [each.path.text for each in whole.variables_after]
    assert ({"p": None, "a": 1}, 1, ()) == (named.variables, len(named.response), named.variables_after)
    assert 13 == named.line
    assert ({"a": 1}, {"state": {"a": 1}}) == (context.args, context.context)

    args = "{a: -3, b: 0, c: 1.5e+3, d: \"0123\", e: 12345678901234567890, f: '1:2'}"
    (test, *_) = read(tmp_path, WHOLE.replace(ARGS, args))

    assert {"a": -3, "b": 0, "c": 1500.0, "d": "0123", "e": 12345678901234567890, "f": "1:2"} == test.args


@pytest.mark.parametrize(
    ("was", "becomes", "line", "says"),
    [
        ("tests:\n", "tests: [\n", 2, "not YAML"),
        ("tests:", "other:", 1, "it has no tests"),
        (WHOLE, "", 1, "it is empty"),
        (WHOLE, "- a\n", 1, "the file must be an object"),
        (WHOLE, "tests: {a: 1}\n", 1, "tests must be a list"),
        (WHOLE, "tests: []\n", 1, "it has no tests"),
        ("{variables: [*i]}", "{}", 14, "with context expects nothing, so it cannot fail"),
        (", expectations: {variables: [*i]}", "", 14, "with context expects nothing, so it cannot fail"),
        ("agrs: {a: 1}", "agrs: {a: 1}, args: {}", 14, "args is given twice"),
        ("most: 3", "<<: {most: 3}", 4, "<< is not read: write the names out"),
        ("most: 3", "most: 0123", 4, "0123 is read as the number 83: put it in quotes"),
        ("most: 3", "most: 12:30", 4, "12:30 is read as the number 750: put it in quotes"),
        ("most: 3", f"most: {LAUGHS}", 4, "it has more than 100,000 values"),
        (WHOLE, "tests:\n  - text\n", 2, "a test must be an object"),
        (WHOLE, "- " * 1500, 1, "nested too deep"),
        ("name: finds it", "nam: finds it", 2, "unknown name nam in a test; known: args"),
        ("    tool: find\n", "", 2, "tool is missing"),
        ("    tool: find\n", "    tool: [find]\n", 3, "tool is missing, or is not text"),
        (ARGS, "[1]", 4, "args must be an object, not list"),
        ('number: "12"', "number: 2026-08-04", 4, "2026-08-04 is read as a date: put it in quotes"),
        ("most: 3", "most: 3, most: 4", 4, "most is given twice"),
        ("most: 3", "[1]: 4", 4, "a name in an object is not text"),
        ("most: 3", "most: !!python/object:os.system x", 4, "it cannot be read"),
        ("most: 3", "most: &a [*a]", 4, "nested deeper"),
        ("operator: is_null", "operator: is_no", 11, "unknown operator is_no; known: equals"),
        ("equals, value: Ada", "equals", 9, "equals needs a value"),
        ("path: $.result.note", "path: $.result[?(@.a)]", 10, "cannot be read at '[?(@.a)]'"),
        ("response:", "answer:", 8, "unknown name answer in expectations; known: response, variables"),
        (f"variables: {PLAN}", "variables: 3", 5, "variables must be an object"),
        (f"variables: {PLAN}", "context: {state: [1]}", 5, "state of the context must be an"),
        ("context: {state", "variables: {}, context: {state", 14, "not both"),
    ],
)
def test_what_is_no_test_is_an_error_in_its_line(
    tmp_path: Path, was: str, becomes: str, line: int, says: str
) -> None:
    """With the path, as compilers write it."""
    assert was in WHOLE
    with pytest.raises(MalformedTestError) as raised:
        read(tmp_path, WHOLE.replace(was, becomes, 1))

    assert line == raised.value.line
    assert says in raised.value.says
    assert f"{raised.value}".startswith(f"{tmp_path}/find.yaml:{line}: ")


DOCUMENT = {"result": {"a b": 1, "list": [{"n": 1}, {"n": 2}], "none": None}, "n": 3}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", DOCUMENT),
        ("$.result.list[0].n", 1),
        ("result.list[-1].n", 2),
        ("$['result'][\"a b\"]", 1),
        ("$.result.list[*].n", [1, 2]),
        ("$.result.list[9]", None),
        ("$.result.none.deeper", None),
        ("$..n", [3, 1, 2]),
        ("$.missing", None),
        ("$.*[0]", None),
        ("$.result.list.n", None),
    ],
)
def test_paths_find_values(path: str, found: Any) -> None:
    """Nothing is None, several are a list."""
    assert found == JsonPath.of(path).find(DOCUMENT)


def test_other_paths_are_refused() -> None:
    """Instead of finding nothing."""
    for path in ("", " ", "$.", "$[", "$.a[1:2]", "$.a['b'", "a b"):
        with pytest.raises(ValueError, match="path"):
            JsonPath.of(path)


@pytest.mark.parametrize(
    ("operator", "passes", "fails"),
    [
        (
            "equals",
            [(1, 1.0), ({"a": [1]}, {"a": [1.0]}), (True, True)],
            [(1, True), ("1", 1), ([1], [1, 2])],
        ),
        (
            "contains",
            [("abc", "b"), ([1, 2], 2), ({"a": 1}, "a")],
            [("abc", 1), ([True], 1), (3, 3), (None, 1)],
        ),
        ("greater_than", [(2, 1), (1.5, 1), ("b", "a")], [(1, 1), ("2", 1), (None, 1), (True, 0)]),
        ("less_than", [(1, 2)], [(1, 1), ([], 1)]),
        ("length_equals", [("ab", 2), ({"a": 1}, 1), ([], 0)], [([], 1), (3, 1), ("a", "1")]),
        ("length_greater_than", [("ab", 1)], [("ab", 2), (None, 0)]),
        ("length_less_than", [([], 1)], [([1], 1)]),
        ("is_null", [(None, None)], [(0, None), ("", None)]),
        ("is_not_null", [(0, None)], [(None, None)]),
    ],
)
def test_operators_compare_as_json(
    operator: str, passes: list[tuple[Any, Any]], fails: list[tuple[Any, Any]]
) -> None:
    """And say what there was instead."""
    for actual, expected in passes:
        assert expectation(operator, expected).failure(actual) is None
    for actual, expected in fails:
        assert f"it is {actual!r}" in (expectation(operator, expected).failure(actual) or "")


def expectation(operator: str, value: Any) -> Expectation:
    """Return an expectation of the whole document."""
    return Expectation(path=JsonPath.of("$"), operator=operator, value=value, line=1)


def test_the_tests_of_the_page_can_be_read(tmp_path: Path) -> None:
    """As they stand in docs/ces-commands.md."""
    (shown,) = blocks("docs/ces-commands.md", "yaml")
    (test,) = read(tmp_path, shown)

    assert "arrange_payment" == test.subject

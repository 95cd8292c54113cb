"""Tests of tools are read with their lines; what agents said and called is compared, and reported."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces.testing.matching import (
    Expectation,
    JsonPath,
    _pattern_fault,
    fits,
    has,
    match_type_fault,
    similarity,
)
from gcp_adk_store.ces.testing.nodes import MalformedTestError
from gcp_adk_store.ces.testing.outcomes import Outcome, bounded
from gcp_adk_store.ces.testing.tool_tests import ToolTest, read_tool_tests
from gcp_adk_store.cli.ces.check import junit_xml

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
        ("most: 3", "most: !!bool x", 4, "it cannot be read"),
        ("most: 3", "most: &a [*a]", 4, "nested deeper"),
        ("operator: is_null", "operator: is_no", 11, "unknown operator is_no; known: equals"),
        ("equals, value: Ada", "equals", 9, "equals needs a value"),
        ("{path: $.account, operator", "{operator", 12, "path is missing, or is not text"),
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
        ("length_equals", [("ab", 2), ({"a": 1}, 1), ([], 0)], [([], 1), (3, 1), ("a", "1"), ("a", True)]),
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


@pytest.mark.parametrize(
    ("actual", "expected", "score"),
    [
        ("Your order has shipped.", "your ORDER has shipped", 1.0),
        ("Your order has shipped today", "Your order has shipped", 8 / 9),
        ("shipped has order your", "your order has shipped", 1.0),
        ("", "", 1.0),
        ("!", "", 1.0),
        ("yes", "no", 0.0),
        ("\U0001f44d", "\U0001f44e", 0.0),
        ("\U0001f44d!", "\U0001f44d", 1.0),
        ("no no no", "no", 0.5),
    ],
)
def test_texts_are_as_similar_as_their_words(actual: str, expected: str, score: float) -> None:
    """Capitals, punctuation and the order do not count; of texts without words, symbols do."""
    assert similarity(actual, expected) == pytest.approx(score)
    assert similarity(expected, actual) == pytest.approx(score)


def by(how: str, value: Any = "") -> dict[str, Any]:
    """Return a value that is compared in this way."""
    return {"$matchType": how, "$matchValue": value}


@pytest.mark.parametrize(
    ("actual", "expected", "holds"),
    [
        ({"id": "12", "more": 1}, {"id": "12"}, True),
        ({"id": 12}, {"id": "12"}, False),
        ({"id": 12.0}, {"id": 12}, True),
        ({"id": True}, {"id": 1}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({}, {"id": {"$matchType": "ignore"}}, True),
        ({}, {"id": by("contains", "1")}, False),
        ({"id": "ORD-12345"}, {"id": {"value": "12345", "$matchType": "contains"}}, True),
        ({"id": "ORD-12345"}, {"id": by("regexp", r"^ORD-\d+$")}, True),
        ({"id": "ORD-x"}, {"id": by("regexp", r"^ORD-\d+$")}, False),
        ({"why": "The bill is too high"}, {"why": by("semantic", "bill too high")}, True),
        ({"why": "Power cut"}, {"why": by("semantic", "bill too high")}, False),
        ({"id": 3}, {"id": by("EXACT", 3)}, True),
    ],
)
def test_arguments_fit_by_their_match_types(
    actual: dict[str, Any], expected: dict[str, Any], *, holds: bool
) -> None:
    """Without one, a value has to be the same; members that are not expected may be there."""
    assert fits(actual, expected, similar=0.7) is holds


@pytest.mark.parametrize(
    ("actual", "expected", "holds"),
    [
        ({"id": 12, "more": 1}, {"id": "12"}, True),
        ({"a": '{"b": 1}'}, {"a": {"b": 1}}, True),
        ({"a": "no JSON"}, {"a": {"b": 1}}, False),
        ({"a": {"b": 1}}, {"a": {}}, True),
        ({}, {"a": {}}, False),
    ],
)
def test_tests_of_turns_compare_members_by_their_text_too(
    actual: dict[str, Any], expected: dict[str, Any], *, holds: bool
) -> None:
    """And an empty object is any value."""
    assert has(actual, expected) is holds


@pytest.mark.sample(1)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}b"])
def test_a_regular_expression_that_takes_too_long_is_an_error(pattern: str) -> None:
    """In bounded time; Python's own would take minutes, and hear of no signal."""
    assert match_type_fault(by("regexp", pattern)) is None
    with pytest.raises(InvalidInputError, match=r"takes more than 0.5 s on a text of 10,000 characters"):
        fits("a" * 9_999 + "!", by("regexp", pattern), similar=0.8)


def test_what_cannot_be_matched_is_reported_before_anything_runs() -> None:
    """``regex`` writes each repeat out: three of a thousand take 280 GB before the first comparison.

    Usual repeats, of an id and an address, are accepted.
    """
    assert "unknown $matchType 'fuzzy'" in str(match_type_fault({"a": [by("fuzzy")]}))
    assert "regular expression '(' is not valid" in str(match_type_fault({"a": by("regexp", "(")}))
    assert match_type_fault({"a": by("ignore")}) is None
    for between in ("", " ", "\n", "(?#x)"):
        pattern = f"(?x)(?:(?:a{{1000}}){between}{{1000}}){between}{{1000}}"
        assert "repeats groups too often" in str(_pattern_fault(pattern))
    uuid = "-".join(f"[0-9a-f]{{{count}}}" for count in (8, 4, 4, 4, 12))
    assert _pattern_fault(rf"^{uuid} {uuid} (?:\d{{1,3}}\.){{3}}\d{{1,3}}$") is None


def outcome(*says: str, stdout: str = "", name: str = "a") -> Outcome:
    """Return what became of a test."""
    return Outcome(path="p", line=1, name=name, subject="s", status="failed", says=says, stdout=stdout)


def test_a_flood_is_left_out_of_reports_and_nothing_else_is() -> None:
    """The end of a long text stays, and what is around it. Many texts of one test are a flood."""
    short = outcome("it is 3", stdout="printed")
    flood = outcome("x" * 1_000_000 + "end", stdout="y" * 28_000_000, name="n" * 1_000_000)

    first, *many, last = bounded([short, *[flood] * 200, short])

    assert first == last == short
    assert many[0].says[0].startswith("[998,979 characters are left out]\nxxx")
    assert many[0].says[0].endswith("xend")
    sizes = [len(each.name) + len(each.stdout) + sum(map(len, each.says)) for each in many]
    assert sum(sizes) < 1_200_000

    (found,) = bounded([outcome(*["x"] * 1_000_000)])

    assert found.says == (*["x"] * 20, "[999,980 more are left out]")


def test_a_report_has_ten_thousand_tests_and_counts_the_others() -> None:
    """Failures stay, also those at the end; what is left out failed if one of it did."""
    passed = replace(outcome(), status="passed", name="b")
    bad = outcome("wrong")

    kept = bounded([*[passed] * 10_000, bad, bad])
    (*_, last) = worse = bounded([bad] * 10_001)
    others = replace(passed, name="others", says=("[2 tests are left out]",))

    assert kept == [*[passed] * 9_998, bad, bad, others]
    assert (len(worse), last.status, last.says) == (10_001, "failed", ("[1 tests are left out]",))


def test_a_report_is_xml_whatever_code_printed() -> None:
    """Also what XML cannot have."""
    said = "\0\x1b\ud800\ufffe<&]]>\ra\n\U0001f600"
    bad = Outcome(path="a.yaml", line=1, name=said, subject="a", status="error", says=(said,), stdout=said)
    (suite,) = ET.fromstring(junit_xml([bad]))  # noqa: S314  # our own

    for found in (suite[0].findtext("system-out"), suite[0].get("name")):
        assert "\\x00\\x1b\\ud800\\ufffe<&]]>\\ra\n\U0001f600" == found

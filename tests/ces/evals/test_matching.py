"""What agents said and called is compared, and reported in bounds."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces.testing.matching import _pattern_fault, fits, has, match_type_fault, similarity
from gcp_adk_store.ces.testing.outcomes import Outcome, bounded
from gcp_adk_store.cli.ces.check import junit_xml


@pytest.mark.parametrize(
    ("actual", "expected", "score"),
    [
        ("Your order has shipped.", "your ORDER has shipped", 1.0),
        ("Your order has shipped today", "Your order has shipped", 8 / 9),
        ("shipped has order your", "your order has shipped", 1.0),
        ("", "", 1.0),
        ("!", "", 1.0),
        ("yes", "no", 0.0),
        ("no no no", "no", 0.5),
    ],
)
def test_texts_are_as_similar_as_their_words(actual: str, expected: str, score: float) -> None:
    """Capitals, punctuation and the order do not count."""
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

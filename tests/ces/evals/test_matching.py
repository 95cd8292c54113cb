"""What an agent said and called is compared by words, by match types, and by members."""

from typing import Any

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces.testing.matching import (
    SIMILAR,
    _pattern_fault,
    fits,
    has,
    match_type_fault,
    similarity,
)


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
        ({}, {"id": {"$matchType": "contains", "$matchValue": "1"}}, False),
        ({"id": "ORD-12345"}, {"id": {"value": "12345", "$matchType": "contains"}}, True),
        ({"id": "ORD-12345"}, {"id": {"$matchType": "regexp", "$matchValue": r"^ORD-\d+$"}}, True),
        ({"id": "ORD-x"}, {"id": {"$matchType": "regexp", "$matchValue": r"^ORD-\d+$"}}, False),
        (
            {"why": "The bill is too high"},
            {"why": {"$matchType": "semantic", "$matchValue": "bill too high"}},
            True,
        ),
        ({"why": "Power cut"}, {"why": {"$matchType": "semantic", "$matchValue": "bill too high"}}, False),
        ({"id": 3}, {"id": {"$matchType": "EXACT", "$matchValue": 3}}, True),
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
    expected = {"$matchType": "regexp", "$matchValue": pattern}

    assert match_type_fault(expected) is None
    with pytest.raises(InvalidInputError, match=r"takes more than 0.5 s on a text of 10,000 characters"):
        fits("a" * 9_999 + "!", expected, similar=SIMILAR)


def test_what_cannot_be_matched_is_reported_before_anything_runs() -> None:
    """``regex`` writes each repeat out: three of a thousand take 280 GB before the first comparison.

    Usual repeats, of an id and an address, are accepted.
    """
    for expected, says in (
        ({"a": [{"$matchType": "fuzzy"}]}, "unknown $matchType 'fuzzy'"),
        ({"a": {"$matchType": "regexp", "$matchValue": "("}}, "regular expression '(' is not valid"),
    ):
        assert says in str(match_type_fault(expected))
    assert match_type_fault({"a": {"$matchType": "ignore"}}) is None
    for between in ("", " ", "\n", "(?#x)"):
        pattern = f"(?x)(?:(?:a{{1000}}){between}{{1000}}){between}{{1000}}"
        assert "repeats groups too often" in str(_pattern_fault(pattern))
    uuid = "-".join(f"[0-9a-f]{{{count}}}" for count in (8, 4, 4, 4, 12))
    assert _pattern_fault(rf"^{uuid} {uuid} (?:\d{{1,3}}\.){{3}}\d{{1,3}}$") is None

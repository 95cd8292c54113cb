"""Compare values with what a test or an evaluation expects."""

import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import regex

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.json_values import is_equal

_STEP: Final = re.compile(
    r"""
    (?P<every>\.\.)?                                  # at any depth
    (?: \.? (?P<name>[A-Za-z_][\w-]*)
      | \.? (?P<wild>\*)
      | \[ \s* (?: (?P<index>-?\d+) | (?P<star>\*) | '(?P<single>[^']*)' | "(?P<double>[^"]*)" ) \s* \]
    )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Where values are in a document."""

    text: str
    steps: tuple[tuple[str | int | None, bool], ...]
    """Of each, the key, the index or None for all of them, and whether it is at any depth."""

    @classmethod
    def of(cls, text: str) -> "JsonPath":
        """Return *text*, read.

        Raises:
            ValueError: *text* is not a path of names, ``['names']``, ``[indexes]``, ``*`` and ``..``.
        """
        rest = text.removeprefix("$")
        steps, position = [], 0
        while position < len(rest):
            match = _STEP.match(rest, position)
            if match is None:
                raise ValueError(f"the path {text!r} cannot be read at {rest[position:]!r}")
            names = [match[group] for group in ("name", "single", "double") if match[group] is not None]
            index = None if match["index"] is None else int(match["index"])
            steps.append((names[0] if names else index, bool(match["every"])))
            position = match.end()
        if not text.strip():
            raise ValueError("the path is empty; $ names the whole document")
        return cls(text=text, steps=tuple(steps))

    def has(self, name: str) -> bool:
        """Whether it goes through what is called *name*."""
        return any(wanted == name for wanted, _ in self.steps)

    def find(self, document: Any) -> Any:
        """Return what is there in *document*: the value, a list of several, None for nothing."""
        found = [document]
        for wanted, anywhere in self.steps:
            among = [below for each in found for below in _all_below(each)] if anywhere else found
            found = [value for each in among for value in _matching(each, wanted)]
        return found if len(found) > 1 else next(iter(found), None)


def _matching(value: Any, wanted: str | int | None) -> Iterator[Any]:
    if isinstance(value, dict):
        if wanted is None:
            yield from value.values()
        elif wanted in value:
            yield value[wanted]
    elif isinstance(value, list):
        if wanted is None:
            yield from value
        elif isinstance(wanted, int) and -len(value) <= wanted < len(value):
            yield value[wanted]


def _all_below(value: Any) -> Iterator[Any]:
    """Yield *value* and all values within it."""
    yield value
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in below:
        yield from _all_below(each)


def _is_contained(actual: Any, expected: Any) -> bool:
    if isinstance(actual, str):
        return isinstance(expected, str) and expected in actual
    return isinstance(actual, list | dict) and any(is_equal(each, expected) for each in actual)


def _compares(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of two numbers, or of two texts; others do not compare."""

    def compare(actual: Any, expected: Any) -> bool:
        for kind in (int | float, str):
            if isinstance(actual, kind) and isinstance(expected, kind):
                return bool not in {type(actual), type(expected)} and holds(actual, expected)
        return False

    return compare


def _measures(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of a length with a number."""

    def measure(actual: Any, expected: Any) -> bool:
        return isinstance(actual, str | list | dict) and _compares(holds)(len(actual), expected)

    return measure


OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "equals": is_equal,
    "contains": _is_contained,
    "greater_than": _compares(operator.gt),
    "less_than": _compares(operator.lt),
    "length_equals": _measures(operator.eq),
    "length_greater_than": _measures(operator.gt),
    "length_less_than": _measures(operator.lt),
    "is_null": lambda actual, _: actual is None,
    "is_not_null": lambda actual, _: actual is not None,
}
"""By name; each gets what is there and what is expected."""

_SHOWN: Final = 300
WITHOUT_VALUE: Final = frozenset({"is_null", "is_not_null"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a value must be."""

    path: JsonPath
    operator: str
    """One of `OPERATORS`."""
    value: Any
    line: int
    """Where it is written."""

    def failure(self, document: Any) -> str | None:
        """Return what is wrong with *document*, or None."""
        actual = self.path.find(document)
        if OPERATORS[self.operator](actual, self.value):
            return None
        expected = "" if self.operator in WITHOUT_VALUE else f" {self.value!r}"
        return f"{self.path.text} {self.operator}{expected}: it is {shortly(repr(actual))}"


def shortly(text: str) -> str:
    """Return the beginning of *text*: a few lines of a terminal."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


MATCH_TYPES: Final = frozenset({"semantic", "contains", "exact", "regexp", "ignore"})

_TYPE: Final = "$matchType"
_VALUE: Final = ("$matchValue", "value", "$originalValue")
"""Where an object with a match type may have what is expected."""
_WORD: Final = re.compile(r"\w+")
_SYMBOL: Final = regex.compile(r"\p{S}")
_SPACE: Final = re.compile(r"\s+")
_COUNT: Final = re.compile(r"\{\s*(\d+)")
_COUNT_OF_GROUP: Final = re.compile(r"(?<![\]\w.])\{\s*(\d+)")
_DIGITS: Final = 10
_MOST_STEPS: Final = 1_000_000
"""Of a regular expression: some 300 MB."""
_LONGEST: Final = 10_000
"""Characters of a text that a regular expression of a test is tried on."""
_PATTERN_S: Final = 0.5
"""Of processor time that it may take. Python's own ``re`` has no such limit, and takes minutes for some."""


def similarity(actual: str, expected: str) -> float:
    """Return how much of the words of both texts is in both, from 0 to 1: ROUGE-1's F-measure.

    Capitals and punctuation do not count, and neither does the order. If neither has a word, symbols count,
    such as emoji.
    """
    for kind in (_WORD, _SYMBOL):
        one, other = (Counter(kind.findall(text.casefold())) for text in (actual, expected))
        if one or other:
            return 2 * (one & other).total() / (one.total() + other.total())
    return 1.0


def squeezed(text: str) -> str:
    """Return *text* with one space where it has any white space, and none around it."""
    return _SPACE.sub(" ", text).strip()


def fits(actual: Any, expected: Any, *, similar: float) -> bool:
    """Return whether *actual* is *expected*, in which objects may say how by ``$matchType``.

    Args:
        actual: JSON.
        expected: JSON; members that it does not have may be there too. Without a match type, a value has to
            be the same.
        similar: The similarity from which texts of the match type ``semantic`` count as the same.

    Raises:
        InvalidInputError: a regular expression takes too long.
    """
    if isinstance(expected, Mapping) and _TYPE in expected:
        return _matches(str(expected[_TYPE]).lower(), actual, _wanted(expected), similar)
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            _is_ignored(below) or (name in actual and fits(actual[name], below, similar=similar))
            for name, below in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(fits(one, other, similar=similar) for one, other in zip(actual, expected, strict=True))
        )
    return is_equal(actual, expected)


def has(actual: Any, expected: Any) -> bool:
    """Return whether *actual* has all of *expected*: members of objects, where ``{}`` is any value.

    A text that is JSON counts as the value it encodes, and values fit by their text, too: ``3`` is ``"3"``.
    """
    if not isinstance(expected, Mapping):
        return is_equal(actual, expected) or text_of(actual) == text_of(expected)
    if not expected:
        return True
    if isinstance(actual, str):
        try:
            actual = json.loads(actual)
        except (ValueError, RecursionError):
            return False
    return isinstance(actual, Mapping) and all(
        name in actual and has(actual[name], below) for name, below in expected.items()
    )


def expected_value(expected: Any) -> Any:
    """Return the value that *expected* has, without match types, and without members that are ignored."""
    if isinstance(expected, Mapping):
        if _TYPE in expected:
            return _wanted(expected)
        return {name: expected_value(each) for name, each in expected.items() if not _is_ignored(each)}
    return [expected_value(each) for each in expected] if isinstance(expected, list) else expected


def match_type_fault(expected: Any) -> str | None:
    """Return what is wrong with the match types in *expected*, or None."""
    if isinstance(expected, Mapping):
        if _TYPE in expected:
            name = str(expected[_TYPE]).lower()
            if name not in MATCH_TYPES:
                return f"unknown {_TYPE} {name[:40]!r}; known: {', '.join(sorted(MATCH_TYPES))}"
            if name == "regexp":
                return _pattern_fault(str(_wanted(expected) or ""))
            return None
        below = list(expected.values())
    else:
        below = expected if isinstance(expected, list) else []
    return next((fault for each in below if (fault := match_type_fault(each))), None)


def text_of(value: Any) -> str:
    """Return *value* as the text that is compared: a text itself, or the JSON of another value."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _matches(how: str, actual: Any, expected: Any, similar: float) -> bool:
    match how:
        case "ignore":
            return True
        case "contains":
            return text_of(expected) in text_of(actual)
        case "regexp":
            return _is_found(str(expected), text_of(actual)[:_LONGEST])
        case "semantic":
            return similarity(text_of(actual), text_of(expected)) >= similar
        case _:
            return is_equal(actual, expected)


def _wanted(expected: Mapping[str, Any]) -> Any:
    """Return what an object with a match type has as the expected value."""
    return next((expected[name] for name in _VALUE if name in expected), None)


def _is_ignored(expected: Any) -> bool:
    return isinstance(expected, Mapping) and str(expected.get(_TYPE)).lower() == "ignore"


def _is_found(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=_PATTERN_S) is not None
    except TimeoutError as exc:
        raise InvalidInputError(
            f"the regular expression {pattern[:100]!r} takes more than {_PATTERN_S:g} s on a text of "
            f"{len(text):,} characters; write one that tries fewer ways to match"
        ) from exc


def _pattern_fault(pattern: str) -> str | None:
    if _is_huge(pattern):
        return f"the regular expression {pattern[:100]!r} repeats groups too often; write smaller numbers"
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as exc:
        return f"the regular expression {pattern[:100]!r} is not valid: {exc}"
    return None


def _is_huge(pattern: str) -> bool:
    """Return whether *pattern* may have more than a million steps: ``regex`` writes each repeat out."""
    counts, of_groups = (
        [int(number) if len(number) < _DIGITS else _MOST_STEPS for number in found.findall(pattern)]
        for found in (_COUNT, _COUNT_OF_GROUP)
    )
    return len(pattern) * max([1, *counts]) * math.prod(max(1, count) for count in of_groups) > _MOST_STEPS

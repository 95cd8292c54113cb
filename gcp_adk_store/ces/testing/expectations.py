"""Say whether a value is what a test expects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gcp_adk_store.ces.apps.paths import JsonPath


def _is_contained(actual: Any, expected: Any) -> bool:
    if isinstance(actual, str):
        return isinstance(expected, str) and expected in actual
    return isinstance(actual, list | dict) and any(is_equal(each, expected) for each in actual)


def is_equal(actual: Any, expected: Any) -> bool:
    """Return whether both are the same JSON; 1 and 1.0 are, 1 and true are not."""
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(
            is_equal(actual[key], expected[key]) for key in actual
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(is_equal, actual, expected))
    return bool(actual == expected)


def _compares(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of two numbers, or of two texts; others do not compare."""

    def compare(actual: Any, expected: Any) -> bool:
        for kind in (int | float, str):
            if isinstance(actual, kind) and isinstance(expected, kind):
                return not isinstance(actual, bool) and holds(actual, expected)
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
    "greater_than": _compares(lambda actual, expected: actual > expected),
    "less_than": _compares(lambda actual, expected: actual < expected),
    "length_equals": _measures(lambda actual, expected: actual == expected),
    "length_greater_than": _measures(lambda actual, expected: actual > expected),
    "length_less_than": _measures(lambda actual, expected: actual < expected),
    "is_null": lambda actual, _: actual is None,
    "is_not_null": lambda actual, _: actual is not None,
}
"""By name; each gets what is there and what is expected."""

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
        return f"{self.path.text} {self.operator}{expected}: it is {_shortly(actual)}"


def _shortly(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 300 else f"{shown[:300]}..."  # noqa: PLR2004  # a few lines of a terminal

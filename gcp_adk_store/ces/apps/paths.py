"""Find values in JSON by paths such as ``$.result.accounts[0].name``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

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
class _Step:
    wanted: str | int | None
    """Key, index, or None for all of them."""
    anywhere: bool


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Where values are in a document."""

    text: str
    steps: tuple[_Step, ...]

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
            named = next(
                (match[group] for group in ("name", "single", "double") if match[group] is not None), None
            )
            index = None if match["index"] is None else int(match["index"])
            steps.append(_Step(named if named is not None else index, anywhere=bool(match["every"])))
            position = match.end()
        if not text.strip():
            raise ValueError("the path is empty; $ names the whole document")
        return cls(text=text, steps=tuple(steps))

    def has(self, name: str) -> bool:
        """Whether it goes through what is called *name*."""
        return any(step.wanted == name for step in self.steps)

    def find(self, document: Any) -> Any:
        """Return what is there in *document*: the value, a list of several, None for nothing."""
        found = [document]
        for step in self.steps:
            among = [below for each in found for below in _all_below(each)] if step.anywhere else found
            found = [value for each in among for value in _matching(each, step.wanted)]
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

"""Write arguments as the parameters of an OpenAPI operation require."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

PLACES: Final = ("path", "query", "header", "cookie")
_STYLE: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_STYLES: Final = {
    "path": ("simple",),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
_CHARACTERS: Final = 64 * 1024
"""The most of one argument in a URL or a header."""
_BETWEEN: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}


class ArgumentsError(ValueError):
    """The arguments of a call do not make a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument outside of the body."""

    name: str
    place: str
    """``path``, ``query``, ``header`` or ``cookie``."""
    required: bool
    style: str
    """``json`` where the document gives it a media type; else one of OpenAPI's."""
    explode: bool
    """Whether each item of a list or an object is a value of its own."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Parameter":
        """Return the parameter that *told* describes.

        Raises:
            ValueError: *told* is not a parameter.
        """
        name, place = told.get("name"), told.get("in")
        if not isinstance(name, str) or place not in PLACES:
            raise ValueError(f"an unknown kind of parameter {str(name)[:40]!r} in {str(place)[:40]!r}")
        style = "json" if told.get("content") else str(told.get("style") or _STYLE[place])
        return cls(
            name=name,
            place=place,
            required=bool(told.get("required")) or place == "path",
            style=style,
            explode=bool(told.get("explode", style == "form")),
        )

    @property
    def spreads(self) -> bool:
        """Whether the members of an object are sent under their own names."""
        return self.place == "query" and self.explode and self.style not in ("json", "deepObject")

    @property
    def parts_fields(self) -> bool:
        """Whether no value of a field can end it and begin another field."""
        return self.style == "json" or (
            self.place == "query" and (self.explode or self.style == "deepObject")
        )

    def segment(self, value: Any) -> str:
        """Return *value* as a part of the path, which stays in its place.

        Raises:
            ArgumentsError: it would make it another path.
        """
        text = self._joined(value)
        if text in {"", ".", ".."}:
            raise ArgumentsError(f"the argument {self.name} cannot be {text!r}")
        return quote(text, safe="")

    def header(self, value: Any) -> str:
        """Return *value* as that of a header."""
        return self._joined(value)

    def cookie(self, value: Any) -> str:
        """Return *value* as a cookie."""
        return f"{self.name}={quote(self._joined(value))}"

    def query(self, value: Any) -> list[tuple[str, str]]:
        """Return *value* as names and values of a query."""
        if self.style == "deepObject" and isinstance(value, dict):
            return [(f"{self.name}[{key}]", text_of(below)) for key, below in value.items()]
        if self.explode and self.style != "json":
            if isinstance(value, list):
                return [(self.name, text_of(each)) for each in value]
            if isinstance(value, dict):
                return [(key, text_of(below)) for key, below in value.items()]
        return [(self.name, self._joined(value))]

    def _joined(self, value: Any) -> str:
        text = self._spelled(value)
        if len(text) > _CHARACTERS:
            raise ArgumentsError(
                f"the argument {self.name} has {len(text):,} characters; it may have {_CHARACTERS:,}"
            )
        return text

    def _spelled(self, value: Any) -> str:
        if self.style == "json":
            return json.dumps(value)
        if self.style not in _STYLES[self.place]:
            raise ArgumentsError(
                f"the argument {self.name} has the style {self.style}, which is not supported"
            )
        between = _BETWEEN.get(self.style, ",")
        if isinstance(value, list):
            return between.join(map(text_of, value))
        if isinstance(value, dict):
            inner = "=" if self.explode else between
            return between.join(f"{key}{inner}{text_of(below)}" for key, below in value.items())
        return text_of(value)


def text_of(value: Any) -> str:
    """Return *value* as text: a value that is not text, as JSON."""
    return value if isinstance(value, str) else json.dumps(value)

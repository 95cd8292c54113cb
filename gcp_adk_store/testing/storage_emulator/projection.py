"""Keep only what the ``fields`` parameter of a request selects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .errors import bad_request

if TYPE_CHECKING:
    from .exchange import JsonObject

Mask: TypeAlias = dict[str, "Mask"]
"""Selected names; an empty mask selects everything below."""

_TOKEN: Final = re.compile(r"[^,()/\s]+|[,()/]")


def parse_fields(text: str) -> Mask:
    """Parse a selection such as ``items(name,metadata/key),nextPageToken``.

    Raises:
        ApiError: 400 when the text is not a selection.
    """
    parser = _Parser(text)
    mask = parser.selectors()
    if parser.tokens:
        raise parser.error()
    return mask


def project(resource: JsonObject, mask: Mask) -> JsonObject:
    """Return the part of *resource* that *mask* selects; lists are projected item by item."""
    if "*" in mask:
        return {name: _below(value, mask.get(name, mask["*"])) for name, value in resource.items()}
    return {name: _below(resource[name], below) for name, below in mask.items() if name in resource}


def _below(value: Any, mask: Mask) -> Any:
    if not mask:
        return value
    if isinstance(value, list):
        return [_below(item, mask) for item in value]
    return project(value, mask) if isinstance(value, dict) else value


def _widen(one: Mask, other: Mask) -> Mask:
    """Return the mask that selects what either does."""
    if not one or not other:
        return {}
    both = {**one, **other}
    return {
        name: _widen(one[name], other[name]) if name in one and name in other else below
        for name, below in both.items()
    }


class _Parser:
    """Descend through the tokens, consuming from the end of a reversed list."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)[::-1]

    def error(self) -> Exception:
        return bad_request(f"Invalid field selection {self.text}")

    def selectors(self) -> Mask:
        mask: Mask = {}
        while True:
            name, below = self.selector()
            mask[name] = _widen(mask[name], below) if name in mask else below
            if not self.accept(","):
                return mask

    def selector(self) -> tuple[str, Mask]:
        name = self.tokens.pop() if self.tokens else ""
        if not name or name in ",()/":
            raise self.error()
        if self.accept("/"):
            child, below = self.selector()
            return name, {child: below}
        if self.accept("("):
            below = self.selectors()
            if not self.accept(")"):
                raise self.error()
            return name, below
        return name, {}

    def accept(self, token: str) -> bool:
        if self.tokens and self.tokens[-1] == token:
            self.tokens.pop()
            return True
        return False

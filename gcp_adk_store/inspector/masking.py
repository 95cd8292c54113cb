"""Decide how much of stored content a page shows: nothing until it is revealed, and no endless texts."""

import json
from dataclasses import dataclass
from typing import Any, Final

MAX_SHOWN: Final = 20_000
"""Characters of one text on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A piece of content as a page shows it."""

    text: str | None
    """The content, or its start; ``None`` while it is masked."""
    characters: int
    """Its whole length."""
    is_cut: bool
    """Whether the text is only the start."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Covers content, unless it is *lifted*."""

    lifted: bool

    def over(self, text: str, *, most: int = MAX_SHOWN) -> Shown:
        """Return *text* as a page shows it: at most the first *most* characters."""
        return Shown(
            text=drawable(text[:most]) if self.lifted else None,
            characters=len(text),
            is_cut=self.lifted and len(text) > most,
        )

    def over_json(self, value: Any, *, most: int = MAX_SHOWN) -> Shown:
        """Return a JSON value as indented text."""
        return self.over(json_text(value), most=most)


def json_text(value: Any) -> str:
    """Return *value* as indented JSON; what JSON cannot hold stands there as text."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str, sort_keys=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def drawable(text: str) -> str:
    """Return *text* without halves of surrogate pairs, which no page can carry: each becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

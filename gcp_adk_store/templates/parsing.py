"""Parse instructions once into literal text and placeholders."""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.errors import InvalidInputError

# One or more pairs of braces around text without braces; not after $ or \, which make them literal.
_STATE_PLACEHOLDER: Final = re.compile(r"(?<![${\\])(?P<open>\{+)(?P<inner>[^{}]*)(?P<close>\}+)")

ARTIFACT: Final = "artifact."
"""Prefix of the name of a placeholder for an artifact."""

PREFIXES: Final = ("app", "user", "temp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A placeholder of an instruction."""

    text: str
    """Its own text, braces included."""
    start: int
    """Index of its first character in the template."""
    name: str
    """A state key, or an artifact's filename."""
    is_artifact: bool
    optional: bool
    """Whether a ``?`` makes it optional."""
    braces: int
    """Number of its opening braces."""
    path: tuple[str, ...] = ()
    """The path from the key's value to the meant value; only in extended templates."""
    default: str | None = None
    """The default of a missing value; only in extended templates."""

    @property
    def key(self) -> str:
        """Its name as :attr:`~gcp_adk_store.templates.state.TemplateSettings.allowed_keys` has it."""
        return f"{ARTIFACT}{self.name}" if self.is_artifact else self.name

    @property
    def closing(self) -> int:
        """Number of its closing braces, all part of it."""
        return len(self.text) - len(self.text.rstrip("}"))


def require_template(template: object) -> None:
    """Check a template.

    Raises:
        InvalidInputError: *template* is not a text.
    """
    if not isinstance(template, str):
        raise InvalidInputError(f"template must be a text, not {type(template).__name__}")


def text_of(value: object, name: str) -> str:
    """Return the text of the value of a placeholder *name*; ``None`` is empty.

    Raises:
        InvalidInputError: it has none, as a whole number of over 4,300 digits.
    """
    try:
        return "" if value is None else str(value)
    except ValueError as exc:
        raise InvalidInputError(
            f"the value of {name!r:.80} has no text: {type(value).__name__}; give it as a text"
        ) from exc


@functools.lru_cache(512)  # an application has some dozens of templates
def parse_state_template(template: str, *, extended: bool) -> tuple[str | Placeholder, ...]:
    """Return the pieces of an instruction, in order; adjacent literal text is one piece.

    A placeholder whose name is neither a state key nor an artifact is literal text. In an *extended* template
    ``{order.items.0}`` leads into a value, and ``{tone|friendly}`` has a default. The time is linear in the
    length of every *template*.
    """
    pieces: list[str | Placeholder] = []
    end = 0
    for match in _STATE_PLACEHOLDER.finditer(template):
        found = _placeholder(match, extended=extended)
        if found is not None:
            pieces += [template[end : match.start()], found]
            end = match.end()
    pieces.append(template[end:])
    return tuple(piece for piece in pieces if piece)


def lines_and_columns(template: str, starts: Iterable[int]) -> list[tuple[int, int]]:
    """Return the line and column of the character at each of *starts*, all counted from 1."""
    begins = [0, *(match.end() for match in re.finditer("\n", template))]
    lines = [(bisect_right(begins, start), start) for start in starts]
    return [(line, start - begins[line - 1] + 1) for line, start in lines]


def is_state_key(name: str) -> bool:
    """Return whether *name* is valid for a placeholder: an identifier, perhaps with a scope."""
    prefix, colon, rest = name.rpartition(":")
    return rest.isidentifier() and (prefix in PREFIXES if colon else True)


def _placeholder(match: re.Match[str], *, extended: bool) -> Placeholder | None:
    name = match["inner"].strip()
    default: str | None = None
    if extended and "|" in name and not name.startswith(ARTIFACT):
        name, default = (side.strip() for side in name.split("|", 1))
    optional = name.endswith("?")
    name = name.removesuffix("?")
    is_artifact = name.startswith(ARTIFACT)
    path: list[str] = []
    if is_artifact:
        name = name.removeprefix(ARTIFACT)
    else:
        if extended:
            name, *path = name.split(".")
        if not is_state_key(name) or "" in path:
            return None
    return Placeholder(
        text=match[0],
        start=match.start(),
        name=name,
        is_artifact=is_artifact,
        optional=optional,
        braces=len(match["open"]),
        path=tuple(path),
        default=default,
    )

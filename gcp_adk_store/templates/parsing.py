"""Parse templates once into literal text and placeholders."""

import functools
import re
from dataclasses import dataclass
from typing import Final

# One or more pairs of braces around text without braces; not after $ or \, which make them literal.
_STATE_PLACEHOLDER: Final = re.compile(r"(?<![${\\])(?P<open>\{+)(?P<inner>[^{}]*)(?P<close>\}+)")

# As in Java, the origin of this dialect, a word is ASCII.
_INPUT_PLACEHOLDER: Final = re.compile(r"\{\{(?P<escaped>\w+)\}\}|\{(?P<name>\w+)\}", re.ASCII)

_CACHED: Final = 512
"""Templates whose pieces stay in the cache: an application has some dozens."""

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
    def closing(self) -> int:
        """Number of its closing braces, all part of it."""
        return len(self.text) - len(self.text.rstrip("}"))


StatePieces = tuple[str | Placeholder, ...]
"""The pieces of an instruction, in order."""


@dataclass(frozen=True, slots=True)
class InputPieces:
    """The pieces of a prompt: literal text at even places, names of variables at odd ones."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]
    """Each variable once, in the order of appearance."""


@functools.lru_cache(_CACHED)
def parse_state_template(template: str, *, extended: bool) -> StatePieces:
    """Return the pieces of an instruction; adjacent literal text is one piece.

    A placeholder whose name is neither a state key nor an artifact is literal text. The time is linear in the
    length of every *template*.

    Args:
        template: The instruction.
        extended: Whether ``{order.items.0}`` leads into a value, and ``{tone|friendly}`` has a default.
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


@functools.lru_cache(_CACHED)
def parse_input_template(template: str) -> InputPieces:
    """Return the pieces of a prompt; ``{{name}}`` is the literal text ``{name}``."""
    pieces: list[str] = []
    literal: list[str] = []
    end = 0
    for match in _INPUT_PLACEHOLDER.finditer(template):
        literal.append(template[end : match.start()])
        if match["escaped"] is not None:
            literal.append(f"{{{match['escaped']}}}")
        else:
            pieces += ["".join(literal), match["name"]]
            literal = []
        end = match.end()
    pieces.append("".join([*literal, template[end:]]))
    return InputPieces(pieces=tuple(pieces), names=tuple(dict.fromkeys(pieces[1::2])))


def line_and_column(template: str, start: int) -> tuple[int, int]:
    """Return the line and column of the character at *start*, both counted from 1."""
    before = template[:start]
    return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1


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
    path: tuple[str, ...] = ()
    if is_artifact:
        name = name.removeprefix(ARTIFACT)
    else:
        if extended:
            name, *steps = name.split(".")
            path = tuple(steps)
        if not is_state_key(name) or "" in path:
            return None
    return Placeholder(
        text=match[0],
        start=match.start(),
        name=name,
        is_artifact=is_artifact,
        optional=optional,
        braces=len(match["open"]),
        path=path,
        default=default,
    )

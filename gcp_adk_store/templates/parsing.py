"""Take templates apart, once: what stands for itself, and what stands for a value."""

import functools
import re
from dataclasses import dataclass
from typing import Final

# A pair of braces, or several, around anything without one; not after a sign that makes a brace ordinary.
_STATE_PLACEHOLDER: Final = re.compile(r"(?<![${\\])(?P<open>\{+)(?P<inner>[^{}]*)(?P<close>\}+)")

# As in Java, where this dialect comes from, a word is of ASCII.
_INPUT_PLACEHOLDER: Final = re.compile(r"\{\{(?P<escaped>\w+)\}\}|\{(?P<name>\w+)\}", re.ASCII)

_CACHED: Final = 512
"""Templates whose pieces are kept: an application has some dozens."""

ARTIFACT: Final = "artifact."
"""Start of the name of a placeholder that stands for an artifact."""

PREFIXES: Final = ("app", "user", "temp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """What stands for a value in an instruction."""

    text: str
    """As it is written, braces included."""
    start: int
    """Index of its first character in the template."""
    name: str
    """A state key, or an artifact's filename."""
    is_artifact: bool
    optional: bool
    """Whether a ``?`` says that it may be missing."""
    braces: int
    """How many open it."""
    path: tuple[str, ...] = ()
    """What leads from the value of the key to the one that is meant; only in extended templates."""
    default: str | None = None
    """What stands in for a missing value; only in extended templates."""

    @property
    def closing(self) -> int:
        """How many braces close it; all of them are part of it."""
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

    A placeholder whose name is no state key and no artifact stands for itself. Linear in the length of
    *template*, whatever it holds.

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
    """Return where the character at *start* stands, both counted from 1."""
    before = template[:start]
    return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1


def is_state_key(name: str) -> bool:
    """Tell whether *name* is one that a placeholder may have: an identifier, perhaps of a scope."""
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

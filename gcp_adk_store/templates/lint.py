"""Look over an instruction template without filling it: what stands for what, and what may surprise."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from gcp_adk_store.templates.parsing import Placeholder, line_and_column, parse_state_template
from gcp_adk_store.templates.state import ADK_SETTINGS, TemplateSettings

Kind = Literal["state", "artifact", "unknown", "literal", "json"]

# Braces with something in them that was not read as a placeholder.
_BRACES: Final = re.compile(r"[${\\]?\{[^{}]*\}+")
_JSON_LIKE: Final = re.compile(r"\{\s*[\"']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One pair of braces in a template."""

    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    text: str
    """As it is written."""
    kind: Kind
    """``state`` and ``artifact`` are filled; ``unknown`` would be, but there is nothing of the name;
    ``literal`` and ``json`` stay as they are."""
    says: str


def lint_template(
    template: str,
    *,
    state_keys: Collection[str] | None = None,
    filenames: Collection[str] | None = None,
    settings: TemplateSettings = ADK_SETTINGS,
) -> list[Finding]:
    """Return what is found in *template*, in order.

    Args:
        template: The instruction.
        state_keys: Keys that there are; ``None`` where it is not known.
        filenames: Artifacts that there are; ``None`` where it is not known.
        settings: How placeholders will be read.
    """
    found: list[Finding] = []
    position = 0
    for piece in parse_state_template(template, extended=settings.extended):
        if isinstance(piece, Placeholder):
            kind, says = _meaning(piece, state_keys, filenames, settings)
            found.append(_finding(template, position, piece.text, kind, says))
            position += len(piece.text)
            continue
        found += [
            _finding(template, position + match.start(), match[0], *_of_literal(match[0]))
            for match in _BRACES.finditer(piece)
        ]
        position += len(piece)
    return found


def _meaning(
    piece: Placeholder,
    state_keys: Collection[str] | None,
    filenames: Collection[str] | None,
    settings: TemplateSettings,
) -> tuple[Kind, str]:
    if settings.means_itself(piece):
        return "literal", "several braces stand for themselves"
    if not settings.allows(piece):
        return "unknown", "is not among allowed_keys"
    optional = " (optional)" if piece.optional else ""
    known = filenames if piece.is_artifact else state_keys
    what = "artifact" if piece.is_artifact else "state"
    if known is not None and piece.name not in known and piece.default is None:
        way_out = "is left empty" if piece.optional else "is an error when it is filled"
        return ("unknown", f"there is no {what} {piece.name!r}: {way_out}")
    return ("artifact" if piece.is_artifact else "state"), f"{what} {piece.name!r}{optional}"


def _of_literal(text: str) -> tuple[Kind, str]:
    if text[0] in "$\\":
        return "literal", f"{text[0]} before the brace keeps it as it is"
    if _JSON_LIKE.match(text):
        return "json", "reads as JSON and stays; {name} inside it would be filled"
    return "literal", "is no state key and no artifact, and stays"


def _finding(template: str, start: int, text: str, kind: Kind, says: str) -> Finding:
    line, column = line_and_column(template, start)
    return Finding(line=line, column=column, text=text, kind=kind, says=says)

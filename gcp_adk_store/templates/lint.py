"""Check an instruction template without filling it: list its placeholders and their surprises."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from gcp_adk_store.templates.parsing import (
    Placeholder,
    lines_and_columns,
    parse_state_template,
    require_template,
)
from gcp_adk_store.templates.state import ADK_SETTINGS, TemplateSettings

Kind = Literal["state", "artifact", "unknown", "literal", "json"]

# Nonempty braces that are not a placeholder.
_BRACES: Final = re.compile(r"(?:[$\\]|(?<!\{))\{+[^{}]*\}+")
_JSON_LIKE: Final = re.compile(r"\{+\s*[\"']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One pair of braces in a template."""

    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    text: str
    """The placeholder's own text."""
    kind: Kind
    """``state`` and ``artifact`` are filled; ``unknown`` has a name without a value;
    ``literal`` and ``json`` stay as they are."""
    says: str


def lint_template(
    template: str,
    *,
    state_keys: Collection[str] | None = None,
    filenames: Collection[str] | None = None,
    settings: TemplateSettings = ADK_SETTINGS,
) -> list[Finding]:
    """Return the braces of *template*, an instruction, in order.

    *state_keys* and *filenames* name the existing state and artifacts, ``None`` if unknown; *settings* are
    the rules for placeholders.

    Raises:
        InvalidInputError: *template* is not a text.
    """
    require_template(template)
    found: list[tuple[int, str, Kind, str]] = []
    position = 0
    for piece in parse_state_template(template, extended=settings.extended):
        if isinstance(piece, Placeholder):
            kind, says = _meaning(piece, state_keys, filenames, settings)
            found.append((position, piece.text, kind, says))
            position += len(piece.text)
            continue
        found += [
            (position + match.start(), match[0], *_of_literal(match[0])) for match in _BRACES.finditer(piece)
        ]
        position += len(piece)
    places = lines_and_columns(template, (start for start, *_ in found))
    return [
        Finding(line=line, column=column, text=text, kind=kind, says=says)
        for (line, column), (_, text, kind, says) in zip(places, found, strict=True)
    ]


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
    what: Kind = "artifact" if piece.is_artifact else "state"
    known = filenames if piece.is_artifact else state_keys
    lost = ""
    if (more := piece.closing - piece.braces) > 0:
        lost = f"; {more} more braces close it than open it, and go with it"
    if known is None or piece.name in known or piece.default is not None:
        return what, f"{what} {piece.name!r}{' (optional)' if piece.optional else ''}{lost}"
    says = f"the {what} {piece.name!r} is missing"
    text = settings.without_value(piece)
    if text is None:
        return "unknown", f"{says}: it is an error when it is filled{lost}"
    return ("literal", f"{says}: it stays as it is") if text else (what, f"{says}: it is left empty{lost}")


def _of_literal(text: str) -> tuple[Kind, str]:
    if text[0] in "$\\":
        return "literal", f"{text[0]} before the brace keeps it as it is"
    if _JSON_LIKE.match(text):
        return "json", "reads as JSON and stays; {name} inside it would be filled"
    return "literal", "names neither a state key nor an artifact, and stays"

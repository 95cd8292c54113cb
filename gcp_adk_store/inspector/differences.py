"""Compare two texts line by line."""

import difflib
from dataclasses import dataclass
from typing import Final, Literal

from gcp_adk_store.inspector.masking import Mask, drawable

MAX_LINES: Final = 2_000
"""Lines of each text that are compared; difflib takes a quadratic time at worst."""

Sign = Literal["same", "added", "removed", "skipped"]
_SIGNS: Final[dict[str, Sign]] = {"+": "added", "-": "removed", "@": "skipped"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison."""

    sign: Sign
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What changed between two texts."""

    lines: tuple[Line, ...] | None
    """The changed lines with some around them; ``None`` while they are masked."""
    is_cut: bool
    """Whether only the starts of the texts were compared."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return self.lines == ()


def difference(before: str, after: str, mask: Mask) -> Difference:
    """Return what changed from *before* to *after*."""
    old, new = before.splitlines(), after.splitlines()
    is_cut = max(len(old), len(new)) > MAX_LINES
    if not mask.lifted:
        return Difference(lines=None, is_cut=is_cut)
    changes = difflib.unified_diff(old[:MAX_LINES], new[:MAX_LINES], lineterm="", n=3)
    lines = [
        Line(_SIGNS.get(line[:1], "same"), drawable(line if line.startswith("@") else line[1:])[:2_000])
        for line in list(changes)[2:]
    ]
    return Difference(lines=tuple(lines), is_cut=is_cut)

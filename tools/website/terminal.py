"""Draw what a command printed as a terminal: SVG, which loads no font."""

import io
import re
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_THEME: Final = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    [
        (110, 118, 129),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (255, 255, 255),
    ],
)
_FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_APPEARING: Final = """\
    @media (prefers-reduced-motion: no-preference) {
        text[style] { animation: appear 0s both; }
    }
    @keyframes appear { from { opacity: 0 } to { opacity: 1 } }
"""
"""Who prefers no motion sees all lines at once."""
_FONTS: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


_LONGEST_S: Final = 0.7
"""A longer pause is cut to this, as recordings of terminals do it."""


def terminal(command: str, printed: Sequence[tuple[float, str]], *, width: int, name: str) -> str:
    """Return a picture of a terminal in which *command* prints, line by line, as it did.

    Args:
        command: The command, as the reader gives it.
        printed: The seconds at which it printed each line, and the lines with their colours.
        width: Columns.
        name: Distinguishes this picture from others on a page.
    """
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), no_wrap=True)
    shown_at, before = [0.0], 0.0
    for at, line in printed:
        text = Text.from_ansi(line.rstrip("\n"))
        rows = max(1, -(-text.cell_len // width))
        console.print(text, overflow="fold")
        shown_at += [shown_at[-1] + min(at - before, _LONGEST_S)] * rows
        before = at
    svg = console.export_svg(title=command, theme=_THEME, unique_id=f"terminal-{name}")
    svg = _FONT_FACE.sub("", svg).replace("Fira Code, monospace", _FONTS)
    svg = svg.replace("<style>", f"<style>\n{_APPEARING}", 1)

    def appear(found: re.Match[str]) -> str:
        row = int(found[2])
        at = shown_at[row] if row < len(shown_at) else shown_at[-1]
        return f'<text style="animation-delay: {at:.2f}s" {found[1]}line-{row})"'

    svg = re.sub(rf'<text ([^>]*clip-path="url\(#terminal-{name}-)line-(\d+)\)"', appear, svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"

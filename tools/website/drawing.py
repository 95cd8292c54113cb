"""Draw diagrams as SVG that is readable on light and dark pages."""

from collections.abc import Sequence
from html import escape
from typing import Final, Literal

Kind = Literal["plain", "blue", "green", "amber", "red"]
Anchor = Literal["start", "middle", "end"]

_SANS: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_MONO: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_STYLE: Final = f"""
.paper {{ fill: #ffffff; stroke: #d1d9e0 }}
.plain {{ fill: #f6f8fa; stroke: #818b98 }}
.blue {{ fill: #ddf4ff; stroke: #0969da }}
.green {{ fill: #dafbe1; stroke: #1a7f37 }}
.amber {{ fill: #fff8c5; stroke: #9a6700 }}
.red {{ fill: #ffebe9; stroke: #cf222e }}
.group {{ fill: none; stroke: #818b98; stroke-dasharray: 5 4 }}
.line {{ fill: none; stroke: #59636e; stroke-width: 1.5 }}
.dashed {{ stroke-dasharray: 5 4 }}
.head {{ fill: #59636e }}
text {{ fill: #1f2328; font: 13.5px {_SANS} }}
text.title {{ font-weight: 600; font-size: 14.5px }}
text.code {{ font: 12.5px {_MONO} }}
text.soft {{ fill: #59636e; font-size: 12.5px }}
text.label {{ fill: #59636e; font-size: 12.5px; paint-order: stroke; stroke: #ffffff; stroke-width: 5px }}
@media (prefers-color-scheme: dark) {{
.paper {{ fill: #0d1117; stroke: #3d444d }}
.plain {{ fill: #1c2128; stroke: #9198a1 }}
.blue {{ fill: #0c2d5a; stroke: #4493f8 }}
.green {{ fill: #0f3a1c; stroke: #3fb950 }}
.amber {{ fill: #3f2f06; stroke: #d29922 }}
.red {{ fill: #4b1416; stroke: #f85149 }}
.group {{ stroke: #9198a1 }}
.line {{ stroke: #9198a1 }}
.head {{ fill: #9198a1 }}
text {{ fill: #f0f6fc }}
text.soft {{ fill: #b7bdc8 }}
text.label {{ fill: #b7bdc8; stroke: #0d1117 }}
}}
"""
_HEAD: Final = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="head" d="M0 0 10 5 0 10z"/></marker></defs>'
)
_LINE_HEIGHT: Final = 19


class Drawing:
    """A diagram; the origin is the top left corner, and units are pixels."""

    def __init__(self, width: int, height: int, *, title: str, says: str) -> None:
        """Begin a diagram.

        Args:
            width: Its width.
            height: Its height.
            title: Its name, for people who hear the page.
            says: What it shows, for them.
        """
        self._size = (width, height)
        self._parts = [
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(says)}</desc>",
            f"<style>{_STYLE}</style>",
            _HEAD,
            f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        ]

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: Kind = "plain") -> None:
        """Draw a box with centred lines of text; the first is its title."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        top = y + height / 2 - (len(lines) - 1) * _LINE_HEIGHT / 2 + 5
        for number, line in enumerate(lines):
            style = "soft" if number else "title"
            self.text(x + width // 2, round(top + number * _LINE_HEIGHT), line, style=style, anchor="middle")

    def group(self, x: int, y: int, width: int, height: int, name: str) -> None:
        """Draw a dashed frame with its name inside the top left corner."""
        self._parts.append(f'<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>')
        self.text(x + 12, y + 20, name, style="label")

    def text(self, x: int, y: int, line: str, *, style: str = "", anchor: Anchor = "start") -> None:
        """Draw a line of text; *y* is its base line."""
        named = f' class="{style}"' if style else ""
        self._parts.append(f'<text{named} x="{x}" y="{y}" text-anchor="{anchor}">{escape(line)}</text>')

    def arrow(
        self, *points: tuple[int, int], label: str = "", dashed: bool = False, both: bool = False
    ) -> None:
        """Draw an arrow along *points*, with *label* above the middle of its first part."""
        path = " ".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(points))
        ends = 'marker-start="url(#head)" ' if both else ""
        style = "line dashed" if dashed else "line"
        self._parts.append(f'<path class="{style}" d="{path}" {ends}marker-end="url(#head)"/>')
        if label:
            (left, top), (right, bottom) = points[:2]
            self.text((left + right) // 2, (top + bottom) // 2 - 7, label, style="label", anchor="middle")

    def line(self, start: tuple[int, int], end: tuple[int, int], *, dashed: bool = False) -> None:
        """Draw a line without a head."""
        style = "line dashed" if dashed else "line"
        self._parts.append(f'<path class="{style}" d="M{start[0]} {start[1]} L{end[0]} {end[1]}"/>')

    def shade(self, x: int, y: int, width: int, height: int) -> None:
        """Draw a pale area behind what follows."""
        self._parts.append(
            f'<rect class="red" x="{x}" y="{y}" width="{width}" height="{height}" stroke-opacity="0"/>'
        )

    def curve(self, points: Sequence[tuple[float, float]], *, colour: str) -> None:
        """Draw a line of measured values."""
        path = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(points))
        self._parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')

    def svg(self) -> str:
        """Return the file."""
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img">'
        )
        return "\n".join([head, *self._parts, "</svg>", ""])

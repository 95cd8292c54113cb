"""Draw operations on documents per turn against the length of the conversation, as numbers and as SVG.

The SVG is written by hand: a library such as pygal would save about 40 lines, for one more extra to install.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle, pairwise
from typing import Final, NamedTuple

from gcp_adk_store.costs.counts import Services
from gcp_adk_store.costs.month import Workload, mean_turn

POINTS: Final = 12
_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 48, 56
_COLORS: Final = ("#1a73e8", "#d93025", "#188038")


class Point(NamedTuple):
    """A mean over neighbouring turns."""

    history: float
    """Events in the session before the turn."""
    operations: float
    """Documents read, written and deleted by the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The operations of turns in a growing conversation, for one kind of services."""

    services: str
    points: Sequence[Point]


def curve(services: Services, workload: Workload) -> Curve:
    """Return twelve points over a conversation of the workload's length, at least twelve turns."""
    turns = max(POINTS, workload.conversation_turns)
    edges = [turns * number // POINTS for number in range(POINTS + 1)]
    points = [
        Point(
            history=(first + last - 1) / 2 * workload.events_per_turn,
            operations=mean_turn(services, workload, range(first, last)).documents,
        )
        for first, last in pairwise(edges)
    ]
    return Curve(services=services.name, points=points)


def ticks(most: float) -> list[float]:
    """Return round numbers from 0 to *most*, above 0, in at least four steps of 1, 2 or 5 times 10^n."""
    unit = 10.0 ** math.floor(math.log10(most))
    step = next(unit * factor for factor in (1.0, 0.5, 0.2) if most / (unit * factor) >= 4)  # noqa: PLR2004
    # A quotient that is whole but for rounding counts as whole.
    return [number * step for number in range(math.floor(most / step + 1e-9) + 1)]


def svg(curves: Sequence[Curve], *, title: str) -> str:
    """Return an SVG document with one line for each of the *curves*, from zero on."""
    points = [point for one in curves for point in one.points]
    most_x = max((point.history for point in points), default=0) or 1
    most_y = max((point.operations for point in points), default=0) or 1

    def x(history: float) -> float:
        return _LEFT + history / most_x * (_WIDTH - _LEFT - _RIGHT)

    def y(operations: float) -> float:
        return _HEIGHT - _BOTTOM - operations / most_y * (_HEIGHT - _TOP - _BOTTOM)

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 20, title, anchor="start", size=14),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, "events in the session before the turn"),
    ]
    for tick in ticks(most_y):
        height = y(tick)
        drawn += [
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>',
            _text(_LEFT - 8, height + 4, f"{tick:,.12g}", anchor="end"),
        ]
    drawn += [_text(x(tick), _HEIGHT - _BOTTOM + 18, f"{tick:,.12g}") for tick in ticks(most_x)]
    for number, (one, color) in enumerate(zip(curves, cycle(_COLORS), strict=False)):
        line = " ".join(f"{x(point.history):.1f},{y(point.operations):.1f}" for point in one.points)
        drawn += [
            f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>',
            _text(_LEFT + 16 + 180 * number, 40, one.services, anchor="start", color=color),
        ]
    return "\n".join([*drawn, "</svg>", ""])


def _text(
    x: float, y: float, words: str, *, anchor: str = "middle", size: int = 12, color: str = "#333"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">'
        f"{escape(words)}</text>"
    )

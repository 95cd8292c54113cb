"""Compute and draw the bill of a month, and size a workload: what it stores, and how often it writes.

The workloads to begin with are assumptions, not measurements of users. The SVG is written by hand: a library
such as pygal would save about 40 lines, for one more extra to install.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle, pairwise
from typing import Final, NamedTuple, Self

from gcp_adk_store.costs.counts import (
    BuiltinServices,
    Operations,
    Services,
    StoreServices,
    Workload,
    builtin_recall,
    store_recall,
)
from gcp_adk_store.costs.prices import NOTHING_FREE, FreeQuota, Prices

DAYS: Final = 30
_GIB: Final = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a bill."""

    item: str
    quantity: float
    """Operations, or GiB, in the month."""
    billed: float
    """The part that is not free."""
    unit: str
    """The quantity of one price."""
    price: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The monthly cost of one kind of services."""

    services: str
    operations: Operations
    lines: Sequence[Line]

    @property
    def total(self) -> float:
        """The sum of the lines."""
        return sum(line.cost for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The difference of two bills."""

    amount: float
    """Per month, in the currency of the prices; negative if the bill is higher."""
    percent: float | None
    """The share of the other bill; ``None`` if that bill is 0."""

    @classmethod
    def between(cls, bill: Bill, other: Bill) -> Self:
        """Return the savings of *bill* against *other*."""
        amount = other.total - bill.total
        return cls(amount=amount, percent=100 * amount / other.total if other.total else None)

    def says(self, currency: str) -> str:
        """Return it as a line: ``saves 20.91 USD a month, 88 %``."""
        share = "" if self.percent is None else f", {abs(self.percent):.0f} %"
        verb, more = ("saves", "") if self.amount >= 0 else ("costs", " more")
        return f"{verb} {abs(self.amount):,.2f} {currency}{more} a month{share}"


def mean_turn(services: Services, workload: Workload, turns: range) -> Operations:
    """Return the mean over *turns*, weighted by the shares of cold and warm processes.

    *turns* are numbers of turns of a conversation, at least one; 0 is the first.
    """
    total = Operations()
    for number in turns:
        history = number * workload.events_per_turn
        for cold, share in ((True, workload.cold_share), (False, 1 - workload.cold_share)):
            total += services.turn(workload, history, cold=cold).times(share)
    return total.times(1 / len(turns)) + mean_recall(services, workload)


def mean_recall(services: Services, workload: Workload) -> Operations:
    """Return what a turn takes for memories, weighted by the shares of cold and warm processes."""
    if isinstance(services, BuiltinServices):
        return builtin_recall(workload)
    cold = store_recall(workload, cold=True).times(workload.cold_share)
    return cold + store_recall(workload, cold=False).times(1 - workload.cold_share)


def operations_of_a_month(services: Services, workload: Workload) -> Operations:
    """Return all operations of 30 days with as many deleted sessions as new ones."""
    turns = mean_turn(services, workload, range(workload.conversation_turns)).times(workload.turns_per_day)
    events = workload.turns_per_day * workload.events_per_turn / workload.new_sessions
    sessions = services.create_session() + services.delete_session(events, event_bytes=workload.event_bytes)
    return (turns + sessions.times(workload.new_sessions)).times(DAYS)


def stored_gib(workload: Workload) -> tuple[float, float]:
    """Return GiB of documents and of objects, once as many sessions are deleted as created.

    The estimate counts the JSON of events and memories, and the artifacts, which both kinds of services
    store, and vectors. It omits the compression of sealed segments, names and indexes.
    """
    turns = workload.turns_per_day * workload.retention_days
    remembered = workload.memories_per_turn * (workload.memory_bytes + workload.vector_dimensions)
    documents = turns * (workload.events_per_turn * workload.event_bytes + remembered)
    objects = turns * workload.artifacts_per_turn * workload.artifact_bytes
    return documents / _GIB, objects / _GIB


def bill_of_a_month(
    services: Services, workload: Workload, prices: Prices, free: FreeQuota = NOTHING_FREE
) -> Bill:
    """Return the bill of 30 days."""
    used = operations_of_a_month(services, workload)
    documents, objects = stored_gib(workload)
    rows = (
        ("documents read", used.reads, free.reads_per_day * DAYS, prices.reads_per_100k, 100_000),
        ("documents written", used.writes, free.writes_per_day * DAYS, prices.writes_per_100k, 100_000),
        ("documents deleted", used.deletes, free.deletes_per_day * DAYS, prices.deletes_per_100k, 100_000),
        ("documents stored", documents, free.firestore_gib, prices.firestore_gib_month, 1),
        ("Class A operations", used.class_a, free.class_a_per_month, prices.class_a_per_1k, 1_000),
        ("Class B operations", used.class_b, free.class_b_per_month, prices.class_b_per_1k, 1_000),
        ("objects stored", objects, free.storage_gib, prices.storage_gib_month, 1),
    )
    return Bill(services=services.name, operations=used, lines=[_line(*row) for row in rows])


def _line(item: str, quantity: float, free: float, price: float, per: int) -> Line:
    billed = max(0.0, quantity - free)
    unit = f"{per:,}" if per > 1 else "GiB-month"
    return Line(
        item=item, quantity=quantity, billed=billed, unit=unit, price=price, cost=billed / per * price
    )


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


_SECONDS: Final = DAYS * 24 * 3600

LIKE: Final[dict[str, Workload]] = {
    # A message, a tool call, its response and an answer; a conversation has 11 turns.
    "chat": Workload(
        turns_per_day=10_000,
        events_per_turn=4,
        history=20,
        scopes=frozenset({"session"}),
        turn_seconds=10,
    ),
    # Two transcripts, and a reference to each of two recordings of 5 seconds: 24 kHz, 16 bit, one channel.
    # One turn in 20 begins in a process that does not know the session: that of a call keeps it.
    "voice": Workload(
        turns_per_day=10_000,
        events_per_turn=4,
        history=60,
        event_bytes=500,
        artifacts_per_turn=2,
        artifact_bytes=240_000,
        cold_share=0.05,
        turn_seconds=8,
    ),
    # Three parallel agents that call tools: long turns, files, and memories of the user.
    "agents": Workload(
        turns_per_day=10_000,
        events_per_turn=16,
        history=120,
        event_bytes=1_500,
        scopes=frozenset({"session", "user"}),
        artifacts_per_turn=1,
        artifact_loads_per_turn=1,
        artifact_bytes=200_000,
        memories=1_000,
        memories_per_turn=2,
        searches_per_turn=1,
        turn_seconds=60,
    ),
}
"""Workloads of 10,000 turns a day, by the names that ``gcp-adk-store cost --like`` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What this store stores of a workload, and how often it writes."""

    sessions_per_day: float
    """Sessions that are created in a day."""
    sessions_stored: float
    """Sessions, once as many are deleted as created."""
    events_per_session: float
    events_per_day: float
    events_stored: float
    writes_per_second: float
    """Documents that are written in a second, all sessions together, on average over the month."""
    appends_per_second_of_a_session: float
    """Appends to one session in a second, while its turn runs."""
    documents_gib: float
    objects_gib: float

    @classmethod
    def of(cls, workload: Workload) -> Self:
        """Return the sizing of *workload*."""
        events = workload.turns_per_day * workload.events_per_turn
        documents, objects = stored_gib(workload)
        return cls(
            sessions_per_day=workload.new_sessions,
            sessions_stored=workload.new_sessions * workload.retention_days,
            events_per_session=events / workload.new_sessions,
            events_per_day=events,
            events_stored=events * workload.retention_days,
            writes_per_second=operations_of_a_month(StoreServices(), workload).writes / _SECONDS,
            appends_per_second_of_a_session=workload.events_per_turn / workload.turn_seconds,
            documents_gib=documents,
            objects_gib=objects,
        )

"""Lay out the turns of a session as bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.costs.prices import US_CENTRAL1
from gcp_adk_store.inspector.conversation import moment
from gcp_adk_store.sessions.listing.usage import SessionUsage, TokenUsage, TurnUsage

WIDTH: Final = 600
"""The longest bar, in units of the drawing."""

TURNS_PER_PAGE: Final = 100
_DEAREST_TOOLS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One turn of the timeline."""

    number: int
    invocation_id: str
    began: str
    seconds: float
    events: int
    tokens: TokenUsage
    tools: tuple[tuple[str, int], ...]
    models: tuple[str, ...]
    dollars: float
    """List price of the writes of its events, in US dollars."""
    start: float
    """Where its bar begins on the axis of the whole session, 0 to :data:`WIDTH`."""
    length: float
    """Length of its bar there, at least 1."""
    duration_bar: float
    """Its duration beside the longest of the session, 0 to :data:`WIDTH`."""
    token_bar: float
    """Its tokens beside the most of the session, 0 to :data:`WIDTH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page of the turns of a session."""

    turns: tuple[TurnView, ...]
    page: int
    pages: int
    total: int
    events: int
    seconds: float
    began: str
    ended: str
    tokens: TokenUsage
    models: tuple[tuple[str, int, TokenUsage], ...]
    dollars: float


def timeline(usage: SessionUsage, *, page: int = 1) -> Timeline:
    """Return one page of the turns of *usage*; a page out of range is the nearest."""
    pages = max(1, -(-len(usage.turns) // TURNS_PER_PAGE))
    page = min(max(1, page), pages)
    first = (page - 1) * TURNS_PER_PAGE
    longest = max((turn.duration_s for turn in usage.turns), default=0) or 1
    most = max((turn.tokens.total_tokens for turn in usage.turns), default=0) or 1
    began, whole = usage.began_at or 0.0, usage.duration_s or 1
    shown = usage.turns[first : first + TURNS_PER_PAGE]
    return Timeline(
        turns=tuple(
            TurnView(
                number=number,
                invocation_id=turn.invocation_id,
                began=moment(turn.began_at),
                seconds=turn.duration_s,
                events=turn.events,
                tokens=turn.tokens,
                tools=_tools(turn),
                models=tuple(each.model or "unknown model" for each in turn.models),
                dollars=price_of_writes(turn.events),
                start=round((turn.began_at - began) / whole * WIDTH, 1),
                length=round(max(1, turn.duration_s / whole * WIDTH), 1),
                duration_bar=round(turn.duration_s / longest * WIDTH, 1),
                token_bar=round(turn.tokens.total_tokens / most * WIDTH, 1),
            )
            for number, turn in enumerate(shown, start=first + 1)
        ),
        page=page,
        pages=pages,
        total=len(usage.turns),
        events=usage.events,
        seconds=usage.duration_s,
        began=moment(usage.began_at),
        ended=moment(usage.ended_at),
        tokens=usage.tokens,
        models=tuple((each.model or "unknown model", each.calls, each.tokens) for each in usage.models),
        dollars=price_of_writes(usage.events),
    )


def price_of_writes(count: int) -> float:
    """Return the list price of *count* writes of documents in us-central1, in US dollars."""
    return count * US_CENTRAL1.writes_per_100k / 100_000


def _tools(turn: TurnUsage) -> tuple[tuple[str, int], ...]:
    called: Sequence[tuple[str, int]] = sorted(turn.tool_calls.items(), key=lambda each: (-each[1], each[0]))
    return tuple(called[:_DEAREST_TOOLS])

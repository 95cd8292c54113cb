"""Show turns as waterfalls: when the user spoke, and how long each model and tool took to answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from google.adk.events import Event

from gcp_adk_store.inspector.conversation import MAX_PARTS
from gcp_adk_store.inspector.reading import Placed
from gcp_adk_store.inspector.requests import MODEL_REQUEST
from gcp_adk_store.model.keys import moment
from gcp_adk_store.sessions.listing.usage import TokenUsage, UsageCounter, tokens_of

WIDTH: Final = 600
"""The longest bar, in units of the drawing."""

Kind = Literal["user", "model", "tool", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one event, or one response within it, waited for."""

    kind: Kind
    name: str
    """The user, the agent with its model, or the tool."""
    event_id: str
    place: str | None
    """As :attr:`Placed.place` of the event."""
    after: float
    """Seconds from the first event of the turn to the begin of the span."""
    seconds: float
    """How long it took: of a model from the event before, of a tool from its call."""
    start: float
    """Where its bar begins, 0 to :data:`WIDTH`."""
    length: float
    """Length of its bar, at least 1."""
    tokens: TokenUsage | None
    failed: str
    """The error's code; empty for none."""
    request: int | None
    """The version of :data:`MODEL_REQUEST` that a model answered; ``None`` if it was not kept."""
    segment: int | None
    """The number of the segment that the event begins; ``None`` within one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """One turn: the events of a page with one invocation id."""

    invocation_id: str
    began: str
    seconds: float
    events: int
    tokens: TokenUsage
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class _Took:
    """A span before it is drawn."""

    kind: Kind
    name: str
    placed: Placed
    begin: float
    end: float
    tokens: TokenUsage | None = None


def waterfalls(page: Sequence[Placed]) -> list[Waterfall]:
    """Return the turns of a page of events, which are in append order."""
    turns: dict[str, list[Placed]] = {}
    for placed in page:
        turns.setdefault(placed.event.invocation_id, []).append(placed)
    return [_drawn(name, turn) for name, turn in turns.items()]


def _drawn(invocation_id: str, turn: Sequence[Placed]) -> Waterfall:
    began = min(placed.event.timestamp for placed in turn)
    whole = max(placed.event.timestamp for placed in turn) - began
    unit = WIDTH / whole if whole > 0 else 0.0
    counter = UsageCounter()  # which counts a response in several events once
    for placed in turn:
        counter.add(placed.event)
    return Waterfall(
        invocation_id=invocation_id,
        began=moment(began),
        seconds=whole,
        events=len(turn),
        tokens=counter.usage().tokens,
        spans=tuple(
            Span(
                kind=each.kind,
                name=each.name,
                event_id=each.placed.event.id,
                place=each.placed.place,
                after=each.begin - began,
                seconds=each.end - each.begin,
                start=round(min((each.begin - began) * unit, WIDTH - 1), 1),
                length=round(max(1.0, (each.end - each.begin) * unit), 1),
                tokens=each.tokens,
                failed=str(each.placed.event.error_code or ""),
                request=each.placed.event.actions.artifact_delta.get(MODEL_REQUEST),
                segment=each.placed.segment,
            )
            for each in _took(turn)
        ),
    )


def _took(turn: Sequence[Placed]) -> Iterator[_Took]:
    """Yield what the events of a turn took; one whose clock was behind took nothing."""
    calls: dict[str, float] = {}
    before = turn[0].event.timestamp
    for placed in turn:
        event = placed.event
        end = event.timestamp
        responses = event.get_function_responses()[:MAX_PARTS]
        for response in responses:
            begin = calls.get(response.id or "", before)
            yield _Took("tool", response.name or "", placed, min(begin, end), end)
        if not responses:
            kind, begin = _kind(event), min(before, end)
            tokens = None if event.usage_metadata is None else tokens_of(event.usage_metadata)
            yield _Took(kind, _name(event), placed, end if kind == "user" else begin, end, tokens)
        calls |= {call.id: end for call in event.get_function_calls()[:MAX_PARTS] if call.id}
        before = end


def _kind(event: Event) -> Kind:
    if event.actions.compaction:
        return "summary"
    return "user" if event.author == "user" else "model"


def _name(event: Event) -> str:
    return f"{event.author}, {event.model_version}" if event.model_version else event.author

"""Count the tokens, the tool calls and the time that the events of a session tell of."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.adk.events import Event
from google.genai import types


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Numbers of tokens, as the model's provider reports them."""

    input_tokens: int = 0
    """Of the prompts, cached ones included."""
    cached_tokens: int = 0
    """Those of the prompts that came from a cache."""
    tool_use_tokens: int = 0
    """Of the results of tools that the provider ran itself."""
    output_tokens: int = 0
    """Of the responses. Gemini and Claude report thinking apart; through LiteLLM it is included here, too."""
    thinking_tokens: int = 0
    """Of the models' thoughts."""
    total_tokens: int = 0
    """As reported; for a response without it, the sum of input, tool use, output and thinking."""

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            tool_use_tokens=self.tool_use_tokens + other.tool_use_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """The usage of one model."""

    model: str | None
    """The events' ``model_version``; ``None`` for responses that do not tell it."""
    calls: int
    """The number of responses that report tokens; a live model reports once a turn."""
    tokens: TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """The usage of one turn: of all events with its invocation id."""

    invocation_id: str
    """Empty for all events without one, such as changes of state by an application."""
    events: int
    began_at: float
    """Timestamp of the earliest event, Unix time in seconds."""
    ended_at: float
    """Timestamp of the latest event, Unix time in seconds."""
    tokens: TokenUsage
    models: tuple[ModelUsage, ...]
    """In the order of their first response."""
    tool_calls: Mapping[str, int]
    """The number of function calls by name, ADK's own included, such as ``transfer_to_agent``."""

    @property
    def duration_s(self) -> float:
        """Seconds from the first to the last event."""
        return self.ended_at - self.began_at


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUsage:
    """The usage of a session: each total is the sum over its turns, and over its models."""

    turns: tuple[TurnUsage, ...]
    """In the order of their first event."""
    events: int
    began_at: float | None
    """Timestamp of the earliest event, Unix time in seconds; ``None`` without events."""
    ended_at: float | None
    """Timestamp of the latest event, Unix time in seconds; ``None`` without events."""
    tokens: TokenUsage
    models: tuple[ModelUsage, ...]
    """In the order of their first response."""
    tool_calls: Mapping[str, int]
    """The number of function calls by name."""

    @property
    def duration_s(self) -> float:
        """Seconds from the first to the last event, with the pauses between turns; 0 without events."""
        if self.began_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.began_at


class UsageCounter:
    """Adds up the events of one session; takes the memory of its turns, not that of its events."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._last_call: tuple[Any, ...] | None = None

    @property
    def turns(self) -> int:
        """The number of turns so far."""
        return len(self._turns)

    def add(self, event: Event) -> None:
        """Count the next event, in append order.

        An event reports the whole usage of its model call. A partial event repeats a part of a later one, so
        it does not count. Without progressive streaming, ADK stores a text and then the function calls of
        the same response with equal usage, which counts once.
        """
        if event.partial:
            return
        turn = self._turns.setdefault(event.invocation_id, _Turn(event.invocation_id, event.timestamp))
        call = _call_of(event)
        repeats = call is not None and call == self._last_call and _continues(event)
        self._last_call = call
        turn.add(event, with_tokens=call is not None and not repeats)

    def usage(self) -> SessionUsage:
        """Return the usage of the events that were added."""
        turns = tuple(turn.usage() for turn in self._turns.values())
        return SessionUsage(
            turns=turns,
            events=sum(turn.events for turn in turns),
            began_at=min((turn.began_at for turn in turns), default=None),
            ended_at=max((turn.ended_at for turn in turns), default=None),
            tokens=sum((turn.tokens for turn in turns), TokenUsage()),
            models=_joined(model for turn in turns for model in turn.models),
            tool_calls=dict(sum((Counter(turn.tool_calls) for turn in turns), Counter[str]())),
        )


@dataclass(slots=True)
class _Turn:
    """A turn while it is counted."""

    invocation_id: str
    began_at: float
    ended_at: float = field(init=False)
    events: int = 0
    models: dict[str | None, ModelUsage] = field(default_factory=dict)
    tool_calls: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.ended_at = self.began_at

    def add(self, event: Event, *, with_tokens: bool) -> None:
        self.events += 1
        self.began_at = min(self.began_at, event.timestamp)
        self.ended_at = max(self.ended_at, event.timestamp)
        self.tool_calls.update(call.name or "" for call in event.get_function_calls())
        if with_tokens and event.usage_metadata is not None:
            model = event.model_version or None
            one = ModelUsage(model=model, calls=1, tokens=tokens_of(event.usage_metadata))
            (self.models[model],) = _joined([*filter(None, [self.models.get(model)]), one])

    def usage(self) -> TurnUsage:
        return TurnUsage(
            invocation_id=self.invocation_id,
            events=self.events,
            began_at=self.began_at,
            ended_at=self.ended_at,
            tokens=sum((model.tokens for model in self.models.values()), TokenUsage()),
            models=tuple(self.models.values()),
            tool_calls=dict(self.tool_calls),
        )


def tokens_of(reported: types.GenerateContentResponseUsageMetadata) -> TokenUsage:
    """Return the tokens of one response; a number that is not reported is 0."""
    parts = (
        reported.prompt_token_count or 0,
        reported.tool_use_prompt_token_count or 0,
        reported.candidates_token_count or 0,
        reported.thoughts_token_count or 0,
    )
    total = reported.total_token_count
    return TokenUsage(
        input_tokens=parts[0],
        cached_tokens=reported.cached_content_token_count or 0,
        tool_use_tokens=parts[1],
        output_tokens=parts[2],
        thinking_tokens=parts[3],
        total_tokens=sum(parts) if total is None else total,
    )


def _joined(models: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Return one usage for each model."""
    joined: dict[str | None, ModelUsage] = {}
    for one in models:
        before = joined.get(one.model, ModelUsage(model=one.model, calls=0, tokens=TokenUsage()))
        joined[one.model] = ModelUsage(
            model=one.model, calls=before.calls + one.calls, tokens=before.tokens + one.tokens
        )
    return tuple(joined.values())


def _call_of(event: Event) -> tuple[Any, ...] | None:
    """Return what all events of one model call have in common; ``None`` for an event without usage."""
    if event.usage_metadata is None:
        return None
    return event.invocation_id, event.author, event.branch, event.model_version, event.usage_metadata


def _continues(event: Event) -> bool:
    """Return whether an event may be the rest of a response: it has content, and no text of its own.

    The next response of an agent, with equal usage by chance, has text; a live model's report has no content.
    """
    parts = event.content.parts or [] if event.content is not None else None
    return parts is not None and not any(part.text for part in parts)

"""Read the events of a user over all sessions, and count what sessions used."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store.codec.cursors import decode_place_in, encode_place_in
from gcp_adk_store.codec.encode import FieldValue
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Page
from gcp_adk_store.errors import SessionMissingError, StoredDataError
from gcp_adk_store.kernel.concurrency import Lru, Pauses, offload
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.session_fields import is_cut
from gcp_adk_store.model.sessions import EventPlace, StoredSession
from gcp_adk_store.sessions.listing.sessions import place_by_update
from gcp_adk_store.sessions.read.completion import decode_events, decoded
from gcp_adk_store.sessions.read.events import SessionEvents
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.session_objects import beyond, require_limit, require_place, require_time
from gcp_adk_store.sessions.read.storage import SessionStorage


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
        return TokenUsage(**{name: getattr(self, name) + getattr(other, name) for name in _NUMBERS})


_NUMBERS: Final = [each.name for each in fields(TokenUsage)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """The usage of one model."""

    model: str | None
    """The events' ``model_version``; ``None`` for responses that do not have it."""
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
        self._turns: dict[str, TurnUsage] = {}
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
        turn = self._turns.get(event.invocation_id) or TurnUsage(
            invocation_id=event.invocation_id,
            events=0,
            began_at=event.timestamp,
            ended_at=event.timestamp,
            tokens=TokenUsage(),
            models=(),
            tool_calls=Counter(),
        )
        call = _call_of(event)
        repeats = call is not None and call == self._last_call and _continues(event)
        self._last_call = call
        if event.usage_metadata is not None and not repeats:
            tokens = tokens_of(event.usage_metadata)
            one = ModelUsage(model=event.model_version or None, calls=1, tokens=tokens)
            turn = replace(turn, tokens=turn.tokens + tokens, models=_joined([*turn.models, one]))
        calls = Counter(call.name or "" for call in event.get_function_calls())
        self._turns[event.invocation_id] = replace(
            turn,
            events=turn.events + 1,
            began_at=min(turn.began_at, event.timestamp),
            ended_at=max(turn.ended_at, event.timestamp),
            tool_calls=Counter(turn.tool_calls) + calls,
        )

    def usage(self) -> SessionUsage:
        """Return the usage of the events that were added."""
        turns = tuple(replace(turn, tool_calls=dict(turn.tool_calls)) for turn in self._turns.values())
        return SessionUsage(
            turns=turns,
            events=sum(turn.events for turn in turns),
            began_at=min((turn.began_at for turn in turns), default=None),
            ended_at=max((turn.ended_at for turn in turns), default=None),
            tokens=sum((turn.tokens for turn in turns), TokenUsage()),
            models=_joined(model for turn in turns for model in turn.models),
            tool_calls=dict(sum((Counter(turn.tool_calls) for turn in turns), Counter[str]())),
        )


def tokens_of(reported: types.GenerateContentResponseUsageMetadata) -> TokenUsage:
    """Return the tokens of one response; a number that is not reported is 0."""
    prompt, tool_use = reported.prompt_token_count or 0, reported.tool_use_prompt_token_count or 0
    output, thoughts = reported.candidates_token_count or 0, reported.thoughts_token_count or 0
    total = reported.total_token_count
    return TokenUsage(
        input_tokens=prompt,
        cached_tokens=reported.cached_content_token_count or 0,
        tool_use_tokens=tool_use,
        output_tokens=output,
        thinking_tokens=thoughts,
        total_tokens=prompt + tool_use + output + thoughts if total is None else total,
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


_SESSIONS_PER_READ: Final = 16
"""Session documents, of 1 MiB at most, that an iteration over a user's events holds."""

_KNOWN_SESSIONS: Final = 1000
"""Sessions of which an iteration over a user's events knows how far it came: some 100 kB."""

_LIGHT_TURNS: Final = 500
"""Turns that are added up in some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEvent:
    """An event of one of a user's sessions."""

    session_id: str
    event: Event
    cursor: str
    """With it, an iteration of the same user and *after* continues after this event."""


class UserEvents:
    """Goes through the events of all sessions of a user."""

    def __init__(self, storage: SessionStorage, reader: SessionReader, events: SessionEvents) -> None:
        self._storage = storage
        self._reader = reader
        self._events = events

    async def iterate(
        self, user: UserKey, *, after: float | None, cursor: str | None, limit: int | None
    ) -> AsyncGenerator[UserEvent]:
        """Yield the events of a user as the service's ``iter_user_events``, which has the errors."""
        require_limit(limit)
        if after is not None:
            after = require_time("after", after)
        listing = f"{user} {after}"
        came_to = Lru[str, tuple[str, EventPlace]](_KNOWN_SESSIONS)
        place = None
        if cursor is not None:
            of = "events of another app, user or time"
            time, session_id, epoch, segment, offset = decode_place_in(
                listing, cursor, float, str, str, int, int, of=of
            )
            reached = EventPlace(segment=segment, offset=offset)
            place = time, SessionKey(app=user.app, user=user.user, session=session_id), epoch
            came_to.put(session_id, (epoch, reached))
        count = 0
        damaged: StoredDataError | None = None
        async for last_update, stored in self._updated_sessions(user, after, place):
            session_id, epoch = stored.key.session, stored.epoch
            before = came_to.lookup(session_id)
            start = before[1] if before is not None and before[0] == epoch else None
            if start is not None and is_cut(start.segment, stored.cut):
                start = None  # it was restored: what comes after that place is not what came after it before
            try:
                async for reached, event in self._later_events(stored, start, after):
                    came_to.put(session_id, (epoch, reached))
                    next_cursor = encode_place_in(
                        listing, last_update, session_id, epoch, reached.segment, reached.offset
                    )
                    yield UserEvent(session_id=session_id, event=event, cursor=next_cursor)
                    count += 1
                    if count == limit:
                        return
            except SessionMissingError:
                continue  # another call deleted it, or it has expired
            except StoredDataError as exc:
                damaged = damaged or exc
        if damaged is not None:
            raise damaged

    async def _updated_sessions(
        self, user: UserKey, after: float | None, place: tuple[float, SessionKey, str] | None
    ) -> AsyncIterator[tuple[float, StoredSession]]:
        """Yield living sessions of *user* that were updated later than *after*, by their last update.

        With the *place* of a cursor, these are its session, if it has the epoch, and those after it. The time
        that comes with a session is its own, and for the session of a cursor that of the cursor.

        Raises:
            StoredDataError: a session cannot be read; it comes after all others were yielded.
        """
        documents, layout = self._storage.documents, self._storage.layout
        last: tuple[FieldValue, str] | None = None
        damaged: StoredDataError | None = None
        if place is not None:
            time, key, epoch = place
            last = time, layout.session(key)
            stored, damaged = await self._session_of_cursor(key, epoch)
            if stored is not None:
                yield time, stored
        elif after is not None:
            last = after, layout.session(SessionKey(app=user.app, user=user.user, session="-"))
        page = Page(field="last_update_time", descending=False, limit=_SESSIONS_PER_READ, after=last)
        while True:
            found = await documents.query(layout.user(user), layout.sessions_collection, page=page)
            for document in found:
                last = place_by_update(document)
                try:
                    stored = await decoded(read_session, document)
                except StoredDataError as exc:
                    damaged = damaged or exc
                    continue
                # The first page begins at *after* itself, with the sessions whose names are later.
                if not stored.has_expired and (after is None or stored.last_update_time > after):
                    yield stored.last_update_time, stored
            if len(found) < page.limit:
                break
            page = replace(page, after=last)
        if damaged is not None:
            raise damaged

    async def _session_of_cursor(
        self, key: SessionKey, epoch: str
    ) -> tuple[StoredSession | None, StoredDataError | None]:
        """Return the session, ``None`` if it is gone or cannot be read, and why it cannot."""
        try:
            stored = await self._reader.stored(key)
        except StoredDataError as exc:
            return None, exc
        is_there = stored is not None and stored.epoch == epoch and not stored.has_expired
        return stored if is_there else None, None

    async def _later_events(
        self, stored: StoredSession, start: EventPlace | None, after: float | None
    ) -> AsyncIterator[tuple[EventPlace, Event]]:
        """Yield events of *stored* later than *after*, from *start* on if given, and the place after each."""
        if start is None:  # a restore may have cut off the first number
            start = EventPlace(segment=0 if after is None else await self._first_later(stored, after))
        else:
            require_place(start, stored)
        pauses = Pauses()
        async for number, texts in self._events.runs(stored, start.segment, backward=False):
            offset = start.offset if number == start.segment else 0
            if offset > len(texts):
                raise beyond()
            where = self._reader.place_of(stored, number)
            events = await decode_events(texts[offset:], where=where, first=offset, pauses=pauses)
            for index, event in enumerate(events, start=offset):
                if after is None or event.timestamp > after:
                    place = EventPlace(segment=number, offset=index + 1)
                    yield place, await self._events.completed(stored, event)

    async def _first_later(self, stored: StoredSession, after: float) -> int:
        """Return the number of the first segment with an event later than *after*, or that of the tail."""
        if stored.sealed_max is None or stored.sealed_max <= after:
            return stored.sealed
        # The newest times do not fall from segment to segment, and callers mostly ask for recent events.
        live = stored.live
        low, high, step = 0, len(live) - 1, 1
        while low < high:
            middle = max((low + high) // 2, high - step)
            (segment,) = await self._events.segments(stored, [live[middle]])
            if segment.running_max > after:
                high, step = middle, step * 2
            else:
                low = middle + 1
        return live[low]


async def usage_of(key: SessionKey, reader: SessionReader, events: SessionEvents) -> SessionUsage:
    """Return what a session used, as the service's ``get_session_usage``, which has the errors."""
    stored = await reader.living(key)
    counter = UsageCounter()
    pauses = Pauses()
    async for number, texts in events.runs(stored, 0, backward=False):
        where = reader.place_of(stored, number)
        for event in await decode_events(texts, where=where, pauses=pauses):
            counter.add((await events.whole(stored, event)).event)
            if pauses.is_due:
                await pauses.pause()
    return await offload(counter.usage, light=counter.turns <= _LIGHT_TURNS)

"""Decide which events of a session ADK needs once summaries of its event compaction cover the others.

ADK gives a model each summary that no other one contains, and no event whose time lies within one. Nothing
else of it looks at such an event, but for those that :func:`window` keeps.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from google.adk.events import Event

from gcp_adk_store.codec.decode import StoredEvent
from gcp_adk_store.codec.encode import WHOLE

_OVERLAP: Final = 8
"""Invocations before the newest summary's end that stay, at least. The next summary may begin with some."""

_ABORTED: Final = "INVOCATION_ABORTED"
"""ADK's error code of an event that ends an invocation, and the task that it ran."""

_ASKED_OF_CLIENTS: Final = {"adk_request_confirmation", "adk_request_credential", "adk_request_input"}
"""ADK's calls that a user answers once; other long-running calls may be answered again and again."""

_OF_AUTHOR: Final = ("content", "live_session_resumption_update")
"""Fields of which ADK looks for the newest of an author, on a branch."""

_OF_MODEL: Final = ("cache_metadata", "interaction_id")
"""The same, also in what rewinds took back; and so the number of the tokens that a model was given."""


class _Summary(NamedTuple):
    place: int
    start: float
    end: float


def window(events: Sequence[StoredEvent]) -> list[int]:
    """Return the places of those of *events*, in append order, that ADK needs. All, if nothing is summarized.

    The newest events are kept as they are, and of those before:

    - summaries that no other one contains, and events that no summary covers;
    - events with an isolation scope, which no summary covers, and the calls that such scopes are named by;
    - invocations with a call, a confirmation or a request for credentials that nothing has answered, or with
      a long-running call, which a user may answer once more;
    - the calls of each response that is kept, with the other responses to them, and the call whose branch an
      event is on; what a rewind took back of a confirmation that can still be answered;
    - the newest event of each author on each branch, by which ADK finds the agent that goes on, and what the
      next request of its model takes from the newest answer, also if a rewind took that back;
    - versions of artifacts, for rewinds; ends of aborted invocations; and events of which only a payload
      says what they are.

    The newest events begin with the first invocation that is newer than the summaries, and :data:`_OVERLAP`
    before, or with the newest summary's range, unless that contains an earlier one: the next may overlap it.
    A rewind and what it took back are kept or left out together.
    """
    return _History(events).window()


def essential(events: Sequence[StoredEvent]) -> list[int]:
    """Return the places of those of :func:`window` that no summary stands for, or that ADK looks for.

    All, if nothing is summarized. Otherwise, of what rewinds took back, only what ADK looks in all the same.
    A read by an earlier window may lack others, which stay only because the next summary may begin with them.
    """
    return sorted(_History(events).essential())


class _History:
    """One pass over a history."""

    def __init__(self, stored: Sequence[StoredEvent]) -> None:
        self._unknown = {place for place, one in enumerate(stored) if WHOLE in one.missing}
        self._events = [one.event for one in stored]
        self._spans = [*_rewound(self._events)]
        self._live = live(self._events)

    def window(self) -> list[int]:
        if not self._summaries:
            return [*range(len(self._events))]
        begin = self._begin()
        apart = {place for place in self._live if place < begin and self._is_apart(place)}
        apart |= {place for place in self._newest() if place < begin}
        apart |= self._called({*apart, *range(begin, len(self._events))})
        apart |= self._taken_back({*apart, *range(begin, len(self._events))})
        return [*sorted(place for place in apart if place < begin), *range(begin, len(self._events))]

    def essential(self) -> set[int]:
        if not self._summaries:
            return {*range(len(self._events))}
        found = self._newest() | {place for place in self._live if self._is_apart(place)}
        return found | self._taken_back(found)

    @cached_property
    def _summaries(self) -> list[_Summary]:
        """Those that every agent sees, in append order."""
        found = []
        for place in self._live:
            event = self._events[place]
            made = event.actions.compaction
            is_plain = not (event.branch or _scope(event) or _path(event))
            if made is None or not is_plain:
                continue
            start, end = made.start_timestamp, made.end_timestamp
            if not (math.isnan(start) or math.isnan(end)):
                found.append(_Summary(place, start, end))
        return found

    @cached_property
    def _contained(self) -> set[int]:
        """The places of summaries that ADK leaves out for others."""
        found: set[int] = set()
        widest = -math.inf
        for each in sorted(self._summaries, key=lambda one: (one.start, -one.end, -one.place)):
            if each.end <= widest:
                found.add(each.place)
            widest = max(widest, each.end)
        return found

    @cached_property
    def _covered(self) -> tuple[list[float], list[float]]:
        """The begins of what summaries cover, and the ends."""
        begins: list[float] = []
        ends: list[float] = []
        for _, start, end in sorted(self._summaries, key=lambda one: (one.start, one.end)):
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            elif start <= end:
                begins.append(start)
                ends.append(end)
        return begins, ends

    def _begin(self) -> int:
        """Return from which place on all events are kept."""
        newest = self._summaries[-1]
        ends = min(newest.end, [one for one in self._summaries if one.place not in self._contained][-1].end)
        first: dict[str, int] = {}
        latest: dict[str, float] = {}
        for place in self._live:
            event = self._events[place]
            if event.invocation_id and event.actions.compaction is None and not _scope(event):
                first.setdefault(event.invocation_id, place)
                latest[event.invocation_id] = max(latest.get(event.invocation_id, 0.0), event.timestamp)
        names = [*first]
        new = next((number for number, name in enumerate(names) if latest[name] > ends), len(names))
        begin = min([len(self._events), *(first[name] for name in names[max(0, new - _OVERLAP) :])])
        if not any(newest.start <= one.start and one.end <= newest.end for one in self._summaries[:-1]):
            later = (place for place in self._live if self._events[place].timestamp >= newest.start)
            begin = min(begin, next(later, begin))
        return self._widened(begin)

    def _widened(self, begin: int) -> int:
        """Return *begin*, or an earlier place that parts neither an invocation nor the events of a rewind."""
        first: dict[str, int] = {}
        for place in self._live:
            if name := self._events[place].invocation_id:
                first.setdefault(name, place)
        place = len(self._events)
        while place > begin:
            place -= 1
            begin = min(begin, first.get(self._events[place].invocation_id, begin))
            at = bisect_left(self._spans, (begin, begin)) - 1  # what was taken back begins before, and ends
            if at >= 0 and begin <= self._spans[at][1]:
                begin = self._spans[at][0]
        return begin

    def _is_apart(self, place: int) -> bool:
        """Return whether no summary stands for an event, or its invocation waits for an answer."""
        event = self._events[place]
        if event.invocation_id in self._open:
            return True
        if event.actions.compaction is not None:
            return place not in self._contained
        carries = _scope(event) or event.error_code == _ABORTED or event.actions.artifact_delta
        if carries or place in self._unknown:
            return True
        begins, ends = self._covered
        at = bisect_right(begins, event.timestamp) - 1
        return at < 0 or not event.timestamp <= ends[at]

    def _newest(self) -> set[int]:
        """Return the places of the newest events of each author on each branch, and of what they carry."""
        found: dict[tuple[str, str | None, str], int] = {}
        live = {*self._live}
        for place, event in enumerate(self._events):
            if event.actions.compaction is None:
                asked = ("", *_OF_AUTHOR, *_OF_MODEL) if place in live else _OF_MODEL
                carried = [name for name in asked if not name or getattr(event, name, None) is not None]
                if event.usage_metadata is not None and event.usage_metadata.prompt_token_count is not None:
                    carried.append("usage_metadata")
                found |= {(event.author, event.branch, name): place for name in carried}
        places = {*found.values()}
        back = [span for span in self._spans if any(span[0] <= place <= span[1] for place in places)]
        return places.union(*(range(first, last + 1) for first, last in back))

    @cached_property
    def _open(self) -> set[str]:
        """The invocations of which a call or a request has no answer, or may have one more."""
        answered: set[str] = set()
        by_user: set[str] = set()
        found: set[str] = set()
        for place in reversed(self._live):
            event = self._events[place]
            requests = {*event.actions.requested_tool_confirmations, *event.actions.requested_auth_configs}
            answered |= _responses(event) - requests
            by_user |= _responses(event) if event.author == "user" else set()
            asked = _asked(event)
            late = {*(event.long_running_tool_ids or ())}
            if (_calls(event) | requests) - answered or late - asked or late - by_user:
                found.add(event.invocation_id)
        return found

    def _called(self, kept: set[int]) -> set[int]:
        """Return the places of the calls that *kept* need, and of all responses to these."""
        calls: dict[str, set[int]] = {}
        responses: dict[str, set[int]] = {}
        for place in self._live:
            for name in _calls(self._events[place]):
                calls.setdefault(name, set()).add(place)
            for name in _responses(self._events[place]):
                responses.setdefault(name, set()).add(place)
        found, waiting = {*kept}, [*kept]
        while waiting:
            event = self._events[waiting.pop()]
            names = {*_responses(event), *_named(event.branch), *_named(_scope(event)), _scope(event) or ""}
            fresh = {place for name in names for place in calls.get(name, ())}
            fresh |= {place for name in _calls(event) for place in responses.get(name, ())}
            waiting += fresh - found
            found |= fresh
        return found

    def _taken_back(self, kept: set[int]) -> set[int]:
        """Return the places of what rewinds took back with a question to the user, or an answer to *kept*.

        ADK runs a tool whose confirmation is answered, and no tool a second time, whatever was taken back.
        """
        answered = {name for event in self._events if event.author == "user" for name in _responses(event)}
        called = {name for place in kept for name in _calls(self._events[place])}
        found: set[int] = set()
        for first, last in self._spans:
            events = self._events[first : last + 1]
            asked = {call for event in events for call in _asked(event)}
            if asked - answered or any(called & _responses(event) for event in events):
                found |= {*range(first, last + 1)}
        return found


def rewinds(event: Event) -> str | None:
    """Return the id of the first invocation that *event* takes back; ``None`` for any other event."""
    return event.actions.rewind_before_invocation_id or None


def live(events: Sequence[Event]) -> list[int]:
    """Return the places of those of *events*, in append order, that no rewind took back."""
    taken = {place for first, last in _rewound(events) for place in range(first, last + 1)}
    return [place for place in range(len(events)) if place not in taken]


def _rewound(events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place of what each rewind took back, oldest first, as ADK does."""
    first: dict[str, int] = {}
    for place, event in enumerate(events):
        if event.invocation_id:
            first.setdefault(event.invocation_id, place)
    found: list[tuple[int, int]] = []
    place = len(events) - 1
    while place >= 0:
        if name := rewinds(events[place]):
            begin = min(first.get(name, place), place)
            found.append((begin, place))
            place = begin
        place -= 1
    yield from reversed(found)


def _calls(event: Event) -> set[str]:
    return {call.id for call in event.get_function_calls() if call.id}


def _asked(event: Event) -> set[str]:
    return {call.id for call in event.get_function_calls() if call.id and call.name in _ASKED_OF_CLIENTS}


def _responses(event: Event) -> set[str]:
    return {response.id for response in event.get_function_responses() if response.id}


def _named(path: str | None) -> list[str]:
    """Return the ids of calls in a branch or a scope, such as ``tool@id.node@1``."""
    return [step.partition("@")[2] for step in (path or "").split(".") if "@" in step]


def _scope(event: Event) -> str | None:
    return getattr(event, "isolation_scope", None)  # which ADK 2.8 does not have


def _path(event: Event) -> str:
    return getattr(getattr(event, "node_info", None), "path", None) or ""

"""Show turns as waterfalls: when the user spoke, how long models and tools took, and what was stored when."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from google.adk.events import Event

from gcp_adk_store.inspector.conversation import MAX_PARTS
from gcp_adk_store.inspector.reading import Placed, Version
from gcp_adk_store.inspector.requests import MODEL_REQUEST
from gcp_adk_store.kernel.concurrency import Lru
from gcp_adk_store.model.keys import SessionKey, moment
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.listing.usage import TokenUsage, UsageCounter, tokens_of

WIDTH: Final = 600
"""The longest bar, in units of the drawing."""

_SESSIONS_SEEN: Final = 100
_VERSIONS_SEEN: Final = 1_000
"""Newest versions of one session that a process keeps when it has seen twice as many."""

Kind = Literal["user", "model", "tool", "summary", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Events that were stored between two versions of a session: by one commit, or by several."""

    last: int
    """The number of the newest of them in the session."""
    events: int | None
    """How many they are; ``None`` for all before, if no earlier version was seen."""
    time: float
    """When the later version was stored, as Unix time in seconds: they were stored by then."""
    is_one: bool = False
    """Whether it is known to be one commit, at this time."""
    is_followed: bool = False
    """Whether a page that followed the session saw the later version at once."""
    is_fork: bool = False
    """Whether they are those that a fork took over."""

    @property
    def is_near(self) -> bool:
        """Whether *time* is that of a commit, and not later."""
        return self.is_one or self.is_followed


@dataclass(frozen=True, slots=True)
class _Seen:
    """When a version was stored."""

    time: float
    """Unix time in seconds."""
    is_exact: bool = False
    """Whether it followed the one with fewer events that was seen."""
    is_followed: bool = False
    """Whether a page saw it at once."""


class SeenVersions:
    """When versions of sessions were stored, of those that pages of this process saw; it keeps no content."""

    def __init__(self) -> None:
        self._times: Lru[tuple[SessionKey, str, int], dict[int, _Seen]] = Lru(_SESSIONS_SEEN)

    def see(self, stored: StoredSession) -> None:
        """Remember a version; of those with the same events, the first that was stored."""
        self._put(stored, stored.revision, _Seen(float(stored.update_time)))

    def follow(self, stored: StoredSession) -> None:
        """Remember a version that was seen at once."""
        self._put(stored, stored.revision, _Seen(float(stored.update_time), is_followed=True))

    def see_change(self, stored: StoredSession, older: Version, newer: Version) -> None:
        """Remember two versions of a session of which one followed the other: what differs is one commit."""
        self._put(stored, older.revision, _Seen(float(older.update_time)))
        if newer.revision != older.revision:
            self._put(stored, newer.revision, _Seen(float(newer.update_time), is_exact=True))

    def knows(self, stored: StoredSession, version: Version) -> bool:
        """Return whether the commit that left this version is known; then those before were asked for."""
        return self._seen(stored).get(version.revision) == _Seen(float(version.update_time), is_exact=True)

    def commits(self, stored: StoredSession) -> list[Commit]:
        """Return what was stored between the versions that were seen, and what a fork took over."""
        before: int | None = None
        found: list[Commit] = []
        if origin := stored.origin:
            before = origin.position
            found.append(Commit(last=before, events=before, time=stored.create_time or 0.0, is_fork=True))
        for revision, seen in sorted(self._seen(stored).items()):
            if revision > (before or 0):
                events = None if before is None else revision - before
                known = {"is_one": seen.is_exact, "is_followed": seen.is_followed}
                found.append(Commit(last=revision, events=events, time=seen.time, **known))
            before = max(before or 0, revision)
        return found

    def _seen(self, stored: StoredSession) -> dict[int, _Seen]:
        """Return them by numbers of events, which fall with a restore alone, in no order."""
        return self._times.lookup(_life(stored)) or {}

    def _put(self, stored: StoredSession, revision: int, seen: _Seen) -> None:
        known = self._seen(stored)
        if revision not in known or seen.time < known[revision].time or seen.is_exact:
            known[revision] = seen
            if len(known) > 2 * _VERSIONS_SEEN:
                known = dict(sorted(known.items())[-_VERSIONS_SEEN:])
            self._times.put(_life(stored), known)


def _life(stored: StoredSession) -> tuple[SessionKey, str, int]:
    return stored.key, stored.epoch, stored.restores


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one event, or one response within it, waited for; or the commit that stored it and others."""

    kind: Kind
    with_model: bool
    """Whether a tool's has the wait for the model, too: nobody knows when that answered."""
    name: str
    """The user, the agent with its model, or the tool; empty for a commit."""
    placed: Placed
    """The event."""
    after: float
    """Seconds from the first event of the turn to the begin of the span."""
    seconds: float
    """How long it took: a model from the event before, a tool from the answer that calls it, a commit from
    its last event. That of a model ends when its answer was stored, or else at the time of its event.
    """
    start: float
    """Where its bar begins, 0 to :data:`WIDTH`."""
    length: float
    """Length of its bar, at least 1."""
    tokens: TokenUsage | None
    failed: str
    """The error's code; empty for none."""
    request: int | None
    """The version of :data:`MODEL_REQUEST` that a model answered; ``None`` if it was not kept."""
    commit: Commit | None
    """What was stored, after the spans of its last event; ``None`` for those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """One turn: the events of a page with one invocation id."""

    invocation_id: str
    began: str
    seconds: float
    events: int
    tokens: TokenUsage
    spans: tuple[Span, ...]


_Stored = tuple[Placed, Commit | None]
"""An event, and the commit that ends with it, if it is known."""


@dataclass(frozen=True, slots=True)
class _Took:
    """A span before it is drawn."""

    kind: Kind
    name: str
    placed: Placed
    begin: float
    end: float
    tokens: TokenUsage | None = None
    commit: Commit | None = None
    with_model: bool = False


def waterfalls(page: Sequence[Placed], commits: Iterable[Commit] = (), *, first: int = 1) -> list[Waterfall]:
    """Return the turns of a page of events, which are in append order.

    *first* is the number of the first event in the session; *commits* name theirs by such numbers.
    """
    commit_of = {commit.last: commit for commit in commits}
    turns: dict[str, list[_Stored]] = {}
    for number, placed in enumerate(page, start=first):
        turns.setdefault(placed.event.invocation_id, []).append((placed, commit_of.get(number)))
    return [_drawn(name, turn) for name, turn in turns.items()]


def _drawn(invocation_id: str, turn: Sequence[_Stored]) -> Waterfall:
    began, took = min(placed.event.timestamp for placed, _ in turn), [*_took(turn)]
    whole = max(each.end for each in took if each.commit is None) - began
    unit = WIDTH / whole if whole > 0 else 0.0
    counter = UsageCounter()  # which counts a response in several events once
    for placed, _ in turn:
        counter.add(placed.event)
    return Waterfall(
        invocation_id=invocation_id,
        began=moment(began),
        seconds=whole,
        events=len(turn),
        tokens=counter.usage().tokens,
        spans=tuple(_span(each, began, unit) for each in took),
    )


def _span(took: _Took, began: float, unit: float) -> Span:
    event = took.placed.event
    start = min((took.begin - began) * unit, WIDTH - 1)
    return Span(
        kind=took.kind,
        with_model=took.with_model,
        name=took.name,
        placed=took.placed,
        after=took.begin - began,
        seconds=took.end - took.begin,
        start=round(start, 1),
        length=round(min(max(1.0, (took.end - took.begin) * unit), WIDTH - start), 1),
        tokens=took.tokens,
        failed="" if took.commit else str(event.error_code or ""),
        request=None if took.commit else event.actions.artifact_delta.get(MODEL_REQUEST),
        commit=took.commit,
    )


def _took(turn: Sequence[_Stored]) -> Iterator[_Took]:
    """Yield what the events of a turn, and their commits, took; one whose clock was behind took nothing.

    ADK gives the event of a model the time of the question, unless the answer is streamed.
    """
    calls: dict[str, tuple[float, bool]] = {}
    before = turn[0][0].event.timestamp
    for placed, commit in turn:
        event = placed.event
        kind, end = _kind(event), event.timestamp
        responses = event.get_function_responses()[:MAX_PARTS]
        for response in responses:
            begin, is_known = calls.get(response.id or "", (before, True))
            name = response.name or ""
            yield _Took("tool", name, placed, min(begin, end), end, with_model=not is_known)
        is_known = commit is not None and commit.is_near
        if commit and is_known and kind == "model" and not responses:
            end = max(end, commit.time)
        if not responses:
            begin = end if kind == "user" else min(before, end)
            tokens = None if event.usage_metadata is None else tokens_of(event.usage_metadata)
            yield _Took(kind, _name(event), placed, begin, end, tokens)
        called = event.get_function_calls()[:MAX_PARTS]
        calls |= {call.id: (end, is_known) for call in called if call.id}
        before = end
        if commit:
            yield _Took("store", "", placed, end, max(end, commit.time), commit=commit)


def _kind(event: Event) -> Kind:
    if event.actions.compaction:
        return "summary"
    return "user" if event.author == "user" else "model"


def _name(event: Event) -> str:
    return f"{event.author}, {event.model_version}" if event.model_version else event.author

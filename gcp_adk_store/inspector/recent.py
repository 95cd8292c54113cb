"""Look through the newest events of the newest sessions of an app or a user, and count them by day."""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, Generic, TypeVar

from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.errors import SessionConflictError, SessionMissingError, StoredDataError
from gcp_adk_store.inspector.conversation import EventView, Wanted, event_view, failed, price_of_writes
from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.look import Look
from gcp_adk_store.inspector.masking import Mask
from gcp_adk_store.inspector.reading import Reader
from gcp_adk_store.model.keys import SessionKey, moment
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.describe.decide import SessionInfo
from gcp_adk_store.sessions.listing.sessions import SessionPage
from gcp_adk_store.sessions.listing.usage import TokenUsage, UsageCounter

SESSIONS: Final = 16
"""Sessions that one page looks at; each takes 2 reads."""

SEGMENTS: Final = 16
"""The newest segments that one page reads of these sessions together."""

LARGEST: Final = 5
"""Sessions that a page names as the largest of those that it looked at."""

SCORES: Final = 20
"""Scores of which a page shows the mean, those of most sessions first."""

HITS_OF_EACH: Final = 2
"""Events of one session on a page of a search."""

_SCORE: Final = re.compile(r"score(\..*)?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")


@dataclass(slots=True)
class Looked:
    """What a walk through the newest events of a session found; it keeps none of the events."""

    looked: int = 0
    """How many they are."""


T = TypeVar("T", bound=Looked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent(Generic[T]):
    """A session, and what its newest events say."""

    info: SessionInfo
    found: T

    @property
    def place(self) -> Place:
        """Its ids."""
        return Place(app=self.info.app_name, user=self.info.user_id, session=self.info.session_id)

    @property
    def left(self) -> int:
        """How many of its events were not read."""
        return max(0, self.info.events - self.found.looked)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentPage(Generic[T]):
    """Some sessions, the last updated first."""

    sessions: list[Recent[T]]
    unreadable: int
    """How many that cannot be read were left out."""
    next_cursor: str | None

    @property
    def left(self) -> int:
        """How many events of these sessions were not read."""
        return sum(each.left for each in self.sessions)


async def recent(
    reader: Reader,
    place: Place,
    *,
    most: int,
    segments: int,
    walk: Callable[[Look], Awaitable[T]],
    cursor: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> RecentPage[T]:
    """Return the newest sessions of an app or a user, with what *walk* finds in the newest events of each.

    1 query and 1 BatchGet, which are 2 reads for each session, and at most so many *segments*, of which each
    session that has any gets as many.

    Raises:
        NotProvisionedError: the database has no index for sessions of an app, or with labels.
    """
    page = await _list(reader, place, most=most, cursor=cursor, labels=labels)
    storage = reader.store.sessions.storage
    keys = [SessionKey(app=each.app_name, user=each.user_id, session=each.session_id) for each in page.infos]
    documents = await storage.documents.get([storage.layout.session(key) for key in keys]) if keys else []
    there: list[tuple[SessionInfo, StoredSession]] = []
    unreadable = len(page.unreadable)
    for info, document in zip(page.infos, documents, strict=True):
        try:
            if document is not None:  # not deleted since
                there.append((info, read_session(document)))
        except StoredDataError:
            unreadable += 1
    share = segments // max(1, sum(bool(stored.live) for _, stored in there))
    sessions: list[Recent[T]] = []
    for info, stored in there:
        try:
            sessions.append(Recent(info=info, found=await walk(reader.look_at(stored, segments=share))))
        except (StoredDataError, SessionMissingError, SessionConflictError):
            unreadable += 1
    return RecentPage(sessions=sessions, unreadable=unreadable, next_cursor=page.next_cursor)


async def listed(
    reader: Reader, place: Place, *, most: int, cursor: str | None, labels: Mapping[str, str]
) -> RecentPage[Looked]:
    """Return the newest sessions with these *labels*, and look at no event; 1 query, 1 read for each session.

    Raises:
        NotProvisionedError: the database has no index for sessions with labels.
    """
    page = await _list(reader, place, most=most, cursor=cursor, labels=labels)
    sessions = [Recent(info=info, found=Looked()) for info in page.infos]
    return RecentPage(sessions=sessions, unreadable=len(page.unreadable), next_cursor=page.next_cursor)


async def _list(
    reader: Reader, place: Place, *, most: int, cursor: str | None, labels: Mapping[str, str] | None
) -> SessionPage:
    return await reader.store.sessions.list_sessions_page(
        app_name=place.app or "",
        user_id=place.user,
        page_size=most,
        cursor=cursor,
        include_state=False,
        labels=labels or None,
    )


@dataclass(slots=True)
class Hits(Looked):
    """Those of a session's newest events that a search wants."""

    count: int = 0
    events: list[EventView] = field(default_factory=list)
    """The newest of them, the newest first."""


async def hits(look: Look, wanted: Wanted, mask: Mask) -> Hits:
    """Return which of a session's newest events, as many as may be read, have what is *wanted*."""
    found = Hits()
    async for step in look.walk(look.end, backward=True):
        found.looked += 1
        if wanted.fits(step.event):
            found.count += 1
            if len(found.events) < HITS_OF_EACH:
                place, missing = look.cursor(step.place), step.stored.missing
                found.events.append(event_view(step.event, mask, place=place, missing=missing))
    return found


@dataclass(slots=True)
class UsageDay:
    """What events of one day say."""

    date: str
    """In UTC; empty for all days together."""
    sessions: int = 0
    turns: int = 0
    """One that goes on after midnight counts on both days."""
    events: int = 0
    errors: int = 0
    conflicts: int = 0
    """Those of a segment count on the day of its last event."""
    tokens: TokenUsage = field(default_factory=TokenUsage)

    @property
    def dollars(self) -> float:
        """List price of the writes of its events."""
        return price_of_writes(self.events)

    def add(self, other: "UsageDay") -> None:
        """Count what events of another session or day say, too."""
        self.sessions += other.sessions
        self.turns += other.turns
        self.events += other.events
        self.errors += other.errors
        self.conflicts += other.conflicts
        self.tokens += other.tokens


@dataclass(slots=True)
class Used(Looked):
    """What a session's newest events used, by the day of each event."""

    days: dict[str, UsageDay] = field(default_factory=dict)


async def used(look: Look) -> Used:
    """Return what a session's newest events, as many as may be read, used; the counts need append order."""
    found = Used()
    counters: defaultdict[str, UsageCounter] = defaultdict(UsageCounter)
    last_dates: dict[int, str] = {}
    begin, _ = await look.newest()
    async for step in look.walk(begin, backward=False):
        found.looked += 1
        if not step.event.partial:  # it repeats a part of a later one
            date = moment(step.event.timestamp)[:10]
            counters[date].add(step.event)
            found.days.setdefault(date, UsageDay(date, sessions=1)).errors += failed(step.event)
            last_dates[step.place.segment] = date
    for number, date in last_dates.items():
        found.days[date].conflicts += look.conflicts(number)
    for date, counter in counters.items():
        usage, day = counter.usage(), found.days[date]
        day.turns = sum(bool(turn.invocation_id) for turn in usage.turns)
        day.events, day.tokens = usage.events, usage.tokens
    return found


def usage_days_of(sessions: Sequence[Recent[Used]]) -> list[UsageDay]:
    """Return the days of sessions' events, the newest first, and after several days all together."""
    days: dict[str, UsageDay] = {}
    for session in sessions:
        for date, one in session.found.days.items():
            days.setdefault(date, UsageDay(date)).add(one)
    newest_first = sorted(days.values(), key=lambda each: each.date, reverse=True)
    if len(days) <= 1:
        return newest_first
    total = UsageDay("")
    for day in newest_first:
        total.add(day)
    total.sessions = sum(bool(session.found.days) for session in sessions)
    return [*newest_first, total]


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of a score of some sessions."""

    name: str
    """That of the label, ``score`` or such as ``score.helpful``."""
    mean: float
    sessions: int
    """How many have it."""


def scores_of(sessions: Sequence[Recent[Any]]) -> list[Score]:
    """Return the scores that sessions have as labels with a number, those of most sessions first."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for session in sessions:
        for name, value in session.info.labels.items():
            if _SCORE.fullmatch(name) and _NUMBER.fullmatch(value):
                values[name].append(float(value))
    scores = [Score(name, fmean(each), len(each)) for name, each in values.items()]
    return sorted(scores, key=lambda each: (-each.sessions, each.name))[:SCORES]


def largest_of(sessions: Sequence[Recent[Any]]) -> list[Recent[Any]]:
    """Return the sessions with the most events, the largest first."""
    return sorted(sessions, key=lambda each: -each.info.events)[:LARGEST]

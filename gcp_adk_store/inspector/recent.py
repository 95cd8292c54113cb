"""Read the newest sessions of an app or a user with their newest events, and count these by day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.errors import SessionConflictError, SessionMissingError, StoredDataError
from gcp_adk_store.inspector.conversation import failed, moment, price_of_writes
from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.look import Look
from gcp_adk_store.inspector.reading import Placed, Reader
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.describe.decide import SessionInfo
from gcp_adk_store.sessions.listing.usage import TokenUsage, UsageCounter

SESSIONS: Final = 16
"""Sessions that one page looks at; each takes 2 reads."""

SEGMENTS: Final = 16
"""The newest segments that one page reads of these sessions together."""

LARGEST: Final = 5
"""Sessions that a page names as the largest of those that it looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """A session, and its newest events."""

    info: SessionInfo
    events: list[Placed]
    """Those that were read, in append order, without payloads of their content."""

    @property
    def place(self) -> Place:
        """Its ids."""
        return Place(app=self.info.app_name, user=self.info.user_id, session=self.info.session_id)

    @property
    def left(self) -> int:
        """How many of its events were not read."""
        return max(0, self.info.events - len(self.events))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentPage:
    """Some sessions, the last updated first."""

    sessions: list[Recent]
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
    cursor: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> RecentPage:
    """Return the newest sessions of an app or a user, with their newest events.

    1 query and 1 BatchGet, which are 2 reads for each session, and at most so many *segments*, of which each
    session that has any gets as many.

    Raises:
        NotProvisionedError: the database has no index for sessions of an app, or with labels.
    """
    page = await reader.store.sessions.list_sessions_page(
        app_name=place.app or "",
        user_id=place.user,
        page_size=most,
        cursor=cursor,
        include_state=False,
        labels=labels or None,
    )
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
    found: list[Recent] = []
    for info, stored in there:
        try:
            found.append(Recent(info=info, events=await _newest(reader.look_at(stored, segments=share))))
        except (StoredDataError, SessionMissingError, SessionConflictError):
            unreadable += 1
    return RecentPage(sessions=found, unreadable=unreadable, next_cursor=page.next_cursor)


async def _newest(look: Look) -> list[Placed]:
    """Return the newest events of a session, as many as may be read."""
    steps = [step async for step in look.walk(look.end, backward=True)]
    return [
        Placed(step.event, look.cursor(step.place), missing=step.stored.missing) for step in reversed(steps)
    ]


@dataclass(slots=True)
class Day:
    """What events of one day say."""

    date: str
    """In UTC."""
    sessions: int = 0
    turns: int = 0
    events: int = 0
    errors: int = 0
    tokens: TokenUsage = field(default_factory=TokenUsage)

    @property
    def dollars(self) -> float:
        """List price of the writes of its events."""
        return price_of_writes(self.events)


def days_of(sessions: Iterable[Recent]) -> list[Day]:
    """Return the days of sessions' events, the newest first. A turn belongs to the day on which it began."""
    days: dict[str, Day] = {}

    def day(timestamp: float) -> Day:
        date = moment(timestamp)[:10]
        return days.setdefault(date, Day(date))

    for session in sessions:
        counter = UsageCounter()
        for placed in session.events:
            counter.add(placed.event)
            day(placed.event.timestamp).errors += failed(placed.event)
        turns = counter.usage().turns
        for turn in turns:
            of_turn = day(turn.began_at)
            of_turn.turns += bool(turn.invocation_id)
            of_turn.events += turn.events
            of_turn.tokens += turn.tokens
        for date in {moment(turn.began_at)[:10] for turn in turns}:
            days[date].sessions += 1
    return sorted(days.values(), key=lambda each: each.date, reverse=True)


def largest_of(sessions: Sequence[Recent]) -> list[Recent]:
    """Return the sessions with the most events, the largest first."""
    return sorted(sessions, key=lambda each: -each.info.events)[:LARGEST]

"""Read the newest sessions of an app or a user with their newest events, and count these by day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gcp_adk_store.codec.cursors import encode_cursor
from gcp_adk_store.codec.events import WHOLE
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.inspector.conversation import failed, moment, price_of_writes
from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.reading import Placed
from gcp_adk_store.kernel.concurrency import Pauses
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession
from gcp_adk_store.sessions.listing.usage import TokenUsage, UsageCounter
from gcp_adk_store.sessions.read.completion import decode_events
from gcp_adk_store.store import Store

SESSIONS: Final = 24
"""Sessions that one page looks at; each takes 2 reads."""

LARGEST: Final = 5
"""Sessions that a page names as the largest of those that it looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """A session, and its newest events."""

    info: SessionInfo
    events: list[Placed]
    """Those of its document, in append order, without payloads; not those that are a payload as a whole."""

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
    store: Store,
    place: Place,
    *,
    most: int,
    cursor: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> RecentPage:
    """Return the newest sessions of an app or a user; 1 query and 1 BatchGet, 2 reads for each session.

    Raises:
        NotProvisionedError: the database has no index for sessions of an app, or with labels.
    """
    page = await store.sessions.list_sessions_page(
        app_name=place.app or "",
        user_id=place.user,
        page_size=most,
        cursor=cursor,
        include_state=False,
        labels=labels or None,
    )
    storage = store.sessions.storage
    keys = [SessionKey(app=each.app_name, user=each.user_id, session=each.session_id) for each in page.infos]
    documents = await storage.documents.get([storage.layout.session(key) for key in keys]) if keys else []
    found: list[Recent] = []
    unreadable: list[UnreadableSession | SessionInfo] = [*page.unreadable]
    pauses = Pauses()
    for info, document in zip(page.infos, documents, strict=True):
        if document is None:
            continue  # deleted since
        try:
            found.append(Recent(info=info, events=await _events(document, pauses)))
        except StoredDataError:
            unreadable.append(info)
    return RecentPage(sessions=found, unreadable=len(unreadable), next_cursor=page.next_cursor)


async def _events(document: Document, pauses: Pauses) -> list[Placed]:
    """Return the events of a session's document.

    Raises:
        StoredDataError: one is damaged.
    """
    stored = read_session(document)
    return [
        Placed(each.event, encode_cursor((stored.epoch, stored.sealed, offset)))
        for offset, each in enumerate(await decode_events(stored.tail, where=document.path, pauses=pauses))
        if WHOLE not in each.missing
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

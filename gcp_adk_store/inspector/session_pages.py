"""Show a session: its conversation, turns, state and documents."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from google.adk.events import Event
from starlette.responses import Response

from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.inspector.conversation import HITS, SEARCHED, EventView, event_view, price_of_writes
from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.reading import (
    COMPARED,
    EVENTS_PER_PAGE,
    EventPage,
    Order,
    Placed,
    Version,
    raw,
    rows,
    vitals_of,
)
from gcp_adk_store.inspector.site import RefusedRequestError, Visit, answer_bytes
from gcp_adk_store.inspector.waterfall import Commit, waterfalls
from gcp_adk_store.kernel.concurrency import stepping
from gcp_adk_store.model.internal_metadata import public_event
from gcp_adk_store.model.json_values import fields_of
from gcp_adk_store.model.keys import moment
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.describe.decide import SessionInfo

NEWS_S: Final = 20.0
"""The longest wait for news in one request: proxies end requests that are silent for longer."""

TIMELINE_EVENTS: Final = 200
"""Events of one page of the timeline."""

SEALS: Final = 20
"""Seals of one page of the timeline whose times it reads."""

VERSIONS: Final = 16
"""Earlier versions of a session that one page of the timeline reads."""


async def conversation(visit: Visit) -> Response:
    """Show a session with its first events; 2 reads, and 1 for the first segment."""
    info = await visit.site.store.sessions.get_session_info(**visit.place.ids)
    if info is None:
        raise SessionMissingError
    title = None if info.title is None else visit.mask.over(info.title)
    return visit.page("session.html", info=info, title=title, **await _events(visit))


async def events(visit: Visit) -> Response:
    """Return the next events as a part of a page; 1 read, and 1 for the next segment."""
    return visit.page("_events.html", **await _events(visit))


async def news(visit: Visit) -> Response:
    """Return the next events once there are any, or an empty part after some seconds; 1 read, and 1 more.

    It follows the session, so waiting reads nothing. A browser that shows the answer asks again.
    """
    come = await _has_news(visit, visit.cursor())
    return visit.page("_events.html", **await _events(visit, reads=come))


async def _has_news(visit: Visit, cursor: str | None) -> bool:
    """Wait some seconds until the session has events after *cursor*, and return whether it has; 1 read."""
    versions = visit.site.versions
    take = versions.see

    def seen(stored: StoredSession) -> None:
        nonlocal take
        take(stored)
        take = versions.follow  # the first version may be old, and later ones are seen at once

    following = visit.reader.following(visit.place, cursor, seen)
    with visit.site.waiting():
        async with stepping(following) as step:
            return await step(NEWS_S) is not None


async def _events(visit: Visit, *, reads: bool = True) -> dict[str, Any]:
    order: Order = "newest" if visit.text("order") == "newest" else "oldest"
    first = visit.number("first", 1)
    cursor = visit.cursor()
    page = await visit.reader.events(visit.place, cursor=cursor, order=order) if reads else None
    numbered = order == "oldest"
    shown = [
        _view(visit, placed, number=first + index if numbered else None)
        for index, placed in enumerate(page.events if page else ())
    ]
    return {
        "events": shown,
        "order": order,
        "follow": visit.text("follow"),
        "last": page.last if page else cursor,
        "has_more": page is not None and page.has_more,
        "next_first": first + len(shown),
        "per_page": EVENTS_PER_PAGE,
    }


async def event(visit: Visit) -> Response:
    """Show one event by its permanent link; 2 reads, and 1 for its segment."""
    placed = await _placed(visit)
    found = fields_of(public_event(placed.event), exclude_none=True)
    return visit.page("event.html", event=_view(visit, placed), raw=visit.mask.over_json(found, most=200_000))


async def part(visit: Visit) -> Response:
    """Return the bytes of a part of an event."""
    if not visit.mask.lifted:
        raise RefusedRequestError(403, "Content is masked.")
    found = (await _placed(visit)).event
    parts = (found.content and found.content.parts) or []
    index = visit.number("index", 0)
    blob = parts[index].inline_data if index < len(parts) else None
    if blob is None:
        raise SessionMissingError("the event has no bytes at this place")
    return answer_bytes(blob.data or b"", name=blob.display_name or f"part-{index}")


async def timeline_page(visit: Visit) -> Response:
    """Show turns as waterfalls, 200 events to a page; 1 read, and 1 for each segment of the page.

    1 read more for each segment before one of them, of 20 at most, and each earlier version, of 16.
    A page that follows waits for news first.
    """
    if visit.text("wait"):
        await _has_news(visit, visit.cursor("after"))
    first, cursor = visit.number("first", 1), visit.cursor()
    if visit.text("newest"):
        first, cursor = await _newest(visit)
    page = await visit.reader.events(visit.place, cursor=cursor, order="oldest", limit=TIMELINE_EVENTS)
    commits, sealed = await _stored_when(visit, page)
    return visit.page(
        "timeline.html",
        stored=page.stored,
        turns=waterfalls(page.events, commits, first=first),
        sealed=sealed,
        first=first,
        last=first + len(page.events) - 1,
        begin=cursor,
        end=page.last,
        has_more=page.has_more,
        follow=visit.text("follow"),
        dollars=price_of_writes(page.stored.revision),
    )


async def _newest(visit: Visit) -> tuple[int, str | None]:
    """Return the number and the place of the event that the newest page begins with; 1 read, and segments.

    The page has room for as many newer events.
    """
    look = await visit.reader.look(visit.place)
    before = max(0, look.stored.revision - TIMELINE_EVENTS // 2)
    place = await look.position(before, look.known(visit.near()))
    return before + 1, look.cursor(place) if before else None


async def _stored_when(visit: Visit, page: EventPage) -> tuple[list[Commit], Mapping[int, str]]:
    """Return commits, and by the number of a segment on the page when the one before it was last written."""
    stored = page.stored
    visit.site.versions.see(stored)
    if not page.has_more:
        await _trace(visit, stored, since=stored.revision - len(page.events))
    begun = [each.segment for each in page.events if each.segment is not None]
    before = dict(pairwise([*stored.live, stored.sealed]))
    of = {number: segment for segment, number in before.items() if number in begun[:SEALS]}
    written = await visit.reader.written(stored, [*of.values()])
    sealed = {number: moment(written[segment]) for number, segment in of.items() if segment in written}
    return visit.site.versions.commits(stored), sealed


async def _trace(visit: Visit, stored: StoredSession, *, since: int) -> None:
    """Find the commits after so many events by the versions of the session that the database still knows.

    1 read of each, of 16 at most: those of the newest commits.
    """
    versions = visit.site.versions
    newer = Version(stored.revision, stored.update_time)
    for _ in range(VERSIONS):
        if newer.revision <= since or versions.knows(stored, newer):
            return
        older = await visit.reader.version_before(stored, newer.update_time)
        if older is None:
            return
        versions.see_change(stored, older, newer)
        newer = older


async def search(visit: Visit) -> Response:
    """Show events that have what is asked for, of the next 1,000; 1 read, and 1 for each segment of these."""
    wanted = visit.wanted
    looked, found, last = 0, list[Placed](), visit.cursor()
    if wanted and not wanted.is_refused(visit.mask):
        page = await visit.reader.events(visit.place, cursor=last, order="oldest", limit=SEARCHED)
        last = page.last if page.has_more else None
        for looked, placed in enumerate(page.events, start=1):  # how far it came
            if wanted.fits(placed.event):
                found.append(placed)
            if len(found) == HITS:
                last = page.events[looked].place if looked < len(page.events) else last
                break
    views = [_view(visit, placed) for placed in found]
    return visit.page("search.html", wanted=wanted, events=views, looked=looked, last=last)


async def compare(visit: Visit) -> Response:
    """Show two sessions of an app side by side; 2 reads of each, and 1 for each segment of 100 events."""
    user = visit.given.get("other_user", visit.place.user)  # the empty text is an id, too
    other = visit.place.within(user=user, session=visit.text("other"))
    await visit.site.require_authorized(visit.request, other.app, other.user)
    order: Order = "oldest" if visit.text("order") == "oldest" else "newest"

    def seen(some: Sequence[Placed]) -> list[EventView]:
        return [_view(visit, placed) for placed in some]

    shown: list[dict[str, Any]] = []
    following: dict[str, Any] = {}
    infos: list[SessionInfo | None] = []
    if other.session is not None:
        left = await _side(visit, visit.place, "left", order)
        right = await _side(visit, other, "right", order)
        info_of = visit.site.store.sessions.get_session_info
        infos = [await info_of(**visit.place.ids), await info_of(**other.ids)]
        shown = [
            {"same": seen(same), "left": seen(here), "right": seen(there)}
            for same, here, there in rows(left.events, right.events)
        ]
        if left.has_more or right.has_more:
            following = {"other": other.session, "other_user": other.user, "order": order}
            following |= {"left": left.last, "right": right.last}
    return visit.page(
        "compare.html",
        other=other,
        order=order,
        infos=infos,
        rows=shown,
        next=following,
        per_side=COMPARED,
    )


async def _side(visit: Visit, place: Place, side: str, order: Order) -> EventPage:
    try:
        return await visit.reader.events(place, cursor=visit.cursor(side), order=order, limit=COMPARED)
    except SessionMissingError as exc:
        raise SessionMissingError(f"{exc}: {place.session!r} of the user {place.user!r}") from exc


async def vitals(visit: Visit) -> Response:
    """Show lease, inbox, chain, size and cost; 1 read, and 1 query of segments."""
    return visit.page("vitals.html", **await vitals_of(visit.site.store, visit.place, visit.mask))


async def raw_documents(visit: Visit) -> Response:
    """Show a document as it is stored; 1 read, and 1 query of names."""
    name = visit.text("document") or "session"
    document = await raw(visit.site.store, visit.place, name, visit.mask, after=visit.text("after"))
    return visit.page("raw.html", document=document, name=name)


async def _placed(visit: Visit) -> Placed:
    at = visit.cursor("at")
    return await visit.reader.event(visit.place, visit.required("event"), at, visit.near())


def _view(visit: Visit, placed: Placed, *, number: int | None = None) -> EventView:
    found: Event = placed.event
    return event_view(found, visit.mask, number=number, place=placed.place)

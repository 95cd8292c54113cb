"""Show all apps, what the newest sessions of an app used, and what they say."""

from typing import Any, Final

from starlette.responses import Response

from gcp_adk_store.errors import StoreError
from gcp_adk_store.inspector.conversation import Wanted, event_view
from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.pages import labels_of
from gcp_adk_store.inspector.recent import SEGMENTS, SESSIONS, Recent, RecentPage, days_of, largest_of, recent
from gcp_adk_store.inspector.site import RefusedRequestError, Visit
from gcp_adk_store.kernel.concurrency import gather

APPS_PER_PAGE: Final = 10
"""Apps on the first page; each takes 1 query of 1 document, and at most as many more find the next ones."""

HOME_SESSIONS: Final = 10
"""Sessions of all apps together that the first page looks at; each takes 2 reads."""

HOME_SEGMENTS: Final = 10
"""Segments of all apps together that the first page reads."""

HITS_OF_EACH: Final = 2
"""Events of one session on a page of a search."""

_MAX_CURSOR: Final = 4_000


async def apps(visit: Visit) -> Response:
    """List the apps that have a session, and of those that the request may see what newest sessions used.

    1 query of 1 document for each app, and 1 more; 2 reads for each of 10 sessions, and 10 segments.
    """
    found = await visit.reader.apps(after=visit.given.get("after"), most=APPS_PER_PAGE)
    places = [Place(app=name) for name in found.names]
    seen = [place for place in places if await _may_see(visit, place)]
    used = await gather(_used(visit, place, len(seen)) for place in seen)
    return visit.page(
        "apps.html", places=places, after=found.after, used_of=dict(zip(seen, used, strict=True))
    )


async def _may_see(visit: Visit, place: Place) -> bool:
    """Return whether a page of the place is authorised, which one of all apps does not imply."""
    try:
        await visit.site.require_authorized(visit.request, place.app, place.user)
    except RefusedRequestError:
        return False
    return True


async def _used(visit: Visit, place: Place, count: int) -> dict[str, Any]:
    """Return what one of *count* apps used; the others are shown also if it cannot be read."""
    most, segments = max(1, HOME_SESSIONS // count), HOME_SEGMENTS // count
    try:
        page = await recent(visit.reader, place, most=most, segments=segments)
        return {"place": place, "problem": None, **_usage(page)}
    except StoreError as exc:
        return {"place": place, "problem": str(exc)}


async def usage(visit: Visit) -> Response:
    """Show what 16 sessions of an app or a user used by day; 2 reads for each, and 16 segments."""
    cursor = visit.text("cursor", most=_MAX_CURSOR)
    page = await recent(visit.reader, visit.place, most=SESSIONS, segments=SEGMENTS, cursor=cursor)
    return visit.page("usage.html", used={"place": visit.place, "problem": None, **_usage(page)})


def _usage(page: RecentPage) -> dict[str, Any]:
    return {"page": page, "days": days_of(page.sessions), "largest": largest_of(page.sessions)}


async def find(visit: Visit) -> Response:
    """Show which of 16 sessions of an app or a user have events as asked for.

    2 reads for each session, and 16 segments.
    """
    labels = visit.text("labels") or ""
    wanted = Wanted(
        text=visit.text("q") or "",
        tool=visit.text("tool") or "",
        author=visit.text("author") or "",
        errors=visit.text("errors") == "1",
    )
    refused = bool(wanted.text) and not visit.mask.lifted
    page, rows = None, list[dict[str, Any]]()
    if (wanted or labels) and not refused:
        page = await recent(
            visit.reader,
            visit.place,
            most=SESSIONS,
            segments=SEGMENTS,
            cursor=visit.text("cursor", most=_MAX_CURSOR),
            labels=labels_of(labels),
        )
        rows = [_hits(visit, each, wanted) for each in page.sessions]
    asked = {"q": wanted.text, "tool": wanted.tool, "author": wanted.author}
    asked |= {"errors": "1"} if wanted.errors else {}
    return visit.page(
        "find.html",
        wanted=wanted,
        labels=labels,
        refused=refused,
        page=page,
        rows=rows,
        asked={name: value for name, value in asked.items() if value},
    )


def _hits(visit: Visit, session: Recent, wanted: Wanted) -> dict[str, Any]:
    """Return which of a session's newest events have what is asked for, the newest of them to show."""
    hits = [each for each in reversed(session.events) if wanted.fits(each.event)] if wanted else []
    shown = hits[:HITS_OF_EACH]
    return {
        "session": session,
        "count": len(hits),
        "events": [
            event_view(each.event, visit.mask, place=each.place, missing=each.missing) for each in shown
        ],
    }

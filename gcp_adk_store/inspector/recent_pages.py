"""Show all apps, what the newest sessions of an app used, and what they say."""

from functools import partial
from typing import Any, Final

from starlette.responses import Response

from gcp_adk_store.errors import StoreError
from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.pages import labels_of
from gcp_adk_store.inspector.recent import (
    SEGMENTS,
    SESSIONS,
    RecentPage,
    Used,
    hits,
    largest_of,
    listed,
    recent,
    scores_of,
    usage_days_of,
    used,
)
from gcp_adk_store.inspector.site import RefusedRequestError, Visit
from gcp_adk_store.kernel.concurrency import gather

APPS_PER_PAGE: Final = 10
"""Apps on the first page; each takes 1 query of 1 document, and at most as many more find the next ones."""

HOME_SESSIONS: Final = 10
"""Sessions of all apps together that the first page looks at; each takes 2 reads."""

HOME_SEGMENTS: Final = 10
"""Segments of all apps together that the first page reads."""


async def apps(visit: Visit) -> Response:
    """List the apps that have a session, and of those that the request may see what newest sessions used.

    1 query of 1 document for each app, and 1 more; 2 reads for each of 10 sessions, and 10 segments.
    """
    found = await visit.reader.names(None, after=visit.cursor("after"), most=APPS_PER_PAGE)
    places = [Place(app=name) for name in found.names]
    seen = [place for place in places if await _may_see(visit, place)]
    usages = await gather(_used(visit, place, len(seen)) for place in seen)
    return visit.page(
        "apps.html", places=places, after=found.after, used_of=dict(zip(seen, usages, strict=True))
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
        page = await recent(visit.reader, place, most=most, segments=segments, walk=used)
        return {"place": place, "problem": None, **_usage(page)}
    except StoreError as exc:
        return {"place": place, "problem": str(exc)}


async def usage(visit: Visit) -> Response:
    """Show what 16 sessions of an app or a user used by day; 2 reads for each, and 16 segments."""
    cursor = visit.cursor()
    page = await recent(visit.reader, visit.place, most=SESSIONS, segments=SEGMENTS, walk=used, cursor=cursor)
    return visit.page("usage.html", used={"place": visit.place, "problem": None, **_usage(page)})


def _usage(page: RecentPage[Used]) -> dict[str, Any]:
    return {
        "page": page,
        "days": usage_days_of(page.sessions),
        "largest": largest_of(page.sessions),
        "scores": scores_of(page.sessions),
    }


async def find(visit: Visit) -> Response:
    """Show which of 16 sessions of an app or a user have labels, and events as asked for.

    2 reads for each session, and 16 segments; by labels alone 1 read for each.
    """
    labels, wanted = visit.text("labels") or "", visit.wanted
    asked: dict[str, Any] = {"most": SESSIONS, "cursor": visit.cursor()}
    page: RecentPage[Any] | None = None
    if wanted.is_refused(visit.mask):
        pass
    elif wanted:
        walk = partial(hits, wanted=wanted, mask=visit.mask)
        asked |= {"labels": labels_of(labels), "segments": SEGMENTS}
        page = await recent(visit.reader, visit.place, walk=walk, **asked)
    elif labels:
        page = await listed(visit.reader, visit.place, labels=labels_of(labels), **asked)
    return visit.page("find.html", wanted=wanted, labels=labels, page=page)

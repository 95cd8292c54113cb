"""Show users, sessions and memories."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from gcp_adk_store.inspector.conversation import moment, price_of_writes
from gcp_adk_store.inspector.masking import Mask, Shown
from gcp_adk_store.inspector.site import RefusedRequestError, Visit
from gcp_adk_store.sessions.describe.decide import SessionInfo

_SESSIONS_PER_PAGE = 50
_MEMORIES_PER_PAGE = 50


async def users(visit: Visit) -> Response:
    """List the users of an app that have a session; 1 query of 1 document for each, and 1 more."""
    found = await visit.reader.users(visit.place.app or "", after=visit.cursor("after"))
    return visit.page("users.html", found=found)


async def sessions(visit: Visit) -> Response:
    """List the sessions of a user or of an app, the newest first; 1 query."""
    labels_text = visit.text("labels") or ""
    since = visit.text("since") or ""
    order = "oldest" if visit.text("order") == "oldest" else "newest"
    page = await visit.site.store.sessions.list_sessions_page(
        app_name=visit.place.app or "",
        user_id=visit.place.user,
        page_size=_SESSIONS_PER_PAGE,
        cursor=visit.cursor(),
        order=order,  # type: ignore[arg-type]  # one of both
        include_state=False,
        labels=labels_of(labels_text) or None,
        updated_after=_time(since),
    )
    return visit.page(
        "sessions.html",
        rows=[_row(info, visit.mask) for info in page.infos],
        days=update_days_of(page.infos),
        unreadable=page.unreadable,
        next_cursor=page.next_cursor,
        labels=labels_text,
        since=since,
        order=order,
    )


@dataclass(slots=True)
class UpdateDay:
    """What the sessions of a page that were updated on one day have."""

    date: str
    """In UTC; empty for a time out of range."""
    sessions: int = 0
    events: int = 0
    turns: int = 0
    largest: SessionInfo | None = None
    """The session with the most events."""

    @property
    def dollars(self) -> float:
        """List price of the writes of its events."""
        return price_of_writes(self.events)


def update_days_of(infos: Iterable[SessionInfo]) -> list[UpdateDay]:
    """Return the days of a page of sessions, in the order of its sessions."""
    days: dict[str, UpdateDay] = {}
    for info in infos:
        date = moment(info.last_update_time)[:10]
        day = days.setdefault(date, UpdateDay(date))
        day.sessions += 1
        day.events += info.events
        day.turns += info.turns or 0
        if day.largest is None or info.events > day.largest.events:
            day.largest = info
    return list(days.values())


async def memories(visit: Visit) -> Response:
    """List the memories of a user, or search them; 1 read, and 1 for each shard that is not known yet."""
    query = visit.text("q")
    ids: dict[str, Any] = {"app_name": visit.place.app, "user_id": visit.place.user}
    try:
        service = visit.site.store.memory
    except ModuleNotFoundError as exc:
        return visit.page("error.html", status=501, title="Memories are not shown", message=str(exc))
    next_cursor = None
    if query:
        hits = await service.search_memories(**ids, query=query, limit=_MEMORIES_PER_PAGE)
        found: list[tuple[Any, float | None, str | None]] = [
            (hit.memory, hit.score, hit.session_id) for hit in hits
        ]
    else:
        page = await service.list_memories(**ids, page_size=_MEMORIES_PER_PAGE, cursor=visit.cursor())
        found, next_cursor = [(memory, None, None) for memory in page.memories], page.next_cursor
    mask = visit.mask
    rows = [
        {
            "id": memory.id or "",
            "author": mask.over(memory.author) if memory.author else None,
            "time": memory.timestamp or "",
            "score": score,
            "session": session,
            "text": mask.over(_text_of(memory.content), most=2_000),
            "metadata": mask.over_json(memory.custom_metadata, most=2_000)
            if memory.custom_metadata
            else None,
        }
        for memory, score, session in found
    ]
    return visit.page("memories.html", rows=rows, query=query or "", next_cursor=next_cursor)


async def reveal(visit: Visit) -> Response:
    """Show or mask content from now on, in this browser."""
    if visit.site.reveal != "asked":
        raise RefusedRequestError(
            403, "This inspector does not let readers choose whether content is masked."
        )
    return visit.choose_reveal(revealed=visit.given.get("to") == "show", back=visit.text("back") or "")


def _row(info: SessionInfo, mask: Mask) -> dict[str, Any]:
    """Return a row of the list of sessions."""
    title: Shown | None = None if info.title is None else mask.over(info.title)
    return {
        "info": info,
        "title": title,
        "last": None if info.last_text is None else mask.over(info.last_text),
        "updated": moment(info.last_update_time),
        "created": moment(info.create_time),
    }


def labels_of(text: str) -> Mapping[str, str]:
    """Return the labels of ``name=value`` with commas between them.

    Raises:
        RefusedRequestError: one has no "=".
    """
    pairs = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    if any(not equals for _, equals, _ in pairs):
        raise RefusedRequestError(
            400, "A label is written as name=value, and several with commas between them."
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def _time(text: str) -> float | None:
    """Return a date as Unix time in seconds, ``None`` without one.

    Raises:
        RefusedRequestError: it is not a date.
    """
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError) as exc:
        raise RefusedRequestError(400, "The date is written as 2026-11-22.") from exc


def _text_of(content: Any) -> str:
    """Return the texts of a memory's content; other parts are named."""
    parts = (content and content.parts) or []
    return "\n".join(part.text if part.text is not None else "[a part that is not text]" for part in parts)

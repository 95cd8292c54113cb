"""Show users, sessions, memories and artifacts."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from starlette.responses import Response

from gcp_adk_store.artifacts.files import ArtifactReader
from gcp_adk_store.artifacts.owners import names_for
from gcp_adk_store.artifacts.versions import StoredArtifactVersion
from gcp_adk_store.errors import InvalidInputError, SessionMissingError
from gcp_adk_store.inspector.conversation import difference, price_of_writes
from gcp_adk_store.inspector.masking import (
    MAX_TEXT_BYTES,
    PICTURES,
    Mask,
    Shown,
    preview_of,
    table_of,
    text_of,
)
from gcp_adk_store.inspector.site import MAX_FORM, RefusedRequestError, Visit, answer_stream, time_of
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.model.keys import moment
from gcp_adk_store.sessions.describe.decide import SessionInfo

_SESSIONS_PER_PAGE = 50
_MEMORIES_PER_PAGE = 50


async def users(visit: Visit) -> Response:
    """List the users of an app that have a session; 1 query of 1 document for each, and 1 more."""
    found = await visit.reader.names(visit.place.app or "", after=visit.cursor("after"))
    return visit.page("users.html", found=found)


async def sessions(visit: Visit) -> Response:
    """List the sessions of a user or of an app, the newest first; 1 query."""
    labels_text = visit.text("labels") or ""
    since = visit.text("since") or ""
    updated_after = time_of(since)
    if since and updated_after is None:
        raise RefusedRequestError(400, "The date is written as 2026-11-22.")
    order = "oldest" if visit.text("order") == "oldest" else "newest"
    page = await visit.site.store.sessions.list_sessions_page(
        app_name=visit.place.app or "",
        user_id=visit.place.user,
        page_size=_SESSIONS_PER_PAGE,
        cursor=visit.cursor(),
        order=order,  # type: ignore[arg-type]  # one of both
        include_state=False,
        labels=labels_of(labels_text) or None,
        updated_after=updated_after,
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
    found: list[tuple[Any, float | None, str | None]]
    next_cursor = None
    if query:
        hits = await service.search_memories(**ids, query=query, limit=_MEMORIES_PER_PAGE)
        found = [(hit.memory, hit.score, hit.session_id) for hit in hits]
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
            "metadata": _metadata(mask, memory.custom_metadata, most=2_000),
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
    back = visit.text("back", most=MAX_FORM) or ""
    return visit.choose_reveal(revealed=visit.given.get("to") == "show", back=back)


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
        RefusedRequestError: one has no "=", or a name comes twice.
    """
    pairs = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    labels = {name.strip(): value.strip() for name, _, value in pairs}
    if any(not equals for _, equals, _ in pairs) or len(labels) < len(pairs):
        raise RefusedRequestError(
            400, "A label is written as name=value, and several, of other names, with commas between them."
        )
    return labels


def _text_of(content: Any) -> str:
    """Return the texts of a memory's content; other parts are named."""
    parts = (content and content.parts) or []
    return "\n".join(part.text if part.text is not None else "[a part that is not text]" for part in parts)


MAX_LISTED: Final = 500
"""Versions of one artifact on its page."""

ARTIFACTS_PER_PAGE: Final = 40
"""Artifacts on one page; each takes a listing of its versions."""

THUMBNAIL_BYTES: Final = 1024 * 1024
"""The largest picture that is shown in a list."""

_PIECE: Final = 1024 * 1024
_START: Final = 64


async def artifacts(visit: Visit) -> Response:
    """List the artifacts of a session and of its user; 2 listings, and 1 for each artifact of the page."""
    names = await names_for(visit.site.store.artifacts, **visit.place.ids)
    first = min(visit.number("first", 0), len(names))
    shown = names[first : first + ARTIFACTS_PER_PAGE]
    service = visit.site.store.artifacts
    found = await gather(service.list_artifact_versions(**visit.place.ids, filename=name) for name in shown)
    rows = [
        {"name": name, "count": len(versions), "newest": _newest(visit, versions)}
        for name, versions in zip(shown, found, strict=True)
    ]
    following = first + len(shown)
    return visit.page("artifacts.html", rows=rows, next=following if following < len(names) else None)


def _newest(visit: Visit, versions: Sequence[ArtifactVersion]) -> dict[str, Any] | None:
    """Return the newest version, which is a picture to show if it is small; ``None`` if it is gone since."""
    if not versions:
        return None
    row = _version(visit, versions[-1])
    is_small = row["size"] is not None and row["size"] <= THUMBNAIL_BYTES
    return row | {"pictured": visit.mask.lifted and is_small and row["mime_type"] in PICTURES}


async def artifact(visit: Visit) -> Response:
    """Show the versions of an artifact and one of them; 1 listing, and 2 requests for each text."""
    name = visit.required("name")
    key = {**visit.place.ids, "filename": name}
    found = await visit.site.store.artifacts.list_artifact_versions(**key)
    if not found:
        raise SessionMissingError("the artifact has no versions")
    versions = found[-MAX_LISTED:]
    number = visit.number("version", versions[-1].version)
    chosen = next((each for each in found if each.version == number), None)
    if chosen is None:
        raise SessionMissingError("the artifact has no such version")
    against = visit.text("against")
    values: dict[str, Any] = {"preview": "none", "is_cut": False}
    values |= dict.fromkeys(("text", "table", "difference"))
    reference = None
    if visit.mask.lifted:
        try:
            values |= await _preview(visit, key, chosen)
            if against is not None and values["text"] is not None:
                older = await _start(visit, key, visit.number("against", 0), MAX_TEXT_BYTES)
                values["difference"] = difference(text_of(older[0]), values["text"].text or "", visit.mask)
        except (InvalidInputError, SessionMissingError) as exc:
            reference = str(exc)  # the content is elsewhere, or was removed
    return visit.page(
        "artifact.html",
        name=name,
        chosen=_version(visit, chosen),
        versions=[_version(visit, each) for each in reversed(versions)],
        left=len(found) - len(versions),
        against=None if against is None else visit.number("against", 0),
        reference=reference,
        **values,
    )


async def content(visit: Visit) -> Response:
    """Return the bytes of a version, 2 requests, and 1 for each MiB more."""
    if not visit.mask.lifted:
        raise RefusedRequestError(403, "Content is masked.")
    name = visit.required("name")
    key = {**visit.place.ids, "filename": name}
    reader = await _opened(visit, key, visit.number("version", 0))
    start = await reader.read(_PIECE)
    return answer_stream(start, _rest(reader), name=name, size=reader.size)


async def _rest(reader: ArtifactReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(_PIECE):
        yield piece


async def _preview(visit: Visit, key: dict[str, Any], chosen: ArtifactVersion) -> dict[str, Any]:
    start, size = await _start(visit, key, chosen.version, MAX_TEXT_BYTES)
    preview = preview_of(chosen.mime_type or "", start[:_START])
    if preview not in ("text", "csv"):
        return {"preview": preview}
    text = text_of(start)
    table = table_of(text) if preview == "csv" else None
    shown = visit.mask.over(text, most=MAX_TEXT_BYTES)
    return {"preview": preview, "text": shown, "table": table, "is_cut": size > len(start)}


async def _start(visit: Visit, key: dict[str, Any], version: int, most: int) -> tuple[bytes, int]:
    """Return the first bytes of a version, and its size."""
    reader = await _opened(visit, key, version)
    return await reader.read(min(most, reader.size)), reader.size


async def _opened(visit: Visit, key: dict[str, Any], version: int) -> ArtifactReader:
    reader = await visit.site.store.artifacts.open_artifact(**key, version=version)
    if reader is None:
        raise SessionMissingError(
            "the artifact does not have this version, or a rewind or a restore removed its bytes"
        )
    return reader


def _version(visit: Visit, version: ArtifactVersion) -> dict[str, Any]:
    """Return a row of the list of versions."""
    return {
        "number": version.version,
        "mime_type": version.mime_type or "",
        "size": version.size if isinstance(version, StoredArtifactVersion) else None,
        "created": moment(version.create_time),
        "uri": version.canonical_uri,
        "metadata": _metadata(visit.mask, version.custom_metadata, most=5_000),
    }


def _metadata(mask: Mask, metadata: Mapping[str, Any] | None, *, most: int) -> Shown | None:
    return mask.over_json(metadata, most=most) if metadata else None

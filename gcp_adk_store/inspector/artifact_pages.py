"""Show artifacts: their versions, previews and differences."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from starlette.responses import Response

from gcp_adk_store.artifacts.files import ArtifactReader
from gcp_adk_store.artifacts.versions import StoredArtifactVersion
from gcp_adk_store.errors import InvalidInputError, SessionMissingError
from gcp_adk_store.inspector.conversation import difference, moment
from gcp_adk_store.inspector.masking import MAX_TEXT_BYTES, PICTURES, preview_of, table_of, text_of
from gcp_adk_store.inspector.site import RefusedRequestError, Visit, answer_stream
from gcp_adk_store.kernel.concurrency import gather

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
    names = await visit.site.store.artifacts.list_artifact_keys(**_ids(visit))
    first = min(visit.number("first", 0), len(names))
    shown = names[first : first + ARTIFACTS_PER_PAGE]
    service = visit.site.store.artifacts
    found = await gather(service.list_artifact_versions(**_ids(visit), filename=name) for name in shown)
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
    key = {**_ids(visit), "filename": name}
    found = await visit.site.store.artifacts.list_artifact_versions(**key)
    if not found:
        raise SessionMissingError("the artifact has no versions")
    versions = found[-MAX_LISTED:]
    number = visit.number("version", versions[-1].version)
    chosen = next((each for each in versions if each.version == number), None)
    if chosen is None:
        raise SessionMissingError("the artifact has no such version")
    against = visit.text("against")
    values: dict[str, Any] = {
        "preview": "none",
        "text": None,
        "table": None,
        "difference": None,
        "is_cut": False,
    }
    reference = None
    if visit.mask.lifted:
        try:
            values |= await _preview(visit, key, chosen)
            if against is not None and values["text"] is not None:
                older = await _start(visit, key, visit.number("against", 0), MAX_TEXT_BYTES)
                values["difference"] = difference(text_of(older[0]), values["text"].text or "", visit.mask)
        except InvalidInputError as exc:
            reference = str(exc)  # the content is elsewhere
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
    key = {**_ids(visit), "filename": name}
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
        raise SessionMissingError("the artifact has no such version, or a rewind removed it")
    return reader


def _ids(visit: Visit) -> dict[str, Any]:
    place = visit.place
    return {"app_name": place.app, "user_id": place.user, "session_id": place.session}


def _version(visit: Visit, version: ArtifactVersion) -> dict[str, Any]:
    """Return a row of the list of versions."""
    return {
        "number": version.version,
        "mime_type": version.mime_type or "",
        "size": version.size if isinstance(version, StoredArtifactVersion) else None,
        "created": moment(version.create_time),
        "uri": version.canonical_uri,
        "metadata": visit.mask.over_json(version.custom_metadata, most=5_000)
        if version.custom_metadata
        else None,
    }

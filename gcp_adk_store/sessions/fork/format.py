"""Encode forks, and rewrite what ADK noted of the source's session in their events."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from gcp_adk_store.codec.decode import unpack_text, unreferring
from gcp_adk_store.codec.documents import Layout, summary_fields
from gcp_adk_store.codec.encode import WHOLE, FieldValue, referring
from gcp_adk_store.codec.packing import in_batches
from gcp_adk_store.codec.segments import initial_fields, segment_write
from gcp_adk_store.codec.texts import members
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.model.appends import Summary
from gcp_adk_store.model.internal_metadata import RESTORED, is_internal
from gcp_adk_store.model.payloads import Payload, PayloadRef
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.lifecycle.format import history_fields

_FIELD: Final = "custom_metadata"
_MARK: Final = json.dumps(RESTORED) + ":true"


def text_elsewhere(text: str) -> str:
    """Return the event *text* as a session of other ids takes it over; without such metadata, *text* itself.

    See :func:`gcp_adk_store.model.internal_metadata.event_elsewhere`.
    """
    return _changed(text, _MARK)


def payload_elsewhere(text: str, ref: PayloadRef, data: bytes) -> tuple[str, Payload]:
    """Return the same for an event that is a payload as a whole: its new *text*, and its new payload.

    Raises:
        StoredDataError: *data*, the bytes of *ref*, is not an event.
    """
    whole = text_elsewhere(unpack_text(ref, data))
    payload = Payload.of(zlib.compress(whole.encode()), place=ref.place)
    return referring(unreferring(text), {WHOLE: payload.ref}), payload


def public_text(text: str) -> str:
    """Return the event *text* as people may see it: without such metadata."""
    return _changed(text)


def _changed(text: str, *more: str) -> str:
    """Return *text* with the members *more* in place of the metadata of ADK's, if it has any."""
    for name, _, start, end in reversed([*members(text, 0)]):
        if name != _FIELD or text[start] != "{":
            continue
        inner = [*members(text, start)]
        kept = [text[begin:stop] for key, begin, _, stop in inner if not is_internal(key)]
        if len(kept) < len(inner):
            text = f"{text[:start]}{{{','.join([*kept, *more])}}}{text[end:]}"
    return text


_BYTES_PER_COMMIT: Final = 3 * 1024 * 1024
"""With one document of 1 MiB more, a commit stays within the 4 MiB that the emulator takes."""

SEGMENTS_PER_COMMIT: Final = 400
"""Keeps the number of writes of a commit below 500, with paths of up to 6 kB."""


def fork_writes(
    layout: Layout,
    fork: StoredSession,
    segments: Sequence[Segment],
    *,
    summary: Summary,
    parts_at: int | None,
) -> tuple[Write, list[Write]]:
    """Return the write of the session document of *fork*, which must be absent, and those of *segments*."""
    paths = layout.segments(fork.key, fork.epoch, range(len(segments)))
    parts = [
        segment_write(path, segment, parts_at=parts_at) for path, segment in zip(paths, segments, strict=True)
    ]
    return made_header(layout, fork, summary=summary), parts


def made_header(layout: Layout, made: StoredSession, *, summary: Summary) -> Write:
    """Return the write of the document, which must be absent, of a session that begins with a history."""
    (header,) = layout.create(
        made.key,
        epoch=made.epoch,
        time=made.last_update_time if made.create_time is None else made.create_time,
        state=ScopedState(session=made.state),
        spilled=made.spilled,
        expiry=made.expiry,
    )
    fields: dict[str, FieldValue] = {
        **{
            name: value for name, value in header.fields.items() if name not in ("initial", "initial_payload")
        },
        **initial_fields(made.initial),
        "rev": made.revision,
        "last_update_time": made.last_update_time,
        **history_fields(made),
        **summary_fields(summary),
    }
    if made.origin is not None:
        fields["origin"] = asdict(made.origin)
    return replace(header, fields=fields)


def in_commits(parts: Sequence[Write]) -> list[list[Write]]:
    """Return the writes of segments, as many at a time as one commit takes beside the session document.

    Without any, it is one run of none.
    """
    return in_batches(parts, _length, size=_BYTES_PER_COMMIT, most=SEGMENTS_PER_COMMIT) or [[]]


def _length(part: Write) -> int:
    body = part.fields["body"]
    return len(body) if isinstance(body, bytes) else 0

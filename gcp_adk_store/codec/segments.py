"""Encode what a segment of a session holds: events, the initial state, counts of turns.

Titles, labels and texts are content: no other module names their fields, except as not indexed.
"""

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from gcp_adk_store.codec.decode import decode_state, event_timestamp, unpack_value
from gcp_adk_store.codec.encode import FieldValue, decode_ref, encode_ref, encode_state
from gcp_adk_store.codec.packing import pack_archive, pack_segment
from gcp_adk_store.codec.texts import to_json_bytes
from gcp_adk_store.codec.writes import FORMAT, Document, Filter, Must, Operator, Write, of_part, update
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.appends import digests_of
from gcp_adk_store.model.payloads import Payload, PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import Archived
from gcp_adk_store.model.sessions import Segment, StoredSession

ARCHIVED_FORMAT: Final = 3
"""Number of the layout of a segment whose events the bucket has. Older releases refuse it by this number."""

INITIAL_BYTES: Final = 64 * 1024
"""The largest initial state, as JSON, beside the present one, with which it shares a document of 1 MiB."""


def pack_initial(state: Mapping[str, Any], *, place: PayloadPlace, light: bool) -> Payload | None:
    """Return the payload of an initial *state*, ``None`` if its JSON is at most 64 KiB.

    References stand for its large values. One call encodes a *light* state.
    """
    text, _ = to_json_bytes(encode_state(state), light=light)
    return Payload.of(zlib.compress(text), place=place) if len(text) > INITIAL_BYTES else None


def unpack_initial(ref: PayloadRef, data: bytes) -> dict[str, Any]:
    """Return the state that :func:`pack_initial` packed.

    Raises:
        StoredDataError: *data* is damaged.
    """
    fields = unpack_value(ref, data)
    if not isinstance(fields, dict):
        raise StoredDataError(f"payload {ref} is not an initial state")
    return decode_state(fields)


def initial_fields(initial: Mapping[str, Any] | PayloadRef | None) -> dict[str, FieldValue]:
    """Return the field of an initial state, or of the payload that holds it; none if it is unknown."""
    if isinstance(initial, PayloadRef):
        return {"initial_payload": encode_ref(initial)}
    return {} if initial is None else {"initial": encode_state(initial)}


def archived_fields(archived: Archived) -> dict[str, FieldValue]:
    """Return the field that counts the archived events of a session; none without any."""
    if not archived.events:
        return {}
    return {"archived": {"events": archived.events, "segments": archived.segments}}


def conflict_fields(conflicts: int) -> dict[str, FieldValue]:
    """Return the field that counts conflicts with appends; none without any."""
    return {"conflicts": conflicts} if conflicts else {}


SHOWN_FIELDS: Final = ("title", "labels", "last_text")
"""The content that listings show of a session."""

DESCRIPTION_FIELDS: Final = ("title", "labels", "label_set")
"""All fields of :func:`description_fields`."""

LABEL_SET: Final = "label_set"
"""The field with the labels as an array, so that one index serves all names of labels."""


def description_fields(title: str | None, labels: Mapping[str, str]) -> dict[str, FieldValue]:
    """Return the fields of a title and labels; those that are left out must not be in the document."""
    fields: dict[str, FieldValue] = {} if title is None else {"title": title}
    if labels:
        fields |= {"labels": {**labels}, LABEL_SET: [_joined(*label) for label in labels.items()]}
    return fields


def label_filter(name: str, value: str) -> Filter:
    """Return the filter for documents that have a label."""
    return Filter(field=LABEL_SET, operator=Operator.CONTAINS, value=_joined(name, value))


def _joined(name: str, value: str) -> str:
    return name + "=" + value  # names have no "="


_LARGEST_BODY: Final = 512 * 1024
"""The largest body with a window beside it, both far below the 1 MiB of a document."""


def segment_write(path: str, segment: Segment, *, parts_at: int | None) -> Write:
    """Return the write of a new segment."""
    body = pack_segment(segment.texts)
    has_window = segment.window and len(body) <= _LARGEST_BODY
    return Write(
        path=path,
        fields={
            "format": FORMAT,
            "body": body,
            **({"window": segment.window} if has_window else {}),
            "count": len(segment.texts),
            "running_max": segment.running_max,
            "chain_begin": segment.chain_begin,
            "chain_end": segment.chain_end,
            "digests": b"".join(digests_of(segment.texts) if segment.digests is None else segment.digests),
            **initial_fields(segment.initial),
            **conflict_fields(segment.conflicts),
            **of_part(parts_at),
        },
        must=Must.BE_ABSENT,
    )


def sealed_tail(stored: StoredSession, window: bytes) -> Segment:
    """Return the segment that the tail of *stored* becomes, with the *window* of the events before it."""
    timestamps = [event_timestamp(text) for text in stored.tail]
    if stored.sealed_max is not None:
        timestamps.append(stored.sealed_max)
    return Segment(
        texts=stored.tail,
        running_max=max(timestamps),
        chain_begin=stored.chain_sealed,
        chain_end=stored.chain,
        initial=None if stored.live else stored.initial,
        digests=stored.digests,
        window=window,
        conflicts=stored.conflicts,
    )


def rewritten(path: str, segment: Segment, *, must: str) -> Write:
    """Return the write that puts markers into a segment, which has so many events as before.

    The document of an archived segment holds its events again, and still names the archive that is to go.
    """
    return update(path, {"body": pack_segment(segment.texts)}, must=must)


def archive_payload(segment: Segment) -> Payload:
    """Return the payload that holds the events of *segment* when they are archived; they decide its name.

    Raises:
        StoredDataError: an event has a line break in its JSON, which no release wrote.
    """
    return Payload.of(pack_archive(segment.texts), place=PayloadPlace.BUCKET)


ARCHIVE_FIELDS: Final = ("format", "archive")
"""What is read of a segment to learn which archive it names."""


def archive_named(segment: Document) -> PayloadRef | None:
    """Return the archive that *segment* names, also one that a redaction is about to remove.

    Raises:
        StoredDataError: the reference is damaged.
    """
    found = segment.fields.get("archive")
    if found is None:
        return None
    if not isinstance(found, dict):
        raise StoredDataError(f"archive of {segment.path} is {type(found).__name__}, and no map")
    return decode_ref(found, what=f"archive of {segment.path}")


def archives_named(segments: Sequence[Document | None]) -> set[PayloadRef]:
    """Return the archives that those of *segments* name that are there; a damaged one names none."""
    refs: set[PayloadRef | None] = set()
    for document in segments:
        with suppress(StoredDataError):
            refs.add(None if document is None else archive_named(document))
    return {ref for ref in refs if ref is not None}


def archived(path: str, archive: PayloadRef, *, must: str) -> Write:
    """Return the write after which the payload *archive* holds the events of a segment, in their order."""
    fields: dict[str, FieldValue] = {"format": ARCHIVED_FORMAT, "archive": encode_ref(archive)}
    return update(path, fields, must=must, without=["body"])


def without_window(path: str, *, must: str) -> Write:
    """Return the write that removes the window of a segment; a read takes more segments then."""
    return update(path, {}, must=must, without=["window"])

"""Encode the documents of segments."""

from gcp_adk_store.codec.events import event_timestamp
from gcp_adk_store.codec.fields import FORMAT, of_part, update
from gcp_adk_store.codec.initial import initial_fields
from gcp_adk_store.codec.packing import pack_segment
from gcp_adk_store.codec.writes import Must, Write
from gcp_adk_store.model.redactions import digests_of
from gcp_adk_store.model.sessions import Segment, StoredSession


def segment_write(path: str, segment: Segment, *, parts_at: int | None) -> Write:
    """Return the write of a new segment."""
    return Write(
        path=path,
        fields={
            "format": FORMAT,
            "body": pack_segment(segment.texts),
            "count": len(segment.texts),
            "running_max": segment.running_max,
            "chain_begin": segment.chain_begin,
            "chain_end": segment.chain_end,
            "digests": b"".join(digests_of(segment.texts) if segment.digests is None else segment.digests),
            **initial_fields(segment.initial),
            **of_part(parts_at),
        },
        must=Must.BE_ABSENT,
    )


def sealed_tail(stored: StoredSession) -> Segment:
    """Return the segment that the tail of *stored* becomes."""
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
    )


def rewritten(path: str, segment: Segment, *, must: str) -> Write:
    """Return the write that puts markers into a segment, which has so many events as before."""
    return update(path, {"body": pack_segment(segment.texts)}, must=must)

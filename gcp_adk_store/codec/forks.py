"""Lay out the documents of a fork: a session with a history, and the note of one that is not complete yet."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Final

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.fields import FORMAT, places
from gcp_adk_store.codec.initial import initial_fields
from gcp_adk_store.codec.segments import segment_write
from gcp_adk_store.codec.summaries import summary_fields
from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Delete, Must, Write
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.redactions import digests_of
from gcp_adk_store.model.sessions import Segment, StoredSession
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.model.summaries import Summary

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
        "chain": made.chain,
        "chain_sealed": made.chain_sealed,
        "tail": list(made.tail),
        "digests": digests_of(made.tail),
        "tail_bytes": sum(len(text.encode()) for text in made.tail),
        "sealed": made.sealed,
        "sealed_max": made.sealed_max,
        **summary_fields(summary),
    }
    if made.origin is not None:
        fields["origin"] = asdict(made.origin)
    return replace(header, fields=fields)


def in_commits(parts: Sequence[Write]) -> Iterator[list[Write]]:
    """Yield the writes of segments, as many at a time as one commit takes beside the session document."""
    some: list[Write] = []
    size = 0
    for part in parts:
        body = part.fields["body"]
        length = len(body) if isinstance(body, bytes) else 0
        if some and (size + length > _BYTES_PER_COMMIT or len(some) == SEGMENTS_PER_COMMIT):
            yield some
            some, size = [], 0
        some.append(part)
        size += length
    yield some


def note_write(
    layout: Layout,
    key: SessionKey,
    epoch: str,
    *,
    sealed: int,
    spilled: frozenset[PayloadPlace],
    artifacts: bool,
    before: str | None,
) -> Write:
    """Return the write of the note of a fork that has *sealed* segments so far.

    Older releases refuse its format: they would remove the parts of a fork that is under way.

    Args:
        layout: The paths.
        key: The fork.
        epoch: Of the fork.
        sealed: The number of its segments that are written with the note or before.
        spilled: Places of its payloads.
        artifacts: Whether artifacts are copied.
        before: The required update time of the note; ``None`` for the first note.
    """
    return Write(
        path=layout.note(key, epoch),
        fields={
            "format": FORMAT,
            "epoch": epoch,
            "sealed": sealed,
            "making": True,
            "artifacts": artifacts,
            **places(spilled),
        },
        must=Must.BE_ABSENT if before is None else before,
    )


def note_removal(layout: Layout, key: SessionKey, epoch: str, *, before: str) -> Delete:
    """Return the removal of the note of a fork, in the commit that completes it."""
    return Delete(path=layout.note(key, epoch), must=before)


def claim(layout: Layout, key: SessionKey, epoch: str, *, before: str) -> Write:
    """Return the write after which a fork can no longer be completed, so that its parts can be removed."""
    return Write(path=layout.note(key, epoch), fields={"making": False}, mask=[("making",)], must=before)

"""Decide what a fork takes over from the session that it begins with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gcp_adk_store.model.history import fold
from gcp_adk_store.model.sessions import Segment

Versions = Mapping[str, int]
"""Filename -> number of a version, as the ``artifact_delta`` of an event names it."""


def kept_segments(
    segments: Sequence[Segment], tail: Sequence[str], count: int
) -> tuple[list[Segment], list[str]]:
    """Return the whole segments among the first *count* events, and the texts of the events after them."""
    kept: list[Segment] = []
    for segment in segments:
        if count < len(segment.texts):
            return kept, list(segment.texts[:count])
        kept.append(segment)
        count -= len(segment.texts)
    return kept, list(tail[:count])


def chained(segments: Iterable[Segment], head: bytes) -> list[Segment]:
    """Return *segments* with the heads of a chain that begins with *head*."""
    found: list[Segment] = []
    for segment in segments:
        end = fold(head, segment.texts)
        found.append(replace(segment, chain_begin=head, chain_end=end))
        head = end
    return found


def versions_at(
    saved: Mapping[str, Mapping[int, float]],
    *,
    kept: Iterable[Versions],
    later: Iterable[Versions],
    time: float,
) -> set[tuple[str, int]]:
    """Return the versions of artifacts that a session has at a point.

    A version up to the highest that an event before the point names is there. One that an event after the
    point names first is not, and neither are those after it. Any other was saved outside of events: it is
    there if it was saved at *time* at the latest.

    Args:
        saved: Filename -> version -> Unix time of its save, in seconds.
        kept: What the events before the point name, in append order.
        later: What the events after the point name, in append order.
        time: Unix time of the last event before the point, or of the session's creation.
    """
    named: dict[str, int] = {}
    for versions in kept:
        for filename, version in versions.items():
            named[filename] = max(version, named.get(filename, -1))
    undone: dict[str, int] = {}
    for versions in later:
        for filename, version in versions.items():
            if version > named.get(filename, -1):
                undone[filename] = min(version, undone.get(filename, version))
    return {
        (filename, version)
        for filename, times in saved.items()
        for version, saved_at in times.items()
        if version <= named.get(filename, -1)
        or (saved_at <= time and (filename not in undone or version < undone[filename]))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PastArtifacts:
    """What the events of a session say of its artifacts at a point."""

    kept: Sequence[Versions]
    """What the events before the point name, in append order."""
    later: Sequence[Versions]
    """What the events after it name."""
    time: float | None
    """Unix time of the last event before the point, or of the creation; ``None`` for the present."""

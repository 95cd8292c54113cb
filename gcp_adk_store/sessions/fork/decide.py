"""Decide what a fork takes over from the session that it begins with."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gcp_adk_store.model.appends import fold
from gcp_adk_store.model.sessions import Segment, whole_segments


def spread(segments: Sequence[Segment], texts: Sequence[str]) -> tuple[list[Segment], list[str]]:
    """Return those of *segments* that *texts*, the first events of a session, fill, and the texts after them.

    They hold the *texts*, of which some may be other words for the events.
    """
    found: list[Segment] = []
    start = 0
    for segment in segments[: whole_segments(segments, len(texts))[0]]:
        end = start + len(segment.texts)
        found.append(replace(segment, texts=texts[start:end]))
        start = end
    return found, [*texts[start:]]


def chained(segments: Iterable[Segment], head: bytes) -> list[Segment]:
    """Return *segments* with the heads of a chain that begins with *head*, and without windows.

    A fork stores some events in other words, such as references to its own payloads.
    """
    found: list[Segment] = []
    for segment in segments:
        end = fold(head, segment.texts)
        found.append(replace(segment, chain_begin=head, chain_end=end, digests=None, window=b""))
        head = end
    return found

"""Decide what a fork takes over from the session that it begins with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gcp_adk_store.model.history import fold
from gcp_adk_store.model.sessions import Segment


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


def with_texts(
    segments: Sequence[Segment], tail: Sequence[str], changed: Mapping[int, str]
) -> tuple[list[Segment], list[str]]:
    """Return *segments* and *tail* with the *changed* texts in place of those of the same numbers."""
    if not changed:
        return [*segments], [*tail]
    found: list[Segment] = []
    start = 0
    for segment in segments:
        texts = [changed.get(number, text) for number, text in enumerate(segment.texts, start)]
        found.append(replace(segment, texts=texts))
        start += len(texts)
    return found, [changed.get(number, text) for number, text in enumerate(tail, start)]


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

"""Decide what the fields of a session become when it goes back to a point."""

from collections.abc import Sequence
from dataclasses import replace

from gcp_adk_store.model.appends import fold, genesis
from gcp_adk_store.model.session_fields import Archived, cut_from
from gcp_adk_store.model.sessions import Segment, StoredSession, whole_segments


def followed_by(session: StoredSession, texts: Sequence[str]) -> StoredSession:
    """Return *session* with the events *texts* after its last one."""
    return replace(
        session,
        revision=session.revision + len(texts),
        chain=fold(session.chain, texts),
        tail=[*session.tail, *texts],
    )


def rewound(stored: StoredSession, segments: Sequence[Segment], kept: int) -> StoredSession:
    """Return what *stored* becomes if it keeps its first *kept* events; *segments* are its live ones.

    A segment with events of both sides of the point is cut off, and the tail takes those before it. The tail
    gets a number of its own, so that a place in the old tail is never taken for one in the new one. The
    revision falls by the number of events that are lost. The chain goes back to its head at the point. The
    initial state is there if the document takes it back from a segment. State and times stay as they are.
    If only archived events are left, a read of all has them again.
    """
    total = sum(len(segment.texts) for segment in segments) + len(stored.tail)
    whole, start = whole_segments(segments, kept)
    source = segments[whole].texts if whole < len(segments) else stored.tail
    tail = source[: kept - start]
    first = stored.live[whole] if whole < len(segments) else stored.sealed
    begin = segments[whole - 1].chain_end if whole else genesis(stored.epoch)
    return replace(
        stored,
        revision=stored.revision - (total - kept),
        chain=fold(begin, tail),
        chain_sealed=begin,
        tail=tail,
        sealed=stored.sealed + 1,
        sealed_max=segments[whole - 1].running_max if whole else None,
        cut=cut_from(first, sealed=stored.sealed, cut=stored.cut),
        initial=segments[0].initial if segments and not whole else None,
        archived=stored.archived if kept >= stored.archived.events else Archived(),
    )

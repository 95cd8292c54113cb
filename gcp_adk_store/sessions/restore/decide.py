"""Decide what the fields of a session become when it goes back to a point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gcp_adk_store.model.history import fold, genesis
from gcp_adk_store.model.payloads import PayloadRef
from gcp_adk_store.model.session_fields import Cut, cut_from, runs_of
from gcp_adk_store.model.sessions import Segment, StoredSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """The history of a session after a restore."""

    revision: int
    chain: bytes
    chain_sealed: bytes
    tail: Sequence[str]
    sealed: int
    sealed_max: float | None
    cut: Cut
    removed: Cut
    """The numbers of the segments that this restore cuts off."""
    initial: Mapping[str, Any] | PayloadRef | None
    """The initial state, if the document takes it back from a segment."""


def behind(rewound: Rewound, texts: Sequence[str]) -> Rewound:
    """Return *rewound* with the events *texts* after its last one."""
    return replace(
        rewound,
        revision=rewound.revision + len(texts),
        chain=fold(rewound.chain, texts),
        tail=[*rewound.tail, *texts],
    )


def rewound(stored: StoredSession, segments: Sequence[Segment], kept: int) -> Rewound:
    """Return what *stored* becomes if it keeps its first *kept* events; *segments* are its live ones.

    A segment with events of both sides of the point is cut off, and the tail takes those before it. The tail
    gets a number of its own, so that a place in the old tail is never taken for one in the new one. The
    revision falls by the number of events that are lost. The chain goes back to its head at the point.
    """
    live = stored.live
    total = sum(len(segment.texts) for segment in segments) + len(stored.tail)
    whole, start = 0, 0
    while whole < len(segments) and start + len(segments[whole].texts) <= kept:
        start += len(segments[whole].texts)
        whole += 1
    source = segments[whole].texts if whole < len(segments) else stored.tail
    tail = source[: kept - start]
    first = live[whole] if whole < len(segments) else stored.sealed
    cut = cut_from(first, sealed=stored.sealed, cut=stored.cut)

    revision = stored.revision - (total - kept)
    begin = segments[whole - 1].chain_end if whole else genesis(stored.epoch)
    return Rewound(
        revision=revision,
        chain=fold(begin, tail),
        chain_sealed=begin,
        tail=tail,
        sealed=stored.sealed + 1,
        sealed_max=segments[whole - 1].running_max if whole else None,
        cut=cut,
        removed=runs_of(live[whole:]),
        initial=segments[0].initial if segments and not whole else None,
    )

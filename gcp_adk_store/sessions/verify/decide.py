"""Decide and describe whether the events of a session are those that were appended."""

import enum
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gcp_adk_store.model.appends import digests_of
from gcp_adk_store.model.keys import SessionKey

_BINDING: Final = b"gcp-adk-store/anchor/2\0"


class HistoryChange(enum.StrEnum):
    """What became of the first event that is not proven."""

    CHANGED = "changed"
    DROPPED = "dropped"
    SWAPPED = "swapped"
    CUT = "cut"
    """It was the last one of its document, or others were after it, too."""
    ADDED = "added"
    """It was never appended."""
    REDACTED = "redacted"
    """A marker stands in its place that no redaction in the chain explains."""
    MISSING = "missing"
    """Its segment is gone, or cannot be read."""
    REWRITTEN = "rewritten"
    """Its chain is another one than the one that was kept elsewhere."""
    MOVED = "moved"
    """Its anchors are those of a session of another app, user or id."""
    UNKNOWN = "unknown"
    """It is among the events of the run; their digests were changed, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBreak:
    """Where the events of a session stop being proven: those before are as they were appended."""

    position: int
    """Number of the first event that is not proven, from 0."""
    last: int
    """Number of the last event that it may be; equal to *position* if this event is certainly not the one
    that was appended here; below it if the events are missing."""
    event_id: str
    """Id of the event that is there; empty if it is missing or cannot be read."""
    path: str
    """The document that holds it: ids, never content."""
    change: HistoryChange
    says: str
    """What is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedEvent:
    """A redacted event of a history, and what proves its redaction."""

    position: int
    """Number of the event, from 0."""
    event_id: str
    sha256: str
    """Hash of the event that stood there, in hex digits."""
    is_audited: bool
    """Whether a later event of the chain reports the redaction, as the marker has it."""
    is_bound: bool
    """Whether that event has the hash of the marker; those of release 0.1 do not."""
    is_anchored: bool | None = None
    """Whether an anchor proves that event; ``None`` if the history was compared with none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryProof:
    """What the hash chain of a session proves."""

    app_name: str
    user_id: str
    session_id: str
    events: int
    """Number of stored events."""
    head: str
    """The head of the chain after the last event, in hex digits. Keep it with *events*
    outside of the store, and pass both to a later call: then nobody can rewrite the events unnoticed."""
    broken: HistoryBreak | None
    """The first place that is not proven; ``None`` if all events are."""
    redacted: tuple[RedactedEvent, ...] = ()
    """The events that were redacted, oldest first."""
    anchors: int | None = None
    """Number of anchors that the history was compared with; ``None`` if it was compared with none."""
    anchored: int | None = None
    """Number of the first events that the newest anchor proves; ``None`` if it was compared with none."""
    unbound: int | None = None
    """How many of the anchors do not say whose session they are of: those of release 0.1. ``None`` if it was
    compared with none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The head of a session's chain, kept where it cannot be changed. It names nobody."""

    epoch: str
    """Random; identifies the session."""
    revision: int
    """The value of ``rev`` then."""
    head: str
    """The head then, in hex digits."""
    binding: str | None
    """:func:`binding_of` the session, in hex digits; ``None`` if release 0.1 made the anchor."""


def binding_of(key: SessionKey, epoch: str) -> str:
    """Return what an anchor keeps of whose session it is of: a hash of the ids and the random *epoch*.

    It names nobody by itself. Whoever guesses all ids can confirm the guess.
    """
    ids = (text.encode("utf-8", "surrogatepass") for text in (epoch, key.app, key.user, key.session))
    return hashlib.sha256(_BINDING + b"".join(b"%d\0%b" % (len(one), one) for one in ids)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorReport:
    """What a call of ``anchor`` did."""

    sessions: int
    """Sessions that it looked at, without those that have ended."""
    written: int
    """Anchors that it wrote; a session whose head is anchored already needs none."""
    unreadable: int
    """Sessions whose document cannot be read."""


def first_difference(texts: Sequence[str], digests: Sequence[bytes]) -> tuple[int, HistoryChange] | None:
    """Return the first of *texts* that is not what was appended, as *digests* show; ``None`` if all are."""
    if not digests:
        return None
    found = digests_of(texts)
    for number, (now, was) in enumerate(zip(found, digests, strict=False)):
        if now == was:
            continue
        if was in found[number + 1 :]:
            return number, HistoryChange.SWAPPED if now in digests else HistoryChange.ADDED
        return number, HistoryChange.DROPPED if now in digests[number + 1 :] else HistoryChange.CHANGED
    if len(found) < len(digests):
        return len(found), HistoryChange.CUT
    if len(found) > len(digests):
        return len(digests), HistoryChange.ADDED
    return None


def unfit_anchor(anchors: Sequence[Anchor], heads: Mapping[str, int]) -> tuple[Anchor | None, int]:
    """Return the first anchor whose head a history does not have, and how many events those before prove.

    *heads* are all heads of the chain, each with the number of events before it.
    """
    proven = 0
    for anchor in sorted(anchors, key=lambda one: one.revision):
        if anchor.head not in heads:
            return anchor, proven
        proven = max(proven, heads[anchor.head])
    return None, proven

"""Decide the outcome of an append on a stored session, and which events a read needs."""

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.errors import InvalidInputError, require_number
from gcp_adk_store.model.appends import Append, Marker, Turns, holds
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace, PayloadRef
from gcp_adk_store.model.session_fields import Archived, Cut, Expiry, Turn, live_numbers


class HasTimestamp(Protocol):
    """An item that a read selects by its time."""

    @property
    def timestamp(self) -> float:
        """Unix time in seconds."""
        ...


Timed = TypeVar("Timed", bound=HasTimestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The session and the point that a fork began with. The session may be gone since."""

    app: str
    user: str
    session: str
    epoch: str
    """Distinguishes the session from a later one with the same id."""
    position: int
    """The number of events that the fork took over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session document at the time of its read."""

    key: SessionKey
    epoch: str
    revision: int
    last_update_time: float
    state: Mapping[str, Any]
    tail: Sequence[str]
    """JSON texts of the newest events, in append order."""
    sealed: int
    """The number of the next segment; each number below it was taken by a segment, or is in *cut*."""
    sealed_max: float | None
    """Newest timestamp in the live segments, ``None`` without any."""
    spilled: frozenset[PayloadPlace]
    """Places of the session's payloads."""
    update_time: str
    read_time: float
    """Firestore's time of the read, as Unix time in seconds."""
    chain: bytes
    """The head of its chain."""
    expiry: Expiry | None = None
    """Its expiry, ``None`` without a time to live."""
    chain_sealed: bytes = b""
    """The head at the end of its newest segment; empty in a read without the tail."""
    initial: Mapping[str, Any] | PayloadRef | None = None
    """Its state at its creation or its payload; ``None`` if unknown or in its first live segment."""
    create_time: float | None = None
    """Unix time in seconds; ``None`` in a read without the tail."""
    turn: Turn | None = None
    """Its turn, ``None`` for one that never had any."""
    inbox: Sequence[str] = ()
    """The messages that wait for a turn, in order; empty in a listing."""
    origin: Origin | None = None
    """The session that it was forked from; ``None`` if it was created."""
    restores: int = 0
    """How often it was restored."""
    restore_id: str | None = None
    """Identifies the last restore; ``None`` without one, and in a read without the tail."""
    cut: Cut = ()
    """Numbers that restores cut off."""
    turns: Turns | None = None
    """Its turns; ``None`` if they are unknown: it had events before the store counted turns."""
    redactions: int = 0
    """How often events of it were redacted: what was read of its segments before is out of date."""
    digests: Sequence[bytes] = ()
    """:func:`~gcp_adk_store.model.appends.digests_of` the tail; empty in a read without it."""
    archived: Archived = field(default_factory=Archived)
    """Its oldest events, which a read of all leaves out."""
    conflicts: int = 0
    """Conflicts with its appends since its newest segment; 0 in a listing."""

    @property
    def live(self) -> Sequence[int]:
        """Numbers of the segments that hold its older events, oldest first."""
        return live_numbers(self.sealed, self.cut)

    @property
    def unarchived(self) -> Sequence[int]:
        """Numbers of the live segments with events that are not archived, oldest first."""
        return [number for number in self.live if number >= self.archived.segments]

    @property
    def marker(self) -> Marker:
        """The marker of a handle that read exactly this document."""
        return Marker(
            epoch=self.epoch,
            revision=self.revision,
            update_time=self.update_time,
            expiry=self.expiry,
            chain=self.chain,
            fence=self.turn.fence if self.turn is not None else 0,
            restores=self.restores,
            turns=self.turns,
            redactions=self.redactions,
        )

    @property
    def has_expired(self) -> bool:
        """Whether the session had expired at the read, although Firestore still had its document."""
        return self.marker.has_expired(self.read_time)

    @property
    def is_in_turn(self) -> bool:
        """Whether a turn of it ran at the read."""
        return self.turn is not None and self.turn.is_held(self.read_time)

    @property
    def expires_at(self) -> float:
        """When it ends unless others append, as Unix time in seconds; infinite without a time to live."""
        if self.expiry is None:
            return math.inf
        return self.expiry.ends_at(written_at=float(self.update_time or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A sealed run of a session's events, which only a redaction changes."""

    texts: Sequence[str]
    running_max: float
    """The newest timestamp of this segment and all before it; a read of later events skips them."""
    chain_begin: bytes
    """The head of the session's chain before these events."""
    chain_end: bytes
    """The head after them."""
    initial: Mapping[str, Any] | PayloadRef | None = None
    """In the first live segment, the session's state at its creation or its payload, if known."""
    digests: Sequence[bytes] | None = None
    """:func:`~gcp_adk_store.model.appends.digests_of` the events, as they were when they were
    appended; ``None`` for those of *texts*."""
    window: bytes = b""
    """What a read since the newest summary keeps of the events before these, packed; empty if unknown."""
    archive: PayloadRef | None = None
    """What holds the events in the bucket; ``None`` if the segment's document does."""
    old_archive: PayloadRef | None = None
    """What held them before a redaction; it has an event's content until it is removed."""
    conflicts: int = 0
    """Conflicts with appends while the tail held these events."""


def whole_segments(segments: Sequence[Segment], count: int) -> tuple[int, int]:
    """Return how many of *segments* have no event after their first *count* ones, and how many these hold."""
    held = 0
    for number, segment in enumerate(segments):
        if held + len(segment.texts) > count:
            return number, held
        held += len(segment.texts)
    return len(segments), held


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlace:
    """A place between two events of a session.

    Sealing the tail does not change it: the tail has the number of its later segment. A restore gives the
    tail another number, and cuts off the one that it had.
    """

    segment: int = 0
    offset: int = 0
    """The number of events of the segment before this place."""


class AppendOutcome(enum.Enum):
    """The outcome of an append that was refused or not answered."""

    LANDED = "it is stored"
    OVERTAKEN = "it is stored, and others were appended after it"
    MISSING = "the session is gone"
    RETRY = "it is not stored, and nothing stands against sending it again"
    STALE = "it is not stored, and another writer was first"
    LOST = "it is not stored, and its turn has ended"
    HELD = "it was stored before, and the session is as the handle knows it"
    PARTLY = "some of its events were stored before, by another delivery"
    RESTORED = "it is not stored, and the session was restored to an earlier point"


def resolve_outcome(
    append: Append,
    *,
    marker: Marker,
    stored: StoredSession | None,
    newest: Sequence[str],
    turn: tuple[str, int] | None = None,
) -> AppendOutcome:
    """Return the outcome of *append*, which required *marker*, from the session as it is *stored* now.

    *newest* are its newest events, in append order: all of its tail, and as many as
    :func:`events_to_resolve` says. A session that does not exist is ``None``. *turn* is the epoch and the
    fence of the turn that the append is part of, if any.
    """
    if stored is None or stored.epoch != marker.epoch:
        return AppendOutcome.MISSING
    is_lost = turn is not None and turn != (stored.epoch, stored.marker.fence)
    count = len(append.texts)
    held = [holds(newest, text) for text in append.texts]
    if stored.restores != marker.restores:  # revisions before and after it do not compare
        # One commit stores all of them or none; the restore may have cut off the later ones.
        outcome = AppendOutcome.OVERTAKEN if held[0] else AppendOutcome.RESTORED
    elif stored.revision == marker.revision + count and [*append.texts] == [*newest[-count:]]:
        outcome = AppendOutcome.LANDED
    elif all(held):
        outcome = AppendOutcome.HELD if stored.revision == marker.revision else AppendOutcome.OVERTAKEN
    elif any(held):
        outcome = AppendOutcome.PARTLY
    else:  # of the same revision, another process only sealed the tail
        outcome = AppendOutcome.RETRY if stored.revision == marker.revision else AppendOutcome.STALE
    has_landed = outcome in (AppendOutcome.LANDED, AppendOutcome.OVERTAKEN, AppendOutcome.HELD)
    return AppendOutcome.LOST if is_lost and not has_landed else outcome


def events_to_resolve(marker: Marker, stored: StoredSession) -> int | None:
    """Return how many of the newest events may be an append that required *marker*; ``None`` is all.

    A restore may have kept it, and others may have appended since. A repair, or damage, may have set the
    revision back: then it is unknown how many were appended. Only events move the head of the chain.
    """
    later = stored.revision - marker.revision
    if stored.restores != marker.restores or later < 0 or (later == 0 and stored.chain != marker.chain):
        return None
    return later


History: TypeAlias = Literal["full", "since_compaction"]
"""``full``: all events. ``since_compaction``: those that ADK still needs once summaries cover the others."""


class HistoryConfig(GetSessionConfig):
    """ADK's ``GetSessionConfig`` with a *history* of its own, for one ``get_session`` or one run.

    A run takes it as ``RunConfig(get_session_config=HistoryConfig(history="full"))``. With
    ``since_compaction`` it has neither ``num_recent_events`` nor ``after_timestamp``.
    """

    history: History = "full"


_SINCE_COMPACTION: Final = HistoryConfig(history="since_compaction")


def read_of(config: GetSessionConfig | None, history: History) -> GetSessionConfig | None:
    """Return what a read with *config* asks for, of a service whose reads return *history* by default.

    A *config* that chooses events itself goes before.

    Raises:
        InvalidInputError: *config* asks for the events since a compaction, and chooses events itself, too; or
            its ``after_timestamp`` is NaN, of which ADK's services make all events, none or an error.
    """
    chooses = config is not None and (
        config.num_recent_events is not None or config.after_timestamp is not None
    )
    if config is not None:
        require_number("after_timestamp", config.after_timestamp)
    if isinstance(config, HistoryConfig):
        if chooses and config.history != "full":
            raise InvalidInputError(
                f"config has history={config.history!r}, and num_recent_events or after_timestamp: give one"
            )
        return config
    return config if chooses or history == "full" else _SINCE_COMPACTION


def wants_events(config: GetSessionConfig | None) -> bool:
    """Return whether a read asks for any event."""
    return config is None or config.num_recent_events != 0


def wants_all_events(config: GetSessionConfig | None) -> bool:
    """Return whether a read asks for the whole history."""
    return config is None or (config.num_recent_events is None and config.after_timestamp is None)


def wants_older(config: GetSessionConfig | None, *, have: int, running_max: float | None) -> bool:
    """Return whether segments not read yet may hold events that *config* asks for.

    The segments read so far *have* so many events that pass the filter; *running_max* is the newest timestamp
    in those not read yet.
    """
    if config is None:
        return True
    if config.num_recent_events is not None and have >= config.num_recent_events:
        return False
    return config.after_timestamp is None or running_max is None or running_max >= config.after_timestamp


def select_events(events: Sequence[Timed], config: GetSessionConfig | None) -> list[Timed]:
    """Return the events that *config* asks for, in append order.

    It selects events at or after ``after_timestamp`` one by one (timestamps may be out of order), then the
    last ``num_recent_events`` of them.
    """
    chosen = list(events)
    if config is not None and config.after_timestamp is not None:
        chosen = [event for event in chosen if event.timestamp >= config.after_timestamp]
    if config is not None and config.num_recent_events is not None:
        del chosen[: max(0, len(chosen) - config.num_recent_events)]
    return chosen

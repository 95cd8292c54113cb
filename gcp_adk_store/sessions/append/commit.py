"""Encode events, and append them to sessions, each exactly once."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from google.adk.events import Event

from gcp_adk_store.codec.encode import EncodedEvent, Spilled, bounds_of, encode_event, spill_scopes
from gcp_adk_store.codec.writes import Write, Written
from gcp_adk_store.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionMissingError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.transact import CHANGED, Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.appends import Append, Marker, text_of, turns_of
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.session_fields import Expiry, Turn
from gcp_adk_store.model.sessions import AppendOutcome, StoredSession, events_to_resolve, resolve_outcome
from gcp_adk_store.model.state import is_light, own, persistent, split_scopes
from gcp_adk_store.sessions.append.recorder import SessionRecorder
from gcp_adk_store.sessions.append.turn import HeldTurn
from gcp_adk_store.settings import SessionLimits

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedAppend:
    """An event on its way into storage."""

    append: Append
    change: Spilled
    """Its change of state, and all payloads that must be written before it."""
    delta: dict[str, Any]
    """The part of its change of state that is stored, as the event keeps it."""
    state: dict[str, Any]
    """The same as the caller's session keeps it: with the caller's own maps and lists, if JSON does not
    change them. ADK records what an agent writes into one of them while the session holds that object."""
    encoded: EncodedEvent

    def held(self, event: Event) -> Event:
        """Return *event* as a later read returns it: the same object if JSON does not change it."""
        # Comparing a large event would block the event loop.
        return event if not self.encoded.is_payload and event == self.encoded.event else self.encoded.event


class EventEncoder:
    """Limits that events and state are encoded within, and where their payloads go."""

    def __init__(self, limits: SessionLimits, place: PayloadPlace) -> None:
        self._limits = limits
        self._place = place

    async def of_state(self, state: Mapping[str, Any]) -> Spilled:
        """Return *state* as it is stored.

        Raises:
            InvalidInputError: a key or a value cannot be stored.
        """
        light = is_light(state)
        _, spilled = await offload(lambda: self._spill(state, light=light), light=light)
        return spilled

    async def encode(self, event: Event) -> EncodedAppend:
        """Return *event* as it is stored.

        Raises:
            InvalidInputError: the event is not JSON, or a piece of it is too large.
        """
        light = is_light(event)
        delta, state, encoded, change = await offload(lambda: self._encode(event, light=light), light=light)
        if encoded.payloads:
            change = replace(change, session=[*change.session, *encoded.payloads])
        append = Append(
            texts=(encoded.text,),
            timestamp=encoded.event.timestamp,
            delta=change.state,
            spilled=frozenset(payload.ref.place for payload in change.session),
            turns=turns_of(encoded.event),
            last_text=text_of(encoded.event),
        )
        return EncodedAppend(append=append, change=change, delta=delta, state=state, encoded=encoded)

    def _encode(
        self, event: Event, *, light: bool
    ) -> tuple[dict[str, Any], dict[str, Any], EncodedEvent, Spilled]:
        given = event.actions.state_delta
        delta, change = self._spill(given, light=light)
        encoded = encode_event(event, state_delta=delta, limits=self._limits, place=self._place, light=light)
        return delta, {key: own(given[key], value) for key, value in delta.items()}, encoded, change

    def _spill(self, state: Mapping[str, Any], *, light: bool) -> tuple[dict[str, Any], Spilled]:
        """Return the part of *state* that is stored, and how it is stored."""
        kept, warnings = persistent(state, bounds=bounds_of(self._limits), light=light)
        for warning in warnings:
            logger.warning("%s", warning, extra=telemetry.log_fields())
        scopes = split_scopes(kept)
        return kept, spill_scopes(scopes, limits=self._limits, place=self._place, light=light)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 if unknown."""
    merged: bool = False
    """Whether others appended before it that the handle has not seen."""
    was_held: bool = False
    """Whether the tail held it before, so that nothing was written."""


@dataclass(frozen=True, slots=True)
class Look:
    """A session after a refusal, ``None`` if it is gone, and what became of the append."""

    stored: StoredSession | None
    outcome: AppendOutcome


class PartlyHeldError(Exception):
    """Some events of an append are stored already: nothing was written, and each has to go alone."""


@dataclass(slots=True)
class Appending:
    """One append: what its next commit requires, and what became of the earlier ones."""

    recorder: SessionRecorder
    key: SessionKey
    append: Append
    marker: Marker | None
    """What its handle knows of the session; without it, the append follows all events of others."""
    change: Spilled
    merging: bool
    """Whether it may follow events that others appended."""
    hold: HeldTurn | None
    """The turn that it is a part of."""
    is_last: bool
    """Whether it ends the turn, if that asks for it."""
    anew: Callable[[], Awaitable[EncodedAppend]] | None
    """Encodes what depends on what is stored, where it follows events of others."""
    base: Marker = field(init=False)
    """What the next commit requires."""
    _is_behind: bool = False
    """Whether others may have appended since the append was encoded."""
    _parts_at: int | None = None
    """When the payloads of the append expire."""
    _redactions: int = 0
    """How many there were when the payloads were put."""
    _sent: Sequence[Write] = ()
    _released: Turn | None = None
    _expiry: Expiry | None = None
    _merged: bool = False
    _conflicts: int = 0

    async def prepare(self) -> None:
        """Find what the first commit requires, and put the payloads of the append.

        Raises:
            SessionMissingError, InvalidInputError, UnavailableError: as :meth:`record`.
        """
        if self.marker is not None:
            self.base = self.marker
        else:
            seen = await self.recorder.reader.stored(self.key)
            if seen is None:
                raise SessionMissingError
            self.base, self.merging, self._is_behind = seen.marker, True, True
        await self._spill()

    async def record(self, *, may_seal: bool = True) -> Appended:
        """Store the events and their change of state in one commit, exactly once.

        With *may_seal*, a document that is full moves its tail into a segment first.

        Raises:
            SessionMissingError, SessionConflictError, OutcomeUnknownError: as the service's ``append_event``.
            TurnLostError: the turn has ended; nothing was written.
            InvalidInputError: the document would exceed Firestore's limits even with its tail sealed.
            PartlyHeldError: the tail holds some of the events.
            UnavailableError: Firestore refused until the deadline; nothing was written.
        """
        if self.hold is not None:
            self.base = self.hold.newest(self.base)
        self._conflicts = self.recorder.refused.lookup(self.key) or 0
        try:
            appended = await transact(
                self.recorder.storage.documents, self._look, self._decide, known=(None,)
            )
        except InvalidInputError:
            if not may_seal:
                raise
            # A full document may have events to seal; otherwise the same error comes again.
            self.base = await self.recorder.seal(self.key, self.base) or self.base
            return await self.record(may_seal=False)
        except SessionConflictError:
            if self._conflicts:
                self.recorder.refused.put(self.key, self._conflicts)
            raise
        return appended if self.marker is not None else replace(appended, marker=None)

    async def _spill(self) -> None:
        """Put the payloads of the append, if it has any and can be stored."""
        if self.change.has_payloads:
            # This refuses an append that cannot be stored, before anything is written.
            await self._encoded(is_trial=True)
            self._parts_at = await self.recorder.lifecycle.new_part(self.key, self.base)
            await self._put()
        self._redactions = self.base.redactions

    async def _encoded(self, *, is_trial: bool = False) -> list[Write]:
        """Return the writes of the append, made in a thread if they are large; a trial is not sent.

        Raises:
            InvalidInputError: the document would exceed Firestore's limits.
        """
        storage, hold = self.recorder.storage, None if is_trial else self.hold
        encode = partial(
            storage.layout.append_writes,
            self.key,
            self.append,
            self.base,
            self._expiry,
            turn_until=None if hold is None else hold.renewed(storage.documents.clock.now()),
            released=None if hold is None else self._released,
            inbox=None if hold is None else hold.inbox_after,
            conflicts=self._conflicts,
        )
        return await offload(encode, light=self.append.delta.has_light_values)

    async def _put(self) -> None:
        storage, epoch = self.recorder.storage, self.base.epoch
        await storage.put(self.key, epoch, self.change, parts_at=self._parts_at)

    async def _look(self) -> Look:
        """Read the session after a refusal, and find what became of the append."""
        base, hold = self.base, self.hold
        stored, newest = await self.recorder.newest(self.key, lambda stored: events_to_resolve(base, stored))
        if hold is not None and stored is not None:
            hold.learn(stored)
        turn = None if hold is None else (hold.epoch, hold.fence)
        outcome = resolve_outcome(self.append, marker=base, stored=stored, newest=newest, turn=turn)
        if outcome is AppendOutcome.STALE:
            telemetry.count_conflict()
            self._conflicts += 1
        return Look(stored, outcome)

    def _decide(self, seen: Look | None, attempts: Attempts) -> Decision[Appended]:
        if seen is not None:
            if seen.outcome is AppendOutcome.LOST and self.hold is not None:
                lost = self.hold.lose()
                if seen.stored is not None and seen.stored.restores != self.base.restores:
                    require_certain(self.append, attempts, _RESTORED)
                raise lost
            found = resolve(seen, attempts, append=self.append, base=self.base, merging=self.merging)
            if isinstance(found, Appended):
                if self.hold is not None:
                    self.hold.appended(found.marker)
                    turn = None if seen.stored is None else seen.stored.turn
                    # The commit that was not answered ended the turn; another holder may have the next one.
                    self.hold.has_ended |= turn is None or turn.holder != self.hold.turn.holder
                return Done(replace(found, merged=self._merged))
            self._is_behind = self._is_behind or seen.outcome is AppendOutcome.STALE
            self._merged = self._merged or seen.outcome is AppendOutcome.STALE
            self.base = found
        if not self._suffices(is_read=seen is not None):
            return CHANGED
        # The look finds an earlier commit that was applied; its update time refuses one that arrives late.
        return Commit(self._writes, self._appended, is_first=True)

    def _suffices(self, *, is_read: bool) -> bool:
        """Return whether a commit may stand on the base without a look at the session, or if it *is_read*."""
        if not self.base.update_time:  # a server may take time 0 for that of a missing document
            return False
        if self.hold is not None and not self.hold.has_seen(self.base):
            return False
        # Firestore adds an equal event to the tail once, and the commit would count it twice.
        return is_read or not self.recorder.reader.tails.may_hold(self.base, self.append)

    async def _writes(self) -> list[Write]:
        if self._is_behind and self.anew is not None:
            # Who writes after this read, changes the document that the commit requires.
            encoded = await self.anew()
            self.append, self.change = encoded.append, encoded.change
            await self._spill()
            self._is_behind = False
        if self.base.redactions != self._redactions:
            await self._put()  # a redaction may have removed equal payloads
            self._redactions = self.base.redactions
        if self.base.expiry is None:
            self._expiry = None
        else:
            self._expiry = await self.recorder.lifecycle.extend(
                self.key,
                self.base,
                spilled=self.append.spilled,
                new_part=self._parts_at if self.change.session else None,
            )
        self._released = self.hold.released if self.hold is not None and self.is_last else None
        self._sent = await self._encoded()
        return self._sent

    def _appended(self, written: Sequence[Written]) -> Appended:
        if self._conflicts:
            self.recorder.refused.put(self.key, 0)
        self.recorder.reader.tails.appended(self.base, self.append)
        marker = self.base.advanced(self.append, written[0].update_time, self._expiry)
        if self.hold is not None:
            self.recorder.reader.followed.committed(self._sent, written)
            self.hold.appended(marker)
            self.hold.has_ended |= self._released is not None
        return Appended(marker=marker, tail_bytes=written[0].incremented["tail_bytes"], merged=self._merged)


_RESTORED: Final = "restored to an earlier point"


def require_certain(append: Append, attempts: Attempts, became: str) -> None:
    """Require that *append* has not changed shared state, which outlives what its session *became* since.

    Raises:
        OutcomeUnknownError: a commit that was not answered may have.
    """
    if attempts.maybe_applied and (append.delta.app or append.delta.user):
        raise OutcomeUnknownError(
            f"sent and not answered, and then the session was {became}; read before repeating it"
        )


def resolve(
    seen: Look, attempts: Attempts, *, append: Append, base: Marker, merging: bool
) -> Appended | Marker:
    """Return the *append* if it is stored, or else the marker that its next commit requires.

    *base* is the marker that the refused commit required. When *merging*, the append may follow others that
    its handle has not seen.

    Raises:
        SessionMissingError: the session is gone; nothing was written.
        SessionConflictError: another writer was first, and *merging* is false, or the session was restored;
            the session does not have the event.
        PartlyHeldError: it has some of the events.
        OutcomeUnknownError: the session is gone or was restored, and the append may have changed shared state
            before that.
    """
    stored, outcome = seen.stored, seen.outcome
    if stored is None or outcome is AppendOutcome.MISSING:
        require_certain(append, attempts, "gone")
        raise SessionMissingError
    if outcome in (AppendOutcome.LANDED, AppendOutcome.HELD):
        return Appended(marker=stored.marker, tail_bytes=0, was_held=outcome is AppendOutcome.HELD)
    if outcome is AppendOutcome.PARTLY:
        raise PartlyHeldError
    if outcome is AppendOutcome.OVERTAKEN:
        # Without an update time, the handle's next append finds what others appended.
        return Appended(marker=base.advanced(append, "", stored.expiry), tail_bytes=0)
    if outcome is AppendOutcome.RESTORED:
        require_certain(append, attempts, _RESTORED)
        raise SessionConflictError(
            "The session was restored to an earlier point since it was loaded: it lost the events after the "
            "point. Read the session again, and decide again whether to append."
        )
    if outcome is AppendOutcome.STALE and not merging:
        raise SessionConflictError(
            "The session has been modified in storage since it was loaded. "
            "Reload the session before appending again."
        )
    # The next commit requires exactly this document: it meets no other session, and storage refuses an
    # earlier commit that arrives late.
    return stored.marker

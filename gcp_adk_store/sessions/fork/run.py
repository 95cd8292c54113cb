"""Fork sessions: make one with the history of another up to a point, which shares nothing with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session

from gcp_adk_store.codec.decode import StoredEvent, references
from gcp_adk_store.codec.encode import WHOLE, spill_state
from gcp_adk_store.codec.redactions import audits_again, has_unreported, lost_audits
from gcp_adk_store.errors import PayloadMissingError, SessionExistsError, SessionMissingError
from gcp_adk_store.kernel.concurrency import offload
from gcp_adk_store.kernel.transact import CHANGED, Changed, read_whole
from gcp_adk_store.model.appends import Summary, fold, genesis
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.internal_metadata import event_elsewhere, has_internal
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.payloads import Payload, PayloadRef
from gcp_adk_store.model.sessions import Origin, Segment, StoredSession
from gcp_adk_store.sessions.fork.decide import chained, spread
from gcp_adk_store.sessions.fork.format import fork_writes, in_commits, payload_elsewhere, text_elsewhere
from gcp_adk_store.sessions.lifecycle.building import SessionBuilder
from gcp_adk_store.sessions.lifecycle.run import SessionArtifacts, SessionLifecycle
from gcp_adk_store.sessions.read.completion import Found, Past, refs_in
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.read.session_objects import made_session
from gcp_adk_store.sessions.read.storage import SessionStorage
from gcp_adk_store.settings import SessionLimits

_LIGHT_EVENTS: Final = 1000
"""Events that are hashed in a millisecond."""

_LIGHT_CHANGES: Final = 50
"""Events of usual size whose JSON is read and changed in some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fork:
    """A fork as it is to be stored."""

    stored: StoredSession
    segments: Sequence[Segment]
    summary: Summary
    refs: frozenset[PayloadRef]
    """Payloads to copy."""
    payloads: Sequence[Payload]
    """Payloads to write: of values that the state had at the point, and no longer has."""
    parts_at: int | None
    audits: Sequence[Event]
    """Events that report redactions before the point again."""


@dataclass(slots=True)
class SessionForks:
    """Forks the sessions below one prefix of a database.

    A :class:`~gcp_adk_store.sessions.lifecycle.building.SessionBuilder` writes each: it is complete when
    readers see it.
    """

    _storage: SessionStorage
    _reader: SessionReader
    _lifecycle: SessionLifecycle
    _limits: SessionLimits
    _skip_missing: bool
    """Whether payloads of events that are gone are not copied."""

    async def fork(
        self,
        source: SessionKey,
        target: SessionKey,
        at: Point | None,
        *,
        ttl_seconds: float | None,
        artifacts: SessionArtifacts | None,
    ) -> Session:
        """Make *target* from *source* as it was at a point, by default now, and return it.

        Raises:
            SessionMissingError, SessionExistsError, PointMissingError,
                PayloadMissingError, UnavailableError, OutcomeUnknownError: as the store's ``fork_session``.
        """

        async def made() -> Session | Changed:
            found = await self._reader.find_at(source, at, reader=target.owner)
            if found is None:
                raise SessionMissingError
            past, seen = found
            whole = past.now
            # Another call may redact an event after the session was read, and before its segments are.
            is_torn = await offload(lambda: has_unreported(past.texts), light=False)
            if is_torn and await self._reader.lost(whole):
                return CHANGED
            try:
                fork = await self._copied(past, target, ttl_seconds)
            except PayloadMissingError:
                now = await self._reader.header(source)
                if now is None or now.epoch != whole.epoch:
                    raise SessionMissingError from None
                if now.update_time == whole.update_time:
                    raise
                return CHANGED  # another call replaced a value, and a collector removed its payload
            try:
                update_time = await self._store(fork, past, artifacts)
            except SessionExistsError:
                # Artifacts that have the id may be those of a session, and are not to be removed then.
                await self._lifecycle.require_free(target)
                raise
            self._reader.tails.saw(fork.stored)
            found_then = replace(seen, events=[*seen.events, *fork.audits])
            return _session(replace(fork.stored, update_time=update_time), found_then)

        return await read_whole(self._storage.documents.deadline_s, made)

    async def _copied(self, past: Past, target: SessionKey, ttl_seconds: float | None) -> _Fork:
        """Return the fork after its payloads were copied, which the collector finds if the fork fails."""
        fork = await self._planned(past, target, ttl_seconds)
        layout = self._storage.layout
        owner = layout.session_payloads(target, fork.stored.epoch)
        if fork.refs:
            await self._storage.payloads.copy(
                layout.session_payloads(past.now.key, past.now.epoch),
                owner,
                fork.refs,
                parts_at=fork.parts_at,
                skip_missing=self._skip_missing,
            )
        await self._storage.payloads.put(owner, fork.payloads, parts_at=fork.parts_at)
        return fork

    async def _planned(self, past: Past, target: SessionKey, ttl_seconds: float | None) -> _Fork:
        whole = past.now
        count, texts = past.count, past.texts[: past.count]
        epoch = platform_uuid.new_uuid().replace("-", "")
        initial = past.segments[0].initial if past.segments else whole.initial
        changed, anew = await self._elsewhere(whole, past.events[:count], texts)
        segments, tail = spread(
            past.segments, [changed.get(number, text) for number, text in enumerate(texts)]
        )
        audits = audits_again(
            lost_audits(past.texts, count), time=self._storage.documents.clock.now(), limits=self._limits
        )
        tail = [*tail, *(audit.text for audit in audits)]
        events = [*islice(past.events, count), *(StoredEvent(event=one.event, missing={}) for one in audits)]
        if sum(len(text.encode()) for text in tail) >= self._limits.seal_tail_bytes:
            times = [one.timestamp for one in events[len(events) - len(tail) :]]
            times += [segment.running_max for segment in segments[-1:]]
            segments.append(Segment(texts=tail, running_max=max(times), chain_begin=b"", chain_end=b""))
            tail = []
        segments = await offload(
            lambda: chained(segments, genesis(epoch)), light=len(past.events) <= _LIGHT_EVENTS
        )
        if segments:
            segments[0] = replace(segments[0], initial=initial)
        state, payloads = past.stored.state, list[Payload]()
        if past.changed:
            state, payloads = await offload(
                partial(
                    spill_state,
                    state,
                    over=self._limits.state_value_bytes,
                    limit=self._limits.max_payload_bytes,
                    place=self._storage.payloads.place,
                ),
                light=False,
            )
        refs = set[PayloadRef]()
        if whole.spilled:
            refs |= refs_in(state).union(await self._reader.in_initial(whole, past), *past.references[:count])
            refs -= {*anew, *(payload.ref for payload in payloads)}
        payloads += anew.values()
        spilled = frozenset(ref.place for ref in (*refs, *(payload.ref for payload in payloads)))
        expiry, parts_at = self._storage.begun(ttl_seconds)
        if expiry is not None:
            expiry = expiry.with_part_until(parts_at if spilled or segments else None)
        time = platform_time.get_time()
        summary = await offload(
            lambda: Summary.of([one.event for one in events]), light=count <= _LIGHT_EVENTS
        )
        sealed_head = segments[-1].chain_end if segments else genesis(epoch)
        stored = StoredSession(
            key=target,
            epoch=epoch,
            revision=len(events),
            last_update_time=events[-1].timestamp if events else time,
            state=state,
            tail=tail,
            sealed=len(segments),
            sealed_max=segments[-1].running_max if segments else None,
            spilled=spilled,
            update_time="",
            read_time=whole.read_time,
            expiry=expiry,
            chain=fold(sealed_head, tail),
            chain_sealed=sealed_head,
            initial=None if segments else initial,
            create_time=time,
            turns=summary.turns,
            origin=Origin(
                app=whole.key.app,
                user=whole.key.user,
                session=whole.key.session,
                epoch=whole.epoch,
                position=count,
            ),
        )
        return _Fork(
            stored=stored,
            segments=segments,
            summary=summary,
            refs=frozenset(refs),
            payloads=payloads,
            parts_at=parts_at,
            audits=[audit.event for audit in audits],
        )

    async def _elsewhere(
        self, source: StoredSession, events: Sequence[StoredEvent], texts: Sequence[str]
    ) -> tuple[dict[int, str], dict[PayloadRef, Payload]]:
        """Return those of the *texts* of *events* that change in a session of other ids, by their numbers.

        The payloads of the *source* that change with them come with what stands in their place.
        """
        numbers = [number for number, one in enumerate(events) if has_internal(one.event)]
        if not numbers:
            return {}, {}
        wholes = {number: ref for number in numbers if (ref := references(texts[number]).get(WHOLE))}
        changed = await offload(
            lambda: {number: text_elsewhere(texts[number]) for number in numbers if number not in wholes},
            light=len(numbers) <= _LIGHT_CHANGES,
        )
        anew: dict[PayloadRef, Payload] = {}
        owner = self._storage.layout.session_payloads(source.key, source.epoch)
        for number, ref in wholes.items():
            data = await self._storage.payloads.get(owner, ref)
            change = partial(payload_elsewhere, texts[number], ref, data)
            changed[number], anew[ref] = await offload(change, light=False)
        return changed, anew

    async def _store(self, fork: _Fork, past: Past, artifacts: SessionArtifacts | None) -> str:
        """Write the documents of *fork*, and copy its artifacts; return the session's update time."""
        stored, layout = fork.stored, self._storage.layout
        header, parts = await offload(
            partial(fork_writes, layout, stored, fork.segments, summary=fork.summary, parts_at=fork.parts_at),
            light=False,
        )
        *earlier, last = in_commits(parts)
        # What was saved after the read is of events that came after it.
        until = past.stored.read_time
        at = past.artifacts
        at = replace(at, until=until if at.until is None else min(at.until, until))
        source = past.stored.key
        chosen = [] if artifacts is None else await artifacts.choose(source, stored.key, at)
        making = SessionBuilder(
            self._lifecycle,
            stored.key,
            stored.epoch,
            what="fork",
            artifacts=artifacts if chosen else None,
            spilled=stored.spilled,
        )
        async with making:
            for some in earlier or ([[]] if chosen else []):
                await making.advance(some)
            if artifacts is not None and chosen:
                await artifacts.copy(chosen, source, stored.key, stored.epoch)
            return await making.complete([header, *last], revision=stored.revision)


def fork_key(source: SessionKey, *, to_user_id: str | None, to_session_id: str | None) -> SessionKey:
    """Return the key of a fork of *source*; a blank session id takes a random one.

    Raises:
        InvalidInputError: an id is not text.
    """
    user = source.user if to_user_id is None else to_user_id
    key = SessionKey(app=source.app, user=user, session="" if to_session_id is None else to_session_id)
    return key if key.session else SessionKey(app=key.app, user=user, session=platform_uuid.new_uuid())


def _session(stored: StoredSession, seen: Found) -> Session:
    return made_session(
        stored.key,
        state=seen.state,
        events=[event_elsewhere(event) for event in seen.events],
        last_update_time=stored.last_update_time,
        marker=stored.marker,
    )

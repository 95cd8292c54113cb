"""Copy one session: decide what the target lacks of it, write that, and verify it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from google.adk.events import Event

from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.state import split_scopes
from gcp_adk_store.moving.canonical import Passing, canonical_state, each, kept_state
from gcp_adk_store.moving.importing import SessionHeader
from gcp_adk_store.moving.records import Listed, ListedKey, Record, Source, Target, differing
from gcp_adk_store.moving.report import Entry, failure_of_one

_SHOWN = 3  # names of keys in a note

_NO_INITIAL: Final = (
    "initial",
    "the source does not have the state at the creation: keys begin with their first change by an event",
)
_NO_TIME: Final = ("times", "the time of creation is lost")
_NO_END: Final = ("times", "the time to live is not kept: that of the target counts")

Did = Literal["copied", "continued", "replaced", "unchanged", ""]
"""The field of the report that counts a session; empty if it is gone, or a note says why it is not copied."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a copy did with one session."""

    key: ListedKey | None
    did: Did = ""
    differs: bool = False
    """Whether the target has another session of this id."""
    lacks_state: bool = False
    """Whether the target has the same events, and not the values of the state that no event has."""
    events: int = 0
    """Written."""
    verified: bool = False
    entry: Entry | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)
    lacks: list[tuple[str, str]] = field(default_factory=list)
    """Kind and text of what a report says once of all such sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCopies:
    """Copies sessions from one store to another."""

    source: Source
    target: Target
    verify: bool
    dry_run: bool

    async def copy(self, app: str, listed: Listed, known: Entry | None) -> Outcome:
        """Copy a session as far as the target lacks it; *known* is what this copy wrote of it before.

        A session of the target that does not begin as the source's does stays as it is, unless it is exactly
        what this copy wrote. One that cannot be read or written is noted.

        Raises:
            StoreError: a store failed, so that no session can be copied.
        """
        outcome = Outcome(key=None)
        try:
            outcome.key = key = ListedKey(app=app, user=listed.user_id, session=listed.session_id)
            if key.in_target.session != listed.session_id:
                outcome.notes.append(("ids", "spaces around the id do not count, and are left out"))
            await self._copy(outcome, key, known)
            is_ours = outcome.differs and known and await self._is_as_written(key.in_target, known)
            if is_ours or outcome.lacks_state:
                await self._replace(outcome, key)
            elif outcome.differs:
                outcome.notes.append(("conflict", "the target has other events in it; it stays as it is"))
        except Exception as exc:  # noqa: BLE001  # any error of a service that cannot hold or read it
            outcome.did, outcome.entry = "", None
            outcome.notes.append(("failed", failure_of_one(exc)))
        return outcome

    async def _copy(
        self, outcome: Outcome, key: ListedKey, known: Entry | None = None, *, replaces: bool = False
    ) -> None:
        in_order = not self.target.traits.sorts_by_time
        async with self.source.open(key) as found:
            if found is None:
                outcome.notes.append(("skipped", "deleted in the source since it was listed"))
                return
            record = replace(found, header=replace(found.header, key=key.in_target))
            passing = Passing(record.events, in_order=in_order)
            there, missing = (None, passing) if replaces else await self._missing(key.in_target, passing)
            if missing is None:
                outcome.differs = True
                return
            is_there = there is not None
            if self.dry_run:
                there, outcome.events = await _as_it_would_be(there, missing)
            else:
                outcome.events = await self._write(record, missing, is_there=is_there, replaces=replaces)
            lacks_title = there is not None and self._has_other_title(record.header, there)
            if there is not None and lacks_title and not self.dry_run:
                await self.target.describe(record.header, there)
            if there is not None and await self._lacks_state(record, passing, there, known, outcome.events):
                outcome.lacks_state = True
                return
            is_continued = outcome.events or lacks_title
            outcome.did = "copied" if not is_there else "continued" if is_continued else "unchanged"
            self._judge(outcome, record, passing)
            if self.dry_run:
                return
            events, digest = passing.digest.events, passing.of_events()
            outcome.entry = Entry(stamp=record.stamp, events=events, digest=digest)
            if self.verify:
                await self._verify(outcome, record, passing)

    async def _missing(
        self, key: SessionKey, passing: Passing
    ) -> tuple[SessionHeader | None, Passing | AsyncIterator[Event] | None]:
        """Return the session as the target has it, and the events that it lacks of those *passing*.

        ``None`` stands for a session that is not there, and for one that has other events.
        """
        async with self.target.open(key) as there:
            if there is None:
                return None, passing
            if not self.target.traits.sorts_by_time:
                return there.header, passing if await passing.starts_with(there.events) else None
            rest = await passing.without(there.events)
            return there.header, None if rest is None else each(rest)

    def _has_other_title(self, mine: SessionHeader, there: SessionHeader) -> bool:
        """Return whether title or labels differ, where both stores keep them."""
        keeps = self.source.traits.keeps_titles and self.target.traits.keeps_titles
        return keeps and (mine.title, dict(mine.labels)) != (there.title, dict(there.labels))

    async def _lacks_state(
        self, record: Record, passing: Passing, there: SessionHeader, known: Entry | None, written: int
    ) -> bool:
        """Return whether the target, which has all events, has not the state that it could keep.

        It was as *there* before it got the events *written*; what this copy wrote before is *known*.
        """
        state, gets = record.header.state, written and self.target.traits.keeps_state
        before = passing.digest.events - written
        is_changed = known is not None and known.stamp != record.stamp and known.events == before
        if (gets or is_changed) and passing.untouched(there.state) != passing.untouched(state):
            return True  # the source made it anew, or changed it without an event
        if not gets or not passing.unexplained(state):
            return False
        if self.dry_run:
            return bool(differing(state, there.state))
        async with self.target.open(record.header.key) as now:
            return now is not None and bool(differing(state, now.header.state))

    async def _write(
        self, record: Record, missing: AsyncIterator[Event], *, is_there: bool, replaces: bool
    ) -> int:
        if replaces:
            return await self.target.replace(record, missing)
        if not is_there:
            return await self.target.write(record, missing)
        first = await anext(missing, None)
        if first is None:
            return 0
        return await self.target.append(record.header.key, _beginning_with(first, missing))

    async def _replace(self, outcome: Outcome, key: ListedKey) -> None:
        """Put a session in the place of one that this copy wrote, or that has its events.

        In the source it changed otherwise than by appends.
        """
        outcome.differs = False
        await self._copy(outcome, key, replaces=True)
        if outcome.did == "copied":
            outcome.did = "replaced"

    async def _is_as_written(self, key: SessionKey, known: Entry) -> bool:
        """Return whether the target has exactly the events that this copy wrote."""
        async with self.target.open(key) as there:
            if there is None:
                return False
            passing = await self._read_through(there)
            return (known.events, known.digest) == (passing.digest.events, passing.of_events())

    async def _read_through(self, there: Record) -> Passing:
        """Return the events of a session of the target, all read."""
        passing = Passing(there.events, in_order=not self.target.traits.sorts_by_time)
        async for _ in passing:
            pass
        return passing

    async def remove(self, key: ListedKey, known: Entry) -> bool:
        """Delete a session in the target that is gone in the source, if it is as this copy wrote it."""
        async with self.source.open(key) as record:
            if record is not None:
                return False
        if not await self._is_as_written(key.in_target, known):
            return False
        await self.target.remove(key.in_target)
        return True

    def _judge(self, outcome: Outcome, record: Record, passing: Passing) -> None:
        """Note what the target cannot hold as the source does."""
        notes, target = outcome.notes, self.target.traits
        notes += record.notes
        if target.sorts_by_time and (passing.earlier or passing.ties):
            says = f"{passing.earlier} events are older than the one before them, {passing.ties} as old"
            notes.append(("order", f"{says}; {target.kind} orders events by time"))
        elif self.source.traits.sorts_by_time and passing.ties:
            says = f"{passing.ties} events have the time of the one before them"
            notes.append(("order", f"{says}; {self.source.traits.kind} does not keep their order"))
        if keys := passing.unexplained(record.header.state):
            shown = ", ".join(repr(key[:40]) for key in keys[:_SHOWN])
            notes.append(("state", f"{len(keys)} keys differ from what the events say: {shown}"))
        if (record.header.title or record.header.labels) and not target.keeps_titles:
            notes.append(("titles", f"{target.kind} has no title and no labels"))
        if passing.changed and record.header.initial is None and target.keeps_times:
            outcome.lacks.append(_NO_INITIAL)
        if record.header.create_time is None or not target.keeps_times:
            outcome.lacks.append(_NO_TIME)
        if record.ends:
            outcome.lacks.append(_NO_END)

    async def _verify(self, outcome: Outcome, record: Record, passing: Passing) -> None:
        """Read the session in the target again, and compare its digest with that of what was read.

        One that lacks events is not finished: the next call looks at it again.
        """
        async with self.target.open(record.header.key) as there:
            if there is None:
                outcome.entry = None
                outcome.notes.append(("differs", "the target does not have it"))
                return
            found = await self._read_through(there)
            state = canonical_state(there.header.state)
            has_other_title = self._has_other_title(record.header, there.header)
        if not passing.same(found):
            outcome.entry = None
            counts = f"the target has {found.digest.events} events, the source {passing.digest.events}"
            outcome.notes.append(("differs", f"{counts}; their digests differ"))
        elif state != canonical_state(record.header.state):
            outcome.notes.append(("differs", "the state differs"))
        elif has_other_title:
            outcome.notes.append(("differs", "the title or the labels differ"))
        else:
            outcome.verified = True


async def _beginning_with(first: Event, rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
    yield first
    async for event in rest:
        yield event


async def _as_it_would_be(
    there: SessionHeader | None, events: AsyncIterator[Event]
) -> tuple[SessionHeader | None, int]:
    """Return what a session that is *there* becomes with *events*, and their number."""
    state, count = {} if there is None else dict(there.state), 0
    async for event in events:
        count += 1
        state.update(split_scopes(kept_state(event.actions.state_delta)[0]).session)
    return there and replace(there, state=state), count

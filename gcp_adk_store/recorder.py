"""Record sessions: each method is one step of a session's life, atomic in storage."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store.backends.firestore import Documents
from gcp_adk_store.backends.translate import ConditionFailedError, TargetExistsError, TargetMissingError
from gcp_adk_store.codec.documents import (
    HEADER_FIELDS,
    Deletion,
    Layout,
    read_deletions,
    read_segment,
    read_session,
    read_state,
)
from gcp_adk_store.codec.events import decode_event, event_timestamp
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.errors import (
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.fan_out import beside
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.sessions import (
    Append,
    Marker,
    Segment,
    Settlement,
    StoredSession,
    events_to_settle,
    select_events,
    settle,
    wants_events,
    wants_older,
)
from gcp_adk_store.model.state import ScopedState, overlay

logger = logging.getLogger(__name__)

_SENDS: Final = 8
"""How often one append is sent while its session is sealed, or answers are lost, under it."""

_DELETES_PER_COMMIT: Final = 500
"""Keeps a deletion's commits far below 4 MiB, with paths of up to 6 kB."""

_USERS_PER_READ: Final = 500
"""As many user states as one listing's read asks for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append leaves its handle with."""

    marker: Marker | None
    tail_bytes: int
    """Bytes of events in the session document now; 0 where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A session as a read returns it."""

    stored: StoredSession
    shared: ScopedState
    """App and user state."""
    events: list[Event]


class SessionRecorder:
    """The sessions below one prefix of a database."""

    def __init__(self, documents: Documents, layout: Layout) -> None:
        self._documents = documents
        self._layout = layout

    async def create(
        self, key: SessionKey, *, epoch: str, time: float, state: ScopedState
    ) -> tuple[Marker, ScopedState]:
        """Make a session; return its marker and its state with the app's and the user's merged in.

        Raises:
            SessionExistsError: the id is taken; nothing was written.
            OutcomeUnknownError: not answered, or made but not read back.
        """
        what = f"create_session {key}"
        reading = asyncio.create_task(self._shared_state(key.owner, what=what))
        try:
            update_time = await self._create(key, epoch=epoch, time=time, state=state, what=what)
        except BaseException:
            reading.cancel()
            await asyncio.wait([reading])
            raise
        try:
            shared = await reading
        except StoreError as exc:
            raise OutcomeUnknownError(
                f"{what}: the session was made, but its app and user state could not be read; get it again",
            ) from exc
        return Marker(epoch=epoch, revision=0, update_time=update_time), overlay(shared, state)

    async def find(self, key: SessionKey, config: GetSessionConfig | None) -> Found | None:
        """Return a session with the events that *config* asks for.

        Raises:
            StoredDataError: a segment that the session names does not exist.
        """
        what = f"get_session {key}"
        paths = [self._layout.session(key), self._layout.app(key.app), self._layout.user(key.owner)]
        lost: StoredSession | None = None
        while True:
            document, app, user = await self._documents.get(
                paths, fields=None if wants_events(config) else HEADER_FIELDS, what=what
            )
            if document is None:
                return None
            stored = read_session(document)
            events = await self._events(stored, config, what=what)
            if events is not None:
                return Found(stored=stored, shared=_shared(app, user), events=events)
            if lost is not None and (lost.epoch, lost.sealed) == (stored.epoch, stored.sealed):
                raise StoredDataError(
                    f"{what}: one of the {stored.sealed} segments is missing",
                )
            lost = stored  # deleted, perhaps made anew, while it was read: the next look tells

    async def append(self, key: SessionKey, append: Append, marker: Marker | None) -> Appended:
        """Store one event and its change of state, exactly once.

        Raises:
            SessionMissingError: there is no such session; nothing was written.
            SessionConflictError: another writer was first; nothing was written.
            OutcomeUnknownError: not answered.
            UnavailableError: refused for now; nothing was written.
        """
        what = f"append_event {key}"
        refusal: Exception | None = None
        for _ in range(_SENDS):
            try:
                written = await self._documents.commit(
                    self._layout.append(key, append, marker),
                    what=what,
                    # The update time moves with the write, so a second run is refused and settled below.
                    repeatable_when_unanswered=marker is not None,
                )
            except (ConditionFailedError, TargetMissingError) as exc:
                refusal = exc
            except OutcomeUnknownError as exc:
                if marker is not None:
                    raise
                refusal = exc
            else:
                first = written[0]
                return Appended(
                    marker=marker and marker.advanced(first.update_time),
                    tail_bytes=first.incremented["tail_bytes"],
                )
            stored = await self.stored(key, what=what)
            newest = await self._newest(stored, marker, what=what)
            settlement = settle(append, marker=marker, stored=stored, newest=newest)
            if settlement in (Settlement.LANDED, Settlement.OVERTAKEN):
                return Appended(marker=_after(settlement, marker, stored), tail_bytes=0)
            if settlement is not Settlement.RETRY:
                raise _refused(settlement, key) from refusal
            if marker is not None and stored is not None:
                marker = stored.marker
        raise UnavailableError(
            f"{what}: not stored after {_SENDS} tries; try again later",
        ) from refusal

    async def holds(self, key: SessionKey, append: Append) -> bool:
        """Tell whether exactly this event is stored already, however long ago."""
        what = f"append_event {key}"
        stored = await self.stored(key, what=what)
        return append.text in await self._newest(stored, None, what=what)

    async def seal(self, key: SessionKey, marker: Marker | None) -> Marker | None:
        """Move the tail into a segment; return what *marker* becomes.

        A tail that cannot be moved now is moved after a later append.
        """
        what = f"seal {key}"
        try:
            stored = await self.stored(key, what=what)
            if stored is None or not stored.tail:
                return marker
            written = await self._documents.commit(
                self._layout.seal(stored, _sealed_tail(stored)), what=what, repeatable_when_unanswered=True
            )
        except (ConditionFailedError, TargetExistsError):
            # Another writer came first, or this commit's own first answer was lost: either way the
            # handle's next append learns the new update time.
            return marker
        except StoreError as exc:
            # The append that led here is stored; that must not look like a failure of it.
            logger.warning("%s is put off: %s", what, type(exc).__name__)
            return marker
        if marker != stored.marker:
            return marker
        return stored.marker.at(written[0].update_time)

    async def listing(self, app: str, user: str | None) -> list[tuple[StoredSession, ScopedState]]:
        """Return the sessions of a user, or of all users of an app, with app and user state."""
        what = f"list_sessions app={app!r} user={user!r}"
        if user is not None:
            owner = UserKey(app=app, user=user)
            found, shared = await beside(
                self._headers(self._layout.user(owner), all_descendants=False, what=what),
                self._shared_state(owner, what=what),
            )
            return [(stored, shared) for stored in found]
        found = await self._headers(self._layout.app(app), all_descendants=True, what=what)
        owners = list(dict.fromkeys(stored.key.owner for stored in found))
        states = await self._states_of(app, owners, what=what)
        return [(stored, states[stored.key.owner]) for stored in found]

    async def delete(self, key: SessionKey) -> None:
        """Remove a session and what interrupted deletions of its id left."""
        what = f"delete_session {key}"
        for deletion in await self._end(key, what=what):
            deletes = self._layout.finish_deletion(key, deletion)
            for start in range(0, len(deletes), _DELETES_PER_COMMIT):
                await self._documents.commit(
                    deletes[start : start + _DELETES_PER_COMMIT], what=what, repeatable_when_unanswered=True
                )

    async def user_state(self, owner: UserKey) -> dict[str, Any]:
        """Return the state of a user, keys without prefix."""
        (document,) = await self._documents.get([self._layout.user(owner)], what=f"get_user_state {owner}")
        return read_state(document)

    async def stored(self, key: SessionKey, *, what: str) -> StoredSession | None:
        """Return the session document as it is now."""
        (document,) = await self._documents.get([self._layout.session(key)], what=what)
        return read_session(document) if document else None

    async def close(self) -> None:
        """Close the connections that were opened for this recorder."""
        await self._documents.close()

    async def _create(
        self, key: SessionKey, *, epoch: str, time: float, state: ScopedState, what: str
    ) -> str:
        writes = self._layout.create(key, epoch=epoch, time=time, state=state)
        try:
            written = await self._documents.commit(writes, what=what, repeatable_when_unanswered=True)
        except TargetExistsError as exc:
            stored = await self.stored(key, what=what)
            if stored is not None and stored.epoch == epoch:
                return stored.update_time  # our own, whose answer was lost
            raise SessionExistsError(f"Session with id {key.session} already exists.") from exc
        return written[0].update_time

    async def _events(
        self, stored: StoredSession, config: GetSessionConfig | None, *, what: str
    ) -> list[Event] | None:
        """Return the events that *config* asks for; ``None`` if a segment is gone."""
        if not wants_events(config):
            return []
        events = [decode_event(text) for text in stored.tail]
        unread = stored.sealed
        step = unread if config is None else 1
        running_max = stored.sealed_max
        while unread and wants_older(
            config, have=len(select_events(events, config)), running_max=running_max
        ):
            first = max(0, unread - step)
            segments = await self._segments(stored, range(first, unread), what=what)
            if segments is None:
                return None
            events[:0] = [decode_event(text) for segment in segments for text in segment.texts]
            running_max = segments[0].running_max
            unread, step = first, step * 2
        return select_events(events, config)

    async def _segments(self, stored: StoredSession, numbers: range, *, what: str) -> list[Segment] | None:
        documents = await self._documents.get(
            self._layout.segments(stored.key, stored.epoch, numbers), what=what
        )
        found = [read_segment(document) for document in documents if document is not None]
        return found if len(found) == len(numbers) else None

    async def _newest(
        self, stored: StoredSession | None, marker: Marker | None, *, what: str
    ) -> Sequence[str]:
        """Return the newest events, from as many segments as settling an append takes."""
        if stored is None:
            return ()
        texts = list(stored.tail)
        unread = stored.sealed
        while unread and len(texts) < events_to_settle(marker, stored):
            unread -= 1
            segments = await self._segments(stored, range(unread, unread + 1), what=what)
            if segments is None:
                break  # deleted meanwhile: the next commit finds that out
            texts[:0] = segments[0].texts
        return texts

    async def _shared_state(self, owner: UserKey, *, what: str) -> ScopedState:
        app, user = await self._documents.get(
            [self._layout.app(owner.app), self._layout.user(owner)], what=what
        )
        return _shared(app, user)

    async def _states_of(
        self, app: str, owners: Sequence[UserKey], *, what: str
    ) -> dict[UserKey, ScopedState]:
        states: dict[UserKey, ScopedState] = {}
        for start in range(0, len(owners), _USERS_PER_READ):
            chunk = owners[start : start + _USERS_PER_READ]
            paths = [self._layout.app(app), *(self._layout.user(owner) for owner in chunk)]
            app_document, *users = await self._documents.get(paths, what=what)
            states |= {owner: _shared(app_document, user) for owner, user in zip(chunk, users, strict=True)}
        return states

    async def _end(self, key: SessionKey, *, what: str) -> list[Deletion]:
        """End the session; return what of it, and of earlier ones with its id, is to be removed."""
        while True:
            stored = await self.stored(key, what=what)
            if stored is None:
                left = await self._documents.query(
                    self._layout.session(key), self._layout.deletions_collection, what=what
                )
                return read_deletions(left)
            try:
                await self._documents.commit(
                    self._layout.delete(stored), what=what, repeatable_when_unanswered=True
                )
            except (ConditionFailedError, TargetMissingError):
                continue  # an append came between, or our own first answer was lost
            return [Deletion(epoch=stored.epoch, sealed=stored.sealed)] if stored.sealed else []

    async def _headers(self, parent: str, *, all_descendants: bool, what: str) -> list[StoredSession]:
        documents = await self._documents.query(
            parent,
            self._layout.sessions_collection,
            all_descendants=all_descendants,
            fields=HEADER_FIELDS,
            what=what,
        )
        return [read_session(document) for document in documents]


def _after(settlement: Settlement, marker: Marker | None, stored: StoredSession | None) -> Marker | None:
    if marker is None or stored is None:
        return None
    # Overtaken: no update time is right for this handle, so that its next append finds the others'.
    return stored.marker if settlement is Settlement.LANDED else marker.advanced("")


def _refused(settlement: Settlement, key: SessionKey) -> StoreError:
    if settlement is Settlement.MISSING:
        return SessionMissingError(f"Session {key.session} not found.")
    return SessionConflictError(
        "The session has been modified in storage since it was loaded. "
        "Reload the session before appending again.",
    )


def _shared(app: Document | None, user: Document | None) -> ScopedState:
    return ScopedState(app=read_state(app), user=read_state(user))


def _sealed_tail(stored: StoredSession) -> Segment:
    timestamps = [event_timestamp(text) for text in stored.tail]
    if stored.sealed_max is not None:
        timestamps.append(stored.sealed_max)
    return Segment(texts=stored.tail, running_max=max(timestamps))

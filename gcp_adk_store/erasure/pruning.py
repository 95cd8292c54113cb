"""Delete sessions that rules no longer keep, and archive the oldest events of others."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.codec.documents import ids_of
from gcp_adk_store.codec.memory_documents import MemoryLayout, read_memory_head
from gcp_adk_store.codec.writes import EVERY_NAME, Delete, Document, NameRange, Page, Write
from gcp_adk_store.errors import InvalidInputError, PointMissingError, SessionMissingError, StoredDataError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, operation
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact
from gcp_adk_store.model.history import Point
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.sessions import StoredSession
from gcp_adk_store.sessions.archive.run import archive
from gcp_adk_store.sessions.describe.decide import SessionInfo, UnreadableSession, require_labels
from gcp_adk_store.sessions.describe.run import key_of, living
from gcp_adk_store.sessions.lifecycle.run import SessionLifecycle
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.read.reader import SessionReader
from gcp_adk_store.sessions.service import SessionService

DAY_S: Final = 86_400.0
_PER_PAGE: Final = 1000
"""Sessions that one query lists, without their events and state."""
_LONGEST_DAYS: Final = 36_500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What goes: sessions that meet all conditions that are given, and data of users without sessions."""

    idle_days: float | None = None
    """Days since the last event, or since the creation of a session without events."""
    older_than_days: float | None = None
    """Days since the creation."""
    keep_latest: int | None = None
    """So many sessions of each user with the latest events stay; others go if they meet the rest."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only sessions with all of these labels go, and only they count for *keep_latest*."""
    user_data_idle_days: float | None = None
    """Days since the last change of a user's state, or of their memories, after which each of them goes if
    the user has no session."""
    keep_events: int | None = None
    """Of the sessions with the *labels* that stay, all events but so many of the newest are archived. Turns
    stay whole, and so does a call with its response."""

    def __post_init__(self) -> None:
        for name in ("idle_days", "older_than_days", "user_data_idle_days"):
            days = getattr(self, name)
            if days is not None and not 0 < days <= _LONGEST_DAYS:
                raise InvalidInputError(
                    f"{name} is {days}, it must be above 0 and at most {_LONGEST_DAYS:.0f}"
                )
        for name in ("keep_latest", "keep_events"):
            count = getattr(self, name)
            if count is not None and count < 0:
                raise InvalidInputError(f"{name} is {count}, it must not be negative")
        require_labels(self.labels)  # no session has others
        if not self.is_about_sessions and (self.labels or self.user_data_idle_days is None):
            raise InvalidInputError(
                "nothing says which sessions go; pass idle_days, older_than_days or keep_latest, or "
                "keep_events to archive events"
            )

    @property
    def is_about_sessions(self) -> bool:
        """Whether any session may go, or events of any be archived."""
        return self._removes_sessions or self.keep_events is not None

    @property
    def _removes_sessions(self) -> bool:
        return (self.idle_days, self.older_than_days, self.keep_latest) != (None, None, None)

    def to_archive(self, session: SessionInfo) -> int:
        """Return how many events of a session that stays may be archived; 0 if they are already."""
        if self.keep_events is None or not self.labels.items() <= session.labels.items():
            return 0
        count = session.events - self.keep_events
        return count if count > session.archived_events else 0

    def chosen(self, sessions: Sequence[SessionInfo], now: float) -> list[SessionInfo]:
        """Return those of all *sessions* of one user that go at the time *now*, the longest idle first."""
        if not self._removes_sessions:
            return []
        mine = [each for each in sessions if self.labels.items() <= each.labels.items()]
        ordered = sorted(mine, key=lambda each: (each.last_update_time, each.session_id))
        if self.keep_latest is not None:
            ordered = ordered[: max(0, len(ordered) - self.keep_latest)]
        return [
            each
            for each in ordered
            if _is_over(each.last_update_time, self.idle_days, now)
            and _is_over(each.create_time, self.older_than_days, now)
        ]

    def user_data_goes(self, changed_at: float, now: float) -> bool:
        """Return whether data of a user without sessions goes that was changed last at *changed_at*."""
        return self.user_data_idle_days is not None and _is_over(changed_at, self.user_data_idle_days, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a prune looked at, and what went."""

    app_name: str
    is_dry_run: bool
    begun_at: float
    """Unix time by the database's clock, in seconds."""
    ended_at: float = 0.0
    sessions: int = 0
    """Sessions that were looked at."""
    pruned_sessions: int = 0
    """Sessions that went; after a dry run, that would go."""
    pruned_artifacts: int = 0
    """Artifacts of these sessions."""
    archived_sessions: int = 0
    """Sessions that stay and whose events were archived; after a dry run, would be."""
    archived_events: int = 0
    """The events of these that a read of all leaves out since."""
    pruned_states: int = 0
    """States of users."""
    pruned_memories: int = 0
    """Users whose memories went."""
    in_use: int = 0
    """What would go, but has a turn now or changed meanwhile: it stays until a later run."""
    unreadable: int = 0
    """Documents, sessions and notes that cannot be read; they stay: see ``gcp-adk-store fsck``."""


def _is_over(since: float, days: float | None, now: float) -> bool:
    return days is None or since < now - days * DAY_S


OnPruned = Callable[[PruneReport], object]
"""Called with the counts so far."""

_USER_IDS: Final = 2


class Pruner:
    """Applies a retention to one app of a store, once."""

    def __init__(
        self,
        sessions: SessionService,
        artifacts: ArtifactService | None,
        retention: Retention,
        *,
        dry_run: bool,
        on_progress: OnPruned | None = None,
        within: NameRange = EVERY_NAME,
    ) -> None:
        """Prepare; *within* bounds the users by the paths of their documents."""
        self._storage = sessions.storage
        self._documents = self._storage.documents
        self._reader = SessionReader(self._storage, cache_bytes=0, placeholders=True)
        self._lifecycle = SessionLifecycle(self._storage, self._reader)
        self._memories = MemoryLayout(self._storage.layout)
        self._artifacts = artifacts
        self._retention = retention
        self._on_progress = on_progress
        self._within = within
        self._report = PruneReport(app_name="", is_dry_run=dry_run, begun_at=0.0)
        ready = sessions._appender.ready  # noqa: SLF001  # of one store
        self._bounds = Bounds(Pruner, system=telemetry.FIRESTORE, ready=ready)

    @operation
    async def prune(self, *, app_name: str) -> PruneReport:
        """As :meth:`gcp_adk_store.Store.prune`."""
        self._report = replace(self._report, app_name=app_name, begun_at=self._documents.clock.now())
        if self._retention.is_about_sessions:
            async for sessions in self._by_user():
                await self._sessions_of_user(sessions)
        if self._retention.user_data_idle_days is not None:
            await self._user_data()
        return replace(self._report, ended_at=self._documents.clock.now())

    @property
    def _app(self) -> str:
        """Path of the app's document."""
        return self._storage.layout.app(self._report.app_name)

    async def _by_user(self) -> AsyncIterator[list[tuple[SessionInfo, StoredSession]]]:
        """Yield the sessions of each user."""
        mine: list[tuple[SessionInfo, StoredSession]] = []
        app = self._report.app_name
        async for found in living(self._storage, app, limit=_PER_PAGE, within=self._within):
            if isinstance(found, UnreadableSession):
                self._count(unreadable=1)
                continue
            stored, info = found
            if mine and mine[-1][0].user_id != info.user_id:
                yield mine
                mine = []
            mine.append((info, stored))
        if mine:
            yield mine

    async def _sessions_of_user(self, sessions: Sequence[tuple[SessionInfo, StoredSession]]) -> None:
        self._count(sessions=len(sessions))
        free = {info.session_id: stored for info, stored in sessions if not stored.is_in_turn}
        chosen = self._retention.chosen([info for info, _ in sessions], self._documents.clock.now())
        self._count(in_use=sum(info.session_id not in free for info in chosen))
        await gather(self._prune(info, free[info.session_id]) for info in chosen if info.session_id in free)
        gone = {info.session_id for info in chosen}
        for info, _ in sessions:  # one at a time: each may hold a long history
            if info.session_id not in gone and (count := self._retention.to_archive(info)):
                await self._archive(info, count)

    async def _archive(self, info: SessionInfo, count: int) -> None:
        """Archive at most the first *count* events of a session."""
        key, before = key_of(info), Point.position(count)
        dry_run = self._report.is_dry_run
        try:
            done = await archive(self._storage, self._reader, key, before, dry_run=dry_run)
        except StoredDataError:
            self._count(unreadable=1)
        except (SessionMissingError, PointMissingError):  # another call deleted or restored it
            self._count(in_use=1)
        else:
            if archived := max(0, done.events - info.archived_events):
                self._count(archived_sessions=1, archived_events=archived)

    async def _prune(self, info: SessionInfo, listed: StoredSession) -> None:
        """Delete a session with its artifacts, unless it is not as *listed* any more."""

        def is_unchanged(stored: StoredSession) -> bool:
            return stored.update_time == listed.update_time

        try:
            is_gone = self._report.is_dry_run or await self._lifecycle.delete_if(key_of(info), is_unchanged)
        except StoredDataError:
            self._count(unreadable=1)
            return
        if is_gone:
            self._count(pruned_sessions=1, pruned_artifacts=await self._remove_artifacts(info))
        else:
            self._count(in_use=1)

    async def _remove_artifacts(self, info: SessionInfo) -> int:
        """Remove the artifacts of a session, or only count them; return their number."""
        if self._artifacts is not None:
            with suppress(InvalidInputError):  # no artifact can have these ids
                remove = self._artifacts.delete_session_artifacts
                return len(await remove(**key_of(info).ids, dry_run=self._report.is_dry_run))
        return 0

    async def _user_data(self) -> None:
        layout = self._storage.layout
        async for user in self._old(layout.users_collection, all_descendants=False):
            if not await self._has_sessions(user.path):
                await self._remove([Delete(path=user.path, must=user.update_time)], "pruned_states")
        async for head in self._old(self._memories.collection, all_descendants=True):
            if not await self._has_sessions(head.path.rsplit("/", 2)[0]):
                await self._forget(head)

    async def _old(self, collection: str, *, all_descendants: bool) -> AsyncIterator[Document]:
        """Yield the documents of a *collection* that nobody changed for long, without their fields."""
        async for found, _ in pages(
            self._documents,
            collection,
            parent=self._app,
            all_descendants=all_descendants,
            fields=("format",),
            within=self._within,
        ):
            for document in found:
                changed_at = float(document.update_time)
                if self._retention.user_data_goes(changed_at, self._documents.clock.now()):
                    yield document

    async def _has_sessions(self, user_path: str) -> bool:
        page = Page(field=None, descending=False, limit=1, after=None)
        collection = self._storage.layout.sessions_collection
        return bool(await self._documents.query(user_path, collection, fields=("__name__",), page=page))

    async def _forget(self, listed: Document) -> None:
        """Remove the memories of a user, whose head is as it was *listed*."""
        (document,) = await self._documents.get([listed.path])
        if document is None or document.update_time != listed.update_time:
            self._count(in_use=1)
            return
        try:
            head = read_memory_head(document)
            app, user, *_ = ids_of("/".join(listed.path.split("/")[: 2 * _USER_IDS]))
        except StoredDataError:
            self._count(unreadable=1)
            return
        await self._remove(self._memories.remove(UserKey(app=app, user=user), head), "pruned_memories")

    async def _remove(self, deletes: Sequence[Write | Delete], counted: str) -> None:
        path = deletes[0].path

        async def is_left() -> bool:
            return any(await self._documents.get([path], fields=("__name__",)))

        def decide(is_left: bool, attempts: Attempts) -> Decision[bool]:  # noqa: FBT001  # what was read
            return Done(not is_left) if attempts.refused else Commit(deletes, lambda _: True)

        is_gone = self._report.is_dry_run or await transact(self._documents, is_left, decide, known=(True,))
        self._count(**{counted if is_gone else "in_use": 1})

    def _count(self, **more: int) -> None:
        sums = {name: getattr(self._report, name) + number for name, number in more.items()}
        self._report = replace(self._report, **sums)
        if self._on_progress is not None:
            self._on_progress(self._report)

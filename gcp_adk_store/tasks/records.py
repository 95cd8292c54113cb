"""Save, read, list and delete A2A tasks as bytes, each write under a condition."""

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, Unpack

from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.codec.writes import Delete, Document, Must, Page
from gcp_adk_store.errors import OutcomeUnknownError, StoredDataError, TaskConflictError
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import checks_kinds, operation
from gcp_adk_store.kernel.concurrency import Lru, offload
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.kernel.transact import (
    CHANGED,
    Attempts,
    Changed,
    Commit,
    Decision,
    Done,
    Writes,
    read_whole,
    transact,
)
from gcp_adk_store.tasks.format import (
    HEADER_FIELDS,
    Packed,
    StoredTask,
    TaskHeader,
    joined,
    unpack_task,
)
from gcp_adk_store.tasks.owned import LeftOut, OwnedOptions, OwnedStore
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.cluster import ConcurrentTaskModificationError
    from a2a.types import TaskState

T = TypeVar("T")

_ENDED: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)

_LIGHT_BYTES: Final = 128 * 1024
"""Compressing more than this blocks the event loop for several milliseconds."""

_HEADERS_AT_ONCE: Final = 1000

_KNOWN_SAVES: Final = 10_000
"""Saves that a process remembers, to know them again: of tasks that several subscribers follow."""


class ConcurrentTaskError(TaskConflictError, ConcurrentTaskModificationError):
    """The same for this library's callers and for the SDK, which reads the task again and goes on."""

    def __init__(self, message: str, **about: Any) -> None:
        super().__init__(message, **about)
        self.args = (message,)  # the SDK's class takes an id, and makes a text of it
        self.task_id = ""


def new_save_id() -> str:
    """Return a random id, by which one save differs from every other."""
    return platform_uuid.new_uuid().replace("-", "")


class Version(NamedTuple):
    """A stored state of a task, which a later save may require."""

    update_time: str
    pieces: Sequence[str]
    """Paths of the pieces to remove with it."""
    sha256: str
    """Of its content."""


class _Made(NamedTuple):
    """A save of this object that comes from one content to another."""

    save_id: str
    version: Version | None
    """What it stored; ``None`` as long as that is unknown."""


class Listed(NamedTuple, Generic[T]):
    """A page of tasks."""

    tasks: Sequence[T]
    last: TaskHeader | None
    """The last task of the page if there are more."""
    total: int
    """Tasks that were chosen, on all pages, without those of this page that cannot be read."""


@checks_kinds
class TaskRecords(OwnedStore):
    """The tasks below one prefix of a database."""

    def __init__(self, documents: Documents, **options: Unpack[OwnedOptions]) -> None:
        super().__init__(documents, **options)
        self._saves = Lru[tuple[str, str, str, str], _Made](_KNOWN_SAVES)
        """Saves of this object by owner, id, and content before and after."""

    @operation
    async def save_task(
        self, *, task_id: str, owner: str, header: TaskHeader, body: bytes, derived_from: Version | None
    ) -> Version:
        """Store a task; return its version.

        Args:
            task_id: Its id, as *header* has it; errors name it.
            owner: Whose it is.
            header: What listings read of it.
            body: The task as protobuf.
            derived_from: The version that the task derives from. Its content counts: one that was stored
                again is the same. If this object made the same content of it before, that save counts for
                this one, too. ``None`` if it is unknown: then it replaces any, but none that has ended
                unless it has.

        Raises:
            TaskConflictError: the stored task is not of the version *derived_from*, or may not be replaced.
            InvalidInputError: an id or the task is too large.
            OutcomeUnknownError: not answered before the deadline.
        """
        known = derived_from
        packed = await offload(lambda: Packed.of(body), light=len(body) <= _LIGHT_BYTES)
        expiry = await self._expiry(self._layout.task(owner, task_id))
        same = None if known is None else (owner, task_id, known.sha256, packed.sha256)
        made = None if same is None else self._saves.lookup(same)
        # Saves that make the same of the same have one id: each knows what another one stores beside it.
        save_id = new_save_id() if made is None else made.save_id
        if same is not None and made is None:
            self._saves.put(same, _Made(save_id, None))
        put = partial(self._layout.put_task, owner, header, packed, save_id=save_id, expiry=expiry)

        def commit(stored: Version | None) -> Commit[Version]:
            must, before = (Must.BE_ABSENT, ()) if stored is None else (stored.update_time, stored.pieces)
            pieces = self._pieces_of(owner, header, packed)
            return Commit(
                put(must=must, before=before),
                lambda written: self._made(
                    same, save_id, Version(written[0].update_time, pieces, packed.sha256)
                ),
            )

        def decide(found: StoredTask | None, attempts: Attempts) -> Decision[Version]:
            if not attempts.refused:
                return commit(known)
            if found is not None and found.save_id == save_id:
                # An earlier attempt, whose answer was lost, or a save that made the same of the same.
                return Done(self._made(same, save_id, _version_of(found)))
            if attempts.maybe_applied:
                raise OutcomeUnknownError(
                    "sent and not answered, and then changed by another writer; get the task before saving it"
                )
            if known is None:
                done = _over(found, header, packed, renews=expiry is not None)
            else:
                made = None if same is None else self._saves.lookup(same)
                done = _from(known, found, packed, made_before=None if made is None else made.version)
            if done is not None:
                return Done(done)
            return commit(None if found is None else _version_of(found))

        unread: tuple[StoredTask | None] = (None,)
        return await transact(self._documents, partial(self._find, owner, task_id), decide, known=unread)

    def _made(self, same: tuple[str, str, str, str] | None, save_id: str, saved: Version) -> Version:
        if same is not None:
            self._saves.put(same, _Made(save_id, saved))
        return saved

    @operation
    async def get_task(self, *, task_id: str, owner: str) -> tuple[bytes, Version] | None:
        """Return a task as protobuf and its version, ``None`` if it does not exist or has expired.

        It takes 1 RPC, and 1 more for a large task.
        """
        return await self._get(owner, task_id)

    async def _get(self, owner: str, task_id: str) -> tuple[bytes, Version] | None:
        async def look() -> tuple[bytes, Version] | Changed | None:
            found = await self._find(owner, task_id)
            if found is None or found.has_expired:
                return None
            body = await self._body(found)
            if body is not None:
                return body, _version_of(found)
            again = await self._find(owner, task_id)
            if again is not None and again.update_time == found.update_time:
                raise StoredDataError(f"{found.path} lacks a part; delete the task or restore the part")
            return CHANGED

        return await read_whole(self._documents.deadline_s, look)

    async def _list(
        self,
        owner: str,
        *,
        chosen: Callable[[TaskHeader], bool],
        after: Callable[[TaskHeader], bool],
        limit: int,
        decode: Callable[[bytes, str], T],
    ) -> Listed[T]:
        """Return the first *limit* tasks of those that are *chosen* and come *after* the page before.

        It reads the headers of all tasks of the owner, a thousand in each RPC, then the tasks of the page.
        *decode* gets the body of a task and its path. What cannot be read is left out; a warning names it.

        Raises:
            StoredDataError: none of the owner's tasks can be read.
        """
        left_out = LeftOut()
        page = Page(field=None, descending=False, limit=_HEADERS_AT_ONCE, after=None)
        best: list[StoredTask] = []
        total = 0
        while True:
            found = await self._documents.query(
                self._layout.owner(owner), self._layout.tasks_collection, fields=HEADER_FIELDS, page=page
            )
            tasks = []
            for header in found:
                with left_out.unreadable():
                    tasks.append(self._layout.read_task(header))
            tasks = [task for task in tasks if not task.has_expired and chosen(task.header)]
            total += len(tasks)
            best = heapq.nlargest(
                limit + 1,
                [*best, *(task for task in tasks if after(task.header))],
                key=lambda task: task.header.order,
            )
            if len(found) < page.limit:
                break
            page = replace(page, after=(0.0, found[-1].path))
        shown = best[:limit]
        documents = await self._documents.get([task.path for task in shown]) if shown else []
        read = []
        for document in documents:
            if document is None:
                continue  # deleted meanwhile
            with left_out.unreadable():
                body = await self._body(self._layout.read_task(document))
                if body is None:
                    newer = await self._get(owner, self._layout.read_task(document).header.id)
                    body = None if newer is None else newer[0]
                if body is not None:
                    read.append(decode(body, document.path))
        left_out.report()
        total -= len(shown) - len(read)
        return Listed(read, shown[-1].header if len(best) > limit else None, total)

    @operation
    async def delete_task(self, *, task_id: str, owner: str) -> None:
        """Remove a task, also a damaged one; a missing one is accepted.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        path = self._layout.task(owner, task_id)

        async def look() -> Writes:
            found = await self._documents.get([path], fields=("pieces",))
            return [each async for some in self._removals([one for one in found if one]) for each in some]

        def decide(removals: Writes, _: Attempts) -> Decision[None]:
            if not removals:
                return Done(None)
            return Commit(removals, lambda _: None)

        await transact(self._documents, look, decide, advice="call it again")

    @operation
    async def delete_owner_tasks(self, *, owner: str) -> None:
        """Remove all tasks of an owner, as the owner resolver names them; damaged tasks too.

        It removes what was stored when it began. The owner's push notification configs are in the other
        store: :meth:`~gcp_adk_store.tasks.FirestorePushNotificationConfigStore.delete_owner_configs`.
        For 500 tasks it takes 1 query and 1 commit, and 1 of both for each task in pieces.

        Raises:
            OutcomeUnknownError: some tasks may be removed, and some not; calling again removes the rest.
        """
        await self._erase(owner, self._layout.tasks_collection, fields=("pieces",), removals=self._removals)

    async def _removals(self, tasks: Sequence[Document]) -> AsyncIterator[Writes]:
        whole = [task for task in tasks if task.fields.get("pieces") == 0]
        if whole:
            yield [Delete(path=task.path, must=task.update_time) for task in whole]
        for task in tasks:
            if task.fields.get("pieces") == 0:
                continue
            pieces = await self._documents.query(
                task.path, self._layout.pieces_collection, fields=("format",)
            )
            yield [
                Delete(path=task.path, must=task.update_time),
                *(Delete(path=piece.path) for piece in pieces),
            ]

    async def _find(self, owner: str, task_id: str) -> StoredTask | None:
        (document,) = await self._documents.get([self._layout.task(owner, task_id)])
        return None if document is None else self._layout.read_task(document)

    async def _body(self, found: StoredTask) -> bytes | None:
        data = found.packed
        if data is None:
            data = joined(await self._documents.get(found.pieces)) if found.pieces else b""
            if data is None:
                return None
        return await offload(lambda: unpack_task(found, data), light=len(data) <= _LIGHT_BYTES)

    def _pieces_of(self, owner: str, header: TaskHeader, packed: Packed) -> Sequence[str]:
        return self._layout.pieces(self._layout.task(owner, header.id), packed.sha256, packed.pieces)


def _over(found: StoredTask | None, header: TaskHeader, packed: Packed, *, renews: bool) -> Version | None:
    """Return the version that a save over a task of unknown version comes to; ``None`` to try again over it.

    Raises:
        TaskConflictError: the stored task has ended, and the one of *header* has not.
    """
    if found is None or found.has_expired:
        return None
    if found.sha256 == packed.sha256 and not renews:
        return _version_of(found)  # it would replace a task by its equal
    if found.header.state in _ENDED and header.state not in _ENDED:
        raise _conflict("ended")
    return None


def _from(
    known: Version, found: StoredTask | None, packed: Packed, *, made_before: Version | None
) -> Version | None:
    """Return the version that a save of what derives from *known* comes to; ``None`` to try again.

    Raises:
        TaskConflictError: the stored task has another content than *known*.
    """
    if found is None:
        raise _conflict("deleted")
    if found.sha256 == known.sha256 and not found.has_expired:
        return None  # it was stored again as it was
    if made_before is not None:
        return made_before  # another object made the same of the same
    if packed.sha256 == known.sha256:
        return known  # it changes nothing
    raise _conflict("changed")


def _version_of(found: StoredTask) -> Version:
    return Version(found.update_time, found.pieces, found.sha256)


def _conflict(what_others_did: str) -> ConcurrentTaskError:
    telemetry.count_conflict()
    return ConcurrentTaskError(
        f"another writer {what_others_did} the task first; nothing was written: get it and decide again"
    )

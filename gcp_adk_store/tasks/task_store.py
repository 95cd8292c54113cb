"""Store A2A tasks, as the task store of ``a2a-sdk``; each write has a condition."""

import heapq
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Unpack

from google.adk.platform import uuid as platform_uuid

from gcp_adk_store.codec.writes import Delete, Document, Must, Page
from gcp_adk_store.errors import OutcomeUnknownError, StoredDataError
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
from gcp_adk_store.tasks.decide import Version, over, version_of
from gcp_adk_store.tasks.format import HEADER_FIELDS, Packed, StoredTask, TaskHeader, joined, unpack_task
from gcp_adk_store.tasks.owned import LeftOut, OwnedOptions, OwnedStore
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.context import ServerCallContext
    from a2a.server.tasks import TaskStore as A2aTaskStore
    from a2a.types import ListTasksRequest, ListTasksResponse, Task
    from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE, MAX_LIST_TASKS_PAGE_SIZE
    from a2a.utils.errors import InvalidParamsError
    from a2a.utils.task import ListTasksCursor, decode_list_tasks_cursor, encode_list_tasks_cursor
    from google.protobuf.message import DecodeError
    from google.protobuf.timestamp_pb2 import Timestamp

_KNOWN_BYTES: Final = 64 * 1024 * 1024
"""Memory for the tasks whose versions the store remembers; most of them are in use by a server anyway."""

_KNOWN_SAVES: Final = 10_000
"""Saves that a process remembers, to know them again: of tasks that several subscribers follow."""

_LIGHT_BYTES: Final = 128 * 1024
"""Compressing more than this blocks the event loop for several milliseconds."""

_HEADERS_AT_ONCE: Final = 1000

_NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Known:
    """A task object that this store returned or saved, and what is stored of it."""

    task: Task
    """Held, so that no other object gets its ``id()``."""
    owner: str
    task_id: str
    """As it was saved: the caller may give the object another one."""
    version: Version
    size: int


_Same = tuple[str, str, str, str]
"""Owner and id of a task, and its content before and after a save."""


class _Made(NamedTuple):
    """A save of this object that comes from one content to another."""

    save_id: str
    version: Version | None
    """What it stored; ``None`` as long as that is unknown."""


@checks_kinds
class TaskStore(OwnedStore, A2aTaskStore):
    """The task store of ``a2a-sdk`` over any documents, for any number of processes.

    Each owner, as the SDK's owner resolver names them, has tasks of their own. An acknowledged save is
    durable and visible to every later read, and happens exactly once under retries and lost answers.

    Every save has a condition. A :class:`~a2a.types.Task` object that this store returned or saved before has
    a version: saving it again requires that version's content in storage. Objects of one store that come from
    the same content to the same content are one writer, as those of several subscribers of a task are. A save
    of another object replaces the stored task, unless that has ended and the object has not. A refused save
    is a :class:`~gcp_adk_store.TaskConflictError`. It is the SDK's ``ConcurrentTaskModificationError`` too:
    the SDK's request handler then reads the task again and applies its event to it.

    Every method may raise :class:`~gcp_adk_store.errors.UnavailableError`,
    :class:`~gcp_adk_store.errors.AccessDeniedError`, :class:`~gcp_adk_store.errors.NotProvisionedError`
    and :class:`~gcp_adk_store.errors.StoredDataError`, and :class:`~gcp_adk_store.errors.InvalidInputError`
    for an id or an owner over 1,500 bytes as a Firestore name, in addition to the errors that it names.
    """

    def __init__(self, documents: Documents, **options: Unpack[OwnedOptions]) -> None:
        """Prepare the store; the arguments are those of :class:`OwnedStore`, as are the errors."""
        super().__init__(documents, **options)
        self._known = Lru[int, _Known](_KNOWN_BYTES, size_of=lambda known: known.size)
        self._saves = Lru[_Same, _Made](_KNOWN_SAVES)

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store *task* as a whole for the owner of *context*; 1 commit, of a large task too.

        A task may take 9 MiB after compression, and 64 MiB before.

        Raises:
            TaskConflictError: another writer changed, deleted or ended the task first; nothing was written.
            InvalidInputError: the task or an id is too large.
            OutcomeUnknownError: not answered before the deadline; get the task before repeating.
        """
        owner, task_id = self._owner_of(context), task.id
        # What is sent is what the task is now: the caller may change it meanwhile.
        body = task.SerializeToString(deterministic=True)
        known = self._known.lookup(id(task))
        is_known = known is not None and (known.owner, known.task_id) == (owner, task_id)
        version = known.version if known is not None and is_known else None
        saved = await self.save_task(
            task_id=task_id, owner=owner, header=_header_of(task), body=body, derived_from=version
        )
        self._remember(task, owner, task_id, saved, len(body))

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return the owner's task, the caller's own object; 1 read, and 1 more of a large task."""
        owner = self._owner_of(context)
        found = await self.get_task(task_id=task_id, owner=owner)
        if found is None:
            return None
        body, version = found
        task = _task_of(body, self._layout.task(owner, task_id))
        self._remember(task, owner, task_id, version, len(body))
        return task

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the owner's tasks, filtered and ordered as the SDK's own stores do.

        The latest status comes first; tasks of the same time are in descending order of their ids.
        ``total_size`` counts all chosen tasks, so each call reads the headers of all tasks of the owner, a
        thousand in each RPC, then the tasks of the page.

        A task that cannot be read is left out, because the answer has no place for it, and a warning in the
        log names it; :meth:`get` of it raises. ``total_size`` has one whose content is damaged, except on its
        own page: others do not read it.

        Raises:
            StoredDataError: none of the owner's tasks can be read.
            InvalidParamsError: the SDK's: the page's size is not from 1 to 100, or another method made the
                page token.
        """
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        if not 1 <= size <= MAX_LIST_TASKS_PAGE_SIZE:
            raise InvalidParamsError(f"page_size is {size}, it must be from 1 to {MAX_LIST_TASKS_PAGE_SIZE}")
        return await self.list_tasks(owner=self._owner_of(context), params=params, size=size)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Remove the owner's task, also a damaged one; a missing one is accepted.

        1 read and 1 commit, and 1 query for the pieces of a large task.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        await self.delete_task(task_id=task_id, owner=self._owner_of(context))

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
                again is the same. If this object made the same content of it since, that save counts for
                this one, too. ``None`` if it is unknown: then it replaces any, but none that has ended
                unless it has.

        Raises:
            TaskConflictError: the stored task is not of the version *derived_from*, or may not be replaced.
            InvalidInputError: an id or the task is too large.
            OutcomeUnknownError: not answered before the deadline.
        """
        known, path = derived_from, self._layout.task(owner, task_id)
        packed = await offload(lambda: Packed.of(body), light=len(body) <= _LIGHT_BYTES)
        expiry = await self._expiry(path)
        same = None if known is None else (owner, task_id, known.sha256, packed.sha256)
        made = self._made_since(known, same)
        # Saves that make the same of the same have one id: each knows what another one stores beside it.
        save_id = _new_save_id() if made is None else made.save_id
        if same is not None and made is None:
            self._saves.put(same, _Made(save_id, None))

        def noted(saved: Version) -> Version:
            if same is not None:
                self._saves.put(same, _Made(save_id, saved))
            return saved

        def commit(stored: Version | None) -> Commit[Version]:
            must, before = (Must.BE_ABSENT, ()) if stored is None else (stored.update_time, stored.pieces)
            pieces = self._layout.pieces(path, packed.sha256, packed.pieces)
            return Commit(
                self._layout.put_task(
                    owner, header, packed, save_id=save_id, must=must, expiry=expiry, before=before
                ),
                lambda written: noted(Version(written[0].update_time, pieces, packed.sha256)),
            )

        def decide(found: StoredTask | None, attempts: Attempts) -> Decision[Version]:
            if not attempts.refused:
                return commit(known)
            if found is not None and found.save_id == save_id:
                # An earlier attempt, whose answer was lost, or a save that made the same of the same.
                return Done(noted(version_of(found)))
            if attempts.maybe_applied:
                raise OutcomeUnknownError(
                    "sent and not answered, and then changed by another writer; get the task before saving it"
                )
            made = self._made_since(known, same)
            before = None if made is None else made.version
            done = over(known, found, header, packed, made_before=before, renews=expiry is not None)
            if done is not None:
                return Done(done)
            return commit(None if found is None else version_of(found))

        unread: tuple[StoredTask | None] = (None,)
        return await transact(self._documents, partial(self._find, path), decide, known=unread)

    @operation
    async def get_task(self, *, task_id: str, owner: str) -> tuple[bytes, Version] | None:
        """Return a task as protobuf and its version, ``None`` if it does not exist or has expired.

        It takes 1 RPC, and 1 more for a large task.
        """
        return await self._get(self._layout.task(owner, task_id))

    @operation
    async def list_tasks(self, *, owner: str, params: ListTasksRequest, size: int) -> ListTasksResponse:
        """Return a page as :meth:`list` does."""
        since = None
        if params.HasField("status_timestamp_after"):
            since = _in_order(params.status_timestamp_after)

        def is_chosen(task: StoredTask) -> bool:
            header = task.header
            return (
                not task.has_expired
                and (not params.context_id or header.context_id == params.context_id)
                and (not params.status or header.state == params.status)
                and (since is None or (header.time is not None and header.time >= since))
            )

        place = None if not params.page_token else _place_of(params.page_token)
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
            tasks = [task for task in tasks if is_chosen(task)]
            total += len(tasks)
            later = [task for task in tasks if place is None or task.header.order < place]
            best = heapq.nlargest(size + 1, [*best, *later], key=lambda task: task.header.order)
            if len(found) < page.limit:
                break
            page = replace(page, after=(0.0, found[-1].path))
        shown = best[:size]
        read = await self._read([task.path for task in shown], left_out)
        left_out.report()
        return ListTasksResponse(
            tasks=read,
            total_size=total - (len(shown) - len(read)),
            next_page_token=_token_of(shown[-1].header) if len(best) > size else "",
            page_size=size,
        )

    async def _read(self, paths: Sequence[str], left_out: LeftOut) -> Sequence[Task]:
        """Return the tasks at *paths* that are still there, without those that cannot be read."""
        documents = await self._documents.get(paths) if paths else []
        read = []
        for document in documents:
            if document is None:
                continue  # deleted meanwhile
            with left_out.unreadable():
                body = await self._body(self._layout.read_task(document))
                if body is None:
                    newer = await self._get(document.path)
                    body = None if newer is None else newer[0]
                if body is not None:
                    read.append(_task_of(body, document.path))
        return read

    @operation
    async def delete_task(self, *, task_id: str, owner: str) -> None:
        """Remove a task as :meth:`delete` does."""
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

    async def _get(self, path: str) -> tuple[bytes, Version] | None:
        async def look() -> tuple[bytes, Version] | Changed | None:
            found = await self._find(path)
            if found is None or found.has_expired:
                return None
            body = await self._body(found)
            if body is not None:
                return body, version_of(found)
            again = await self._find(path)
            if again is not None and again.update_time == found.update_time:
                raise StoredDataError(f"{path} lacks a part; delete the task or restore the part")
            return CHANGED

        return await read_whole(self._documents.deadline_s, look)

    async def _find(self, path: str) -> StoredTask | None:
        (document,) = await self._documents.get([path])
        return None if document is None else self._layout.read_task(document)

    async def _body(self, found: StoredTask) -> bytes | None:
        """Return the protobuf body of a task; ``None`` if a piece is missing."""
        data = found.packed
        if data is None:
            data = joined(await self._documents.get(found.pieces)) if found.pieces else b""
            if data is None:
                return None
        return await offload(lambda: unpack_task(found, data), light=len(data) <= _LIGHT_BYTES)

    def _made_since(self, known: Version | None, same: _Same | None) -> _Made | None:
        """Return the save that made the *same* of what *known* holds, but none from before *known*."""
        made = None if same is None else self._saves.lookup(same)
        if known and made and made.version and known.follows(made.version):
            return None  # the task left that content, and came back to the one before
        return made

    def _remember(self, task: Task, owner: str, task_id: str, version: Version, size: int) -> None:
        # As an object of the SDK, a task takes several times its size as bytes.
        self._known.put(id(task), _Known(task, owner, task_id, version, 1024 + 4 * size))


def _new_save_id() -> str:
    """Return a random id, by which one save differs from every other."""
    return platform_uuid.new_uuid().replace("-", "")


def _token_of(task: TaskHeader) -> str:
    nanos = None if task.time is None else task.time[0] * _NANOS + task.time[1]
    return encode_list_tasks_cursor(ListTasksCursor(timestamp_ns=nanos, task_id=task.id))


def _place_of(token: str) -> tuple[bool, tuple[int, int], str]:
    try:
        cursor = decode_list_tasks_cursor(token)
    except RecursionError:  # of a token that nests deep, which the SDK does not expect
        cursor = None
    if cursor is None:
        raise InvalidParamsError("the page token does not come from this method; leave it out to start anew")
    return cursor.timestamp_ns is not None, divmod(cursor.timestamp_ns or 0, _NANOS), cursor.task_id


def _task_of(body: bytes, path: str) -> Task:
    try:
        return Task.FromString(body)
    except DecodeError as exc:
        raise StoredDataError(f"{path} is unreadable for the installed SDK; upgrade a2a-sdk") from exc


def _header_of(task: Task) -> TaskHeader:
    time = task.status.timestamp if task.status.HasField("timestamp") else None
    return TaskHeader(
        id=task.id,
        context_id=task.context_id,
        state=task.status.state,
        time=None if time is None else _in_order(time),
    )


def _in_order(time: Timestamp) -> tuple[int, int]:
    """Return seconds and nanoseconds; protobuf holds any number of both, and any sign."""
    return divmod(time.seconds * _NANOS + time.nanos, _NANOS)

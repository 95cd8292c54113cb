"""Store A2A tasks, as the task store of ``a2a-sdk``."""

from dataclasses import dataclass
from typing import Final, Unpack

from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.calls import checks_kinds, operation
from gcp_adk_store.kernel.concurrency import Lru
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.tasks.format import TaskHeader
from gcp_adk_store.tasks.owned import OwnedOptions
from gcp_adk_store.tasks.records import TaskRecords, Version
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

_NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Known:
    """A task object that this store returned or saved, and what is stored of it."""

    task: Task
    """Held, so that no other object gets its ``id()``."""
    owner: str
    version: Version
    size: int


@checks_kinds
class TaskStore(TaskRecords, A2aTaskStore):
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

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store *task* as a whole for the owner of *context*; 1 commit, of a large task too.

        A task may take 9 MiB after compression, and 64 MiB before.

        Raises:
            TaskConflictError: another writer changed, deleted or ended the task first; nothing was written.
            InvalidInputError: the task or an id is too large.
            OutcomeUnknownError: not answered before the deadline; get the task before repeating.
        """
        owner = self._owner_of(context)
        # What is sent is what the task is now: the caller may change it meanwhile.
        body = task.SerializeToString(deterministic=True)
        known = self._known.lookup(id(task))
        version = known.version if known is not None and known.owner == owner else None
        saved = await self.save_task(
            task_id=task.id, owner=owner, header=_header_of(task), body=body, derived_from=version
        )
        self._remember(task, owner, saved, len(body))

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return the owner's task, the caller's own object; 1 read, and 1 more of a large task."""
        owner = self._owner_of(context)
        found = await self.get_task(task_id=task_id, owner=owner)
        if found is None:
            return None
        body, version = found
        task = _task_of(body, self._layout.task(owner, task_id))
        self._remember(task, owner, version, len(body))
        return task

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the owner's tasks, filtered and ordered as the SDK's own stores do.

        The latest status comes first; tasks of the same time are in descending order of their ids.
        ``total_size`` counts all chosen tasks, so each call reads the headers of all tasks of the owner.

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
    async def list_tasks(self, *, owner: str, params: ListTasksRequest, size: int) -> ListTasksResponse:
        """Return a page as :meth:`list` does."""
        since = None
        if params.HasField("status_timestamp_after"):
            since = _in_order(params.status_timestamp_after)

        def is_chosen(task: TaskHeader) -> bool:
            return (
                (not params.context_id or task.context_id == params.context_id)
                and (not params.status or task.state == params.status)
                and (since is None or (task.time is not None and task.time >= since))
            )

        place = None if not params.page_token else _place_of(params.page_token)
        listed = await self._list(
            owner,
            chosen=is_chosen,
            after=lambda task: place is None or task.order < place,
            limit=size,
            decode=_task_of,
        )
        return ListTasksResponse(
            tasks=listed.tasks,
            total_size=listed.total,
            next_page_token="" if listed.last is None else _token_of(listed.last),
            page_size=size,
        )

    def _remember(self, task: Task, owner: str, version: Version, size: int) -> None:
        # As an object of the SDK, a task takes several times its size as bytes.
        self._known.put(id(task), _Known(task, owner, version, 1024 + 4 * size))


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

"""Copy the memories of users, from services that can list them."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store.codec.encode import UNREADABLE
from gcp_adk_store.codec.writes import Filter, Operator
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.memories import Memory
from gcp_adk_store.moving.places import closed_by, firestore_place, require_place, require_present
from gcp_adk_store.moving.report import Report, failure_of_one
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.read.storage import SessionStorage

MemoryPlace = str | BaseMemoryService

_PER_CALL: Final = 100
"""Memories that are added in one call."""

WithContent = tuple[Memory, types.Content]
"""A memory with its content."""

MemorySource = Callable[[UserKey], AsyncIterator[WithContent]]
"""Yields the memories of a user; each has an id that is the same next time."""


@dataclass(frozen=True, slots=True)
class MemoryCopies:
    """Copies memories of users. Each keeps its id, so that a service that knows it does not add it again."""

    source: MemorySource
    target: BaseMemoryService
    dry_run: bool

    async def of_user(self, owner: UserKey, report: Report) -> bool:
        """Copy the memories of a user; return whether none failed, which is noted."""
        try:
            await self._copy(owner, report)
        except Exception as exc:  # noqa: BLE001  # any error of a service that cannot hold or read them
            report.add("failed", f"memories: {failure_of_one(exc)}", user=owner.user)
            return False
        return True

    async def _copy(self, owner: UserKey, report: Report) -> None:
        some: list[WithContent] = []
        async for one in self.source(owner):
            some.append(one)
            if len(some) == _PER_CALL:
                await self._add(owner, some)
                report.memories += len(some)
                some = []
        await self._add(owner, some)
        report.memories += len(some)

    async def _add(self, owner: UserKey, some: list[WithContent]) -> None:
        if self.dry_run or not some:
            return
        target: Any = self.target
        if _storage_of(target) is not None:
            # ADK's interface has no sessions and no ends of memories.
            await target._take_over(owner, some)  # noqa: SLF001  # of one library
            return
        ids: dict[str, Any] = {"app_name": owner.app, "user_id": owner.user}
        try:
            await target.add_memory(**ids, memories=[_entry(*one) for one in some])
        except NotImplementedError:
            await target.add_events_to_memory(**ids, events=[_event(*one) for one in some])


async def adk_firestore_memories(documents: Documents, owner: UserKey) -> AsyncIterator[WithContent]:
    """Yield memories of ADK's Firestore service, whose collection ``memories`` is that of all apps.

    Takes 1 query for 100.
    """
    filters = (
        Filter(field="appName", operator=Operator.EQUAL, value=owner.app),
        Filter(field="userId", operator=Operator.EQUAL, value=owner.user),
    )
    memories = pages(documents, "memories", all_descendants=False, limit=_PER_CALL, filters=filters)
    async for found, _ in memories:
        for document in found:
            fields: Any = document.fields
            session, time = fields.get("sessionId"), math.nan
            try:
                content = types.Content.model_validate(fields.get("content"))
                time = float(fields.get("timestamp") or 0.0)
                entry = MemoryEntry(content=content, author=fields.get("author"))
            except (*UNREADABLE, ValueError, TypeError):
                entry = None  # pydantic's error, a ValueError, quotes the content
            if entry is None or not math.isfinite(time) or not isinstance(session, str | None):
                raise StoredDataError(f"{document.path} has no memory that ADK reads")
            memory = Memory(
                id=document.path.rpartition("/")[2],
                time=time,
                session=session or None,
                author=entry.author,
                metadata={"sessionId": session} if session else {},
            )
            yield memory, content


def _entry(memory: Memory, content: types.Content) -> MemoryEntry:
    """Return *memory* as ADK's entry; its time has a zone, unless its caller wrote it."""
    stamp = memory.stamp
    if stamp is None:
        with suppress(ValueError, OverflowError, OSError):  # a time that no date has
            stamp = datetime.fromtimestamp(memory.time, UTC).isoformat()
    return MemoryEntry(
        id=memory.id,
        content=content,
        author=memory.author,
        timestamp=stamp,
        custom_metadata=dict(memory.metadata),
    )


def _event(memory: Memory, content: types.Content) -> Event:
    made = Event(author=memory.author or "user", content=content, timestamp=memory.time)
    made.id = memory.id
    return made


def memory_source(given: MemoryPlace, ends: AsyncExitStack) -> MemorySource:
    """Return what lists the memories of a service, or of that of a URI, which *ends* closes.

    Raises:
        InvalidInputError: the URI is malformed or names a folder without a store, or the service cannot list
            memories.
    """
    require_present(given)
    if isinstance(given, str) and given.lower().startswith("adk-firestore:"):
        from gcp_adk_store.moving.adk_firestore import firestore_documents  # noqa: PLC0415  # Google's clients

        place = firestore_place(given)
        documents = firestore_documents(project=place["project"], database=place["database"])
        return partial(adk_firestore_memories, closed_by(ends, documents))
    service = memory_service(given, ends)
    storage = _storage_of(service)
    if storage is not None:
        from gcp_adk_store.memory.searches import iter_memories  # noqa: PLC0415  # where it is used

        return partial(iter_memories, storage)
    raise InvalidInputError(
        f"{type(service).__name__} cannot list memories; sources are firestore://, firestore+local:// and "
        "adk-firestore://, or add the sessions to the target's memory again"
    )


def _storage_of(service: BaseMemoryService) -> SessionStorage | None:
    """Return where a service of this library keeps memories; ``None`` for one of ADK."""
    storage = getattr(service, "storage", None)
    return storage if isinstance(storage, SessionStorage) else None


def memory_service(given: MemoryPlace, ends: AsyncExitStack) -> BaseMemoryService:
    """Return a service, or that of a URI, which *ends* closes.

    Raises:
        InvalidInputError: the URI is malformed, or ADK cannot open it.
    """
    if isinstance(given, BaseMemoryService):
        return given
    require_place(given, "a memory service")
    from google.adk.cli.service_registry import get_service_registry  # noqa: PLC0415  # half of ADK's command

    if given.partition(":")[0].lower() in ("firestore", "firestore+local"):
        from gcp_adk_store.adk_server import services  # noqa: PLC0415  # with Google's clients

        return closed_by(ends, services.memory_service(given))
    try:
        service = get_service_registry().create_memory_service(given)
    except (ValueError, ImportError):
        service = None
    if service is None:
        raise InvalidInputError("a memory service is named by a URI such as firestore:// or memory://")
    return closed_by(ends, service)

"""Turn what callers add into memories, and memories into ADK's entries."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store.codec.memories import EncodedMemory, text_in
from gcp_adk_store.codec.redactions import is_redacted
from gcp_adk_store.errors import InvalidInputError, require_number, shown
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.concurrency import Pauses, yielding
from gcp_adk_store.memory.keeper import MemoryKeeper
from gcp_adk_store.model.keys import UserKey, require_text, require_text_keys
from gcp_adk_store.model.memories import Memory
from gcp_adk_store.model.session_fields import MAX_TTL_S

SCORE: Final = "adk_store_score"
"""Key of a result's metadata: its score."""
SESSION: Final = "adk_store_session"
"""Key of an entry's metadata: the session that it comes from."""
VECTORS: Final = "adk_store_vectors"
"""Key of a result's metadata: why words alone ranked memories, although the store has an embedder."""
TTL: Final = "ttl_seconds"
"""Key of metadata that sets the end of a memory."""
_LAST_DATE: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Firestore's times end with the year 9999."""


logger = logging.getLogger(__name__)

LeftOut: TypeAlias = dict[str, None]
"""Ids of events that no memory can hold, in order."""
_NAMED: Final = 10
"""As many of them as one record of the log names."""


@contextmanager
def _leaving_out(left_out: LeftOut | None, event_id: str) -> Iterator[None]:
    """Note an event in *left_out* if no memory can hold it; without *left_out* that is an error."""
    try:
        yield
    except InvalidInputError:
        if left_out is None:
            raise
        left_out[event_id] = None


def _warn_of(left_out: LeftOut | None) -> None:
    if not left_out:
        return
    named = ", ".join(f"{event_id!r:.80}" for event_id in [*left_out][:_NAMED])
    more = f", and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    message = "%d events of the session cannot be remembered, and are left out: %s%s"
    logger.warning(message, len(left_out), named, more, extra=telemetry.log_fields())


def entry_of(
    memory: Memory, content: types.Content, *, score: float | None = None, lacks: str = ""
) -> MemoryEntry:
    """Return *memory* as ADK's entry, with its score, and what the search *lacks*, if one found it."""
    own: dict[str, Any] = {} if score is None else {SCORE: round(score, 4)}
    if memory.session is not None:
        own[SESSION] = memory.session
    if lacks:
        own[VECTORS] = lacks
    return MemoryEntry(
        id=memory.id,
        content=content,
        author=memory.author,
        timestamp=at_time(memory),
        custom_metadata={**memory.metadata, **own},
    )


def at_time(memory: Memory) -> str | None:
    """Return the time of *memory* as its caller wrote it, or as ADK writes times of events.

    ``None`` stands for a time that no date has, such as one in milliseconds.
    """
    if memory.stamp:
        return memory.stamp
    try:
        return datetime.fromtimestamp(memory.time).isoformat()  # noqa: DTZ006  # local, as ADK
    except (ValueError, OverflowError, OSError):
        return None


def metadata_of(given: Mapping[str, object]) -> tuple[dict[str, Any], float | None]:
    """Return the metadata to store, and the time to live in seconds that *given* asks for.

    Raises:
        InvalidInputError: a key of *given* is not a string.
    """
    require_text_keys(given)
    ttl_s: Any = given.get(TTL)
    return {name: value for name, value in given.items() if name not in (TTL, SCORE, SESSION, VECTORS)}, ttl_s


def until_of(time: float, ttl_seconds: float | None) -> float | None:
    """Return when a memory of *time* ends, as Unix time; ``None`` without a time to live.

    Raises:
        InvalidInputError: *ttl_seconds* is not a number above 0, or is over a hundred years; or no date is so
            late, as with a *time* in milliseconds.
    """
    if ttl_seconds is None:
        return None
    given: object = ttl_seconds
    require_number("ttl_seconds", given)
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not 0 < ttl_seconds <= MAX_TTL_S:
        raise InvalidInputError(
            f"ttl_seconds is {shown(given, 40)}, it must be a number above 0 and at most {MAX_TTL_S}"
        )
    end = time + ttl_seconds
    if not -_LAST_DATE < end < _LAST_DATE:
        raise InvalidInputError(f"the time of a memory is {time:g}, it must be Unix time in seconds")
    return float(math.ceil(end))


def time_of(stamp: str, *, default: float) -> float:
    """Return the Unix time of an ISO 8601 *stamp*, local unless it says otherwise, as ADK's; or *default*."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return default


def made_of_entries(
    memories: Sequence[MemoryEntry], shared: Mapping[str, object], *, default_ttl_s: float | None
) -> list[tuple[Memory, types.Content]]:
    """Return memories as a caller wrote them; those without metadata of their own have the *shared*."""
    now = platform_time.get_time()
    made = []
    for entry in memories:
        require_text(entry.id or "", "memory id")
        metadata, ttl_s = metadata_of({**shared, **entry.custom_metadata})
        memory = Memory(
            id=entry.id or platform_uuid.new_uuid(),
            time=now if entry.timestamp is None else time_of(entry.timestamp, default=now),
            author=entry.author,
            until=until_of(now, default_ttl_s if ttl_s is None else ttl_s),
            stamp=entry.timestamp,
            metadata=metadata,
        )
        made.append((memory, entry.content))
    return made


def made_of_events(
    events: Sequence[Event],
    session_id: str | None,
    custom_metadata: Mapping[str, object] | None,
    *,
    default_ttl_s: float | None,
    left_out: LeftOut | None = None,
) -> Iterator[tuple[Memory, types.Content]]:
    """Yield a memory for each event that has text; those that no memory can hold go to *left_out*."""
    metadata, ttl_s = metadata_of(custom_metadata or {})
    session = None if session_id is None else session_id.strip()
    for event in [*events]:  # others may change the list between two steps
        if event.content is None or event.partial or is_redacted(event):
            continue
        if not text_in(event.content).strip():
            continue
        with _leaving_out(left_out, event.id):
            require_text(event.id, "event id")
            memory = Memory(
                id=event.id,
                time=event.timestamp,
                session=session,
                author=event.author,
                until=until_of(event.timestamp, default_ttl_s if ttl_s is None else ttl_s),
                metadata=metadata,
            )
            yield memory, event.content


async def add_new(
    keeper: MemoryKeeper,
    key: UserKey,
    memories: Iterable[tuple[Memory, types.Content]],
    *,
    left_out: LeftOut | None = None,
) -> None:
    """Add those of *memories* whose ids were never taken in, and that have not ended.

    Those that cannot be stored go to *left_out*, which the log names; without it, they are an error before
    anything is stored.
    """
    made = await yielding(memories)

    async def encoded(known: frozenset[bytes], now: float) -> list[EncodedMemory]:
        pauses = Pauses()
        found = []
        for memory, content in made:
            if memory.digest not in known and not memory.has_ended(now):
                with _leaving_out(left_out, memory.id):
                    found.append(await keeper.encode(memory, content))
            if pauses.is_due:
                await pauses.pause()
        return found

    if not made:
        _warn_of(left_out)
        return
    snapshot = await keeper.newest(key)
    if snapshot is not None and all(memory.digest in snapshot.known for memory, _ in made):
        snapshot = await keeper.reader.read(key)  # another process may have removed all
    while True:
        known = frozenset() if snapshot is None else snapshot.known
        new = await encoded(known, keeper.now())
        _warn_of(left_out)
        if not new:
            return
        await keeper.add(key, new)
        after = await keeper.newest(key)
        if snapshot is None or (after is not None and after.head.epoch == snapshot.head.epoch):
            return
        snapshot = after  # another process removed all, also what this one knew to be there

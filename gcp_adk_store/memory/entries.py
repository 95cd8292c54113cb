"""Turn what is stored of a memory into ADK's entry, and check what callers say of one."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store.errors import InvalidInputError
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


def at_time(memory: Memory) -> str:
    """Return the time of *memory* as its caller wrote it, or as ADK writes times of events."""
    return memory.stamp or datetime.fromtimestamp(memory.time).isoformat()  # noqa: DTZ006  # local, as ADK


def metadata_of(given: Mapping[str, object]) -> tuple[dict[str, Any], float | None]:
    """Return the metadata to store, and the time to live in seconds that *given* asks for."""
    ttl_s: Any = given.get(TTL)
    return {name: value for name, value in given.items() if name not in (TTL, SCORE, SESSION, VECTORS)}, ttl_s


def until_of(time: float, ttl_seconds: float | None) -> float | None:
    """Return when a memory of *time* ends, as Unix time; ``None`` without a time to live.

    Raises:
        InvalidInputError: *ttl_seconds* is not a number above 0, or is over a hundred years.
    """
    if ttl_seconds is None:
        return None
    given: object = ttl_seconds
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not 0 < ttl_seconds <= MAX_TTL_S:
        raise InvalidInputError(
            f"ttl_seconds is {str(given)[:40]}, it must be a number above 0 and at most {MAX_TTL_S}"
        )
    return float(math.ceil(time + ttl_seconds))


def time_of(stamp: str, *, default: float) -> float:
    """Return the Unix time of an ISO 8601 *stamp*, in UTC unless it says otherwise; or *default*."""
    try:
        read = datetime.fromisoformat(stamp)
    except ValueError:
        return default
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()

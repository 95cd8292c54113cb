"""Size a workload: what it stores, and how often it writes; and workloads to begin with.

The workloads are assumptions, not measurements of users.
"""

from dataclasses import dataclass
from typing import Final, Self

from gcp_adk_store.costs.counts import StoreServices, Workload
from gcp_adk_store.costs.month import DAYS, operations_of_a_month, stored_gib

_SECONDS: Final = DAYS * 24 * 3600

LIKE: Final[dict[str, Workload]] = {
    # A message, a tool call, its response and an answer; a conversation has 11 turns.
    "chat": Workload(
        turns_per_day=10_000,
        events_per_turn=4,
        history=20,
        scopes=frozenset({"session"}),
        turn_seconds=10,
    ),
    # Two transcripts, and a reference to each of two recordings of 5 seconds: 24 kHz, 16 bit, one channel.
    # One turn in 20 begins in a process that does not know the session: that of a call keeps it.
    "voice": Workload(
        turns_per_day=10_000,
        events_per_turn=4,
        history=60,
        event_bytes=500,
        artifacts_per_turn=2,
        artifact_bytes=240_000,
        cold_share=0.05,
        turn_seconds=8,
    ),
    # Three parallel agents that call tools: long turns, files, and memories of the user.
    "agents": Workload(
        turns_per_day=10_000,
        events_per_turn=16,
        history=120,
        event_bytes=1_500,
        scopes=frozenset({"session", "user"}),
        artifacts_per_turn=1,
        artifact_loads_per_turn=1,
        artifact_bytes=200_000,
        memories=1_000,
        memories_per_turn=2,
        searches_per_turn=1,
        turn_seconds=60,
    ),
}
"""Workloads of 10,000 turns a day, by the names that ``gcp-adk-store cost --like`` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What this store stores of a workload, and how often it writes."""

    sessions_per_day: float
    """Sessions that are created in a day."""
    sessions_stored: float
    """Sessions, once as many are deleted as created."""
    events_per_session: float
    events_per_day: float
    events_stored: float
    writes_per_second: float
    """Documents that are written in a second, all sessions together, on average over the month."""
    appends_per_second_of_a_session: float
    """Appends to one session in a second, while its turn runs."""
    documents_gib: float
    objects_gib: float

    @classmethod
    def of(cls, workload: Workload) -> Self:
        """Return the sizing of *workload*."""
        events = workload.turns_per_day * workload.events_per_turn
        documents, objects = stored_gib(workload)
        return cls(
            sessions_per_day=workload.new_sessions,
            sessions_stored=workload.new_sessions * workload.retention_days,
            events_per_session=events / workload.new_sessions,
            events_per_day=events,
            events_stored=events * workload.retention_days,
            writes_per_second=operations_of_a_month(StoreServices(), workload).writes / _SECONDS,
            appends_per_second_of_a_session=workload.events_per_turn / workload.turn_seconds,
            documents_gib=documents,
            objects_gib=objects,
        )

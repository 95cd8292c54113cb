"""The workloads of the simulation that also run in real processes, each on a store of its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import World
from tests.simulation import test_artifacts, test_memories, test_points, test_sessions, test_turns
from tests.simulation.fleet import Act
from tests.simulation.journal import Journal


async def nothing(plain: Store) -> None:
    """Make nothing before."""


async def check_turns(journal: Journal, plain: Store, *, is_certain_at_once: bool) -> None:
    """Wait until the turn of a process that was killed is over, answer what waits, and check both."""
    async with plain.turns.hold(**test_turns.KEY, wait_s=60):
        pass
    await test_turns.end_turns(journal, plain)
    await test_turns.check(journal, plain, is_certain_at_once=is_certain_at_once)


async def check_versions(journal: Journal, plain: Store) -> None:
    """Check the versions that nobody deletes: whether a late request makes one anew, only a trace shows."""
    for filename in test_artifacts.KEPT:
        stored = await test_artifacts.stored_in(plain, filename)
        test_artifacts.check_versions(World(seed=0), journal, filename, stored)


@dataclass(frozen=True, slots=True)
class Workload:
    """What processes do, and what must hold then."""

    act: Act
    check: Callable[[Journal, Store], Awaitable[None]]
    prepare: Callable[[Store], Awaitable[None]] = nothing
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the store of a process."""


WORKLOADS: Final[Mapping[str, Workload]] = {
    **{
        f"sessions-{mode}": Workload(
            test_sessions.act,
            partial(test_sessions.check, merging=mode == "merge"),
            test_sessions.prepare,
            {"on_conflict": mode},
        )
        for mode in ("raise", "merge")
    },
    **{
        f"turns-{durability}": Workload(
            test_turns.act_or_tidy if durability == "event" else test_turns.act,
            partial(check_turns, is_certain_at_once=durability == "event"),
            test_turns.prepare,
            {"durability": durability},
        )
        for durability in ("event", "turn")
    },
    "points": Workload(
        partial(test_points.act, rewinds=False),  # what a runner has read, only its process knows
        partial(test_points.check, merging=True),
        test_points.prepare,
        {"on_conflict": "merge"},
    ),
    "artifacts": Workload(test_artifacts.act, check_versions),
    "memories": Workload(test_memories.act, test_memories.check),
}

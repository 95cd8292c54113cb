"""Memories end after their time to live, and not before, in every order."""

import asyncio
from typing import Any, Final

from google.adk.memory.memory_entry import MemoryEntry

from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.raw import require_sound
from tests.simulation.test_memories import KEY, read_all, spoken
from tests.support.lengths import at_length

TTLS_S: Final = (20, 60, None)
WRONG_S: Final = 62.0
"""How wrong the clock of a process may be: ends count from the time of the process that adds."""
LATE_S: Final = 120.0


async def act(actor: Actor, step: int) -> None:
    """Add a memory with or without an end, change one, or look for them."""
    random, memory = actor.random(step), actor.store.memory
    name = f"{actor.name}-{step}"
    await asyncio.sleep(random.choice([0, 0, 10]))
    match random.choice(["add", "add", "add", "search", "list", "end"]):
        case "add":
            ttl_s = random.choice(TTLS_S)
            metadata: dict[str, Any] = {} if ttl_s is None else {"ttl_seconds": ttl_s}
            content = spoken(name, random.choice([1, 3_000]))
            entry = MemoryEntry(id=name, content=content, custom_metadata=metadata)
            await actor.call("add", name, lambda: memory.add_memory(**KEY, memories=[entry]), given=ttl_s)
        case "end":
            added = [call for call in actor.journal.of("add") if call.outcome is Outcome.DONE]
            if added:
                one = random.choice(added).of
                soon: dict[str, Any] = {"memory_id": one, "custom_metadata": {"ttl_seconds": 20}}
                await actor.call("end", one, lambda: memory.update_memory(**KEY, **soon), given=20)
        case how:
            await read_all(actor.journal, actor.name, actor.store, how)


def check_ends(journal: Journal, look: Call) -> None:
    """Check that a read saw each memory that had not ended, and none that had."""
    for add in journal.of("add"):
        writes = [add, *(call for call in journal.of("end", add.of) if call.outcome is not Outcome.REFUSED)]
        ends = [
            (call.begun - WRONG_S + call.given,
             (call.ended if call.outcome is Outcome.DONE else call.begun + LATE_S) + WRONG_S + call.given)
            if call.given is not None else (float("inf"), float("inf"))
            for call in writes
        ]  # fmt: skip
        if add.of in look.result:
            assert add.outcome is not Outcome.REFUSED, f"{add.of} was refused, and is there"
            assert look.begun <= max(late for _, late in ends), f"{add.of} has ended, and is there"
        elif add.outcome is Outcome.DONE and add.ended < look.begun:
            assert min(early for early, _ in ends) <= look.ended, f"{add.of} is gone before its end"


async def scenario(world: World) -> None:
    """Let a fleet add memories of a short time, and look at what is left of them."""
    fleet = Fleet(world)
    await fleet.work(30, act, rest_s=300)
    journal = fleet.journal
    await read_all(journal, "end", fleet.plain, "list")
    for look in journal.of("read"):
        if look.outcome is Outcome.DONE:
            check_ends(journal, look)
    await require_sound(fleet.plain)


def test_memories_end_after_their_time_to_live_and_not_before() -> None:
    """Also those whose end another process set, and beside writers without a time to live."""
    simulate(scenario, seeds=range(at_length(2, 8)), faults=Faults.all(0.03))

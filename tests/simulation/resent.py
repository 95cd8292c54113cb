"""Find which calls the network may have carried twice."""

from collections.abc import Collection
from typing import Final

from gcp_adk_store.testing.simulation import Fate, World
from tests.simulation.journal import Call

WRITES: Final = ("commit", "create object", "copy object", "upload object")


def may_arrive_again(world: World, call: Call, kinds: Collection[str] = WRITES) -> bool:
    """Return whether a request of *call* may arrive after the call has ended, or after others undid it.

    Args:
        world: The world, with the trace of all requests.
        call: One call; its process does nothing else meanwhile.
        kinds: What the requests do that count, such as ``create object``.
    """
    sent = 0
    for line in world.trace:
        time, _, happened = line.strip().partition(" ")
        is_meant = any(happened.startswith(f"{call.process}: {kind} ") for kind in kinds)
        if is_meant and call.begun - 0.001 <= float(time) <= call.ended:
            sent += 2 if happened.endswith((f"- {Fate.LATE}", f"- {Fate.TWICE}")) else 1
    return sent > 1

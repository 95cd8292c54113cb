"""Decide how the network is: fair with a few faults, or a storm in which most calls go wrong."""

import threading
from dataclasses import replace
from typing import Final

from gcp_adk_store.testing.faults.plans import Call, Cut, Delay, Fault, Lose, RandomFaults, Refuse

_LONGEST_DELAY_S: Final = 1.2
"""Longer than an attempt may take, so that requests arrive after their callers gave them up."""
_STORM_RATE: Final = 0.93
"""So that some calls fail until their deadline."""

_FAULTS: Final = (
    Refuse("UNAVAILABLE"),
    Refuse("RESOURCE_EXHAUSTED", retry_after_s=0.2),
    Refuse(503),
    Refuse(429),
    Lose(),
    Lose(),
    Cut(),
    Cut("request"),
    Delay(0.05),
    Delay(0.3),
    Delay(_LONGEST_DELAY_S),
)


class Weather:
    """A plan for both proxies; what a call meets depends on the seed, its number and the weather then."""

    def __init__(self, seed: int, rate: float) -> None:
        """Prepare the plan; *rate* is the share of calls that go wrong in fair weather."""
        self._fair = RandomFaults(seed, rate, _FAULTS)
        self._storm = RandomFaults(seed, _STORM_RATE, _FAULTS)
        self._storming = threading.Event()

    def __call__(self, call: Call) -> Fault | None:
        """Return what goes wrong with *call*; whose it is makes no difference."""
        plan = self._storm if self._storming.is_set() else self._fair
        return plan(replace(call, owner=""))

    def storm(self) -> bool:
        """Let most calls go wrong from now on; return whether that is new."""
        is_new = not self._storming.is_set()
        self._storming.set()
        return is_new

    def clear(self) -> None:
        """Let few calls go wrong from now on."""
        self._storming.clear()

"""Run a fleet of processes in one thread and in simulated time, in every order that a seed decides.

A real test shows one order of what happens at once. A simulation shows thousands, each of which its seed
shows again: lost answers, requests that arrive late or twice, processes that are killed or stopped at any
point, clocks that are wrong. docs/how-to/simulate.md has a whole example.
"""

from gcp_adk_store.testing.simulation.faults import Fate, Faults
from gcp_adk_store.testing.simulation.schedules import ScheduleError, Simulated, simulate
from gcp_adk_store.testing.simulation.service import Service
from gcp_adk_store.testing.simulation.world import EndlessError, KilledError, Process, Scenario, World

__all__ = [
    "EndlessError",
    "Fate",
    "Faults",
    "KilledError",
    "Process",
    "Scenario",
    "ScheduleError",
    "Service",
    "Simulated",
    "World",
    "simulate",
]

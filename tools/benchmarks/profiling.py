"""Say where the time of a step goes: shares of samples by who computes."""

import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Final

from rich.table import Table

from tools.benchmarks.scenario import Step

_EVERY_S: Final = 0.001

_WAITING: Final = "waiting"
_OTHERS: Final = {
    "/grpc/": "gRPC",
    "/google/protobuf/": "protobuf",
    "/pydantic": "pydantic, and models of ADK and google-genai",
    "/google/genai/": "pydantic, and models of ADK and google-genai",
    "/google/adk/": "pydantic, and models of ADK and google-genai",
    "/asyncio/": "asyncio",
    "/uvloop/": "asyncio",
    "/requests/": "requests and urllib3",
    "/urllib3/": "requests and urllib3",
    "/google/cloud/storage/": "google-cloud-storage",
    "/json/": "json",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """Where one step spent its time."""

    scenario: str
    steps: int
    computing_ms: float
    """CPU time of one step in the thread of the event loop."""
    shares: Mapping[str, float]
    """Who computed -> the share of it, the largest first."""


async def profile(scenario: str, step: Step, *, seconds: float) -> Profile:
    """Repeat *step* for so many seconds, and look at the stack after every millisecond of CPU, or of some.

    By the CPU's time, not by the clock's: a call that wakes the emulator is suspended for what that computes.
    """
    by_group: Counter[str] = Counter()
    is_measured = False

    def sample(_: int, frame: FrameType | None) -> None:
        if is_measured:
            by_group[_group(frame)] += 1

    steps, cpu_s = 0, 0.0
    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until or not steps:
            if step.before is not None:
                await step.before()
            is_measured, began_s = True, time.thread_time()
            await step.work()
            is_measured = False
            cpu_s += time.thread_time() - began_s
            steps += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    del by_group[_WAITING]  # other threads computed
    shares = {name: found / by_group.total() for name, found in by_group.most_common()}
    return Profile(scenario, steps, cpu_s / steps * 1000, shares)


def profile_table(profiles: list[Profile]) -> Table:
    """Return the profiles, those who compute most first."""
    table = Table(
        "scenario", "who computes", "share", "ms of a step", title="gcp_adk_store, the loop's thread"
    )
    for found in profiles:
        for name, share in found.shares.items():
            table.add_row(found.scenario, name, f"{share:.1%}", f"{share * found.computing_ms:.3f}")
        table.add_section()
    return table


def _group(frame: FrameType | None) -> str:
    """Return who computes at the top of a stack."""
    if frame is not None and frame.f_code.co_filename.endswith("selectors.py"):
        return _WAITING
    while frame is not None:
        path = frame.f_code.co_filename
        if "/gcp_adk_store/" in path:
            return f"gcp_adk_store/{path.rpartition('/gcp_adk_store/')[2]}"
        for part, group in _OTHERS.items():
            if part in path:
                return group
        frame = frame.f_back
    return "other"

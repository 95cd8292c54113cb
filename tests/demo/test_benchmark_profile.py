"""Show that the benchmark's profile names who computes."""

import asyncio
import json
import statistics

from tools.benchmarks.profiling import profile
from tools.benchmarks.scenario import Step


async def test_a_profile_shares_the_time_among_those_who_compute() -> None:
    """Not those who wait, nor what comes before a step."""
    text = json.dumps([["x"] * 10] * 2000)

    async def before() -> None:
        statistics.stdev(range(20_000))

    async def work() -> None:
        for _ in range(100):
            json.loads(text)
        await asyncio.sleep(0)

    found = await profile("a step", Step(work, before), seconds=0)

    assert "json" in found.shares
    assert found.computing_ms > 0
    assert not [each for each in found.shares if "statistics" in each or "fractions" in each]


async def test_a_step_that_only_waits_has_no_shares() -> None:
    """And does not end the profile with an error."""
    found = await profile("a step", Step(lambda: asyncio.sleep(0)), seconds=0)

    assert found.shares.keys() <= {"asyncio", "other"}

"""A server that does not answer holds up nothing but the calls that wait for it."""

import asyncio
from collections import Counter
from typing import Any

from gcp_adk_store import ArtifactLimits, GcsArtifactService, OverloadedError, UnavailableError
from gcp_adk_store.testing.conformance.running import text
from gcp_adk_store.testing.faults import Hang, Hold, no_faults
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.services.conftest import WHO
from tests.support.clock import PassingTime

QUICK: dict[str, Any] = {**WHO, "filename": "quick"}
SLOW: dict[str, Any] = {**WHO, "filename": "slow"}
OVER_S = 120
"""After so many seconds a call is given up, by default."""


async def test_other_calls_go_on_while_some_are_stalled(
    storage_proxy: StorageProxy, adk_store_bucket: str
) -> None:
    """The event loop ticks, and the calls that nobody holds up are answered; then the others are too."""
    service = GcsArtifactService(adk_store_bucket, limits=ArtifactLimits(max_workers=8))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    names = [f"slow{number}" for number in range(6)]
    holds = [Hold() for _ in names]
    storage_proxy.plan = lambda call: holds[call.number] if call.number < len(holds) else None
    stalled = [
        asyncio.create_task(service.save_artifact(**{**SLOW, "filename": name}, artifact=text(name)))
        for name in names
    ]
    for hold in holds:
        await asyncio.to_thread(hold.reached.wait)
    before = ticks
    for number in range(5):
        assert number == await service.save_artifact(**QUICK, artifact=text(f"{number}"))
        assert text(f"{number}") == await service.load_artifact(**QUICK)
    during = ticks - before
    finished = [task.done() for task in stalled]
    for hold in holds:
        hold.release()
    numbers = await asyncio.gather(*stalled)
    ticking.cancel()
    await service.close()

    assert [False] * 6 == finished
    assert [0] * 6 == numbers
    assert during > 100


async def test_calls_beyond_the_threads_wait_no_longer_than_their_deadline(
    storage_proxy: StorageProxy, adk_store_bucket: str, passing: PassingTime
) -> None:
    """They are refused one by one, not piled up; then the service works again."""
    service = GcsArtifactService(adk_store_bucket, limits=ArtifactLimits(max_workers=2))
    holds = [Hold(), Hold()]
    storage_proxy.plan = lambda call: holds[call.number] if call.number < len(holds) else Hang()
    calls = asyncio.gather(*(service.load_artifact(**SLOW) for _ in range(20)), return_exceptions=True)
    for hold in holds:
        await asyncio.to_thread(hold.reached.wait)
    passing.after(OVER_S)
    outcomes = await calls
    storage_proxy.plan = no_faults
    storage_proxy.cut_connections()

    kinds = Counter(type(outcome) for outcome in outcomes)
    assert {UnavailableError, OverloadedError} == kinds.keys()
    # The two that have a thread, and those that get one in the moment in which these end.
    assert 2 <= kinds[UnavailableError] <= 4
    assert 0 == await service.save_artifact(**QUICK, artifact=text("works"))
    await service.close()

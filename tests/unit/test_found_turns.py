"""Turns of event loops that end without cancelling what waits in them."""

import asyncio
import gc

from gcp_adk_store.turns import Turns


def test_a_turn_is_not_lost_to_a_waiter_whose_loop_was_closed() -> None:
    """As run_until_complete leaves a loop: what waits there is never cancelled."""
    turns = Turns(longest_wait_s=1)

    async def leaves_one_waiting() -> None:
        waiting = asyncio.create_task(turns.take("key"))
        await asyncio.sleep(0)
        assert not waiting.done()

    asyncio.run(turns.take("key"))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leaves_one_waiting())
    loop.close()
    gc.collect()
    turns.pass_on("key")
    gc.collect()

    asyncio.run(turns.take("key"))

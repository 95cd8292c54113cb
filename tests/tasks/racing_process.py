"""Count in a task's metadata, in a process of its own."""

from gcp_adk_store import Store, TaskConflictError
from tests.tasks.conftest import ANN


async def count(path: str, times: int) -> int:
    """Add 1 so many times, each time from the task as it is then; return how often another came first."""
    refused = 0
    async with Store.local(path) as store:
        while times:
            task = await store.tasks.get("t1", ANN)
            assert task is not None
            task.metadata.fields["n"].number_value += 1
            try:
                await store.tasks.save(task, ANN)
            except TaskConflictError:
                refused += 1
            else:
                times -= 1
    return refused

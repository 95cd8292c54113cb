"""The calls of the stores of tasks take the RPCs that were agreed."""

from a2a.types import ListTasksRequest, TaskPushNotificationConfig

from gcp_adk_store import Store
from gcp_adk_store.testing.meters import FirestoreMeter
from tests.tasks.conftest import ANN, task


async def test_calls_take_the_rpcs_that_were_agreed(meter: FirestoreMeter, project: str) -> None:
    """RPCs, and documents read, written and deleted."""
    taken = []

    def take() -> None:
        figures = meter.take()
        taken.append((dict(figures.rpcs), figures.reads, figures.writes, figures.deletes))

    async with Store.connect(project=project) as store:
        made = task()
        await store.tasks.save(made, ANN)
        take()
        made.metadata["n"] = 1
        await store.tasks.save(made, ANN)
        take()
        await store.tasks.get("t1", ANN)
        take()
        await store.tasks.list(ListTasksRequest(), ANN)
        take()
        await store.tasks.save(task(at=1), ANN)
        take()
        await store.tasks.delete("t1", ANN)
        take()
        configs = store.push_notification_configs
        await configs.set_info("t1", TaskPushNotificationConfig(url="https://a.example"), ANN)
        take()
        await configs.get_info_for_dispatch("t1")
        take()
        await configs.delete_owner_configs(owner="ann")
        take()
        for number in range(3):
            await store.tasks.save(task(f"t{number}"), ANN)
        meter.take()
        await store.tasks.delete_owner_tasks(owner="ann")
        take()

    assert [
        ({"Commit": 1}, 0, 1, 0),  # a new task
        ({"Commit": 1}, 0, 1, 0),  # the same object again
        ({"BatchGetDocuments": 1}, 1, 0, 0),
        ({"RunQuery": 1, "BatchGetDocuments": 1}, 2, 0, 0),
        ({"Commit": 2, "BatchGetDocuments": 1}, 1, 1, 0),  # another object over a stored task
        ({"BatchGetDocuments": 1, "Commit": 1}, 1, 0, 1),
        ({"Commit": 1}, 0, 2, 0),  # a config, and the note of it
        ({"RunQuery": 1}, 1, 0, 0),
        ({"RunQuery": 2, "Commit": 2}, 2, 0, 2),
        ({"RunQuery": 1, "Commit": 1}, 3, 0, 3),
    ] == taken

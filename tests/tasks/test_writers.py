"""Many writers of one task, and answers that get lost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a.types import ListTasksRequest, TaskPushNotificationConfig

from gcp_adk_store import OutcomeUnknownError, Store, TaskConflictError
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import Hold, nth, only
from gcp_adk_store.testing.meters import FirestoreMeter
from tests.support.lengths import at_length
from tests.support.ready_processes import elsewhere
from tests.tasks.conftest import ANN, task
from tests.tasks.racing_process import count

TIMES = at_length(20, 40)
"""That each process adds 1."""


async def test_no_count_of_racing_processes_is_lost(tmp_path: Path) -> None:
    """Each adds 1 to what it read; a save of what is old by then is refused."""
    first = task()
    first.metadata["n"] = 0
    async with Store.local(tmp_path / "store") as store:
        await store.tasks.save(first, ANN)
        await asyncio.gather(
            *(asyncio.to_thread(elsewhere, count, f"{tmp_path / 'store'}", TIMES) for _ in range(3))
        )
        stored = await store.tasks.get("t1", ANN)

    assert stored is not None
    assert 3 * TIMES == stored.metadata["n"]


@pytest.fixture
def meter(firestore_proxy: FirestoreProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirestoreMeter]:
    """A meter that the stores of the test talk through, before what loses answers."""
    with FirestoreMeter(firestore_proxy.address) as meter:
        monkeypatch.setenv(FIRESTORE_VARIABLE, meter.address)
        yield meter


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


async def test_a_save_whose_answer_is_lost_happens_once(
    firestore_proxy: FirestoreProxy, project: str
) -> None:
    """The repeated commit is refused by the condition, and recognised by what is stored."""
    async with Store.connect(project=project) as store:
        made = task()
        for number in range(2):
            made.metadata["n"] = number
            answer = Hold("after")
            firestore_proxy.plan = only("Commit", nth(0, answer))
            saving = asyncio.create_task(store.tasks.save(made, ANN))
            await asyncio.to_thread(answer.reached.wait)
            answer.release(forward=False)
            await saving
        made.metadata["n"] = 2
        await store.tasks.save(made, ANN)

        assert made == await store.tasks.get("t1", ANN)


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_lost_save_that_another_writer_changed_is_not_called_refused(
    firestore_emulator: Emulator, project: str, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    """It was written, so the caller must look; and it does not overwrite what came after it."""
    other = Store.connect(project=project)
    await other.tasks.get("t1", ANN)
    with FirestoreProxy(firestore_emulator.address) as proxy, monkeypatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, proxy.address)
        async with Store.connect(project=project) as store:
            made = task()
            if not is_new:
                await store.tasks.save(made, ANN)
            made.metadata["mine"] = 1
            answer = Hold("after")
            proxy.plan = only("Commit", nth(0, answer))
            saving = asyncio.create_task(store.tasks.save(made, ANN))
            await asyncio.to_thread(answer.reached.wait)
            theirs = await other.tasks.get("t1", ANN)
            assert theirs is not None
            theirs.metadata["theirs"] = 1
            await other.tasks.save(theirs, ANN)
            answer.release(forward=False)
            with pytest.raises(OutcomeUnknownError) as caught:
                await saving
    stored = await other.tasks.get("t1", ANN)
    await other.close()

    assert not isinstance(caught.value, TaskConflictError)
    assert stored is not None
    assert {"mine": 1, "theirs": 1} == dict(stored.metadata)

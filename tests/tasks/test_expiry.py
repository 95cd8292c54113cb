"""Tasks and configs with a time to live end by the clock of the store."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a.types import ListTasksRequest, TaskPushNotificationConfig
from google.adk.platform import time as platform_time

from gcp_adk_store import InvalidInputError, Store
from tests.support.clock import Clock
from tests.tasks.conftest import ANN, task


@pytest.fixture
def time() -> Iterator[Clock]:
    """The time of the store: it stands still until the test lets it pass."""
    clock = Clock()
    platform_time.set_time_provider(lambda: clock.now)
    yield clock
    platform_time.reset_time_provider()


async def test_a_task_ends_its_time_to_live_after_its_last_save(tmp_path: Path, time: Clock) -> None:
    """Then it is not found, not listed, and its id is free."""
    async with Store.local(tmp_path, task_ttl_seconds=60) as store:
        made = task()
        await store.tasks.save(made, ANN)
        time.now += 40
        made.metadata["n"] = 1
        await store.tasks.save(made, ANN)
        time.now += 40
        lives = await store.tasks.get("t1", ANN)
        time.now += 21
        ended = await store.tasks.get("t1", ANN)
        listed = await store.tasks.list(ListTasksRequest(), ANN)
        await store.tasks.save(task(at=5), ANN)
        new = await store.tasks.get("t1", ANN)

    assert made == lives
    assert (None, 0) == (ended, listed.total_size)
    assert task(at=5) == new


async def test_a_config_ends_its_time_to_live_after_it_was_set(tmp_path: Path, time: Clock) -> None:
    """For its owner and for the sender."""
    async with Store.local(tmp_path, task_ttl_seconds=60) as store:
        configs = store.push_notification_configs
        await configs.set_info("t1", TaskPushNotificationConfig(url="https://a.example"), ANN)
        lives = await configs.get_info("t1", ANN)
        time.now += 61
        ended = [await configs.get_info("t1", ANN), await configs.get_info_for_dispatch("t1")]

    assert 1 == len(lives)
    assert [[], []] == ended


async def test_the_sweep_of_a_local_store_removes_ended_tasks_with_their_pieces(
    tmp_path: Path, time: Clock
) -> None:
    """As Firestore's TTL policies do."""
    async with Store.local(tmp_path, task_ttl_seconds=60) as store:
        made = task()
        made.artifacts.add().parts.add(raw=os.urandom(1_500_000))
        await store.tasks.save(made, ANN)
        await store.push_notification_configs.set_info(
            "t1", TaskPushNotificationConfig(url="https://a.example"), ANN
        )
    time.now += 61 + 3600  # a store sweeps once an hour
    async with Store.local(tmp_path) as store:
        await store.tasks.save(task("other"), ANN)
        documents = store.sessions.storage.documents
        left = [
            len(await documents.query("", f"adk_{name}", all_descendants=True))
            for name in ("tasks", "pieces", "configs", "pushes")
        ]

    assert [1, 0, 0, 0] == left


@pytest.mark.parametrize("longer", [None, 36_000])
async def test_an_erasure_finds_a_config_that_outlives_a_later_one(
    tmp_path: Path, time: Clock, longer: float | None
) -> None:
    """The option was changed between them: the note by which both are found stays as long as the first."""
    for config_id, ttl in (("a", longer), ("b", 60)):
        async with Store.local(tmp_path, task_ttl_seconds=ttl) as store:
            config = TaskPushNotificationConfig(id=config_id, url="https://a.example")
            await store.push_notification_configs.set_info("t1", config, ANN)
    time.now += 61 + 3600  # a store sweeps once an hour
    async with Store.local(tmp_path) as store:
        await store.tasks.save(task("other"), ANN)
        await store.push_notification_configs.delete_owner_configs(owner="ann")

        assert [] == await store.push_notification_configs.get_info("t1", ANN)


@pytest.mark.parametrize("wrong", [0, -1, True, float("nan"), 10**12])
def test_a_time_to_live_that_cannot_be_is_refused_at_once(tmp_path: Path, wrong: float) -> None:
    """Not at the first save."""
    with pytest.raises(InvalidInputError, match="ttl_seconds"):
        Store.local(tmp_path, task_ttl_seconds=wrong)

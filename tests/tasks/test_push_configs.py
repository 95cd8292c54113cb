"""Push notification configs are kept by task and owner."""

import pytest
from a2a.server.tasks import InMemoryPushNotificationConfigStore, PushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig

from gcp_adk_store import InvalidInputError, StoredDataError
from gcp_adk_store.tasks.format import TaskLayout
from tests.support.stored import change
from tests.tasks.conftest import ANN, Open, of

BOB = of("bob")


async def test_configs_are_set_read_and_deleted_as_in_the_store_of_the_sdk(opened: Open) -> None:
    """Step by step, beside its store in memory."""
    stores: list[PushNotificationConfigStore] = [
        InMemoryPushNotificationConfigStore(),
        opened().push_notification_configs,
    ]
    seen = []
    for store in stores:
        results: list[object] = []
        given = TaskPushNotificationConfig(url="https://a.example/1", token="secret")  # noqa: S106  # an example
        results.append(await store.set_info("t/1", given, ANN))
        assert not given.task_id
        for config_id in ("b", "a", "a"):
            config = TaskPushNotificationConfig(id=config_id, url=f"https://a.example/{config_id}")
            results.append(await store.set_info("t/1", config, ANN))
        results.append(await store.set_info("t/1", given, BOB))

        async def read(store: PushNotificationConfigStore = store) -> list[object]:
            return [
                sorted(map(str, found))
                for found in (
                    await store.get_info("t/1", ANN),
                    await store.get_info("t/1", BOB),
                    await store.get_info("t", ANN),
                    await store.get_info_for_dispatch("t/1"),
                )
            ]

        results.append(await read())
        await store.delete_info("t/1", BOB, "a")
        await store.delete_info("t/1", ANN, "a")
        results.append(await read())
        await store.delete_info("t/1", ANN)
        await store.delete_info("t/1", ANN)
        results.append(await read())
        seen.append(results)

    assert seen[0] == seen[1]


async def test_a_config_that_no_document_takes_is_refused_with_its_size(opened: Open) -> None:
    """By name."""
    config = TaskPushNotificationConfig(url="u" * 1_000_000)
    with pytest.raises(InvalidInputError, match=r"config takes 10\d+ bytes, the limit is 921600"):
        await opened().push_notification_configs.set_info("t", config, ANN)


async def test_a_damaged_config_takes_no_dispatch_to_others_with_it(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Each config that can be read gets its news; without any, the damage is an error."""
    store = opened()
    configs = store.push_notification_configs
    for context in (ANN, BOB):
        await configs.set_info("t", TaskPushNotificationConfig(id="a", url="https://a.example"), context)
    path = "adk_pushes/t/adk_owners/ann/adk_configs/a"
    await change(store, path, {"body": b"\xff"})

    assert 1 == len(await configs.get_info_for_dispatch("t"))
    assert f"1 documents cannot be read, and are left out: {path}" in caplog.text
    with pytest.raises(StoredDataError):
        await configs.get_info("t", ANN)


async def test_all_configs_of_an_owner_are_erased(opened: Open) -> None:
    """Of every task, existing or not; those of other owners stay, and so does what is set later."""
    configs = opened().push_notification_configs
    for context in (ANN, BOB):
        for task_id in ("t/1", "t2"):
            for config_id in ("a", "b"):
                given = TaskPushNotificationConfig(id=config_id, url="https://a.example")
                await configs.set_info(task_id, given, context)
    await configs.delete_info("t2", ANN)
    for _ in range(2):
        await opened().push_notification_configs.delete_owner_configs(owner="ann")
    left = [len(await configs.get_info_for_dispatch(task_id)) for task_id in ("t/1", "t2")]
    await configs.set_info("t/1", TaskPushNotificationConfig(url="https://a.example"), ANN)

    assert [2, 2] == left
    assert 1 == len(await configs.get_info("t/1", ANN))


async def test_a_config_that_the_network_stores_twice_is_noted_twice(opened: Open) -> None:
    """Otherwise an erasure between the two removes the note by which the second one is found."""
    documents = opened().sessions.storage.documents
    writes = TaskLayout("adk").put_config("ann", "t", "a", b"", expiry=None)

    (_, once), (_, twice) = [await documents.commit(writes) for _ in range(2)]

    assert once.update_time != twice.update_time

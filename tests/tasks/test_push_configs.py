"""Push notification configs are kept by task and owner."""

import pytest
from a2a.server.tasks import InMemoryPushNotificationConfigStore, PushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig

from gcp_adk_store import InvalidInputError
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
        told: list[object] = []
        given = TaskPushNotificationConfig(url="https://a.example/1", token="secret")  # noqa: S106  # an example
        told.append(await store.set_info("t/1", given, ANN))
        assert not given.task_id
        for config_id in ("b", "a", "a"):
            config = TaskPushNotificationConfig(id=config_id, url=f"https://a.example/{config_id}")
            told.append(await store.set_info("t/1", config, ANN))
        told.append(await store.set_info("t/1", given, BOB))

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

        told.append(await read())
        await store.delete_info("t/1", BOB, "a")
        await store.delete_info("t/1", ANN, "a")
        told.append(await read())
        await store.delete_info("t/1", ANN)
        await store.delete_info("t/1", ANN)
        told.append(await read())
        seen.append(told)

    assert seen[0] == seen[1]


async def test_a_config_that_no_document_takes_is_refused_with_its_size(opened: Open) -> None:
    """By name."""
    config = TaskPushNotificationConfig(url="u" * 1_000_000)
    with pytest.raises(InvalidInputError, match=r"config takes 10\d+ bytes, the limit is 921600"):
        await opened().push_notification_configs.set_info("t", config, ANN)

"""What a service shows: ADK's interface, this package's own methods, and nothing of its inside."""

import inspect
from typing import Any

import pytest
from a2a.server.tasks import PushNotificationConfigStore as A2aConfigStore
from a2a.server.tasks import TaskStore as A2aTaskStore
from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService

from gcp_adk_store import ArtifactService, MemoryService, SessionService, Store
from gcp_adk_store.tasks import PushNotificationConfigStore, TaskStore
from gcp_adk_store.turns import Turns

OF_SDK: dict[type[Any], type[Any] | None] = {
    SessionService: BaseSessionService,
    ArtifactService: BaseArtifactService,
    MemoryService: BaseMemoryService,
    TaskStore: A2aTaskStore,
    PushNotificationConfigStore: A2aConfigStore,
    Store: None,
}
INSIDE = {"bounds", "delete_session_if", "follower", "hooks", "over", "permits"}


@pytest.mark.parametrize("service", OF_SDK)
def test_a_service_has_the_base_of_its_sdk_and_at_most_one_more(service: type[Any]) -> None:
    """No class is put together of mixins."""
    ours = [base for base in service.__bases__ if base is not OF_SDK[service]]

    assert len(ours) == 1
    assert len(service.__bases__) == (1 if OF_SDK[service] is None else 2)


@pytest.mark.parametrize("service", OF_SDK)
def test_no_attribute_is_declared_beside_where_it_is_set(service: type[Any]) -> None:
    """A class that declares what another one sets cannot be read alone."""
    own = [base for base in service.__mro__ if base.__module__.startswith("gcp_adk_store")]

    assert [] == [(base.__name__, name) for base in own for name in inspect.get_annotations(base)]


async def test_services_show_nothing_of_their_inside_and_name_no_cloud() -> None:
    """What only this package calls is in no completion of an editor; classes are those of any storage."""
    async with Store.local(":memory:") as store:
        of_tasks = (store.tasks, store.push_notification_configs)
        services = (store.sessions, store.artifacts, store.memory, store.turns, *of_tasks)
        kinds = [
            SessionService,
            ArtifactService,
            MemoryService,
            Turns,
            TaskStore,
            PushNotificationConfigStore,
        ]

        assert [] == [
            (type(one), name) for one in (store, *services) for name in INSIDE if hasattr(one, name)
        ]
        assert kinds == [type(service) for service in services]
        assert not any(name in repr(service) for service in services for name in ("Firestore", "Gcs"))

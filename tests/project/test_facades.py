"""What a service shows: ADK's interface, this package's own methods, and nothing of its inside."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from a2a.server.tasks import PushNotificationConfigStore as A2aConfigStore
from a2a.server.tasks import TaskStore as A2aTaskStore
from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService

import gcp_adk_store
from gcp_adk_store import ArtifactService, MemoryService, SessionArchive, SessionService, Store
from gcp_adk_store.kernel import ports
from gcp_adk_store.store import IMPORTED_LATER
from gcp_adk_store.tasks import PushNotificationConfigStore, TaskStore
from gcp_adk_store.turns import Turns
from tests.support.methods import INTERNAL
from tools.website import reference

OF_SDK: dict[type[Any], type[Any] | None] = {
    SessionService: BaseSessionService,
    ArtifactService: BaseArtifactService,
    MemoryService: BaseMemoryService,
    TaskStore: A2aTaskStore,
    PushNotificationConfigStore: A2aConfigStore,
    Store: None,
}
INSIDE = {
    "bounds",
    "delete_session_if",
    "follower",
    "hooks",
    "over",
    "permits",
    "refresh",
    "release_if_empty",
}


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


async def test_a_turn_shows_what_its_holder_needs() -> None:
    """What its appends know of it is in no completion of an editor."""
    who: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s"}
    async with Store.local(":memory:") as store:
        await store.sessions.create_session(**who)
        async with store.turns.hold(**who) as turn, store.turns.hold(**who) as inner:
            assert {"abort_signal", "fence", "is_lost"} == {name for name in dir(turn) if name[0] != "_"}
            assert (1, turn.abort_signal) == (inner.fence, inner.abort_signal)


def classes_in(hint: Any) -> Iterator[type[Any]]:
    """Yield the classes of this package that *hint* names, within others as well."""
    if inspect.isclass(hint) and hint.__module__.startswith("gcp_adk_store"):
        yield hint
    for part in hint if isinstance(hint, list) else get_args(hint):
        yield from classes_in(part)


def methods_of(service: type[Any]) -> Iterator[Any]:
    """Yield the public methods of *service* that this package defines."""
    for name in dir(service):
        found = inspect.getattr_static(service, name)
        method = inspect.unwrap(getattr(found, "__func__", found))
        is_ours = inspect.isfunction(method) and method.__module__.startswith("gcp_adk_store")
        if is_ours and not name.startswith("_") and name not in INTERNAL:
            yield method


def test_what_a_public_method_takes_or_returns_has_a_public_name() -> None:
    """A port, or another protocol, has none: docs/concepts/architecture.md says where ports are."""
    packages = [importlib.import_module(each) for each in ("gcp_adk_store", *reference.PACKAGES)]
    public = [getattr(package, name) for package in packages for name in package.__all__]
    known = {name: getattr(importlib.import_module(home), name) for name, home in IMPORTED_LATER.items()}
    known |= {name: getattr(gcp_adk_store, name) for name in gcp_adk_store.__all__}
    found = {
        (each, f"{service.__name__}.{method.__name__}")
        for service in (*OF_SDK, Turns)
        for method in methods_of(service)
        for hint in get_type_hints(method, localns=known).values()
        for each in classes_in(hint)
    }
    unnamed = {
        (each.__name__, name)
        for each, name in found
        if each not in public
        and each.__module__ != ports.__name__
        and not getattr(each, "_is_protocol", False)
    }

    assert (SessionArchive, "SessionService.archive_session") in found
    assert set() == unnamed

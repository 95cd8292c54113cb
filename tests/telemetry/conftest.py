"""Watch what services on the emulators say through OpenTelemetry."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gcp_adk_store import FirestoreSessionService, Store
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import no_faults
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.support.clock import firestores_time
from tests.telemetry.watched import Watched


@pytest.fixture(scope="session")
def providers() -> Watched:
    """The providers of this process, which can be set once only."""
    return Watched()


@pytest.fixture
def watched(providers: Watched) -> Iterator[Watched]:
    """What is said while the test runs."""
    with providers.on():
        yield providers


@pytest.fixture(scope="module")
def proxies(
    firestore_emulator: Emulator, storage_emulator: Emulator
) -> Iterator[tuple[FirestoreProxy, StorageProxy]]:
    """Proxies before both emulators, for all tests of a module."""
    with FirestoreProxy(firestore_emulator.address) as first, StorageProxy(storage_emulator.address) as other:
        first.clock = firestores_time
        yield first, other


@pytest.fixture
def firestore_proxy(
    proxies: tuple[FirestoreProxy, StorageProxy], monkeypatch: pytest.MonkeyPatch
) -> Iterator[FirestoreProxy]:
    """A proxy that the services of the test talk through, without faults after it."""
    monkeypatch.setenv(FIRESTORE_VARIABLE, proxies[0].address)
    yield proxies[0]
    proxies[0].plan = no_faults


@pytest.fixture
def storage_proxy(
    proxies: tuple[FirestoreProxy, StorageProxy], monkeypatch: pytest.MonkeyPatch
) -> Iterator[StorageProxy]:
    """A proxy that the services of the test talk through, without faults after it."""
    monkeypatch.setenv(STORAGE_VARIABLE, proxies[1].address)
    yield proxies[1]
    proxies[1].plan = no_faults


@pytest.fixture
async def store(project: str, adk_store_bucket: str) -> AsyncIterator[Store]:
    """A store on a project and a bucket of its own, through the proxies that the test has."""
    store = Store.connect(project=project, bucket=adk_store_bucket)
    yield store
    await store.close()


@pytest.fixture
async def connect(project: str) -> AsyncIterator[Callable[..., FirestoreSessionService]]:
    """Make session services of the test's database, which are closed after it."""
    async with AsyncExitStack() as opened:

        def service(**options: Any) -> FirestoreSessionService:
            made = FirestoreSessionService(project=project, **options)
            opened.push_async_callback(made.close)
            return made

        yield service

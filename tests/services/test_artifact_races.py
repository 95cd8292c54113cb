"""Among other writers, each read ends in time."""

import asyncio
import queue
from collections.abc import Awaitable, Callable

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from gcp_adk_store import ArtifactService, GcsArtifactService, UnavailableError
from gcp_adk_store.testing.conformance.running import text
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.faults import Call, Fault, Hold
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.services.conftest import WHO
from tests.support.clock import PassingTime


class OtherWriter:
    """A plan of a proxy: another client replaces the only object between the two requests of each turn."""

    def __init__(
        self, emulator: Emulator, bucket: str, second: str, passing: PassingTime, *, beside: bool
    ) -> None:
        """Prepare; *second* is the later request, sent *beside* one for metadata or after another."""
        options = {"api_endpoint": emulator.address}
        client = Client(project="demo", credentials=AnonymousCredentials(), client_options=options)
        self._bucket = client.bucket(bucket)
        self._second = second
        self._passing = passing
        self._beside = beside
        self._firsts: queue.Queue[Hold] = queue.Queue()

    def __call__(self, call: Call) -> Fault | None:
        """Let the first request of a turn be done, then replace the object, then let the second one go."""
        if self._beside and call.method == "metadata":
            first = Hold("after")
            self._firsts.put(first)
            return first
        if call.method == self._second:
            first = self._firsts.get(timeout=60) if self._beside else Hold()
            if self._beside:
                first.reached.wait(60)
            (blob,) = self._bucket.list_blobs()
            blob.upload_from_string(b"another's", content_type="text/plain")
            self._passing.for_library(70)  # of the 120 seconds that there are
            first.release()
        return None


@pytest.mark.parametrize(
    ("second", "beside", "read"),
    [
        ("media", True, lambda service, who: service.load_artifact(**who)),
        ("media", True, lambda service, who: service.load_artifact(**who, version=0)),
        ("rewrite", False, lambda service, who: service.copy_artifact(**who, to_filename="copy")),
    ],
    ids=["the latest", "one version", "a copy"],
)
async def test_a_call_that_others_always_come_before_ends_in_time(
    storage_emulator: Emulator,
    adk_store_bucket: str,
    storage_proxy: StorageProxy,
    passing: PassingTime,
    *,
    second: str,
    beside: bool,
    read: Callable[[ArtifactService, dict[str, str]], Awaitable[object]],
) -> None:
    """It reads again until the deadline of its requests, and says so."""
    who = {**WHO, "filename": "shared"}
    await GcsArtifactService(adk_store_bucket).save_artifact(**who, artifact=text("mine"))
    service = GcsArtifactService(adk_store_bucket)
    storage_proxy.plan = OtherWriter(storage_emulator, adk_store_bucket, second, passing, beside=beside)
    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="other writers were first on every try") as caught:
            await read(service, who)
    await service.close()

    assert caught.value.attempts > 1

"""Among other writers, and while requests stall, each call of artifacts ends in time."""

import asyncio
import io
import json
import queue
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
import urllib3
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client

from gcp_adk_store import (
    ArtifactLimits,
    ArtifactService,
    GcsArtifactService,
    OverloadedError,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import text
from gcp_adk_store.testing.emulators import Emulator
from gcp_adk_store.testing.faults import Call, Fault, Hang, Hold, no_faults
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.services.conftest import WHO
from tests.support.clock import PassingTime
from tests.support.stored import plain_text
from tests.support.stores import bucket_objects


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


BORN = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2031, 1, 1, tzinfo=UTC)
PIECES = 7


def over(bucket: str, http: requests.Session) -> Any:
    """Return the objects of *bucket*, for a client with the session *http*."""
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    return bucket_objects(bucket, client)


class Outrun(AuthorizedSession):
    """Lets another writer change an object just before each of its patches arrives, in some time."""

    def __init__(self, passing: PassingTime) -> None:
        super().__init__(AnonymousCredentials())  # type: ignore[no-untyped-call]  # google-auth types half
        self._passing = passing

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # any arguments of the client
        """Send the other writer's patch, then this one."""
        if method == "PATCH":
            self._passing.for_library(70)  # of the 120 seconds that there are
            super().request(method, url.partition("?")[0], json={"metadata": {}}, timeout=60)  # type: ignore[no-untyped-call]  # google-auth types half
        return super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half


class Rewrites(AuthorizedSession):
    """Answers rewrites by itself, each with what *done* returns for its number; sends one that gets None."""

    def __init__(self, done: Callable[[int], int | None]) -> None:
        super().__init__(AnonymousCredentials())  # type: ignore[no-untyped-call]  # google-auth types half
        self._done = done
        self.number = 0

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # as above
        """Answer a rewrite, or send the request."""
        if "/rewriteTo/" not in url:
            return super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half
        self.number += 1
        done = self._done(self.number)
        if done is None:
            return super().request(method, url.partition("?")[0] + "?ifGenerationMatch=0", *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half
        unfinished = {"done": False, "rewriteToken": "t", "totalBytesRewritten": f"{done}", "objectSize": "9"}
        answer = requests.Response()
        answer.status_code = 200
        answer.raw = urllib3.HTTPResponse(io.BytesIO(json.dumps(unfinished).encode()), preload_content=False)
        return answer


async def test_a_custom_time_that_others_keep_from_moving_ends_as_unavailable(
    adk_store_bucket: str, passing: PassingTime
) -> None:
    """Every patch finds an object that another writer has just changed."""
    objects = over(adk_store_bucket, Outrun(passing))
    await objects.create("folder/part", plain_text(b"x", custom_time=BORN))
    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="other writers were first on every try; try again later"):
            await objects.keep_until("folder/", LATER)
    await objects.close()


async def test_a_copy_that_gets_nowhere_ends_as_unavailable(adk_store_bucket: str) -> None:
    """Five requests in a row that copy no byte are enough."""
    http = Rewrites(lambda _: 3)
    objects = over(adk_store_bucket, http)
    upload = plain_text(b"a payload")
    await objects.create("source", upload)
    source = await objects.info("source")
    assert source is not None
    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="made no progress with the copy; try again later"):
            await objects.copy(source, "copy", upload)

    assert 6 == http.number
    assert None is await objects.info("copy")
    await objects.close()


async def test_a_copy_takes_as_many_requests_as_it_gets_further_by(adk_store_bucket: str) -> None:
    """Each continues the one before; the last one finishes the object."""
    http = Rewrites(lambda number: number if number < PIECES else None)
    objects = over(adk_store_bucket, http)
    upload = plain_text(b"a payload")
    await objects.create("source", upload)
    source = await objects.info("source")
    assert source is not None
    await objects.copy(source, "copy", upload)

    assert PIECES == http.number
    assert (b"a payload") == (await objects.read("copy", generation=None) or (b"", 0))[0]
    await objects.close()


QUICK: dict[str, Any] = {**WHO, "filename": "quick"}
SLOW: dict[str, Any] = {**WHO, "filename": "slow"}
OVER_S = 120
"""After so many seconds a call is given up, by default."""


async def test_other_calls_go_on_while_some_are_stalled(
    storage_proxy: StorageProxy, adk_store_bucket: str
) -> None:
    """The event loop ticks, and the calls that nobody holds up are answered; then the others are too."""
    service = GcsArtifactService(adk_store_bucket, limits=ArtifactLimits(max_workers=8))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    names = [f"slow{number}" for number in range(6)]
    holds = [Hold() for _ in names]
    storage_proxy.plan = lambda call: holds[call.number] if call.number < len(holds) else None
    stalled = [
        asyncio.create_task(service.save_artifact(**{**SLOW, "filename": name}, artifact=text(name)))
        for name in names
    ]
    for hold in holds:
        await asyncio.to_thread(hold.reached.wait)
    before = ticks
    for number in range(5):
        assert number == await service.save_artifact(**QUICK, artifact=text(f"{number}"))
        assert text(f"{number}") == await service.load_artifact(**QUICK)
    during = ticks - before
    finished = [task.done() for task in stalled]
    for hold in holds:
        hold.release()
    numbers = await asyncio.gather(*stalled)
    ticking.cancel()
    await service.close()

    assert [False] * 6 == finished
    assert [0] * 6 == numbers
    assert during > 100


async def test_calls_beyond_the_threads_wait_no_longer_than_their_deadline(
    storage_proxy: StorageProxy, adk_store_bucket: str, passing: PassingTime
) -> None:
    """They are refused one by one, not piled up; then the service works again."""
    service = GcsArtifactService(adk_store_bucket, limits=ArtifactLimits(max_workers=2))
    holds = [Hold(), Hold()]
    storage_proxy.plan = lambda call: holds[call.number] if call.number < len(holds) else Hang()
    calls = asyncio.gather(*(service.load_artifact(**SLOW) for _ in range(20)), return_exceptions=True)
    for hold in holds:
        await asyncio.to_thread(hold.reached.wait)
    passing.after(OVER_S)
    outcomes = await calls
    storage_proxy.plan = no_faults
    storage_proxy.cut_connections()

    kinds = Counter(type(outcome) for outcome in outcomes)
    assert {UnavailableError, OverloadedError} == kinds.keys()
    # The two that have a thread, and those that get one in the moment in which these end.
    assert 2 <= kinds[UnavailableError] <= 4
    assert 0 == await service.save_artifact(**QUICK, artifact=text("works"))
    await service.close()

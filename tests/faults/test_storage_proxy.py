"""Whatever goes wrong on the way to Cloud Storage, the bucket holds what the fault says."""

import asyncio
import contextlib
import http.client
import io
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests

from gcp_adk_store import ArtifactService, GcsArtifactService, OutcomeUnknownError, UnavailableError
from gcp_adk_store.testing.emulators import Emulator, create_bucket
from gcp_adk_store.testing.faults import (
    Cut,
    Delay,
    Fault,
    Hang,
    Hold,
    Lose,
    Plan,
    Plans,
    Refuse,
    from_nth,
    nth,
    only,
)
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.faults.conftest import FILE, NAME, TEXT, Stored, observing
from tests.support.clock import PassingTime
from tests.support.peak_memory import Peak
from tests.support.small_pieces import PIECE_BYTES

MIB = 2**20
THREE_PIECES = bytes(range(256)) * (5 * PIECE_BYTES // 512)
OVER_S = 120
"""After so many seconds a call is given up, by default."""


@pytest.mark.parametrize(
    ("fault", "raised", "stored"),
    [
        (Refuse(429, retry_after_s=OVER_S), UnavailableError, {}),
        (Refuse(500), OutcomeUnknownError, {}),
        (Refuse(503), OutcomeUnknownError, {}),
        (Lose(), OutcomeUnknownError, {NAME: b"one"}),
        (Cut(), OutcomeUnknownError, {NAME: b"one"}),
        (Cut("request"), OutcomeUnknownError, {}),
        (Hang(), OutcomeUnknownError, {}),
    ],
    ids=repr,
)
async def test_an_outage_leaves_in_the_bucket_what_its_fault_says(
    storage_proxy: StorageProxy,
    service: ArtifactService,
    stored_objects: Stored,
    fault: Fault,
    raised: type[Exception],
    stored: dict[str, bytes],
    passing: PassingTime,
) -> None:
    """An upload whose answer is lost is there, one that was refused or never arrived whole is not."""
    storage_proxy.plan, met = observing(only("upload", from_nth(0, fault)))
    save = asyncio.create_task(service.save_artifact(**FILE, artifact=TEXT))
    assert await asyncio.to_thread(met.wait, 60)
    if isinstance(fault, Hang):
        passing.after(OVER_S)
    with pytest.raises(raised) as caught:
        await save

    assert type(caught.value) is raised
    assert stored == stored_objects()


@pytest.mark.parametrize(
    "fault",
    [Refuse(429), Refuse(503), Lose(), Cut(), Cut("request"), Delay(0.01)],
    ids=repr,
)
async def test_one_fault_costs_a_retry_and_no_version(
    storage_proxy: StorageProxy, service: ArtifactService, stored_objects: Stored, fault: Fault
) -> None:
    """The save succeeds as version 0, and there is no other."""
    storage_proxy.plan = only("upload", nth(0, fault))

    assert 0 == await service.save_artifact(**FILE, artifact=TEXT)
    assert {NAME: b"one"} == stored_objects()
    assert Counter({fault.kind: 1}) == storage_proxy.figures.faults


@pytest.mark.parametrize("kind", ["list", "media", "metadata", "delete"])
@pytest.mark.parametrize("fault", [Refuse(503), Lose(), Cut(), Cut("request")], ids=repr)
async def test_other_requests_are_repeated_too(
    storage_proxy: StorageProxy, service: ArtifactService, stored_objects: Stored, kind: str, fault: Fault
) -> None:
    """Also those without a body to cut."""
    await service.save_artifact(**FILE, artifact=TEXT)
    storage_proxy.plan = only(kind, nth(0, fault))
    loaded = await service.load_artifact(**FILE)
    same = await service.load_artifact(**FILE, version=0)
    await service.delete_artifact(**FILE)

    assert TEXT == loaded == same
    assert {} == stored_objects()
    assert Counter({fault.kind: 1}) == storage_proxy.figures.faults


async def test_a_download_that_is_cut_is_fetched_again_and_whole(
    storage_proxy: StorageProxy, service: ArtifactService
) -> None:
    """In every piece of a file, and at its first bytes as in the middle."""
    await service.save_artifact_file(**FILE, source=io.BytesIO(THREE_PIECES))
    storage_proxy.plan = only("media", lambda call: Cut() if call.number % 2 == 0 else None)
    target = io.BytesIO()
    await service.load_artifact_to(**FILE, target=target)

    assert THREE_PIECES == target.getvalue()
    assert Counter(cut=3) == storage_proxy.figures.faults


def test_an_answer_that_is_cut_announces_more_than_comes(
    storage_proxy: StorageProxy, storage_emulator: Emulator, adk_store_bucket: str
) -> None:
    """Half of it, under the length of the whole."""
    objects = f"/storage/v1/b/{adk_store_bucket}/o"
    upload = f"{storage_emulator.address}/upload{objects}"
    requests.post(upload, params={"uploadType": "media", "name": "ten"}, data=b"0123456789", timeout=60)
    storage_proxy.plan = nth(0, Cut())
    connection = http.client.HTTPConnection(storage_proxy.address.removeprefix("http://"))
    connection.request("GET", f"{objects}/ten?alt=media")
    answer = connection.getresponse()
    with pytest.raises(http.client.IncompleteRead) as caught:
        answer.read()
    connection.close()

    assert "10" == answer.headers["Content-Length"]
    assert b"01234" == caught.value.partial


@pytest.mark.parametrize(("after_s", "header"), [(None, None), (1.0, "1"), (1.2, "2")])
def test_a_refusal_says_when_to_come_back(
    storage_proxy: StorageProxy, after_s: float | None, header: str | None
) -> None:
    """In whole seconds, as HTTP has it; the connection stays open."""
    storage_proxy.plan = from_nth(0, Refuse(429, retry_after_s=after_s))
    with requests.Session() as client:
        answers = [client.get(f"{storage_proxy.address}/storage/v1/b/x/o", timeout=60) for _ in range(2)]

    assert [429, 429] == [answer.status_code for answer in answers]
    assert [header, header] == [answer.headers.get("Retry-After") for answer in answers]
    assert "RESOURCE_EXHAUSTED" == answers[0].json()["error"]["status"]


async def test_a_request_that_was_delayed_arrives_after_its_caller_gave_up(
    storage_proxy: StorageProxy, service: ArtifactService, stored_objects: Stored, passing: PassingTime
) -> None:
    """As on a network that is slow."""
    late = Hold()
    storage_proxy.plan = only("upload", from_nth(0, late))
    save = asyncio.create_task(service.save_artifact(**FILE, artifact=TEXT))
    await asyncio.to_thread(late.reached.wait)
    passing.after(OVER_S)
    with pytest.raises(OutcomeUnknownError):
        await save
    at_the_end = stored_objects()
    late.release()
    await service.close()

    assert {} == at_the_end
    assert {NAME: b"one"} == stored_objects()


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize(("stage", "stored"), [("before", {}), ("after", {NAME: b"one"})])
async def test_a_held_request_goes_on_or_is_dropped_when_it_is_released(
    storage_proxy: StorageProxy,
    service: ArtifactService,
    stored_objects: Stored,
    stage: Any,
    stored: dict[str, bytes],
    *,
    goes_on: bool,
) -> None:
    """Until then the bucket is as it was before the request, respectively as it is after it."""
    hold, later = Hold(stage), None if goes_on else Refuse(403)
    storage_proxy.plan = only("upload", lambda call: hold if call.number == 0 else later)
    save = asyncio.create_task(service.save_artifact(**FILE, artifact=TEXT))
    await asyncio.to_thread(hold.reached.wait)
    meanwhile = stored_objects()
    hold.release(forward=goes_on)
    await asyncio.wait([save])

    assert goes_on == (save.exception() is None)
    assert (stored, {NAME: b"one"} if goes_on else stored) == (meanwhile, stored_objects())


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("fault", [Refuse(503), Lose(), Cut(), Cut("request")], ids=repr)
async def test_a_resumable_upload_stays_behind_the_proxy(
    storage_proxy: StorageProxy, service: ArtifactService, number: int, fault: Fault
) -> None:
    """Its pieces too, whichever of its requests goes wrong."""
    storage_proxy.plan = only("upload", nth(number, fault))
    version = await service.save_artifact_file(**FILE, source=io.BytesIO(THREE_PIECES))
    loaded = io.BytesIO()
    await service.load_artifact_to(**FILE, target=loaded)

    assert 0 == version
    assert THREE_PIECES == loaded.getvalue()
    assert Counter({fault.kind: 1}) == storage_proxy.figures.faults
    assert storage_proxy.figures.calls["upload"] >= 5


async def test_a_signed_url_leads_through_the_proxy(
    storage_proxy: StorageProxy, service: ArtifactService
) -> None:
    """It stays valid, and plans meet it as a download or an upload."""
    await service.save_artifact(**FILE, artifact=TEXT)
    url = await service.get_signed_url(**FILE)
    assert url is not None
    upload = await service.create_upload(
        **{**FILE, "filename": "put"}, mime_type="text/plain", expiration=timedelta(minutes=1)
    )
    put = await asyncio.to_thread(
        requests.put, upload.url, data=b"two", headers=dict(upload.headers), timeout=60
    )
    got = await asyncio.to_thread(requests.get, url, timeout=60)
    storage_proxy.plan = only("media", nth(0, Lose()))

    assert url.startswith(storage_proxy.address)
    assert (200, 200, b"one") == (put.status_code, got.status_code, got.content)
    with pytest.raises(requests.ConnectionError):
        await asyncio.to_thread(requests.get, url, timeout=60)


@pytest.mark.usefixtures("passing")
async def test_two_owners_on_one_proxy_have_plans_of_their_own(
    storage_proxy: StorageProxy, storage_emulator: Emulator, adk_store_bucket: str
) -> None:
    """An outage of one bucket is not the other's."""
    create_bucket(f"{adk_store_bucket}-b", storage_emulator.address)
    storage_proxy.plan = plans = Plans()
    mine = GcsArtifactService(adk_store_bucket)
    other = GcsArtifactService(f"{adk_store_bucket}-b")
    with plans.of(adk_store_bucket, from_nth(0, Refuse(429, retry_after_s=OVER_S))):
        with pytest.raises(UnavailableError):
            await mine.save_artifact(**FILE, artifact=TEXT)
        other_version = await other.save_artifact(**FILE, artifact=TEXT)

    assert 0 == other_version
    assert 0 == await mine.save_artifact(**FILE, artifact=TEXT)


async def test_connections_that_are_cut_can_be_opened_again(
    storage_proxy: StorageProxy, service: ArtifactService, stored_objects: Stored
) -> None:
    """At the same address; a request that was running meets a lost answer, and happens once."""
    hold = Hold("after")
    storage_proxy.plan = only("upload", nth(0, hold))
    save = asyncio.create_task(service.save_artifact(**FILE, artifact=TEXT))
    await asyncio.to_thread(hold.reached.wait)
    cut = storage_proxy.cut_connections()
    version = await save
    still_held = not hold.decision.done()
    hold.release()

    assert cut >= 1
    assert (0, True) == (version, still_held)
    assert {NAME: b"one"} == stored_objects()


@pytest.mark.long
@pytest.mark.parametrize("plan", [nth(9, Lose()), nth(0, Delay(0.01))], ids=["streamed", "kept in a file"])
@pytest.mark.linux
def test_100_mb_pass_in_little_memory(storage_proxy: StorageProxy, adk_store_bucket: str, plan: Plan) -> None:
    """Both ways, and without a length that is announced."""
    block = bytes(range(256)) * 256
    storage_proxy.plan = plan
    objects = f"{storage_proxy.address}/storage/v1/b/{adk_store_bucket}/o"
    upload = f"{storage_proxy.address}/upload/storage/v1/b/{adk_store_bucket}/o?uploadType=media&name=large"

    def blocks() -> Iterator[bytes]:
        for _ in range(1600):
            yield block

    received = 0
    with Peak() as peak:
        uploaded = requests.post(upload, data=blocks(), timeout=60)
        with requests.get(f"{objects}/large?alt=media", stream=True, timeout=60) as download:
            for piece in download.iter_content(len(block)):
                received += len(piece)
                assert piece == block

    assert 200 == uploaded.status_code
    assert 1600 * len(block) == received
    assert peak.bytes < 30 * MIB


async def test_a_proxy_that_stops_waits_for_nothing_that_hangs_or_is_held(
    storage_emulator: Emulator,
) -> None:
    """Their callers learn that the request ended."""
    hold = Hold()
    plan, met = observing(from_nth(1, Hang()))
    proxy = StorageProxy(storage_emulator.address, lambda call: hold if call.number == 0 else plan(call))
    with contextlib.ExitStack() as running:
        running.enter_context(proxy)
        url = f"{proxy.address}/storage/v1/b/x/o"
        held = asyncio.create_task(asyncio.to_thread(requests.get, url, timeout=60))
        await asyncio.to_thread(hold.reached.wait)
        hanging = asyncio.create_task(asyncio.to_thread(requests.get, url, timeout=60))
        await asyncio.to_thread(met.wait)
        async with asyncio.timeout(60):
            await asyncio.to_thread(running.close)
            outcomes = await asyncio.gather(held, hanging, return_exceptions=True)

    assert [requests.ConnectionError] * 2 == [type(outcome) for outcome in outcomes]
    assert Counter(hold=1, hang=1) == proxy.figures.faults

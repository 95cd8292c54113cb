"""Whatever goes wrong on the way to Firestore, the store holds what the fault says."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.adk.events import Event
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.types import firestore
from google.genai import types
from google.rpc import error_details_pb2, status_pb2

from gcp_adk_store import FirestoreSessionService, OutcomeUnknownError, UnavailableError
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.faults import (
    Call,
    Cut,
    Delay,
    Fault,
    Garble,
    Hang,
    Hold,
    Lose,
    Refuse,
    from_nth,
    nth,
    only,
)
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.meters import FirestoreMeter
from tests.faults.conftest import SESSION_PATH, WHO, GivesUp, observing
from tests.support.clock import PassingTime

ROOT = Path(__file__).parents[2]
StoredTail = Callable[[], list[str]]


def said(text: str) -> Event:
    """Return a user's event."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content)


@pytest.fixture
async def session(firestore_proxy: FirestoreProxy, project: str) -> Any:
    """A session made through the proxy, before anything goes wrong."""
    assert firestore_proxy.address
    return await FirestoreSessionService(project=project).create_session(**WHO)


@pytest.mark.parametrize(
    ("fault", "raised", "stored"),
    [
        (Refuse("RESOURCE_EXHAUSTED", retry_after_s=60), UnavailableError, 0),
        (Refuse("UNAVAILABLE"), OutcomeUnknownError, 0),
        (Lose(), OutcomeUnknownError, 1),
        (Cut(), OutcomeUnknownError, 1),
        (Garble(), OutcomeUnknownError, 1),
        (Cut("request"), OutcomeUnknownError, 0),
        (Hang(), OutcomeUnknownError, 0),
    ],
    ids=repr,
)
async def test_an_outage_leaves_in_the_store_what_its_fault_says(
    firestore_proxy: FirestoreProxy,
    project: str,
    session: Any,
    stored_tail: StoredTail,
    fault: Fault,
    raised: type[Exception],
    stored: int,
    passing: PassingTime,
) -> None:
    """A commit whose answer is lost is there, one that was refused or never arrived is not."""
    giving_up = GivesUp(passing, passes_s=60)
    service = FirestoreSessionService(project=project, interceptors=[giving_up])
    firestore_proxy.plan, met = observing(only("Commit", from_nth(0, fault)))
    append = asyncio.create_task(service.append_event(session, said("one")))
    assert await asyncio.to_thread(met.wait, 60)
    if isinstance(fault, Hang):
        giving_up.now.set()
    with pytest.raises(raised) as caught:
        await append

    assert type(caught.value) is raised
    assert stored == len(stored_tail())


@pytest.mark.parametrize(
    "fault",
    [
        Refuse("RESOURCE_EXHAUSTED"),
        Refuse("UNAVAILABLE"),
        Lose(),
        Cut(),
        Garble(),
        Cut("request"),
        Delay(0.01),
    ],
    ids=repr,
)
async def test_one_fault_costs_a_retry_and_no_event(
    firestore_proxy: FirestoreProxy, project: str, session: Any, stored_tail: StoredTail, fault: Fault
) -> None:
    """The append succeeds, and the event is stored once."""
    service = FirestoreSessionService(project=project)
    firestore_proxy.plan = only("Commit", nth(0, fault))
    await service.append_event(session, said("one"))

    assert 1 == len(stored_tail())
    assert Counter({fault.kind: 1}) == firestore_proxy.figures.faults


async def test_a_request_that_was_delayed_arrives_after_its_caller_gave_up(
    firestore_proxy: FirestoreProxy,
    project: str,
    session: Any,
    stored_tail: StoredTail,
    passing: PassingTime,
) -> None:
    """As on a network that is slow; of two such commits of one append the store takes one."""
    holds = [Hold(), Hold()]
    giving_up = GivesUp(passing, passes_s=20)
    service = FirestoreSessionService(project=project, interceptors=[giving_up])
    firestore_proxy.plan = only("Commit", lambda call: holds[call.number])
    append = asyncio.create_task(service.append_event(session, said("late")))
    for hold in holds:
        await asyncio.to_thread(hold.reached.wait)
        giving_up.now.set()
    with pytest.raises(OutcomeUnknownError):
        await append
    at_the_end = stored_tail()
    for hold in holds:
        hold.release()
    await giving_up.answers()

    assert [] == at_the_end
    assert 1 == len(stored_tail())


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize(("stage", "stored"), [("before", 0), ("after", 1)])
async def test_a_held_call_goes_on_or_is_dropped_when_it_is_released(
    firestore_proxy: FirestoreProxy,
    project: str,
    session: Any,
    stored_tail: StoredTail,
    stage: Any,
    stored: int,
    *,
    goes_on: bool,
) -> None:
    """Until then the store is as it was before the call, respectively as it is after it."""
    hold, later = Hold(stage), None if goes_on else Refuse("PERMISSION_DENIED")
    firestore_proxy.plan = only("Commit", lambda call: hold if call.number == 0 else later)
    service = FirestoreSessionService(project=project)
    append = asyncio.create_task(service.append_event(session, said("held")))
    await asyncio.to_thread(hold.reached.wait)
    meanwhile = len(stored_tail())
    hold.release(forward=goes_on)
    await asyncio.wait([append])

    assert goes_on == (append.exception() is None)
    assert (stored, 1 if goes_on else stored) == (meanwhile, len(stored_tail()))
    assert 1 == firestore_proxy.figures.faults["hold"]


async def test_a_read_that_breaks_off_is_read_again(
    firestore_proxy: FirestoreProxy, project: str, session: Any
) -> None:
    """Half of an answer is never taken for the whole."""
    service = FirestoreSessionService(project=project)
    await service.append_event(session, said("one"))
    firestore_proxy.plan = only("BatchGetDocuments", nth(0, Cut()))
    found = await service.get_session(**WHO)

    assert session == found
    assert {"cut": 1} == firestore_proxy.figures.faults


async def raw_read(
    address: str, project: str, header: str = "google-cloud-resource-prefix", value: str = "{}"
) -> tuple[int, grpc.aio.AioRpcError | None]:
    """Read a session and its user with bare gRPC; return how many answers came, and what ended them."""
    database = f"projects/{project}/databases/(default)"
    paths = [SESSION_PATH, SESSION_PATH.partition("/adk_sessions")[0]]
    request = firestore.BatchGetDocumentsRequest(
        database=database, documents=[f"{database}/documents/{path}" for path in paths]
    )
    async with grpc.aio.insecure_channel(address) as channel:
        read: Any = channel.unary_stream(
            "/google.firestore.v1.Firestore/BatchGetDocuments",
            request_serializer=firestore.BatchGetDocumentsRequest.serialize,
        )
        metadata = ((header, value.format(database)), ("authorization", "Bearer owner"))
        answers = 0
        try:
            async for _ in read(request, metadata=metadata):
                answers += 1
        except grpc.aio.AioRpcError as exc:
            return answers, exc
    return answers, None


async def test_a_stream_that_is_cut_ends_after_its_first_message(
    firestore_proxy: FirestoreProxy, project: str, session: Any
) -> None:
    """The rest never comes; the same read without a fault has two messages."""
    assert session
    whole, _ = await raw_read(firestore_proxy.address, project)
    firestore_proxy.plan = only("BatchGetDocuments", nth(0, Cut()))
    answers, failure = await raw_read(firestore_proxy.address, project)

    assert (2, 1) == (whole, answers)
    assert failure is not None
    assert grpc.StatusCode.UNAVAILABLE == failure.code()


async def test_a_refusal_says_when_to_come_back(firestore_proxy: FirestoreProxy, project: str) -> None:
    """As a RetryInfo among the trailing metadata, as Google's servers send it."""
    firestore_proxy.plan = from_nth(0, Refuse("RESOURCE_EXHAUSTED", retry_after_s=1.5))
    answers, failure = await raw_read(firestore_proxy.address, project)
    assert failure is not None
    trailing = dict(failure.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    info = error_details_pb2.RetryInfo()

    assert (0, grpc.StatusCode.RESOURCE_EXHAUSTED) == (answers, failure.code())
    assert failure.code().value[0] == status.code
    assert status.details[0].Unpack(info)
    assert 1500 == info.retry_delay.ToMilliseconds()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("google-cloud-resource-prefix", "{}"),
        ("x-goog-request-params", "database={}"),
        ("x-goog-request-params", "parent={}/documents/a/b"),
        ("x-goog-request-params", "project_id=own&database_id=%28default%29"),
    ],
)
async def test_the_owner_of_a_call_is_its_project(
    firestore_proxy: FirestoreProxy, header: str, value: str
) -> None:
    """By whichever header the client routes its requests."""
    seen: list[Call] = []

    def plan(call: Call) -> Fault:
        seen.append(call)
        return Refuse()

    firestore_proxy.plan = plan
    await raw_read(firestore_proxy.address, "own", header, value)

    assert [Call(service="firestore", owner="own", method="BatchGetDocuments", number=0)] == seen


async def test_connections_that_are_cut_can_be_opened_again(
    firestore_proxy: FirestoreProxy, project: str, session: Any, stored_tail: StoredTail
) -> None:
    """At the same address; a call that was running meets a lost answer, and happens once."""
    hold = Hold("after")
    firestore_proxy.plan = only("Commit", nth(0, hold))
    service = FirestoreSessionService(project=project)
    append = asyncio.create_task(service.append_event(session, said("one")))
    await asyncio.to_thread(hold.reached.wait)
    cut = await asyncio.to_thread(firestore_proxy.cut_connections)
    await append
    none_left = hold.decision.done()
    await service.append_event(session, said("two"))

    assert cut >= 1
    assert not none_left
    assert 2 == len(stored_tail())
    assert session == await service.get_session(**WHO)


async def test_a_proxy_that_stops_waits_for_nothing_that_hangs_or_is_held(
    firestore_emulator: Emulator, project: str
) -> None:
    """Their callers learn that the call ended."""
    hold = Hold()
    plan, met = observing(from_nth(1, Hang()))
    proxy = FirestoreProxy(firestore_emulator.address, lambda call: hold if call.number == 0 else plan(call))
    with contextlib.ExitStack() as running:
        running.enter_context(proxy)
        held = asyncio.create_task(raw_read(proxy.address, project))
        await asyncio.to_thread(hold.reached.wait)
        hanging = asyncio.create_task(raw_read(proxy.address, project))
        await asyncio.to_thread(met.wait)
        async with asyncio.timeout(60):
            outcomes = await asyncio.gather(held, hanging, asyncio.to_thread(running.close))

    assert [0, 0] == [outcome[0] for outcome in outcomes[:2]]
    assert Counter(hold=1, hang=1) == proxy.figures.faults


async def test_what_a_client_has_read_is_counted(firestore_emulator: Emulator, project: str) -> None:
    """Google's own client goes on after the last document, before the end of the answer arrives."""
    with FirestoreMeter(firestore_emulator.address) as meter, pytest.MonkeyPatch.context() as patch:
        patch.setenv(FIRESTORE_VARIABLE, meter.address)
        client = AsyncClient(project=project)
        counted = []
        for _ in range(100):
            await client.collection("any").document("none").get()
            counted.append(meter.take().reads)

    assert [1] * 100 == counted

"""A2A tasks are kept by owner, whole, and never lose an update unnoticed."""

import asyncio
import base64
import contextlib
import os
import pickle
from typing import Any

import pytest
from a2a.server.cluster import ConcurrentTaskModificationError
from a2a.types import ListTasksRequest, Task, TaskState, TaskStatus
from a2a.utils.errors import InvalidParamsError
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store import InvalidInputError, Store, StoredDataError, TaskConflictError
from gcp_adk_store.tasks import TaskStore
from gcp_adk_store.tasks.format import TaskHeader
from tests.support.small_pieces import use_small_pieces
from tests.support.stored import change, put
from tests.tasks.conftest import ANN, Open, of, task

DONE = TaskState.TASK_STATE_COMPLETED
WORKING = TaskState.TASK_STATE_WORKING

HOSTILE = ["", ".", "..", "a/b", "%2F", "%", "__x__", "ann/adk_tasks/t1", "ü🦊", "\x00\n", "a" * 400]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store what is large in small pieces."""
    use_small_pieces(monkeypatch)


def large(kilobytes: int) -> Task:
    """Return a task that no compression makes smaller."""
    made = task("large")
    made.artifacts.add(artifact_id="a").parts.add(raw=os.urandom(kilobytes * 1024))
    return made


async def read(tasks: TaskStore, id_: str = "t1") -> Task:
    """Return a task of Ann's, which there must be."""
    found = await tasks.get(id_, ANN)
    assert found is not None
    return found


async def test_no_owner_reads_changes_or_deletes_the_task_of_another(opened: Open) -> None:
    """Even by the same id, and by names that look like paths; ids may be of any text, too."""
    tasks = opened().tasks
    owners = [*filter(None, HOSTILE), "ann", "Ann"]
    places = [*((name, "same") for name in owners), *(("ann", id_) for id_ in HOSTILE)]
    for number, (name, id_) in enumerate(places):
        await tasks.save(task(id_, at=number), of(name))
    await tasks.delete("same", of("somebody else"))
    found = [await tasks.get(id_, of(name)) for name, id_ in places]
    pages = [await tasks.list(ListTasksRequest(), of(name)) for name in owners]

    assert [task(id_, at=number) for number, (_, id_) in enumerate(places)] == found
    assert [1 + len(HOSTILE) if name == "ann" else 1 for name in owners] == [
        page.total_size for page in pages
    ]
    assert await tasks.get("same", of("somebody else")) is None


async def test_a_lost_update_is_refused_and_the_reader_goes_on(opened: Open) -> None:
    """By an error that the SDK knows too, and that survives a pickle."""
    here, there = opened().tasks, opened().tasks
    mine = task()
    await here.save(mine, ANN)
    theirs = await read(there)
    theirs.metadata["who"] = "they"
    await there.save(theirs, ANN)
    mine.metadata["who"] = "me"
    with pytest.raises(TaskConflictError, match="save_task task_id='t1': another writer changed") as caught:
        await here.save(mine, ANN)
    again = await read(here)
    again.metadata["also"] = "me"
    await here.save(again, ANN)
    stored = await read(there)

    assert isinstance(caught.value, ConcurrentTaskModificationError)
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))  # noqa: S301  # its own
    assert {"who": "they", "also": "me"} == dict(stored.metadata)


async def test_a_save_that_was_made_before_is_refused_over_a_change(opened: Open) -> None:
    """From A to B, to A, and to B again: the first save to B does not count for the second."""
    here, there = opened().tasks, opened().tasks
    mine = task()
    for n in (0, 1, 0):
        mine.metadata["n"] = n
        await here.save(mine, ANN)
    theirs = await read(there)
    theirs.metadata["who"] = "they"
    await there.save(theirs, ANN)
    mine.metadata["n"] = 1
    with pytest.raises(TaskConflictError, match="another writer changed"):
        await here.save(mine, ANN)

    assert theirs == await read(there)


async def test_a_new_object_replaces_a_task_but_does_not_reopen_one_that_ended(opened: Open) -> None:
    """The SDK's interface gives such an object no version."""
    tasks = opened().tasks
    await tasks.save(task(), ANN)
    await tasks.save(task(state=DONE, at=1), ANN)
    await tasks.save(task(state=DONE, at=2), ANN)
    with pytest.raises(TaskConflictError, match="ended the task"):
        await tasks.save(task(state=WORKING, at=3), ANN)
    stored = await read(tasks)

    assert (DONE, 2) == (stored.status.state, stored.status.timestamp.seconds)


async def test_saving_the_same_again_changes_nothing(opened: Open) -> None:
    """Also from an object without a version, also after the end."""
    tasks = opened().tasks
    made = task(state=DONE, at=1)
    for _ in range(2):
        await tasks.save(made, ANN)
        await opened().tasks.save(task(state=DONE, at=1), ANN)

    assert made == await tasks.get("t1", ANN)


async def test_what_was_stored_again_as_it_was_is_no_change(opened: Open) -> None:
    """Who read it before may save; who changes nothing is no writer."""
    here, there = opened().tasks, opened().tasks
    mine = task()
    await here.save(mine, ANN)
    theirs, idle = await read(there), await read(there)
    await there.save(theirs, ANN)
    mine.metadata["n"] = 1
    await here.save(mine, ANN)
    await there.save(idle, ANN)

    assert mine == await there.get("t1", ANN)


async def test_a_large_task_comes_back_and_shrinks_and_goes_without_a_trace(opened: Open) -> None:
    """Its pieces are written, replaced and removed with it."""
    store = opened()
    made = large(25)
    await store.tasks.save(made, ANN)
    found = await read(opened().tasks, "large")
    counts = [await pieces(store)]
    made.metadata["more"] = 1
    await store.tasks.save(made, ANN)
    counts.append(await pieces(store))
    listed = await store.tasks.list(ListTasksRequest(), ANN)
    unread = opened().tasks
    await unread.save(task("large"), ANN)
    counts.append(await pieces(store))
    await unread.save(large(12), ANN)
    counts.append(await pieces(store))
    await unread.delete("large", ANN)
    counts.append(await pieces(store))

    assert found.artifacts == made.artifacts
    assert [made] == list(listed.tasks)
    assert [3, 3, 0, 2, 0] == counts


async def pieces(store: Store) -> int:
    """Return how many pieces are stored, of any task."""
    return len(await store.sessions.storage.documents.query("", "adk_pieces", all_descendants=True))


@pytest.mark.parametrize("opened", ["local"], indirect=True)
async def test_a_task_that_no_commit_takes_is_refused_with_its_size(opened: Open) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidInputError, match=rf"takes \d+ bytes after .* limit is {9 * 1024 * 1024}"):
        await opened().tasks.save(large(9 * 1024 + 1), ANN)
    with pytest.raises(InvalidInputError, match="context_id takes 1501 bytes, the limit is 1500"):
        await opened().tasks.save(task(context_id="c" * 1501), ANN)
    with pytest.raises(InvalidInputError, match="task_id takes 1501 bytes"):
        await opened().tasks.get("t" * 1501, ANN)


async def test_a_task_of_any_time_is_read_and_listed(opened: Open) -> None:
    """Protobuf holds nanoseconds below 0 and above a second; a save took them, and no read did after it."""
    store = opened()
    for id_, seconds, nanos in (("b", 5, 2_000_000_000), ("c", 6, 0), ("a", 8, -1)):
        given = Timestamp(seconds=seconds, nanos=nanos)
        await store.tasks.save(Task(id=id_, status=TaskStatus(timestamp=given)), ANN)
    pages = [await store.tasks.list(ListTasksRequest(page_size=2), ANN)]
    after = ListTasksRequest(page_token=pages[0].next_page_token)
    pages.append(await store.tasks.list(after, ANN))

    assert [["a", "b"], ["c"]] == [[each.id for each in page.tasks] for page in pages]
    assert 2_000_000_000 == (await read(store.tasks, "b")).status.timestamp.nanos


async def test_an_owner_resolver_decides_whose_a_task_is(opened: Open) -> None:
    """For a tenant, say."""
    tasks = opened(task_owner_resolver=lambda context: context.user.user_name[:1]).tasks
    await tasks.save(task(), of("ann"))

    assert await tasks.get("t1", of("alice")) is not None
    assert await tasks.get("t1", of("bob")) is None


async def test_all_tasks_of_an_owner_are_erased_with_their_pieces(opened: Open) -> None:
    """Damaged ones too; those of other owners stay."""
    store = opened()
    for number in range(3):
        await store.tasks.save(task(f"t{number}"), ANN)
    await store.tasks.save(large(12), ANN)
    await store.tasks.save(task(), of("ann/adk_tasks/t1"))
    await put(store, "adk_owners/ann/adk_tasks/damaged", {"format": "none"})
    for _ in range(2):
        await opened().tasks.delete_owner_tasks(owner="ann")

    left = await store.sessions.storage.documents.query("", "adk_tasks", all_descendants=True)
    assert ["adk_owners/ann%2Fadk_tasks%2Ft1/adk_tasks/t1"] == [document.path for document in left]
    assert 0 == await pieces(store)
    assert 0 == (await store.tasks.list(ListTasksRequest(), ANN)).total_size


@pytest.mark.parametrize(
    "damage",
    [{"format": "none"}, {"id": "x" * 2000}, {"state": "done"}, {"body": b"none"}, {"sha256": "0" * 64}],
)
async def test_a_damaged_task_takes_no_listing_with_it(
    opened: Open, damage: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The others are listed, a warning names the path of the damaged one, and its own read is an error."""
    store = opened()
    for number in range(3):
        await store.tasks.save(task(f"t{number}", at=number), ANN)
    await change(store, "adk_owners/ann/adk_tasks/t1", damage)
    listed = await store.tasks.list(ListTasksRequest(), ANN)

    assert ["t2", "t0"] == [each.id for each in listed.tasks]
    assert 2 == listed.total_size
    assert "1 documents cannot be read, and are left out: adk_owners/ann/adk_tasks/t1" in caplog.text
    with pytest.raises(StoredDataError):
        await store.tasks.get("t1", ANN)
    await store.tasks.delete("t1", ANN)
    assert await store.tasks.get("t1", ANN) is None


async def test_a_task_that_the_sdk_cannot_read_takes_no_listing_with_it(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """It is whole, of another release: it is left out, and the warning and the error name it."""
    store = opened()
    await store.tasks.save(task("t0"), ANN)
    header = TaskHeader(id="t1", context_id="", state=WORKING, time=None)
    await store.tasks.save_task(task_id="t1", owner="ann", header=header, body=b"\xff", derived_from=None)
    listed = await store.tasks.list(ListTasksRequest(), ANN)

    assert (["t0"], 1) == ([each.id for each in listed.tasks], listed.total_size)
    assert "1 documents cannot be read, and are left out: adk_owners/ann/adk_tasks/t1" in caplog.text
    with pytest.raises(StoredDataError, match="adk_owners/ann/adk_tasks/t1"):
        await store.tasks.get("t1", ANN)


async def test_what_is_saved_during_an_erasure_is_never_left_in_part(opened: Open) -> None:
    """It is erased or whole: its pieces go with it."""
    store = opened()
    made = large(12)
    await store.tasks.save(made, ANN)

    async def save_on() -> None:
        for number in range(5):
            made.metadata["n"] = number
            with contextlib.suppress(TaskConflictError):
                await store.tasks.save(made, ANN)

    await asyncio.gather(save_on(), opened().tasks.delete_owner_tasks(owner="ann"))
    found = await opened().tasks.get("large", ANN)

    assert (0 if found is None else 2) == await pieces(store)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (ListTasksRequest(page_size=101), "from 1 to 100"),
        (
            ListTasksRequest(page_token=base64.urlsafe_b64encode(b"[" * 100_000).decode()),
            "does not come from",
        ),
    ],
)
async def test_a_page_that_cannot_be_is_refused_as_the_sdk_does(
    opened: Open, params: ListTasksRequest, message: str
) -> None:
    """By its error for clients."""
    with pytest.raises(InvalidParamsError, match=message):
        await opened().tasks.list(params, ANN)

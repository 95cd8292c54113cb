"""Gather what the SDK of A2A asks of a task store into one suite to inherit; needs ``a2a-sdk``."""

import pytest
from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.server.tasks import TaskStore
from a2a.types import ListTasksRequest, Message, Part, Role, Task, TaskState, TaskStatus
from a2a.utils.errors import InvalidParamsError
from google.protobuf.timestamp_pb2 import Timestamp

from gcp_adk_store.testing.conformance.running import in_loops_of_their_own

WORKING, DONE = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED


class _Named(User):
    """A user who is logged in."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Whether the user is known."""
        return True

    @property
    def user_name(self) -> str:
        """The name."""
        return self._name


ANN, BOB = (ServerCallContext(user=_Named(name)) for name in ("ann", "bob"))


def task(task_id: str, at: int | None = None, state: TaskState = WORKING, context_id: str = "c") -> Task:
    """Return a task, with a status of the second *at* if given."""
    timestamp = None if at is None else Timestamp(seconds=at)
    return Task(id=task_id, context_id=context_id, status=TaskStatus(state=state, timestamp=timestamp))


@in_loops_of_their_own
class TaskStoreConformance:
    """What the SDK of A2A asks of a task store, as tests that a subclass inherits.

    ::

        class TestMyTasks(TaskStoreConformance):
            @pytest.fixture
            def task_store(self) -> TaskStore:
                return MyTaskStore()

    The one fixture gives an empty store, or an asynchronous context manager that yields it. All else is as in
    :class:`~gcp_adk_store.testing.conformance.SessionServiceConformance`. The expectations are those that
    the SDK's store in memory meets.
    """

    async def test_a_task_comes_back_whole(self, task_store: TaskStore) -> None:
        """With its history, artifacts and metadata."""
        saved = task("t", at=7)
        saved.history.append(Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="grüß dich")]))
        saved.artifacts.add(artifact_id="a").parts.add(raw=b"\x00\xff")
        saved.metadata.update({"n": 0.5, "deep": {"list": [1, None]}})
        await task_store.save(saved, ANN)

        assert saved == await task_store.get("t", ANN)

    async def test_a_missing_task_is_none(self, task_store: TaskStore) -> None:
        """And deleting it is accepted."""
        await task_store.delete("t", ANN)

        assert await task_store.get("t", ANN) is None

    async def test_a_later_save_replaces_the_task(self, task_store: TaskStore) -> None:
        """As a whole."""
        saved = task("t", at=1)
        saved.metadata["old"] = 1
        await task_store.save(saved, ANN)
        saved.ClearField("metadata")
        saved.status.state = DONE
        await task_store.save(saved, ANN)

        assert saved == await task_store.get("t", ANN)

    async def test_an_object_with_another_id_is_another_task(self, task_store: TaskStore) -> None:
        """As one that serves as a template; the first task stays."""
        saved = task("t", at=1)
        await task_store.save(saved, ANN)
        saved.id = "other"
        await task_store.save(saved, ANN)

        assert [task("t", at=1), saved] == [await task_store.get(each, ANN) for each in ("t", "other")]

    async def test_a_task_changes_by_saves_alone(self, task_store: TaskStore) -> None:
        """The objects that were saved and returned are their callers'."""
        saved = task("t", at=1)
        await task_store.save(saved, ANN)
        returned = await task_store.get("t", ANN)
        assert returned is not None
        for held in (saved, returned):
            held.metadata["changed"] = True

        assert task("t", at=1) == await task_store.get("t", ANN)

    async def test_a_deleted_task_is_gone(self, task_store: TaskStore) -> None:
        """From reads and listings; others stay."""
        for task_id in ("t", "other"):
            await task_store.save(task(task_id), ANN)
        await task_store.delete("t", ANN)

        assert await task_store.get("t", ANN) is None
        assert [one.id for one in (await task_store.list(ListTasksRequest(), ANN)).tasks] == ["other"]

    async def test_owners_have_tasks_of_their_own(self, task_store: TaskStore) -> None:
        """Of one id, too."""
        await task_store.save(task("t", at=1), ANN)
        await task_store.save(task("t", at=2), BOB)
        await task_store.delete("t", ANN)

        assert await task_store.get("t", ANN) is None
        assert task("t", at=2) == await task_store.get("t", BOB)
        assert (await task_store.list(ListTasksRequest(), ANN)).total_size == 0

    async def test_pages_have_each_task_once_the_latest_first(self, task_store: TaskStore) -> None:
        """Those of one time in descending order of their ids, those without a time last."""
        times = {"a": 1, "b": 3, "c": 3, "d": None, "e": 2}
        for task_id, at in times.items():
            await task_store.save(task(task_id, at=at), ANN)
        params, found, totals = ListTasksRequest(page_size=2), [], set()
        while True:
            page = await task_store.list(params, ANN)
            found += [one.id for one in page.tasks]
            totals.add(page.total_size)
            if not page.next_page_token:
                break
            params.page_token = page.next_page_token

        assert found == ["c", "b", "e", "a", "d"]
        assert {5} == totals

    @pytest.mark.parametrize(
        ("params", "expected"),
        [
            (ListTasksRequest(context_id="x"), ["d", "b"]),
            (ListTasksRequest(status=DONE), ["c", "b"]),
            (ListTasksRequest(status_timestamp_after=Timestamp(seconds=3)), ["d", "c"]),
            (ListTasksRequest(context_id="x", status=DONE), ["b"]),
            (ListTasksRequest(context_id="none"), []),
        ],
        ids=["context", "status", "time", "two", "none"],
    )
    async def test_filters_choose_tasks(
        self, task_store: TaskStore, params: ListTasksRequest, expected: list[str]
    ) -> None:
        """And the total counts the chosen ones."""
        for made in (
            task("a", at=1),
            task("b", at=2, state=DONE, context_id="x"),
            task("c", at=3, state=DONE),
            task("d", at=4, context_id="x"),
        ):
            await task_store.save(made, ANN)
        page = await task_store.list(params, ANN)

        assert expected == [one.id for one in page.tasks]
        assert len(expected) == page.total_size

    async def test_a_page_token_that_no_listing_gave_is_refused(self, task_store: TaskStore) -> None:
        """By the SDK's error for clients."""
        await task_store.save(task("t"), ANN)
        with pytest.raises(InvalidParamsError):
            await task_store.list(ListTasksRequest(page_token="of nobody"), ANN)  # noqa: S106  # no password

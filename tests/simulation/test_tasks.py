"""A2A tasks keep their promises while several servers save and delete them."""

import asyncio
from functools import partial
from typing import Final

from a2a.types import ListTasksRequest, ListTasksResponse, Message, Part, Task, TaskState, TaskStatus

from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import check_list
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Journal, Outcome
from tests.simulation.raw import require_whole
from tests.simulation.resent import may_arrive_again
from tests.support.lengths import at_length
from tests.tasks.conftest import of as context_of

OWNERS: Final = ("ann", "bob")
"""Both have tasks of the same ids."""
KEPT: Final = "kept"
CLAIMED: Final = "claimed"
"""Several servers make the same change of it, and each change happens once."""
REMOVED: Final = "removed"


def new_task(task_id: str) -> Task:
    """Return a task without a message."""
    return Task(id=task_id, context_id="context", status=TaskStatus(state=TaskState.TASK_STATE_WORKING))


def names_in(task: Task | None) -> list[str]:
    """Return the names of the saves that made a task."""
    return [] if task is None else [message.message_id for message in task.history]


def names_in_page(page: ListTasksResponse) -> dict[str, list[str]]:
    """Return the same of each task of a listing."""
    return {task.id: names_in(task) for task in page.tasks}


async def act(actor: Actor, step: int) -> None:
    """Get a task, add a message to it, list tasks, or delete one."""
    random = actor.random(step)
    tasks = actor.store.tasks
    owner, task_id = random.choice(OWNERS), random.choice([KEPT, KEPT, REMOVED])
    of, context, name = f"{owner}/{task_id}", context_of(owner), f"{actor.name}-{step}"
    action = random.choice(["get", "save", "save", "save", "save", "list", "delete"])
    if action == "list":
        list_them = partial(tasks.list, ListTasksRequest(), context)
        await actor.call("list", owner, list_them, seen=names_in_page)
    elif action == "delete":
        if task_id == REMOVED:
            actor.memory.pop(of, None)
            await actor.call("delete", of, lambda: tasks.delete(task_id, context))
    else:
        held: Task | None = actor.memory.get(of)
        if held is None or actor.journal.is_busy or action == "get" or random.random() < 0.2:
            held = await actor.call("get", of, lambda: tasks.get(task_id, context), seen=names_in)
        if action == "save":
            if held is None and task_id == REMOVED:
                held = new_task(task_id)
            if held is not None:
                text = random.randbytes(random.choice([1, 100, 5_000])).hex()
                held.history.append(Message(message_id=name, parts=[Part(text=text)]))
                changed = held

                async def save() -> bool:
                    await tasks.save(changed, context)
                    return True

                saved = await actor.call("save", of, save, given=name)
                if saved is None:  # its object may have what was not stored
                    held = None
        actor.memory[of] = held


async def act_or_claim(actor: Actor, step: int) -> None:
    """Do the same, or add a number that others may add, too."""
    random = actor.random(-step - 1)
    if random.random() < 0.2:
        await claim(actor, random.choice(OWNERS), subscribers=random.choice([1, 1, 2]))
    else:
        await act(actor, step)


async def claim(actor: Actor, owner: str, *, subscribers: int) -> None:
    """Add the next number to a task, as several subscribers of one server at once; each reads it."""
    tasks, context = actor.store.tasks, context_of(owner)
    found = [
        await actor.call("look", owner, lambda: tasks.get(CLAIMED, context), seen=names_in)
        for _ in range(subscribers)
    ]  # fmt: skip
    held = [task for task in found if task is not None]
    if len(held) < subscribers or len({len(task.history) for task in held}) > 1:
        return
    number = str(len(held[0].history))

    async def save(task: Task) -> bool:
        task.history.append(Message(message_id=number, parts=[Part(text="the same")]))
        await tasks.save(task, context)
        return True

    of = f"{owner}/{CLAIMED}"
    await asyncio.gather(*(actor.call("claim", of, partial(save, task), given=number) for task in held))


def check_claimed(journal: Journal, owner: str, stored: list[str]) -> None:
    """Check that each number was added by one server, and for all of its subscribers or none."""
    assert stored == [str(number) for number in range(len(stored))], "a number is missing, or there twice"
    claims = list(journal.of("claim", f"{owner}/{CLAIMED}"))
    for number in {call.given for call in claims}:
        done = [call for call in claims if call.given == number and call.outcome is Outcome.DONE]
        assert not done or number in stored, f"{number} was acknowledged, and is lost"
        servers = {call.process for call in done}
        assert len(servers) <= 1, f"{servers} both got the answer that they had added {number}"
        for call in claims:
            beside = [one for one in done if (one.process, one.begun) == (call.process, call.begun)]
            is_refused = call.given == number and call.error == "ConcurrentTaskError"
            assert not (is_refused and beside), f"of two subscribers that added {number} one was refused"


def check_removed(world: World, journal: Journal, owner: str, stored: list[str]) -> None:
    """Check a task that is deleted and made anew: what went before a deletion is in no read after it."""
    of = f"{owner}/{REMOVED}"
    reads = [(call.begun, call.result) for call in journal.of("get", of) if call.outcome is Outcome.DONE]
    reads += [
        (call.begun, call.result.get(REMOVED, []))
        for call in journal.of("list", owner)
        if call.outcome is Outcome.DONE
    ]
    reads.append((world.now, stored))
    saves = {call.given: call for call in journal.of("save", of)}
    for begun, names in reads:
        assert len(names) == len({*names}), "a message is stored twice"
        for name in names:
            save = saves[name]
            assert save.outcome is not Outcome.REFUSED, f"{name} was refused with {save.error}, and is stored"
            for gone in journal.of("delete", of):
                is_over = gone.outcome is Outcome.DONE and save.ended < gone.begun and gone.ended < begun
                # One that begins a life comes again after a deletion; Firestore cannot know it.
                is_late = may_arrive_again(world, saves[names[0]], ("commit",))
                assert is_late or not is_over or save.outcome is not Outcome.DONE, f"{name} came back"


async def scenario(world: World) -> None:
    """Let servers share the tasks of two owners."""
    fleet = Fleet(world)
    plain, journal = fleet.plain, fleet.journal
    for owner in OWNERS:
        for task_id in (KEPT, CLAIMED):
            await plain.tasks.save(new_task(task_id), context_of(owner))
    await fleet.work(40, act_or_claim, rest_s=300)
    require_whole(journal)
    for owner in OWNERS:
        context = context_of(owner)
        stored = names_in(await plain.tasks.get(KEPT, context))
        of = f"{owner}/{KEPT}"
        listed = [call for call in journal.of("list", owner) if call.outcome is Outcome.DONE]
        for call in listed:
            seen = call.result.get(KEPT)
            assert seen is not None, "a listing left out a task"
            assert seen == stored[: len(seen)], "a listing saw another order"
        check_list(stored, journal.of("save", of), journal.of("get", of))
        check_claimed(journal, owner, names_in(await plain.tasks.get(CLAIMED, context)))
        check_removed(world, journal, owner, names_in(await plain.tasks.get(REMOVED, context)))
        await plain.tasks.delete_owner_tasks(owner=owner)
    for collection in ("adk_tasks", "adk_pieces"):
        left = await fleet.service.backend.documents.query("", collection, all_descendants=True)
        assert [document.path for document in left] == []


def test_no_change_of_a_task_is_lost() -> None:
    """Each acknowledged change is in the task, in order; none that was refused is, and no deleted one."""
    simulate(scenario, seeds=range(at_length(4, 20)), faults=Faults.all(0.04))

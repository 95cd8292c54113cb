"""Push notification configs of A2A tasks are those that were set last, also beside an erasure."""

from functools import partial
from typing import Final

from a2a.types import TaskPushNotificationConfig

from gcp_adk_store.testing.simulation import Fate, Faults, World, simulate
from tests.simulation.checkers import check_register
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Outcome
from tests.support.lengths import at_length
from tests.tasks.conftest import of as context_of

TASKS: Final = ("one", "two")
CONFIGS: Final = ("a", "b")
OWNERS: Final = ("ann", "bob")
ERASED: Final = "bob"
NOTHING: Final = ""


def read_of(configs: list[TaskPushNotificationConfig]) -> dict[str, str]:
    """Return the token of each config by its id."""
    found = {config.id: config.token for config in configs}
    assert len(found) == len(configs), "a config is there twice"
    return found


async def act(actor: Actor, step: int) -> None:
    """Set, delete or get configs, or erase those of one owner."""
    random = actor.random(step)
    configs, name = actor.store.push_notification_configs, f"{actor.name}-{step}"
    owner, task, one = random.choice(OWNERS), random.choice(TASKS), random.choice(CONFIGS)
    of, context = f"{owner}/{task}", context_of(owner)
    match random.choice(["set", "set", "set", "get", "get", "dispatch", "delete", "delete all", "erase"]):
        case "set":
            config = TaskPushNotificationConfig(id=one, task_id=task, url="https://example.com", token=name)
            write = partial(configs.set_info, task, config, context)
            await actor.call("write", f"{of}/{one}", write, given=name, seen=lambda stored: stored.token)
        case "get":
            await actor.call("read", of, lambda: configs.get_info(task, context), seen=read_of)
        case "dispatch":
            dispatch = partial(configs.get_info_for_dispatch, task)
            await actor.call("dispatch", task, dispatch, seen=lambda found: {one.token for one in found})
        case "delete":
            await actor.call("delete", f"{of}/{one}", lambda: configs.delete_info(task, context, one))
        case "delete all":
            await actor.call("delete", of, lambda: configs.delete_info(task, context))
        case _:
            await actor.call("erase", ERASED, lambda: configs.delete_owner_configs(owner=ERASED))


def check_config(world: World, fleet: Fleet, of: str, one: str, reads: list[Call]) -> None:
    """Check that each read saw the config that was set last, or none if it was deleted.

    A request that the network carries late is the last write, whenever its caller had its answer.
    """
    journal, owner = fleet.journal, of.partition("/")[0]
    sets = list(journal.of("write", f"{of}/{one}"))
    deletes = [*journal.of("delete", f"{of}/{one}"), *journal.of("delete", of)]
    deletes += journal.of("erase", owner)
    if comes_late(world, f"adk_pushes/{of.partition('/')[2]}/adk_owners/{owner}/adk_configs/{one}"):
        return
    for read in reads:
        token = read.result.get(one, NOTHING)
        seen = [call for call in sets if call.given == token]
        if token:
            check_register(NOTHING, sets, [_value(read, token)])
            over_at = seen[0].ended if seen[0].outcome is Outcome.DONE else float("inf")
            gone = [call for call in deletes if over_at < call.begun and call.ended < read.begun]
            assert not any(call.outcome is Outcome.DONE for call in gone), f"{token} was deleted, and is read"
        else:
            done = [call for call in sets if call.outcome is Outcome.DONE and call.ended < read.begun]
            last = max(done, key=lambda call: call.ended, default=None)
            may_be_gone = any(
                call.begun < read.ended and call.outcome is not Outcome.REFUSED
                and (call.outcome is Outcome.UNKNOWN or call.ended > last.begun)
                for call in deletes if last is not None
            )  # fmt: skip
            assert last is None or may_be_gone, f"a read at {read.begun:.3f} missed {of}/{one}"


def comes_late(world: World, path: str) -> bool:
    """Return whether the network carries a write of *path* after others: it has no condition."""
    return any(f"{path} " in line and line.endswith((Fate.LATE, Fate.TWICE)) for line in world.trace)


def _value(read: Call, token: str) -> Call:
    return Call(read.process, "read", read.of, read.begun, None, read.ended, read.outcome, token)


async def scenario(world: World) -> None:
    """Let servers share the configs of two owners, of whom one is erased again and again."""
    fleet = Fleet(world)
    plain, journal = fleet.plain, fleet.journal
    await fleet.work(40, act, rest_s=300)
    for owner in OWNERS:
        for task in TASKS:
            of, context = f"{owner}/{task}", context_of(owner)
            now = await plain.push_notification_configs.get_info(task, context)
            end = Call("end", "read", of, world.now, None, world.now, Outcome.DONE, read_of(now))
            reads = [end, *(call for call in journal.of("read", of) if call.outcome is Outcome.DONE)]
            for one in CONFIGS:
                check_config(world, fleet, of, one, reads)
        await plain.push_notification_configs.delete_owner_configs(owner=owner)
    given = {call.given for call in journal.of("write") if call.outcome is not Outcome.REFUSED}
    for call in journal.of("dispatch"):
        assert call.result is None or call.result <= given, "news go where nobody wanted them"
    for collection in ("adk_pushes", "adk_configs"):
        left = await fleet.service.backend.documents.query("", collection, all_descendants=True)
        assert [document.path for document in left] == []


def test_push_configs_are_those_that_were_set_last() -> None:
    """What is acknowledged is read, what is deleted is not, and an erasure leaves nothing."""
    simulate(scenario, seeds=range(at_length(5, 10)), faults=Faults.all(0.03))

"""After an erasure nothing of the user is left, and nothing of others is missing, in every order."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import Erased, ErasureReceipt, KeyDestroyedError, Point, Store
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.simulation.events import event_of, nothing, said
from tests.simulation.fleet import LIMITS, Actor, Fleet, key
from tests.simulation.journal import Journal, Outcome
from tests.simulation.keys import envelope_of
from tests.simulation.raw import documents_below, objects_of
from tests.simulation.resent import may_arrive_again
from tests.support.lengths import at_length

USERS: Final = ("erased", "kept")
SESSIONS: Final = ("one", "two")
KINDS: Final = ("create", "fork", *["append"] * 4, "artifact", "memory", "remember", "archive")
BEGAN_AT: Final = 1_700_000_000.0


async def act(actor: Actor, step: int) -> None:
    """Write something of a user, each time under a new name."""
    random = actor.random(step)
    name = f"{actor.name}-{step}"
    user, session = random.choice(USERS), random.choice(SESSIONS)
    kind = random.choice(KINDS)
    work = partial(write, actor.store, random, kind, user=user, session=session, name=name)
    await actor.call("create" if kind == "fork" else kind, user, work, given=(name, session), seen=nothing)


async def write(store: Store, random: Random, kind: str, *, user: str, session: str, name: str) -> object:
    """Write what is of a *kind*, with its name, to a session or beside it."""
    sessions = store.sessions
    match kind:
        case "create":
            state = {"user:last": name, "large": name * 99}
            return await sessions.create_session(**key(name, user), state=state)
        case "fork":
            return await store.fork_session(**key(session, user), to_session_id=name)
        case "archive":
            before = Point.position(random.randrange(1, 4))
            return await sessions.archive_session(**key(session, user), before=before)
        case "artifact":
            filename = random.choice([name, f"user:{name}"])
            part = types.Part(text=name)
            return await store.artifacts.save_artifact(**key(session, user), filename=filename, artifact=part)
        case "memory":
            entry = MemoryEntry(id=name, content=said(name))
            await store.memory.add_memory(app_name="app", user_id=user, memories=[entry])
            return None
        case _:
            return await use_session(store, random, kind, user=user, session=session, name=name)


async def use_session(
    store: Store, random: Random, kind: str, *, user: str, session: str, name: str
) -> object:
    """Append an event to a session, which is made if it is missing, or remember it."""
    held = await store.sessions.get_session(**key(session, user))
    if held is None:
        held = await store.sessions.create_session(**key(session, user))
    if kind == "remember":
        await store.memory.add_session_to_memory(held)
        return None
    event = event_of(name, random.choice([0, 900, 5_000]), **{f"user:{name}": 1, "large": name * 99})
    return await store.sessions.append_event(held, event)


async def erase(
    journal: Journal, who: str, store: Store, keep: Callable[[ErasureReceipt], object], *, quiet_s: float
) -> None:
    """Erase a user to the end, and keep the receipt as soon as there is one."""

    async def work() -> None:
        async for step in store.erase_user(app_name="app", user_id="erased", quiet_s=quiet_s):
            if isinstance(step, ErasureReceipt):
                keep(step)

    await journal.call(who, "erase", "erased", work)


async def there(plain: Store, user: str) -> dict[str, Counter[str]]:
    """Return the names of all that a user has, by the kind of the call that wrote it.

    An event is there once for each session that has it: the one it was appended to, and forks of that.
    """
    who: dict[str, Any] = {"app_name": "app", "user_id": user}
    sessions = (await plain.sessions.list_sessions(**who)).sessions
    files: set[str] = set()
    for session in {*SESSIONS, *(one.id for one in sessions)}:
        listed = await plain.artifacts.list_artifact_keys(**key(session, user))
        files |= {filename.removeprefix("user:") for filename in listed}
    memories = (await plain.memory.list_memories(**who, page_size=1000)).memories
    return {
        "create": Counter(one.id for one in sessions),
        "append": Counter([each.event.id async for each in plain.sessions.iter_user_events(**who)]),
        "artifact": Counter(files),
        "memory": Counter(one.id for one in memories if one.id),
    }


def check_kept(journal: Journal, names: dict[str, Counter[str]]) -> None:
    """Check that the other user has all that was acknowledged, and nothing that was refused."""
    for kind, stored in names.items():
        for call in journal.of(kind, "kept"):
            name, _ = call.given
            if call.outcome is Outcome.DONE:
                assert name in stored, f"{kind} {name} of another user is lost"
            if call.outcome is Outcome.REFUSED:
                assert name not in stored, f"{kind} {name} was refused with {call.error}, and is stored"


def check_erased(world: World, journal: Journal, names: dict[str, Counter[str]], empty_at: float) -> None:
    """Check that nothing is left that was acknowledged before the erasure found nothing."""
    for kind, stored in names.items():
        for call in journal.of(kind, "erased"):
            name, _ = call.given
            if call.outcome is Outcome.DONE and call.ended < empty_at and not may_arrive_again(world, call):
                assert name not in stored, f"{kind} {name} is left: it ended at {call.ended:.3f}"


async def erase_to_the_end(
    world: World, fleet: Fleet, before: dict[str, Counter[str]] | None
) -> ErasureReceipt:
    """Erase with erasers that are killed or cut off, and at last one that is not; return the receipt.

    *before* is what there was, if nobody writes meanwhile.
    """
    receipts: list[ErasureReceipt] = []
    refused = 0
    for number in range(12):
        process = world.process(f"eraser {number}", clock_ahead_s=world.random.uniform(-60, 60))
        erasing = process.start(
            erase, fleet.journal, process.name, fleet.store_of(process), receipts.append,
            # Beside writers it waits for what is under way: a session that comes later would lack content.
            quiet_s=world.random.choice([0, 40] if before is not None else [100]),
        )  # fmt: skip
        await asyncio.wait([erasing], timeout=world.random.uniform(0, 3) if number < 3 else 3_000)
        if number < 3 and world.random.random() < 0.3:
            fleet.service.network.cut_off(process)
            await asyncio.wait([erasing], timeout=300)
        was_killed = not erasing.done()
        if was_killed:
            process.kill()
            await asyncio.wait([erasing])
        if receipts:
            return receipts[0]
        if was_killed or erasing.exception() is not None:
            continue
        refused += fleet.journal.calls[-1].outcome is Outcome.REFUSED
        if before is not None and refused == number + 1:
            assert await there(fleet.plain, "erased") == before, "a refused erasure removed something"
    raise AssertionError("no erasure came to its end")


async def scenario(world: World, *, beside: bool, **options: Any) -> None:
    """An erasure after writers have ended, or *beside* them."""
    fleet = Fleet(world, session_limits=LIMITS, on_conflict="merge", **options)
    plain = fleet.plain
    working = asyncio.create_task(fleet.work(30, act))
    await (asyncio.sleep(world.random.uniform(0, 30)) if beside else working)
    if not beside:
        await asyncio.sleep(120)  # what is late arrives
    before = await there(plain, "erased")
    receipt = await erase_to_the_end(world, fleet, None if beside else before)
    await working
    await asyncio.sleep(120)
    check_kept(fleet.journal, await there(plain, "kept"))
    empty_at = (receipt.empty_at or 0.0) - BEGAN_AT
    try:
        left = await there(plain, "erased")
    except KeyDestroyedError:  # a process that still had the key wrote, as docs/encryption.md says
        for document in await documents_below(fleet.service, "adk_apps/app/adk_users/erased"):
            assert float(document.update_time) > (receipt.empty_at or 0.0), document.path
    else:
        check_erased(world, fleet.journal, left, empty_at)
    if not beside:
        await check_nothing(fleet.service, receipt, before)


async def check_nothing(service: Service, receipt: ErasureReceipt, before: dict[str, Counter[str]]) -> None:
    """Check that no document and no object of the user is left, and that the receipt is right."""
    left = await documents_below(service, "adk_apps/app/adk_users/erased")
    assert not left, [document.path for document in left]
    mine = [name for name in await objects_of(service) if "/erased/" in name]
    assert not mine, mine
    assert await service.backend.documents.get(["adk_apps/app/adk_users/erased"]) == [None]
    shown = {kind: receipt.erased.get(kind, Erased()).count for kind in ("sessions", "events", "memories")}
    names = {"sessions": "create", "events": "append", "memories": "memory"}
    counted = {kind: before[name].total() for kind, name in names.items()}
    assert shown == counted, (shown, counted)


def test_an_erasure_leaves_nothing_of_the_user_and_all_of_others() -> None:
    """Erasers are killed and go on; the receipt counts what there was, once."""
    simulate(partial(scenario, beside=False), seeds=range(at_length(2, 8)), faults=Faults.all(0.03))


def test_an_erasure_beside_writers_leaves_nothing_that_was_acknowledged_before() -> None:
    """What was acknowledged before it found nothing is gone; another user's data stays."""
    simulate(partial(scenario, beside=True), seeds=range(at_length(2, 8)), faults=Faults.all(0.03))


@pytest.mark.parametrize("beside", [False, True])
def test_an_erasure_of_an_encrypted_store_leaves_nothing(beside: bool) -> None:  # noqa: FBT001  # pytest's
    """The same, where the user's data key goes first."""
    encrypted = partial(scenario, beside=beside, encryption=envelope_of(bytes(32)))
    simulate(encrypted, seeds=range(at_length(2, 5)), faults=Faults.all(0.03))

"""Turns keep their promises in every order."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import pytest
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.runners import Runner
from google.genai import types
from pydantic import Field

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Fate, Faults, Service, World, simulate
from tests.simulation.events import nothing, said
from tests.simulation.fleet import LEASE_S, Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.linear import require_order
from tests.support.lengths import at_length

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
WHO: dict[str, Any] = {"user_id": "user", "session_id": "session"}
Durability: TypeAlias = Literal["event", "turn"]


async def a_cancelled_wait(world: World) -> None:
    """One process holds the turn, and another gives up its wait for it meanwhile."""
    service = Service(world)
    plain = service.beside()
    await prepare(plain)
    holder, waiter = world.process("holder"), world.process("waiter")
    held, waiting = service.store_of(holder), service.store_of(waiter)
    may_end = asyncio.Event()

    async def hold() -> None:
        async with held.turns.hold(**KEY):
            await may_end.wait()

    async def wait() -> None:
        async with waiting.turns.hold(**KEY, wait_s=20):
            pass

    holding = holder.start(hold)
    await asyncio.sleep(1)
    asked = waiter.start(wait)
    await asyncio.sleep(world.random.uniform(0, 0.3))
    asked.cancel()
    await asyncio.wait([asked])
    world.note("cancelled")
    await asyncio.sleep(0)  # the waiter's loop gets to know it
    holder.loop.call_soon(may_end.set)
    await holding
    await asyncio.sleep(100)

    assert (await plain.turns.status(**KEY)).fence == 1


def test_a_caller_that_is_cancelled_while_it_waits_takes_no_turn_later() -> None:
    """A turn that nobody waits for would hold up the next message until its lease ends."""
    simulate(a_cancelled_wait, seeds=range(at_length(20, 100)))


class Parrot(BaseAgent):
    """Answers twice, after some time each, and looks something up at once before its second answer."""

    seen: Any = Field(default_factory=list)
    """Gets the ids of the events before the message, as the session has them when a run begins."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        self.seen.append([event.id for event in ctx.session.events[:-1]])
        found = types.FunctionResponse(id="1", name="look", response={"found": 1})
        for parts in (
            [types.Part(text="so you say")],
            [types.Part(function_response=found)],
            [types.Part(text="so it is")],
        ):
            if parts[0].text:
                await asyncio.sleep(0.5)
            content = types.Content(role="model", parts=parts)
            yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


async def prepare(plain: Store) -> None:
    """Make the session."""
    await plain.sessions.create_session(**KEY)


async def act(actor: Actor, step: int) -> None:
    """Run a turn, hold one, leave a message, ask to stop, or give up the wait."""
    random = actor.random(step)
    name = f"{actor.name}-{step}"
    action = random.choice(["run", "run", "enqueue", "hold", "interrupt", "abort", "give up", "status"])
    if action in ("run", "enqueue", "interrupt"):
        await run(actor, name, action, random.choice(["wait", "reject"]) if action == "run" else action)
    elif action == "abort":
        await actor.call("abort", "session", lambda: actor.store.turns.request_abort(**KEY))
    elif action == "status":
        await look(actor.journal, actor.name, actor.store)
    else:
        holding = asyncio.create_task(hold(actor, name, gives_up=action == "give up"))
        if action == "give up":
            await asyncio.sleep(random.uniform(0, 1))
            holding.cancel()
        await asyncio.wait([holding])


async def act_or_tidy(actor: Actor, step: int) -> None:
    """Do the same, or leave a call of a tool open, answer those that are open, or take a message back."""
    random = actor.random(-step - 1)
    name, turns = f"{actor.name}-{step}", actor.store.turns
    if random.random() < 0.7:
        await act(actor, step)
        return
    match random.choice(["leave open", "repair", "withdraw"]):
        case "leave open":
            await actor.call("leave open", "session", lambda: leave_open(actor, name), given=name)
        case "repair":
            await actor.call("repair", "session", lambda: turns.repair(**KEY), seen=nothing)
        case _:
            look = partial(turns.status, **KEY)
            status = await actor.call("waiting", "session", look, seen=attrgetter("waiting"))
            if status is not None and status.waiting:
                withdraw = partial(turns.withdraw, **KEY, message_id=status.waiting[-1])
                await actor.call("withdraw", status.waiting[-1], withdraw)


async def leave_open(actor: Actor, name: str) -> None:
    """Store a call of a tool in a turn, which ends without its response."""
    async with actor.store.turns.hold(**KEY, wait_s=30, lease_s=actor.lease_s):
        session = await actor.store.sessions.get_session(**KEY)
        assert session is not None
        asked = types.Part(function_call=types.FunctionCall(id=name, name="look"))
        content = types.Content(role="model", parts=[asked])
        event = Event(id=name, author="parrot", invocation_id=name, content=content)
        await actor.store.sessions.append_event(session, event)


def runner_of(actor: Actor) -> Runner:
    """Return the runner of a process."""
    if "runner" not in actor.memory:
        agent = Parrot(name="parrot", seen=actor.journal.seen)
        actor.memory["runner"] = Runner(app_name="app", agent=agent, session_service=actor.store.sessions)
    runner: Runner = actor.memory["runner"]
    return runner


async def run(actor: Actor, name: str, kind: str, on_busy: Any) -> None:
    """Run an agent on a message, as a call of *kind*."""
    runner = runner_of(actor)

    events = actor.store.turns.run(
        runner, **WHO, new_message=said(name), on_busy=on_busy, wait_s=10, lease_s=actor.lease_s
    )
    await actor.call(kind, "session", partial(heard, events), given=name)


async def speak(actor: Actor, step: int) -> None:
    """Run a turn, or leave a message for the one that runs."""
    kind = actor.random(step).choice(["run", "enqueue"])
    await run(actor, f"{actor.name}-{step}", kind, "wait" if kind == "run" else kind)


async def post(actor: Actor, step: int) -> None:
    """Leave a message without a runner, or answer those that wait."""
    turns, name = actor.store.turns, f"{actor.name}-{step}"
    if actor.random(step).random() < 0.6:
        leave = partial(turns.enqueue, **KEY, new_message=said(name), message_id=name)
        await actor.call("leave", "session", leave, given=name)
    else:
        drain = partial(heard, turns.drain(runner_of(actor), **WHO, lease_s=LEASE_S))
        await actor.call("drain", "session", drain)


async def heard(events: AsyncGenerator[Event, None]) -> None:
    """Listen to a turn to its end."""
    async with aclosing(events):
        async for _ in events:
            pass


async def posted_messages(world: World) -> None:
    """Processes leave messages, which wait until some process answers them."""
    fleet = Fleet(world)
    await prepare(fleet.plain)
    await fleet.work(14, post, rest_s=400)  # leases end
    await end_turns(fleet.journal, fleet.plain)
    await check(fleet.journal, fleet.plain, is_certain_at_once=True)


async def left_messages(world: World) -> None:
    """Processes that nothing disturbs leave messages for each other's turns, which answer all of them."""
    fleet = Fleet(world, kills=False)
    await prepare(fleet.plain)
    await fleet.work(14, speak)
    status = await fleet.plain.turns.status(**KEY)
    assert (status.is_running, status.waiting) == (False, ()), "a turn ended over messages that wait"
    await check(fleet.journal, fleet.plain, is_certain_at_once=True)


async def hold(actor: Actor, name: str, *, gives_up: bool) -> None:
    """Append two events in a turn, each with the number of the turn."""

    async def work() -> int:
        async with actor.store.turns.hold(**KEY, wait_s=30, lease_s=actor.lease_s) as turn:
            session = await actor.store.sessions.get_session(**KEY)
            assert session is not None
            for part in "ab":
                event = Event(id=f"{name}{part} {turn.fence}", author="user", content=said(name))
                await actor.append(session, event)
                await asyncio.sleep(actor.random(0).uniform(0, actor.lease_s))
            return turn.fence

    await actor.call("give up" if gives_up else "hold", "session", work, given=name)


def turn_of(event: Event) -> int | None:
    """Return the number of the turn that an event of :func:`hold` names."""
    _, _, fence = event.id.partition(" ")
    return int(fence) if fence.isdigit() else None


async def check(journal: Journal, plain: Store, *, is_certain_at_once: bool) -> None:
    """Check that turns follow each other, and that each message is stored once and is answered.

    With ``durability="turn"``, only the end of its turn makes an append certain.
    """
    stored = await plain.sessions.get_session(**KEY)
    assert stored is not None
    ids = [event.id for event in stored.events]
    assert len(ids) == len({*ids}), "an event is stored twice"
    for seen in journal.seen:
        begin = [one for one in seen if one in ids]  # what a turn appended that was lost is not stored
        assert begin == ids[: len(begin)], "a run began without events that were there"
    fences = [fence for event in stored.events if (fence := turn_of(event)) is not None]
    assert fences == sorted(fences), f"a lost turn wrote after its successor: {fences}"
    held = [call.result for call in journal.of("hold") if call.outcome is Outcome.DONE]
    assert len(held) == len({*held}), f"two turns had one number: {held}"
    held_to_the_end = {call.given for call in journal.of("hold") if call.outcome is Outcome.DONE}
    appends = [*journal.of("append")]
    # An append reports what failed behind it.
    refused = {call.given.split(" ")[0][:-1] for call in appends if call.outcome is not Outcome.DONE}
    for call in appends:
        is_certain = is_certain_at_once or call.given.split(" ")[0][:-1] in held_to_the_end - refused
        if call.outcome is Outcome.DONE and is_certain:
            assert call.given in ids, f"{call.given} was acknowledged, and is lost"
        if call.outcome is Outcome.REFUSED:
            assert call.given not in ids, f"{call.given} was refused with {call.error}, and is stored"
    calls = [call.id for event in stored.events for call in event.get_function_calls()]
    of_runs = [
        event for event in stored.events if turn_of(event) is None and event.invocation_id not in calls
    ]
    runs: list[str] = [event.invocation_id for event in of_runs]
    begun = [run for number, run in enumerate(runs) if number == 0 or run != runs[number - 1]]
    assert len(begun) == len({*begun}), "the events of two runs interleave"
    answers = [call.id for event in stored.events for call in event.get_function_responses()]
    for call_id in calls:
        assert answers.count(call_id) == 1, f"{call_id} has {answers.count(call_id)} responses"
    for call in journal.of("leave open"):
        assert call.given in calls or call.outcome is not Outcome.DONE, f"{call.given} is lost"
    messages = [text for event in stored.events if event.author == "user" and (text := text_of(event))]
    check_messages(journal, messages)


def check_messages(journal: Journal, messages: list[str]) -> None:
    """Check that each message is stored once, unless it was refused or withdrawn."""
    asked = [call for kind in ("run", "enqueue", "interrupt", "leave") for call in journal.of(kind)]
    for call in asked:
        if call.error in ("SessionBusyError", "SessionInboxFullError"):
            assert call.given not in messages, f"{call.given} was refused with {call.error}, and is stored"
        assert messages.count(call.given) <= 1, f"{call.given} is stored twice"
    missing = [call for call in asked if call.given not in messages]
    lost = [call.given for call in missing if call.outcome is Outcome.DONE]
    withdrawals = [call for call in journal.of("withdraw") if call.outcome is not Outcome.REFUSED]
    maybe = {call.of for call in withdrawals if call.result in (True, None)}
    assert len(lost) <= len(maybe), f"of {lost}, {len(maybe)} at most were withdrawn"


def text_of(event: Event) -> str:
    """Return the text of an event that was not appended by :func:`hold`."""
    parts = event.content.parts if event.content is not None else None
    return parts[0].text or "" if parts and turn_of(event) is None else ""


async def end_turns(journal: Journal, plain: Store) -> None:
    """Answer what waits, and close the calls of tools that are open."""
    agent = Parrot(name="parrot", seen=journal.seen)
    runner = Runner(app_name="app", agent=agent, session_service=plain.sessions)
    async for _ in plain.turns.drain(runner, **WHO):
        pass
    await plain.turns.repair(**KEY)
    status = await plain.turns.status(**KEY)

    assert (status.is_running, status.waiting) == (False, ())


async def scenario(world: World, *, durability: Durability) -> None:
    """A fleet that takes turns of one session."""
    fleet = Fleet(world, durability=durability)
    journal, plain = fleet.journal, fleet.service.beside()
    await prepare(plain)
    await fleet.work(14, act_or_tidy if durability == "event" else act, rest_s=400)  # leases end
    await look(journal, "plain", plain)
    check_fences(journal, "hold", "give up", "run", "enqueue", "interrupt", "leave open", "repair")
    await end_turns(journal, plain)
    await check(journal, plain, is_certain_at_once=durability == "event")


@pytest.mark.parametrize("durability", ["event", "turn"])
def test_one_turn_at_a_time_and_no_message_is_lost(durability: Durability) -> None:
    """Turns follow each other, a lost one writes nothing, and each message is answered once."""
    seeds = range(at_length(4, 12))
    simulate(partial(scenario, durability=durability), seeds=seeds, faults=Faults.all(0.02))


async def take(actor: Actor, step: int) -> None:
    """Take a turn and end it, or ask its holder to stop."""
    name = f"{actor.name}-{step}"
    turns, random = actor.store.turns, actor.random(step)
    if random.random() < 0.3:
        await actor.call("abort", "session", lambda: turns.request_abort(**KEY))
        return
    take_one = partial(turns.take, **KEY, wait_s=20, lease_s=LEASE_S)
    hold = await actor.call("take", "session", take_one, given=name, seen=attrgetter("fence"))
    if hold is not None:
        async with turns.kept(hold):
            await asyncio.sleep(random.choice([random.uniform(0, 2)] * 4 + [3 * LEASE_S]))
        if hold.is_lost:
            actor.world.note(f"{actor.name}: lost {hold.fence}")
        elif hold.abort_signal.is_set():
            actor.world.note(f"{actor.name}: asked {hold.fence}")


def failures_of(world: World, process: str) -> list[float]:
    """Return the times of the requests of *process* that were not answered as they should be."""
    lines = [line for line in world.trace if f" {process}: " in line and " adk_apps/" in line]
    return [float(line.split()[0]) for line in lines if not line.endswith(f"- {Fate.ANSWERED}")]


def check_fences(journal: Journal, *kinds: str) -> None:
    """Check that some order of calls of *kinds*, which take turns, explains the numbers that they returned.

    One that took a turn without an answer, and finds it over, takes the next one or says that another runs.
    """
    calls = [call for call in journal.of("status") if call.outcome is Outcome.DONE]
    for call in (call for kind in kinds for call in journal.of(kind)):
        maybe = replace(call, kind="maybe", outcome=Outcome.UNKNOWN, given=None, result=None)
        took_s = call.ended - call.begun if call.outcome is Outcome.DONE else 0.0
        if call.result is not None:
            calls.append(call)
        elif call.outcome is not Outcome.REFUSED or call.error == "SessionBusyError" or call.kind != "take":
            calls.append(maybe)
        calls += [maybe] * int(took_s / (0.9 * LEASE_S))
    require_order(calls, 0, next_fence)


def next_fence(fence: int, call: Call) -> int | None:
    """Return the number of the last turn after *call*; ``None`` if it has another one."""
    after = fence if call.kind == "status" else fence + 1
    return after if call.result in (None, after) else None


async def watch(journal: Journal, plain: Store) -> None:
    """Look at the number of the last turn each second."""
    while True:
        await look(journal, "plain", plain)
        await asyncio.sleep(1)


async def look(journal: Journal, process: str, store: Store) -> None:
    """Look at the number of the last turn."""
    status = partial(store.turns.status, **KEY)
    await journal.call(process, "status", "session", status, seen=attrgetter("fence"))


async def leases(world: World) -> None:
    """A fleet takes turns of a session, and does nothing else."""
    fleet = Fleet(world)
    plain, journal = fleet.plain, fleet.journal
    await prepare(plain)
    watching = asyncio.create_task(watch(journal, plain))
    await fleet.work(20, take)
    watching.cancel()
    await asyncio.sleep(400)
    await look(journal, "plain", plain)
    check_fences(journal, "take")
    aborts = [call for call in journal.of("abort") if call.result or call.outcome is Outcome.UNKNOWN]
    asked = [line for line in world.trace if ": asked " in line]
    assert len(asked) <= len(aborts), f"{len(asked)} turns were asked to stop by {len(aborts)} requests"
    for line in world.trace:
        name = line.split()[1].removesuffix(":")
        if ": lost " in line and fleet.fates[name] == "lives":
            failed = [one for one in failures_of(world, name) if one > float(line.split()[0]) - 4 * LEASE_S]
            assert len(failed) > 1, f"a process lost its turn although one heartbeat failed at most: {line}"


def test_a_turn_that_is_refused_was_not_taken() -> None:
    """An error that says that nothing was written is right, whatever got lost before it."""
    simulate(leases, seeds=[*range(at_length(8, 40)), 429, 430], faults=Faults.all(0.05))


def test_a_message_that_is_left_without_a_runner_is_answered_once() -> None:
    """By whoever drains the inbox, also if some of them are killed."""
    simulate(posted_messages, seeds=range(at_length(6, 40)), faults=Faults.all(0.03))


def test_a_holder_answers_what_waits_before_its_turn_ends() -> None:
    """Also a message that comes between its last look at the inbox and the write that ends its turn."""
    simulate(left_messages, seeds=range(at_length(5, 40)))

"""Runs of an agent app's code change a session once and one after the other, in every order."""

import asyncio
from typing import Final

from gcp_adk_store.ces import RunFailure, RuntimeSettings
from gcp_adk_store.ces.host.invocation import Invocation
from gcp_adk_store.ces.host.results import Answer, Delta
from gcp_adk_store.ces.host.session_runs import SessionRuns
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation import journal
from tests.simulation.fleet import Actor, Fleet, key
from tests.support.lengths import at_length

KEY: Final = "app/user/one"
SETTINGS: Final = RuntimeSettings(reruns_on_conflict=2)


async def act(actor: Actor, step: int) -> None:
    """Run code that adds its name to a variable, or fails; several at once, and some of them again."""
    random = actor.random(step)
    name = f"{actor.name}-{step}"
    earlier = [call.given for call in actor.journal.of("run")]
    names = [name, f"{name}b"] if random.random() < 0.4 else [name]
    if earlier and random.random() < 0.3:
        names.append(random.choice(earlier))
    await asyncio.gather(*(run(actor, one, fails=one.endswith(("3", "7"))) for one in dict.fromkeys(names)))


async def run(actor: Actor, name: str, *, fails: bool) -> None:
    """Run the code of a name under the event of the name, and write down what it saw."""
    if "runs" not in actor.memory:
        actor.memory["runs"] = SessionRuns(actor.store.sessions, None, SETTINGS)
    runs: SessionRuns = actor.memory["runs"]

    async def work(invocation: Invocation) -> Answer:
        actor.memory["running"] = actor.memory.get("running", 0) + 1
        assert actor.memory["running"] == 1, "two runs of one session overlap in their process"
        try:
            await asyncio.sleep(actor.random(len(name)).uniform(0, 0.3))
        finally:
            actor.memory["running"] -= 1
        names = [*invocation.context["state"].get("names", ()), name]
        error = RunFailure(type="ValueError", message="it fails", traceback="") if fails else None
        delta = Delta(changed={"names": names}, removed=[])
        return Answer(delta=delta, error=error)

    await actor.call(
        "run",
        "one",
        lambda: runs.run(Invocation.of("run_tool it", KEY, SETTINGS, {"event_id": name}), work),
        given=name,
        seen=lambda done: list(done[1]["variables"]["names"]),
    )


async def scenario(world: World) -> None:
    """Let a fleet run code, then look at what it changed."""
    fleet = Fleet(world)
    await fleet.plain.sessions.create_session(**key("one"))
    await fleet.work(24, act, rest_s=200)
    session = await fleet.stored("one")
    names = session.state.get("names", [])
    assert [event.id for event in session.events] == names, "the variable is not what the runs made of it"
    assert len(names) == len({*names}), f"a run is stored twice: {names}"
    assert not [name for name in names if name.endswith(("3", "7"))], "a run that failed changed the session"
    for call in fleet.journal.of("run"):
        if call.outcome is journal.Outcome.DONE and not call.given.endswith(("3", "7")):
            assert call.result == names[: len(call.result)], f"{call.given} is lost, or saw another order"


def test_each_run_of_code_changes_its_session_once() -> None:
    """Under one event id it is stored once, on what was there before it; one that fails changes nothing."""
    simulate(scenario, seeds=range(at_length(3, 12)), faults=Faults.all(0.04))

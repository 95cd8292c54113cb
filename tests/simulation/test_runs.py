"""Runs of an agent app's code change a session once and one after the other, in every order."""

import asyncio
from typing import Any, Final

from gcp_adk_store.ces import PythonRuntime, RuntimeSettings
from gcp_adk_store.testing.simulation import Faults, Service, World, simulate
from tests.ces.host.test_untrusted import HONEST
from tests.simulation import journal
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.test_sessions import key
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
    await asyncio.gather(*(run(actor, one) for one in dict.fromkeys(names)))


class Adding:
    """A sandbox whose code adds its name to a variable, or fails."""

    runs_at_once = None

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._running = 0

    async def run(self, request: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Take some time, then answer."""
        name = request["args"]["name"]
        self._running += 1
        assert self._running == 1, "two runs of one session overlap in their process"
        try:
            await asyncio.sleep(self._actor.random(len(name)).uniform(0, 0.3))
        finally:
            self._running -= 1
        delta = {"changed": {"names": [*request["context"]["state"].get("names", ()), name]}, "removed": []}
        fails = {"type": "ValueError", "message": "it fails", "traceback": ""} if may_fail(name) else None
        return {**HONEST, "state_delta": delta, "error": fails}

    async def close(self) -> None:
        """Do nothing."""


def may_fail(name: str) -> bool:
    """Return whether the code of a name fails."""
    return name.endswith(("3", "7"))


async def run(actor: Actor, name: str) -> None:
    """Run the code of a name under the event of the name, and write down what it saw."""
    if "runtime" not in actor.memory:
        actor.memory["runtime"] = PythonRuntime(
            actor.store.sessions, sandbox=Adding(actor), settings=SETTINGS
        )
    runtime: PythonRuntime = actor.memory["runtime"]
    await actor.journal.call(
        actor.name, "run", "one",
        lambda: runtime.run_tool("def it(name): pass", "it", {"name": name}, KEY, event_id=name),
        given=name, seen=lambda done: list(done.variables.get("names", ())),
    )  # fmt: skip


async def scenario(world: World) -> None:
    """Let a fleet run code, then look at what it changed."""
    service = Service(world)
    plain = service.beside()
    await plain.sessions.create_session(**key("one"))
    fleet = Fleet(world, service, service.store_of)
    await fleet.work(24, act)
    await asyncio.sleep(200)
    session = await plain.sessions.get_session(**key("one"))
    assert session is not None
    names = session.state.get("names", [])
    assert [event.id for event in session.events] == names, "the variable is not what the runs made of it"
    assert len(names) == len({*names}), f"a run is stored twice: {names}"
    assert not [name for name in names if may_fail(name)], "a run that failed changed the session"
    for call in fleet.journal.of("run"):
        if call.outcome is journal.Outcome.DONE and not may_fail(call.given):
            assert call.result == names[: len(call.result)], f"{call.given} is lost, or saw another order"


def test_each_run_of_code_changes_its_session_once() -> None:
    """Under one event id it is stored once, on what was there before it; one that fails changes nothing."""
    simulate(scenario, seeds=range(at_length(3, 12)), faults=Faults.all(0.04))

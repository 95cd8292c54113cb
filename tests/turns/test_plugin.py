"""Take turns in runners that somebody else makes and runs."""

import asyncio
from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.events import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import InvalidInputError, Point, SessionBusyError, Store, StoredDataError
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.turns import TurnPlugin
from tests.services.conftest import texts
from tests.support.stored import put
from tests.turns.conftest import WHO, history
from tests.turns.test_running import WHERE, Echo, Gate, says, whole


def runner_of(store: Store, gate: Gate | None = None, **options: object) -> Runner:
    """Return a runner with the plugin; its agent waits at the message "one"."""
    agent = Echo(name="echo", **({} if gate is None else gate.of("one")))
    plugin = TurnPlugin(store.turns, **options)  # type: ignore[arg-type]  # as the test gives them
    return Runner(app=App(name="app", root_agent=agent, plugins=[plugin]), session_service=store.sessions)


async def texts_of(runner: Runner, text: str) -> list[str | None]:
    """Run *runner* on a message as its owner does; return what it answered."""
    return texts([event async for event in runner.run_async(**WHERE, new_message=says(text))])


async def test_runs_follow_each_other_with_the_events_before(store: Store, other: Store) -> None:
    """The second waits, and its runner gets the session as the first left it."""
    gate = Gate()
    first = asyncio.create_task(texts_of(runner_of(store, gate), "one"))
    await gate.came.wait()
    with pytest.raises(RuntimeError) as caught:
        await texts_of(runner_of(other, on_busy="reject"), "two")
    assert isinstance(caught.value.__cause__, SessionBusyError)
    second = asyncio.create_task(texts_of(runner_of(other), "two"))
    gate.may_go_on.set()
    await first
    assert ["hears two", "answers two"] == await second
    assert whole("one", "two") == await history(store)
    assert not (await store.turns.status(**WHO)).is_running


def seeing(store: Store, *before: BasePlugin) -> tuple[Runner, list[str | None]]:
    """Return a runner with the plugin, after others, and what its agent's session holds as it begins."""
    seen: list[str | None] = []

    async def look(callback_context: CallbackContext) -> None:
        seen.extend(texts(callback_context.session.events))

    agent = Echo(name="echo", before_agent_callback=look)
    app = App(name="app", root_agent=agent, plugins=[*before, TurnPlugin(store.turns)])
    return Runner(app=app, session_service=store.sessions), seen


async def test_a_run_that_waited_gets_the_events_that_it_asked_for(store: Store, other: Store) -> None:
    """As its runner reads them."""
    gate = Gate()
    first = asyncio.create_task(texts_of(runner_of(store, gate), "one"))
    await gate.came.wait()
    waiting, seen = seeing(other)
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    events = waiting.run_async(**WHERE, new_message=says("two"), run_config=config)
    second = asyncio.ensure_future(anext(events))
    gate.may_go_on.set()
    await first
    await second
    await events.aclose()
    assert ["answers one", "two"] == seen


class Paused(BasePlugin):
    """Lets a run wait after its runner has read the session."""

    def __init__(self) -> None:
        """Wait for the test."""
        super().__init__("paused")
        self.came, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def on_user_message_callback(self, **_: object) -> None:
        """Wait."""
        self.came.set()
        await self.may_go_on.wait()


async def test_a_run_gets_a_session_that_was_restored_and_has_as_many_events(
    store: Store, other: Store
) -> None:
    """A restore takes the number of appends back."""
    session = await read(store.sessions, WHO)
    await store.sessions.append_event(session, Event(author="user", content=says("old")))
    paused = Paused()
    runner, seen = seeing(other, paused)
    run = asyncio.create_task(texts_of(runner, "two"))
    await paused.came.wait()
    restored = await store.restore_session(**WHO, at=Point.position(0))
    await store.sessions.append_event(restored, Event(author="user", content=says("new")))
    paused.may_go_on.set()
    await run

    assert ["new", "two"] == seen


async def test_a_run_that_fails_or_is_cancelled_ends_its_turn(store: Store) -> None:
    """The next one begins at once."""
    with pytest.raises(RuntimeError, match="the model is down"):
        await texts_of(runner_of(store), "fail")
    assert not (await store.turns.status(**WHO)).is_running
    gate = Gate()
    running = asyncio.create_task(texts_of(runner_of(store, gate), "one"))
    await gate.came.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert 2 == len(await texts_of(runner_of(store), "two"))


class Counting(asyncio.Task[None]):
    """Counts what is called when it ends."""

    callbacks = 0

    def add_done_callback(self, fn: Any, /, *, context: Any = None) -> None:
        """Take one more."""
        self.callbacks += 1
        super().add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Any, /) -> int:
        """Take some away."""
        removed = super().remove_done_callback(fn)
        self.callbacks -= removed
        return removed


async def test_a_task_that_goes_on_keeps_nothing_of_the_runs_that_ended(store: Store) -> None:
    """Such as that of a worker, which runs an agent for each message of a queue."""
    runner, counts = runner_of(store), list[int]()

    async def work() -> None:
        for text in ("one", "two", "three"):
            await texts_of(runner, text)
            counts.append(task.callbacks)

    task = Counting(work(), loop=asyncio.get_running_loop())
    await task

    assert 1 == len({*counts}), counts


async def test_a_run_whose_session_cannot_be_read_ends_its_turn(store: Store, other: Store) -> None:
    """Another turn came between, and then the state of the app was damaged; the caller goes on."""
    session = await read(store.sessions, WHO)
    paused = Paused()
    run = asyncio.create_task(texts_of(seeing(other, paused)[0], "two"))

    async def caught() -> bool:
        with pytest.raises(RuntimeError) as raised:
            await run
        assert isinstance(raised.value.__cause__, StoredDataError)
        return (await store.turns.status(**WHO)).is_running

    await paused.came.wait()
    await store.sessions.append_event(session, Event(author="user", content=says("new")))
    await put(store, "adk_apps/app", {"state": "damaged"})
    paused.may_go_on.set()

    assert not await caught()


async def test_a_run_within_a_turn_is_a_part_of_it(store: Store) -> None:
    """The plugin takes none."""
    async with store.turns.hold(**WHO) as turn:
        assert 2 == len(await texts_of(runner_of(store), "two"))
        assert turn.fence == (await store.turns.status(**WHO)).fence


async def test_a_plugin_refuses_a_runner_of_another_session_service(store: Store, other: Store) -> None:
    """Its appends would not belong to the turn."""
    runner = runner_of(store)
    runner.session_service = other.sessions
    with pytest.raises(RuntimeError, match="another session service") as caught:
        await texts_of(runner, "two")
    assert isinstance(caught.value.__cause__, InvalidInputError)

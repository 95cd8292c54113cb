"""The turns that the demo's agent takes, and what must be stored after them, in whatever store."""

from collections.abc import AsyncIterator
from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.genai import types
from rich.console import Console

from examples.support_agent import APP, FIRST_TURNS, LAST_TURN, REPORT, SESSION, USER, ScriptedModel, agent
from gcp_adk_store import Store

console = Console(width=max(100, Console().width))

WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": SESSION}

STATE_AFTER_FIRST = {
    "topic": "invoices",
    "user:name": "Ada",
    "app:last_customer": "Ada",
    "reports": [29, 20],
}
STATE_AFTER_LAST = {**STATE_AFTER_FIRST, "topic": "closed", "reports": [29, 20, 22]}
EVENTS_AFTER_FIRST = 4 + 6 + 4
EVENTS_AFTER_LAST = EVENTS_AFTER_FIRST + 6


class Checks:
    """Compares what came back with what was expected, and says so."""

    def __init__(self) -> None:
        self.failed = 0

    def equal(self, what: str, expected: object, found: object) -> None:
        """Print whether *found* is as *expected*."""
        if expected == found:
            console.print(f"  [green]ok[/]  {what}")
        else:
            self.failed += 1
            console.print(f"  [red]NOT[/] {what}: expected {expected!r}, found {found!r}", markup=True)

    def conclude(self) -> int:
        """Print whether every value came back; return the exit status."""
        console.print()
        if self.failed:
            console.print(f"[red]{self.failed} values did not come back as expected[/]")
            return 1
        console.print("[green]Every expected value came back.[/]")
        return 0


async def first_turns(
    sessions: BaseSessionService, artifacts: BaseArtifactService, model: ScriptedModel
) -> AsyncIterator[None]:
    """Make the session and take the first turns; yield before the first of them, and after each."""
    runner = runner_for(model, sessions, artifacts)
    await sessions.create_session(**WHO)
    yield
    for words, _ in FIRST_TURNS:
        answers = await say_to(runner, words)
        console.print(f"  user: {words}\n  agent: {answers[-1]}")
        yield


def first_model() -> ScriptedModel:
    """Return the model of the first turns."""
    return ScriptedModel(script=[parts for _, answers in FIRST_TURNS for parts in answers])


async def check_first_turns(checks: Checks, store: Store, model: ScriptedModel) -> None:
    """Compare what *model* was asked and what *store* holds after the first turns with what is expected."""
    stored = await store.sessions.get_session(**WHO)
    asked = model.instructions
    checks.equal("the instruction knows user:name from the second turn on", True, "help Ada" in asked[2])
    checks.equal("and the report that the tool saved", True, "two invoices are open." in asked[3])
    checks.equal("temp:mood is there in its turn", True, "Mood: busy" in asked[4])
    checks.equal("and gone in the next", True, "Mood: busy" not in asked[5])
    checks.equal("state of all scopes", STATE_AFTER_FIRST, stored and stored.state)
    checks.equal("events", EVENTS_AFTER_FIRST, stored and len(stored.events))


async def last_turn(store: Store) -> int:
    """Open the session that another process made, show it, take one more turn; return an exit status."""
    checks = Checks()
    async with store:
        session = await store.sessions.get_session(**WHO)
        versions = await store.artifacts.list_versions(**WHO, filename=REPORT)
        checks.equal("merged state", STATE_AFTER_FIRST, session and session.state)
        checks.equal("events of three turns", EVENTS_AFTER_FIRST, session and len(session.events))
        checks.equal("versions of the report", [0, 1], versions)
        for number in versions:
            part = await store.artifacts.load_artifact(**WHO, filename=REPORT, version=number)
            console.print(f"      version {number}: {part.text if part else None}")
        words, script = LAST_TURN
        runner = runner_for(ScriptedModel(script=script), store.sessions, store.artifacts)
        answers = await say_to(runner, words)
        console.print(f"      user: {words}\n      agent: {answers[-1]}")
        checks.equal("the agent's answer", "Closed. Goodbye, Ada.", answers[-1])
        session = await store.sessions.get_session(**WHO)
        report = await store.artifacts.load_artifact(**WHO, filename=REPORT)
        checks.equal("state after the turn", STATE_AFTER_LAST, session and session.state)
        checks.equal("events after the turn", EVENTS_AFTER_LAST, session and len(session.events))
        checks.equal("the latest report", "All invoices are paid.", report and report.text)
    return 1 if checks.failed else 0


def runner_for(model: ScriptedModel, sessions: BaseSessionService, artifacts: BaseArtifactService) -> Runner:
    """Return ADK's runner of the demo's agent on these services."""
    return Runner(app_name=APP, agent=agent(model), session_service=sessions, artifact_service=artifacts)


async def say_to(runner: Runner, words: str) -> list[str]:
    """Take one turn; return what the agent said."""
    message = types.Content(role="user", parts=[types.Part(text=words)])
    said = []
    async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
        said += [part.text for part in (event.content.parts if event.content else None) or [] if part.text]
    return said

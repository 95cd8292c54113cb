"""Instructions are filled from Firestore and Cloud Storage: in a run, in a job, and on the command line."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import Store, session_instruction
from gcp_adk_store.cli.command import command
from tests.services.conftest import APP, SESSION, USER, WHO, text
from tests.support.repeating_model import RepeatingModel

TEMPLATE = (
    "You help {user:name}, who likes {likes?}. Rules: {artifact.rules.txt} {{literal}} {artifact.none?}"
)
FILLED = "You help Ada, who likes tea. Rules: be kind {{literal}} "


async def begin(store: Store) -> None:
    """Make a session with state in two scopes, and an artifact."""
    await store.sessions.create_session(**WHO, state={"user:name": "Ada", "likes": "tea"})
    await store.artifacts.save_artifact(**WHO, filename="rules.txt", artifact=text("be kind"))


async def test_a_runner_fills_an_agents_instruction_anew_for_every_turn(adk_store: Store) -> None:
    """From the state and the artifacts that there are then."""
    await begin(adk_store)
    agent = LlmAgent(name="agent", model=RepeatingModel(), instruction=session_instruction(TEMPLATE))
    runner = Runner(
        app_name=APP, agent=agent, session_service=adk_store.sessions, artifact_service=adk_store.artifacts
    )

    async def turn() -> str:
        message = types.Content(role="user", parts=[types.Part(text="hello")])
        answers = [
            event.content.parts[0].text or ""
            async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message)
            if event.content and event.content.parts
        ]
        return answers[-1]

    first = await turn()
    await adk_store.artifacts.save_artifact(**WHO, filename="rules.txt", artifact=text("be quick"))
    second = await turn()

    assert FILLED in first
    assert FILLED.replace("be kind", "be quick") in second


@pytest.mark.emulators
async def test_the_command_compares_a_template_with_a_stored_session(
    adk_store: Store, project: str, tmp_path: Path
) -> None:
    """What the session does not have is unknown; it ends with 1 then."""
    who = {**WHO, "user_id": "a/b"}
    path = tmp_path / "template.txt"
    await asyncio.to_thread(path.write_text, "{user:name} {likes} {artifact.rules.txt} {artifact.none}")
    store = Store.connect(project=project, bucket=adk_store.artifacts.bucket_name)
    await store.sessions.create_session(**who, state={"user:name": "Ada"})
    await store.artifacts.save_artifact(**who, filename="rules.txt", artifact=text("be kind"))
    await store.close()

    def run(session: str) -> Result:
        line = ["template", "lint", f"{path}", "--json", "--session", session]
        variables = {"ADK_STORE_PROJECT": project, "ADK_STORE_BUCKET": adk_store.artifacts.bucket_name}
        return CliRunner(env=variables).invoke(command, line)

    found = await asyncio.to_thread(run, f"{APP}/a%2Fb/{SESSION}")
    nowhere = await asyncio.to_thread(run, f"{APP}/nobody/{SESSION}")

    assert 1 == found.exit_code, found.stderr
    assert ["state", "unknown", "artifact", "unknown"] == [one["kind"] for one in json.loads(found.stdout)]
    assert 2 == nowhere.exit_code
    assert f"the session {APP}/nobody/{SESSION} does not exist" in nowhere.stderr

"""Instructions are filled from Firestore and Cloud Storage: in a run, in a job, and on the command line."""

from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import Store, session_instruction
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

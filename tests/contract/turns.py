"""Scenarios of one agent: words, tools, state, artifacts, the runner's own ways."""

import asyncio
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from tests.contract.stage import APP, SESSION, USER, Stage, agent, asked, call, say, words


async def keep(key: str, value: str, tool_context: ToolContext) -> dict[str, Any]:
    """Keep a value in the state."""
    tool_context.state[key] = value
    return {"kept": [[key, [value]]], "known": sorted(tool_context.state.to_dict())}


async def write(name: str, text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Save a text as an artifact."""
    version = await tool_context.save_artifact(name, types.Part(text=text))
    loaded = await tool_context.load_artifact(name)
    return {"version": version, "names": await tool_context.list_artifacts(), "text": loaded and loaded.text}


async def the_model_is_asked_with_the_history_of_the_session(stage: Stage) -> None:
    """Its words and the user's, in order, in a new runner too."""
    await stage.create()
    first, second = agent([say("Hello.")], [say("Again.")]), agent([say("Still here.")])
    running = stage.runner(first)
    await stage.turn(running, "one")
    await stage.turn(running, "two")
    await stage.turn(stage.runner(second), "three")
    stage.see(asked(first), asked(second))
    ((_, contents),) = asked(second)
    assert ["one", "Hello.", "two", "Again.", "three"] == [each["parts"][0]["text"] for each in contents]
    await stage.session()


async def a_tools_answer_and_its_state_are_kept(stage: Stage) -> None:
    """Lists in lists in the answer, too."""
    await stage.create(state={"topic": "invoices"})
    acting = agent([call("keep", key="n", value="1")], [say("Kept.")], tools=[keep])
    await stage.turn(stage.runner(acting), "go")
    stage.see(asked(acting))
    session = await stage.session()
    assert {"topic": "invoices", "n": "1"} == session.state


async def instructions_take_state_and_artifacts(stage: Stage) -> None:
    """As they are when the model is asked."""
    await stage.create(state={"user:name": "Ada"})
    acting = agent(
        [call("write", name="report.txt", text="All paid.")],
        [say("Done.")],
        tools=[write],
        instruction="You help {user:name}. {missing?} Report: {artifact.report.txt?}",
        output_key="answer",
    )
    await stage.turn(stage.runner(acting), "go")
    stage.see(asked(acting))
    assert "All paid." in asked(acting)[1][0]  # ADK 2.8 shows the whole part
    assert "Done." == (await stage.session()).state["answer"]


async def the_model_asks_for_an_artifact_and_gets_it(stage: Stage) -> None:
    """With ADK's tool, whose answer is not kept in the session."""
    await stage.create()
    picture = types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png"))
    await stage.artifacts.save_artifact(
        app_name=APP, user_id=USER, session_id=SESSION, filename="p.png", artifact=picture
    )
    acting = agent(
        [call("load_artifacts", artifact_names=["p.png"])], [say("I see.")], tools=[load_artifacts_tool]
    )
    await stage.turn(stage.runner(acting), "what is it?")
    stage.see(asked(acting))
    assert "image/png" in str(asked(acting)[1])
    await stage.session()


async def a_turn_may_bring_changes_of_state(stage: Stage) -> None:
    """With the user's message; instructions have them at once."""
    await stage.create()
    acting = agent([say("Hello.")], instruction="Mood: {mood}, plan: {user:plan}")
    await stage.turn(stage.runner(acting), "go", state_delta={"mood": "good", "user:plan": "gold"})
    stage.see(asked(acting))
    assert asked(acting)[0][0].startswith("Mood: good, plan: gold")
    assert {"mood": "good", "user:plan": "gold"} == (await stage.session()).state


async def a_turn_reads_as_much_history_as_it_is_asked_to(stage: Stage) -> None:
    """The rest of the session stays."""
    await stage.create()
    acting = agent([say("1")], [say("2")], [say("3")])
    running = stage.runner(acting)
    for text in ("a", "b"):
        await stage.turn(running, text)
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    await stage.turn(running, "c", run_config=config)
    stage.see(asked(acting))
    assert ["2", "c"] == [each["parts"][0]["text"] for each in asked(acting)[2][1]]
    assert 6 == len((await stage.session()).events)


async def a_session_that_is_missing_is_an_error_or_made(stage: Stage) -> None:
    """By the runner's choice."""
    acting = agent([say("Hello.")])
    await stage.turn(stage.runner(acting), "go")
    assert "SessionNotFoundError" in stage.seen
    making = Runner(
        app_name=APP,
        agent=acting,
        session_service=stage.sessions,
        artifact_service=stage.artifacts,
        auto_create_session=True,
    )
    await stage.turn(making, "go")
    assert 2 == len((await stage.session()).events)


async def a_turn_without_an_event_loop_is_taken(stage: Stage) -> None:
    """``Runner.run``, which makes a loop for every turn."""
    await stage.create()
    running = stage.runner(agent([say("1")], [say("2")]))

    def turn(text: str) -> list[Event]:
        return list(running.run(user_id=USER, session_id=SESSION, new_message=words(text)))

    for text in ("a", "b"):
        events = await asyncio.to_thread(turn, text)
        stage.see(*(event.model_dump(mode="json", exclude_none=True) for event in events))
    assert 4 == len((await stage.session()).events)


async def sessions_of_one_user_do_not_meet_when_their_turns_do(stage: Stage) -> None:
    """Five at a time, each with its own history and artifact."""

    async def one(session_id: str) -> None:
        await stage.create(session_id)
        acting: BaseAgent = agent(
            [call("write", name="own.txt", text=session_id)], [say(session_id)], tools=[write]
        )
        async for _ in stage.runner(acting).run_async(
            user_id=USER, session_id=session_id, new_message=words(session_id)
        ):
            pass

    names = [f"c{n}" for n in range(5)]
    await asyncio.gather(*(one(name) for name in names))
    for name in names:
        assert 4 == len((await stage.session(name)).events)
        assert {"own.txt": [types.Part(text=name)]} == await stage.files(name)

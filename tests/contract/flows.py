"""Scenarios of several agents, and of turns that pause, go back, are summed up or bring files."""

from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps.app import EventsCompactionConfig, ResumabilityConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from tests.contract.stage import APP, SESSION, USER, Script, Stage, agent, asked, call, say
from tests.contract.turns import keep, write


async def branches_side_by_side_do_not_hear_of_one_another(stage: Stage) -> None:
    """Their state is all there; events are compared branch by branch, whose order is left to chance."""
    branches: list[BaseAgent] = [
        agent([call("keep", key=name, value="1")], [say(name)], name=name, tools=[keep]) for name in "abc"
    ]
    await stage.create()
    running = stage.runner(ParallelAgent(name="all", sub_agents=branches))
    events = [
        event
        async for event in running.run_async(
            user_id=USER, session_id=SESSION, new_message=types.Content(role="user", parts=[say("go")])
        )
    ]
    kept = await stage.sessions.get_session(app_name=APP, user_id=USER, session_id=SESSION)
    assert kept is not None
    for found in (events, kept.events):
        for event in sorted(found, key=lambda event: event.author):
            dumped = event.model_dump(mode="json", exclude_none=True)
            # Ids are numbered by their order.
            dumped.pop("invocation_id")
            stage.see(dumped)
    stage.see(kept.state, *(len(asked(each)) for each in branches))
    assert {"a": "1", "b": "1", "c": "1"} == kept.state
    assert all(len(asked(each)[1][1]) == 3 for each in branches)


async def a_conversation_is_handed_to_another_agent_and_stays_there(stage: Stage) -> None:
    """In a new runner too, which reads it off the session's events."""

    def agents() -> tuple[LlmAgent, LlmAgent]:
        expert = agent(
            [say("Your invoice is paid.")], [say("You are welcome.")], name="expert", description="Bills."
        )
        front = agent([call("transfer_to_agent", agent_name="expert")], name="front", sub_agents=[expert])
        return front, expert

    await stage.create()
    front, expert = agents()
    await stage.turn(stage.runner(front), "my invoice?")
    stage.see(asked(expert))
    later, expert = agents()
    await stage.turn(stage.runner(later), "thanks")
    stage.see(asked(expert))
    assert 0 == len(asked(later))
    assert "expert" == (await stage.session()).events[-1].author


async def an_agent_is_a_tool_of_another(stage: Stage) -> None:
    """It sees the state, and what it saves are artifacts of the caller's session."""
    inner = agent(
        [call("write", name="inner.txt", text="made inside")],
        [call("keep", key="inner", value="yes")],
        [say("Looked it up.")],
        name="inner",
        instruction="For {topic}.",
        tools=[write, keep],
    )
    outer = agent([call("inner", request="look it up")], [say("Done.")], tools=[AgentTool(inner)])
    await stage.create(state={"topic": "invoices"})
    await stage.turn(stage.runner(outer), "go")
    stage.see(asked(inner), asked(outer))
    assert asked(inner)[0][0].startswith("For invoices.")
    assert "yes" == (await stage.session()).state["inner"]
    assert {"inner.txt": [types.Part(text="made inside")]} == await stage.files()


async def a_rewind_takes_state_and_artifacts_back(stage: Stage) -> None:
    """The model gets nothing of what was rewound; unknown turns are an error."""
    acting = agent(
        [call("keep", key="n", value="1"), call("write", name="r.txt", text="1")],
        [say("one")],
        [
            call("keep", key="n", value="2"),
            call("keep", key="new", value="x"),
            call("write", name="r.txt", text="2"),
        ],
        [say("two")],
        [say("three")],
        tools=[keep, write],
    )
    running = stage.runner(acting)
    await stage.create()
    await stage.turn(running, "first")
    second = (await stage.turn(running, "second"))[0].invocation_id
    await stage.session()
    await running.rewind_async(user_id=USER, session_id=SESSION, rewind_before_invocation_id=second)
    rewound = await stage.session()
    assert "1" == rewound.state["n"]
    assert [types.Part(text=text) for text in "121"] == (await stage.files())["r.txt"]
    await stage.turn(running, "third")
    stage.see(asked(acting)[-1])
    assert "second" not in str(asked(acting)[-1])
    try:
        await running.rewind_async(user_id=USER, session_id=SESSION, rewind_before_invocation_id="no-such")
    except ValueError as exc:
        stage.see(str(exc))
    assert "no-such" in stage.seen[-1]


def ask_manager(amount: int) -> dict[str, Any]:
    """Ask a manager, who answers later."""
    return {"status": "pending", "ticket": 7, "amount": amount}


def answer(name: str, call_id: str | None, **response: Any) -> types.Content:
    """Return a user's answer to a call."""
    answered = types.FunctionResponse(id=call_id, name=name, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=answered)])


async def a_turn_that_paused_is_resumed(stage: Stage) -> None:
    """As the same invocation, in an app that may, by another runner."""

    def running() -> Any:
        first = agent(
            [call("ask_manager", amount=70)],
            [say("Refunded.")],
            name="first",
            tools=[LongRunningFunctionTool(ask_manager)],
        )
        second = agent([say("Anything else?")], name="second")
        row = SequentialAgent(name="row", sub_agents=[first, second])
        return stage.runner(row, resumability_config=ResumabilityConfig(is_resumable=True)), first

    await stage.create()
    begun, _ = running()
    events = await stage.turn(begun, "refund me")
    (waiting,) = [event for event in events if event.long_running_tool_ids]
    (asked_for,) = waiting.get_function_calls()
    assert "second" not in {event.author for event in events}
    await stage.session()
    resumed, first = running()
    first.model.script.pop(0)
    events = await stage.turn(
        resumed,
        answer("ask_manager", asked_for.id, status="approved"),
        invocation_id=waiting.invocation_id,
    )
    assert {waiting.invocation_id} == {event.invocation_id for event in events}
    assert "second" in {event.author for event in events}
    await stage.session()


async def old_turns_are_summed_up(stage: Stage) -> None:
    """The model reads the summary in their place; the session keeps all."""
    summing = Script(script=[[say("SUMMARY ONE")], [say("SUMMARY TWO")]])
    acting = agent(*([say(f"answer {n}")] for n in range(5)))
    config = EventsCompactionConfig(
        summarizer=LlmEventSummarizer(llm=summing), compaction_interval=2, overlap_size=1
    )
    running = stage.runner(acting, events_compaction_config=config)
    await stage.create()
    for number in range(5):
        await stage.turn(running, f"question {number}")
    stage.see(asked(acting))
    session = await stage.session()
    summed = [event.actions.compaction for event in session.events if event.actions.compaction]
    assert 2 == len(summed)
    assert "SUMMARY" in str(asked(acting)[4])
    assert "question 0" not in str(asked(acting)[4])
    assert 5 * 2 + 2 == len(session.events)


async def files_that_a_user_sends_become_artifacts(stage: Stage) -> None:
    """By ADK's plugin, and the session keeps where they are."""
    await stage.create()
    sent = types.Content(
        role="user",
        parts=[
            say("read this"),
            types.Part(
                inline_data=types.Blob(data=b"%PDF", mime_type="application/pdf", display_name="a b.pdf")
            ),
        ],
    )
    acting = agent([say("Read.")])
    await stage.turn(
        stage.runner(acting, plugins=[SaveFilesAsArtifactsPlugin(attach_file_reference=False)]), sent
    )
    stage.see(asked(acting))
    (saved,) = (await stage.files()).values()
    assert saved[0]
    assert saved[0].inline_data
    assert b"%PDF" == saved[0].inline_data.data
    assert "inline_data" not in str((await stage.session()).events[0].content.model_dump(exclude_none=True))  # type: ignore[union-attr]  # it has some

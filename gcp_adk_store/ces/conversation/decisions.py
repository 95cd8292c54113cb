"""Decide what comes next in a conversation, from its events and the configuration of its agents."""

from collections.abc import Iterable, Sequence
from typing import Final

from google.adk.events import Event
from google.genai import types

from gcp_adk_store.ces.apps.agents import AgentSpec, TransferRule
from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.guest.content import END_SESSION
from gcp_adk_store.errors import InvalidInputError

USER: Final = "user"
MODEL: Final = "model"


def in_force(events: Sequence[Event]) -> list[Event]:
    """Return *events* without those that ADK's rewinds took back."""
    kept: list[Event] = []
    for event in events:
        target = event.actions.rewind_before_invocation_id
        if target is None:
            kept.append(event)
            continue
        first = next((number for number, each in enumerate(kept) if each.invocation_id == target), len(kept))
        del kept[first:]
    return kept


def active_agent(events: Sequence[Event], app: AgentApp) -> AgentSpec:
    """Return the agent that answers next: the target of the last transfer, or who spoke last, or the root.

    Raises:
        InvalidInputError: the app has no root agent.
    """
    for event in reversed(events):
        named = event.actions.transfer_to_agent or (event.author if event.author != USER else None)
        if named and (agent := app.agent(named)):
            return agent
    if app.root is None:
        raise InvalidInputError(
            f"{app.folder} names no root agent; write rootAgent in app.json, and agents/ beside it"
        )
    return app.root


def has_ended(events: Iterable[Event]) -> bool:
    """Return whether an agent ended the session; a call that an agent answered was refused."""
    of_agents = [event for event in events if event.author != USER]
    refused = {response.id for event in of_agents for response in event.get_function_responses()} - {None}
    return any(
        call.name == END_SESSION and call.id not in refused
        for event in of_agents
        for call in calls_of(event.content)
    )


def turn_index(events: Iterable[Event], invocation_id: str) -> int:
    """Return how many turns were before that of *invocation_id*."""
    return len({event.invocation_id for event in events if event.author == USER} - {invocation_id})


def calls_of(content: types.Content | None) -> list[types.FunctionCall]:
    """Return the calls in *content*, in order."""
    parts = (content.parts if content else None) or []
    return [part.function_call for part in parts if part.function_call is not None]


def parent_of(agent: AgentSpec, app: AgentApp) -> AgentSpec | None:
    """Return the agent whose child *agent* is, or None."""
    return next((each for each in app.agents if agent.names & set(each.children)), None)


def targets(agent: AgentSpec, app: AgentApp) -> list[AgentSpec]:
    """Return the agents that a model may transfer to: children and parent."""
    children = [found for name in agent.children if (found := app.agent(name))]
    parent = parent_of(agent, app)
    return [*children, *([] if parent is None or parent in children else [parent])]


def rules_from(agent: AgentSpec, app: AgentApp) -> list[tuple[TransferRule, AgentSpec]]:
    """Return the rules about transfers that begin at *agent*, each with its target, in order.

    A rule stands at the parent or at the child; either names the child.
    """
    parent = parent_of(agent, app)
    down = [
        (rule, child)
        for rule in agent.rules
        if rule.to_child and (child := app.agent(rule.child)) is not None
    ]
    if parent is None:
        return down
    back = [rule for rule in (*agent.rules, *parent.rules) if not rule.to_child and rule.child in agent.names]
    return [*down, *((rule, parent) for rule in back)]


def tool_names(agent: AgentSpec, app: AgentApp) -> list[str]:
    """Return the names of the tools that the model of *agent* may call, system tools too, in order."""
    names = dict.fromkeys(agent.tools)
    for use in agent.toolsets:
        toolset = next((each for each in app.toolsets if use.toolset in each.names), None)
        if use.operations:
            prefix = use.toolset if toolset is None else toolset.name
            names |= dict.fromkeys(f"{prefix}_{operation}" for operation in use.operations)
        elif toolset is not None:
            names |= dict.fromkeys(sorted(toolset.tool_names))
    return list(names)

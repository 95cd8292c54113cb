"""Whoever uses ADK sees the same on these services as on its own in memory."""

import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types

import gcp_adk_store
from gcp_adk_store import Store
from tests.contract import flows, http, turns
from tests.contract.stage import Scenario, Stage, comparable
from tests.support.server_end import close_services

SCENARIOS: list[Scenario] = [
    each
    for module in (turns, flows, http)
    for each in vars(module).values()
    if inspect.iscoroutinefunction(each) and [*inspect.signature(each).parameters] == ["stage"]
]

pytestmark = [
    pytest.mark.filterwarnings("ignore:(Sequential|Loop|Parallel)Agent is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning"),
]


@pytest.fixture
async def stages(project: str, adk_store_bucket: str) -> AsyncIterator[tuple[Stage, Stage]]:
    """ADK's own services in memory, and these on the emulators."""
    memory = Stage(
        sessions=InMemorySessionService(),
        artifacts=InMemoryArtifactService(),
        session_uri="memory://",
        artifact_uri="memory://",
    )
    async with Store.connect(project=project, bucket=adk_store_bucket) as store:
        ours = Stage(
            sessions=store.sessions,
            artifacts=store.artifacts,
            session_uri=f"firestore://{project}/(default)?bucket={adk_store_bucket}",
            artifact_uri=f"gs://{adk_store_bucket}",
        )
        gcp_adk_store.register()
        yield memory, ours
        await close_services()


@pytest.mark.sample(10)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_a_caller_of_adk_sees_the_same(scenario: Scenario, stages: tuple[Stage, Stage]) -> None:
    """Events, state, artifacts and errors, but for ids and times that ADK draws anew each time."""
    for stage in stages:
        await scenario(stage)
    memory, ours = (comparable(stage.seen) for stage in stages)

    assert memory
    assert memory == ours


async def test_what_differs_is_seen() -> None:
    """Values and their types, order, and which id stands where; not the ids and times themselves."""
    one, other = "0ff7dd7c-9ccf-49ef-bd70-e89be2bf9225", "e-1ff7dd7c-9ccf-49ef-bd70-e89be2bf9226"
    results: list[dict[str, Any]] = [{"id": one, "of": other, "timestamp": 1.5, "n": 1}, {"id": one}]

    assert comparable(results) == comparable(
        [{**results[0], "id": other, "of": one, "timestamp": 2.5}, {"id": other}]
    )
    assert comparable(results) != comparable([{**results[0], "n": True}, {"id": one}])
    assert comparable(results) != comparable([results[0], {"id": other}])
    assert comparable(results) != comparable(results[::-1])
    assert comparable(results) != comparable(results[:1])


async def test_a_users_message_comes_back_as_content(stages: tuple[Stage, Stage]) -> None:
    """The one type that differs: what is read from storage is of the class that ADK's model names."""
    kinds = []
    for stage in stages:
        session = await stage.create()
        await stage.sessions.append_event(session, Event(author="user", content=types.UserContent("hello")))
        (event,) = (await stage.session()).events
        kinds.append(type(event.content))
    memory, ours = (comparable(stage.seen) for stage in stages)

    assert [types.UserContent, types.Content] == kinds
    assert memory == ours

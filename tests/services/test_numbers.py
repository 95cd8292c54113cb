"""Numbers that no argument takes: whole ones of thousands of digits, and NaN."""

import dataclasses
import inspect
import math
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import (
    ArtifactLimits,
    FunctionEmbedder,
    InvalidInputError,
    KmsEnvelope,
    MemoryLimits,
    MemoryService,
    Point,
    SessionLimits,
    Store,
    StoreSettings,
)
from gcp_adk_store.turns import TurnPlugin
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

HUGE = 10**5_000
"""Python refuses to print it."""


@pytest.mark.parametrize("number", [HUGE, -HUGE, math.nan], ids=["huge", "below", "nan"])
async def test_a_number_that_cannot_be_is_refused_by_name(adk_store_local: Store, number: float) -> None:
    """By each method that takes one, as every other wrong argument is."""
    asked = [
        (method, name)
        for service in services_of(adk_store_local).values()
        for method in public_methods(service)
        for name, parameter in inspect.signature(method).parameters.items()
        if not {"int", "float"}.isdisjoint(str(parameter.annotation).split(" | "))
    ]

    for method, name in asked:
        with pytest.raises(InvalidInputError, match=name):
            await finished(method, arguments(method, GOOD, **{name: number}))
    assert len(asked) > 20


@pytest.mark.parametrize("given", [HUGE, [HUGE], {"a": HUGE}], ids=["number", "list", "map"])
async def test_a_value_that_python_cannot_show_is_refused_by_name(adk_store_local: Store, given: Any) -> None:
    """Where a text, a choice or a map belongs."""
    for each in dataclasses.fields(StoreSettings):
        with pytest.raises(InvalidInputError, match=each.name):
            StoreSettings(**{each.name: given})
    for name in ("per", "keys_database"):
        with pytest.raises(InvalidInputError, match=f"{name} .*of the type {type(given).__name__}"):
            KmsEnvelope(**{"key": "projects/p/locations/l/keyRings/r/cryptoKeys/k", name: given})
    with pytest.raises(InvalidInputError, match="order is "):
        await adk_store_local.sessions.list_sessions_page(app_name="a", user_id="u", order=given)
    with pytest.raises(InvalidInputError, match="metadata holds an integer of over 4300 digits"):
        await adk_store_local.memory.list_memories(app_name="a", user_id="u", metadata={"a": given})
    with pytest.raises(InvalidInputError, match="metadata holds an integer of over 4300 digits"):
        await adk_store_local.memory.search_memories(
            app_name="a", user_id="u", query="x", metadata={"a": given}
        )


async def test_events_after_a_time_that_is_no_number_are_refused(adk_store_local: Store) -> None:
    """ADK's services return all, none or an error of Python; infinite times choose as in ADK."""
    memory = InMemorySessionService()
    chosen = []
    for service in (adk_store_local.sessions, memory):
        session = await service.create_session(app_name="a", user_id="u", session_id="s")
        await service.append_event(session, Event(author="user", invocation_id="i"))
        for time in (-math.inf, math.inf):
            found = await service.get_session(
                app_name="a", user_id="u", session_id="s", config=GetSessionConfig(after_timestamp=time)
            )
            assert found is not None
            chosen.append(len(found.events))
    assert chosen == [1, 0, 1, 0]

    with pytest.raises(InvalidInputError, match="after_timestamp is nan, it must be a number"):
        await adk_store_local.sessions.get_session(
            app_name="a", user_id="u", session_id="s", config=GetSessionConfig(after_timestamp=math.nan)
        )


@pytest.mark.parametrize("limits", [SessionLimits, ArtifactLimits, MemoryLimits])
def test_a_limit_that_cannot_be_is_refused_by_name(limits: Any) -> None:
    """Also one of a method's deadline, and a position."""
    for each in dataclasses.fields(limits):
        if each.type in (int, float):
            with pytest.raises(InvalidInputError, match=f"{each.name} is a whole number of 16,610 bits"):
                limits(**{each.name: HUGE})
    with pytest.raises(InvalidInputError, match=r"get_session.*it must have 1,023 at most"):
        SessionLimits(deadlines_s={"get_session": HUGE})
    with pytest.raises(InvalidInputError, match="a position is a whole number of 16,610 bits"):
        Point.position(HUGE)
    turns = Store.local(":memory:").turns
    for given in ({"wait_s": HUGE}, {"lease_s": HUGE}):
        with pytest.raises(InvalidInputError, match="_s is a whole number of 16,610 bits"):
            TurnPlugin(turns, **given)  # type: ignore[arg-type]  # of any option
    with pytest.raises(InvalidInputError, match="cache_s is a whole number of 16,610 bits"):
        KmsEnvelope(key="projects/p/locations/l/keyRings/r/cryptoKeys/k", cache_s=HUGE)
    embedder = FunctionEmbedder(lambda *_: [], name="x", dimensions=HUGE)
    with pytest.raises(InvalidInputError, match="the number of dimensions is a whole number of 16,610 bits"):
        MemoryService(Store.local(":memory:").sessions.storage, embedder=embedder)

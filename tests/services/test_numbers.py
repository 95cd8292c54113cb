"""Numbers that no argument takes: whole ones of thousands of digits, and NaN."""

import dataclasses
import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

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

HUGE = 10**5_000
"""Python refuses to print it."""
FITTING: dict[str, Any] = {
    "session": Session(app_name="a", user_id="u", id="s"),
    "artifact": types.Part(text="x"),
    "at": Point.position(0),
}


def methods_with_numbers() -> Iterator[Any]:
    """Yield each method of a store's services that takes a number, with its name."""
    for service in ("sessions", "artifacts", "memory"):
        of_service = type(getattr(Store.local(":memory:"), service))
        for method, function in inspect.getmembers(of_service, inspect.isfunction):
            for name, parameter in inspect.signature(function).parameters.items():
                kinds = str(parameter.annotation).split(" | ")
                if not method.startswith("_") and not {"int", "float"}.isdisjoint(kinds):
                    yield pytest.param(service, method, name, id=f"{method}-{name}")


@pytest.mark.parametrize("number", [HUGE, -HUGE, math.nan], ids=["huge", "below", "nan"])
@pytest.mark.parametrize(("service", "method", "name"), [*methods_with_numbers()])
async def test_a_number_that_cannot_be_is_refused_by_name(
    adk_store_local: Store, service: str, method: str, name: str, number: float
) -> None:
    """As every other wrong argument is."""
    call = getattr(getattr(adk_store_local, service), method)
    given = {
        each.name: FITTING.get(each.name, "x")
        for each in inspect.signature(call).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }

    async def made() -> None:
        answer = call(**{**given, name: number})
        await (anext(answer) if inspect.isasyncgen(answer) else answer)

    with pytest.raises(InvalidInputError, match=name):
        await made()


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

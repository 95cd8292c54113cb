"""Numbers that no argument takes: whole ones of thousands of digits, and NaN."""

import dataclasses
import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.sessions import Session
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

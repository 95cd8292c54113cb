"""Ids that are odd, and yet ids of artifacts, and halves of surrogate pairs, which are no id anywhere."""

import inspect

import pytest
from google.adk.agents import BaseAgent
from google.adk.runners import Runner

from gcp_adk_store import InvalidInputError, Store
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

HALVES = ["\ud800", "a\udfff", "\ude00\ud83d"]


@pytest.mark.parametrize("half", HALVES, ids=ascii)
async def test_half_of_a_surrogate_pair_is_no_id_for_any_method(half: str) -> None:
    """Of any service, as any id but that of an event, which may be any text; nothing was read or written."""
    reason = "holds a lone surrogate"
    async with Store.local(":memory:") as store:
        runner = Runner(app_name="app", agent=BaseAgent(name="a"), session_service=store.sessions)
        methods = [
            (method, name)
            for service in services_of(store).values()
            for method in public_methods(service)
            for name in inspect.signature(method).parameters
            if (name.endswith("_id") and name != "event_id") or name in ("app_name", "filename", "owner")
        ]
        for method, name in methods:
            with pytest.raises(InvalidInputError, match=reason):
                await finished(method, arguments(method, {**GOOD, "runner": runner}, **{name: half}))
        assert len(methods) > 100
